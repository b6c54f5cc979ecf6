//! The world of one run: servers, workers, producers, what stands between them, and the history that they write.

mod processes;
mod proxy;
mod rewrite;
mod servers;
mod snapshot;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq::engine::Engine;
use delayq::engine::embedded::{Clock, EmbeddedEngine, Stored};
use delayq::engine::redis::{RedisEngine, Settings, Target};
use delayq::store::{Prefix, Shard, Store};
use delayq::{BoxError, Client};
use rustix::process::Signal;
use uuid::Uuid;

use crate::dice::Dice;
use crate::history::{Event, Journal, Tail, What, now_us, wall_us};
use crate::sender::{Answer, Order, send};
use crate::work::{QUEUE, Task};

pub(crate) use processes::{Kind, Proc, end_with_parent};
pub(crate) use proxy::{Blow, Mode, Proxy};
pub(crate) use rewrite::{MUTANTS, Mutant};
pub(crate) use servers::{Servers, raw, steer};
use snapshot::Keys;
pub(crate) use snapshot::patient;

/// What delayq runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineKind {
    Redis,
    Embedded,
}

/// What a fault wants to find.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) engine: EngineKind,
    /// Settings of the server.
    pub(crate) settings: Vec<(&'static str, &'static str)>,
    pub(crate) workers: usize,
    pub(crate) producers: usize,
    /// Jobs a second of each producer.
    pub(crate) rate: u64,
    pub(crate) lease_ms: u64,
    pub(crate) concurrency: usize,
    pub(crate) grace_ms: u64,
    /// A proxy before each worker.
    pub(crate) worker_proxies: bool,
    /// A proxy before each producer.
    pub(crate) producer_proxies: bool,
    /// A replica, and before both a proxy that leads to the primary.
    pub(crate) pair: bool,
    /// The server's clock, disk and syncs are in the campaign's hand.
    pub(crate) shim: bool,
    /// The workers' clocks are, each by this many ms.
    pub(crate) worker_clocks_ms: Vec<i64>,
    /// Producers name delays only.
    pub(crate) delays_only: bool,
    pub(crate) mutant: Option<&'static Mutant>,
}

impl Setup {
    /// Two workers, a producer, a server that keeps what it acknowledged.
    pub(crate) fn usual(engine: EngineKind) -> Setup {
        Setup {
            engine,
            settings: vec![("--appendonly", "yes"), ("--appendfsync", "everysec")],
            workers: 2,
            producers: 1,
            rate: 60,
            lease_ms: 1000,
            concurrency: 40,
            grace_ms: 5000,
            worker_proxies: false,
            producer_proxies: false,
            pair: false,
            shim: false,
            worker_clocks_ms: Vec::new(),
            delays_only: false,
            mutant: None,
        }
    }
}

/// The world of one run.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) dice: Dice,
    /// How long the fault shall go on in all.
    pub(crate) time: Duration,
    /// A run of the short kind: what is large is made small.
    pub(crate) is_smoke: bool,
    /// How often the fault was fired before, and with which of its kinds it begins.
    pub(crate) turn: u64,
    pub(crate) spin: u64,
    folder: PathBuf,
    journal: Journal,
    tail: Tail,
    pub(crate) events: Vec<Event>,
    pub(crate) servers: Servers,
    pub(crate) procs: Vec<Proc>,
    control: Option<Client>,
    born: usize,
    /// Jobs of this run may end their processes.
    pub(crate) deaths_planned: bool,
    /// Workers that ended are replaced.
    pub(crate) respawn: bool,
    /// How long everything that was sent may take to end.
    pub(crate) patience: Duration,
    /// How the proxy of the next process begins.
    pub(crate) first_mode: Mode,
    sampled: Instant,
    sent: u64,
}

/// How often what happens is looked at.
const TICK: Duration = Duration::from_millis(5);
const SAMPLES: Duration = Duration::from_millis(700);

impl World {
    pub(crate) async fn start(
        setup: Setup,
        seed: u64,
        time: Duration,
        is_smoke: bool,
        folder: &Path,
    ) -> Result<World, BoxError> {
        let history = folder.join("history.jsonl");
        let journal = Journal::open(&history, "campaign")?;
        let tail = Tail::open(&history)?;
        let servers = Servers::start(&setup, folder, seed).await?;
        let mut world = World {
            dice: Dice::new(seed),
            time,
            is_smoke,
            turn: 0,
            spin: Dice::part(seed, 1).roll() % 1024,
            folder: folder.to_owned(),
            journal,
            tail,
            events: Vec::new(),
            servers,
            procs: Vec::new(),
            control: None,
            born: 0,
            deaths_planned: false,
            respawn: false,
            patience: Duration::from_secs(if is_smoke { 40 } else { 120 }),
            first_mode: Mode::Pass,
            sampled: Instant::now(),
            sent: 0,
            setup,
        };
        world.anchor();
        for _ in 0..world.setup.workers {
            world.add_worker().await?;
        }
        for _ in 0..world.setup.producers {
            world.add_producer().await?;
        }
        Ok(world)
    }

    pub(crate) fn tell(&self, what: What) {
        self.journal.tell(what);
    }

    pub(crate) fn anchor(&self) {
        let before = now_us();
        let wall_us = wall_us();
        // Between the two readings this process may have been put aside: half of it is the best guess.
        let t = before + (now_us() - before) / 2;
        self.journal.tell_at(t, What::Anchor { wall_us });
    }

    /// Something that this fault demands in particular.
    pub(crate) fn demand(&self, invariant: char, met: bool, text: impl Into<String>) {
        self.tell(What::Demand { invariant, met, text: text.into() });
    }

    pub(crate) fn disturbed(&self, who: Option<&str>, what: &str) {
        self.tell(What::Disturbed { who: who.map(str::to_owned), what: what.to_owned() });
    }

    pub(crate) fn calm(&self, who: Option<&str>) {
        self.tell(What::Calm { who: who.map(str::to_owned) });
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn history(&self) -> String {
        self.tail.path().display().to_string()
    }

    /// What came in meanwhile, who ended meanwhile.
    pub(crate) async fn tick(&mut self) -> Result<(), BoxError> {
        self.tail.read(&mut self.events)?;
        let mut ended = Vec::new();
        for at in (0..self.procs.len()).rev() {
            if let Some(end) = self.procs[at].ended() {
                ended.push((self.procs.remove(at), end));
            }
        }
        for (proc, end) in ended {
            for text in end.panics {
                self.tell(What::Panic { name: proc.name.clone(), text });
            }
            let by_plan = proc.kind == Kind::Worker && self.deaths_planned && end.how.starts_with("signal");
            let asked = proc.asked || by_plan;
            self.tell(What::Down { name: proc.name.clone(), how: end.how, asked });
            if proc.kind == Kind::Worker && self.respawn {
                self.add_worker().await?;
            }
        }
        if self.sampled.elapsed() > SAMPLES {
            self.sampled = Instant::now();
            for proc in &self.procs {
                if let Some((rss_kib, fds)) = processes::takes(proc.pid()) {
                    self.tell(What::Sample { name: proc.name.clone(), rss_kib, fds });
                }
            }
        }
        Ok(())
    }

    /// Lets time pass.
    pub(crate) async fn rest(&mut self, time: Duration) -> Result<(), BoxError> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.tick().await?;
            tokio::time::sleep(TICK.min(until.saturating_duration_since(Instant::now()))).await;
        }
        self.tick().await
    }

    pub(crate) async fn rest_ms(&mut self, ms: u64) -> Result<(), BoxError> {
        self.rest(Duration::from_millis(ms)).await
    }

    /// Where the history stands now.
    pub(crate) fn mark(&mut self) -> usize {
        let _ = self.tail.read(&mut self.events);
        self.events.len()
    }

    /// Waits until an event from the mark on is the one that is looked for.
    pub(crate) async fn wait<T>(
        &mut self,
        from: usize,
        patience_ms: u64,
        wanted: impl Fn(&Event) -> Option<T>,
    ) -> Result<Option<T>, BoxError> {
        let until = Instant::now() + Duration::from_millis(patience_ms);
        let mut at = from;
        loop {
            self.tick().await?;
            if let Some(found) = self.events[at.min(self.events.len())..].iter().find_map(&wanted) {
                return Ok(Some(found));
            }
            at = self.events.len();
            if Instant::now() > until {
                return Ok(None);
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Which worker claimed a job, from the mark on.
    pub(crate) async fn claimed(&mut self, from: usize, id: Uuid) -> Result<Option<(String, u64)>, BoxError> {
        self.wait(from, 15_000, |event| match &event.what {
            What::Claim { id: is, token, .. } if *is == id => Some((event.by.clone(), *token)),
            _ => None,
        })
        .await
    }

    /// How many runs of a job have begun.
    pub(crate) fn runs_of(&self, id: Uuid) -> usize {
        self.events.iter().filter(|e| matches!(&e.what, What::Claim { id: is, .. } if *is == id)).count()
    }

    pub(crate) fn effects_of(&self, id: Uuid) -> usize {
        self.events.iter().filter(|e| matches!(&e.what, What::Effect { id: is, .. } if *is == id)).count()
    }

    /// Waits until a job's run came to something.
    pub(crate) async fn outcome(&mut self, from: usize, id: Uuid) -> Result<Option<String>, BoxError> {
        self.wait(from, 20_000, |event| match &event.what {
            What::Outcome { id: is, how, .. } if *is == id => Some(how.clone()),
            _ => None,
        })
        .await
    }

    /// The campaign's own client, past all proxies.
    pub(crate) async fn client(&mut self) -> Result<Client, BoxError> {
        if let Some(client) = &self.control {
            return Ok(client.clone());
        }
        let client = Client::builder()
            .connect_timeout(Duration::from_secs(2))
            .response_timeout(Duration::from_secs(2))
            .connect(&self.servers.url())
            .await?;
        self.control = Some(client.clone());
        Ok(client)
    }

    /// The store itself, for what no client does.
    pub(crate) async fn store(&self) -> Result<(Store, Shard), BoxError> {
        let url = self.servers.url();
        let engine: Arc<dyn Engine> = match self.setup.engine {
            EngineKind::Embedded => Arc::new(EmbeddedEngine::connect(&url, Clock::system()).await?),
            EngineKind::Redis => Arc::new(RedisEngine::connect(Target::parse(&url, Settings::default())?).await?),
        };
        let store = Store::new(engine, Prefix::default());
        let shard = store.shard(QUEUE, 0)?;
        Ok((store, shard))
    }

    /// Sends a job of the campaign's own; fails where it is not acknowledged.
    pub(crate) async fn send(&mut self, task: Task, delay_ms: u64) -> Result<Uuid, BoxError> {
        let order = Order::after(delay_ms, task.plan.ending());
        match self.send_as(task, &order).await? {
            Answer::Sent { .. } => Ok(order.id),
            other => Err(format!("a job of the campaign's own was not taken: {other:?}").into()),
        }
    }

    pub(crate) async fn send_as(&mut self, mut task: Task, order: &Order) -> Result<Answer, BoxError> {
        let client = self.client().await?;
        self.sent += 1;
        task.n = self.sent;
        Ok(send(&self.journal, &client, task, order).await)
    }

    pub(crate) fn journal(&self) -> Result<Journal, BoxError> {
        Ok(Journal::open(self.tail.path(), "campaign")?)
    }

    pub(crate) async fn add_worker(&mut self) -> Result<String, BoxError> {
        self.add_worker_with(&[]).await
    }

    /// Starts a worker, with further arguments.
    pub(crate) async fn add_worker_with(&mut self, more: &[String]) -> Result<String, BoxError> {
        self.born += 1;
        let name = format!("w{}", self.born);
        let proxy = self.proxy(self.setup.worker_proxies).await?;
        let mut args = self.common("worker", &name, proxy.as_ref());
        for (flag, value) in [
            ("--lease-ms", self.setup.lease_ms),
            ("--concurrency", self.setup.concurrency as u64),
            ("--grace-ms", self.setup.grace_ms),
        ] {
            args.extend([flag.to_owned(), value.to_string()]);
        }
        args.extend_from_slice(more);
        let environment = self.clock_of_worker()?;
        self.spawn(name, Kind::Worker, &args, &environment, proxy)
    }

    fn clock_of_worker(&self) -> Result<Vec<(String, String)>, BoxError> {
        let clocks = &self.setup.worker_clocks_ms;
        if clocks.is_empty() {
            return Ok(Vec::new());
        }
        servers::shim_environment(&self.folder, &format!("worker-{}", self.born), clocks[self.born % clocks.len()])
    }

    pub(crate) async fn add_producer(&mut self) -> Result<String, BoxError> {
        self.born += 1;
        let name = format!("p{}", self.born);
        let proxy = self.proxy(self.setup.producer_proxies).await?;
        let mut args = self.common("producer", &name, proxy.as_ref());
        for (flag, value) in [("--seed", self.dice.roll()), ("--rate", self.setup.rate)] {
            args.extend([flag.to_owned(), value.to_string()]);
        }
        if self.setup.delays_only {
            args.push("--delays-only".to_owned());
        }
        self.spawn(name, Kind::Producer, &args, &[], proxy)
    }

    async fn proxy(&mut self, wanted: bool) -> Result<Option<Proxy>, BoxError> {
        if !wanted {
            return Ok(None);
        }
        let seed = self.dice.roll();
        let proxy = Proxy::start(self.servers.port(), seed).await?;
        proxy.set(self.first_mode);
        Ok(Some(proxy))
    }

    fn common(&self, command: &str, name: &str, proxy: Option<&Proxy>) -> Vec<String> {
        let url = proxy.map_or_else(|| self.servers.url(), |proxy| format!("redis://127.0.0.1:{}/", proxy.port()));
        [command, "--url", &url, "--name", name, "--history", &self.history()].map(str::to_owned).to_vec()
    }

    fn spawn(
        &mut self,
        name: String,
        kind: Kind,
        args: &[String],
        environment: &[(String, String)],
        proxy: Option<Proxy>,
    ) -> Result<String, BoxError> {
        let mut proc = Proc::start(&name, kind, args, environment, &self.folder)?;
        proc.proxy = proxy;
        self.procs.push(proc);
        Ok(name)
    }

    pub(crate) fn proc(&mut self, name: &str) -> Result<&mut Proc, BoxError> {
        let gone = || format!("{name} is no more").into();
        self.procs.iter_mut().find(|proc| proc.name == name).ok_or_else(gone)
    }

    pub(crate) fn names(&self, kind: Kind) -> Vec<String> {
        self.procs.iter().filter(|proc| proc.kind == kind).map(|proc| proc.name.clone()).collect()
    }

    /// Sends a signal to a process and says so; KILL and TERM ask it to end.
    pub(crate) fn signal(&mut self, name: &str, signal: Signal) -> Result<(), BoxError> {
        let text = match signal {
            Signal::KILL => "KILL",
            Signal::TERM => "TERM",
            Signal::STOP => "STOP",
            Signal::CONT => "CONT",
            _ => "?",
        };
        let proc = self.proc(name)?;
        proc.asked |= matches!(text, "KILL" | "TERM");
        proc.frozen = text == "STOP" || (proc.frozen && text != "CONT");
        // Said before it is done: what follows must not seem to come first.
        self.journal.tell(What::Signal { to: name.to_owned(), signal: text.to_owned() });
        self.proc(name)?.signal(signal)?;
        Ok(())
    }

    /// Kills a process and waits for its end.
    pub(crate) async fn kill(&mut self, name: &str) -> Result<(), BoxError> {
        self.signal(name, Signal::KILL)?;
        self.gone(name, 5000).await.map(drop)
    }

    /// Waits for the end of a process; whether it came.
    pub(crate) async fn gone(&mut self, name: &str, patience_ms: u64) -> Result<bool, BoxError> {
        let until = Instant::now() + Duration::from_millis(patience_ms);
        while self.procs.iter().any(|proc| proc.name == name) {
            if Instant::now() > until {
                return Ok(false);
            }
            self.tick().await?;
            tokio::time::sleep(TICK).await;
        }
        Ok(true)
    }

    /// As many workers as there should be.
    pub(crate) async fn replace_workers(&mut self) -> Result<(), BoxError> {
        self.tick().await?;
        let wanted = self.setup.workers;
        while self.procs.iter().filter(|proc| proc.kind == Kind::Worker && !proc.asked).count() < wanted {
            self.add_worker().await?;
        }
        Ok(())
    }

    /// Waits until the load is there: every process is up and a few jobs have had their effect.
    pub(crate) async fn warm_up(&mut self) -> Result<bool, BoxError> {
        let (from, wanted) = (self.mark(), if self.setup.producers == 0 { 0 } else { 15 });
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            self.tick().await?;
            let up = |proc: &Proc| {
                self.events.iter().any(|event| event.by == proc.name && matches!(event.what, What::Up { .. }))
            };
            let effects = self.events[from..].iter().filter(|event| matches!(event.what, What::Effect { .. })).count();
            if effects >= wanted && self.procs.iter().all(up) {
                return Ok(true);
            }
            if Instant::now() > until {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// All as it should be again: whoever is frozen goes on, proxies pass, servers run, workers are there.
    pub(crate) async fn heal(&mut self) -> Result<(), BoxError> {
        for name in self.procs.iter().map(|proc| proc.name.clone()).collect::<Vec<_>>() {
            let proc = self.proc(&name)?;
            if let Some(proxy) = &proc.proxy {
                proxy.spare();
                proxy.set(Mode::Pass);
            }
            if proc.frozen {
                self.signal(&name, Signal::CONT)?;
                self.calm(Some(&name));
            }
        }
        self.servers.heal().await?;
        self.replace_workers().await?;
        self.tell(What::Healed);
        Ok(())
    }

    /// Ends the producers, waits until nothing waits or runs any more, ends the workers, and takes the store down in writing.
    pub(crate) async fn finish(&mut self) -> Result<bool, BoxError> {
        self.end_all(Kind::Producer, 15_000).await?;
        let whole = self.drain(self.patience).await?;
        self.tell(What::Drained { whole });
        self.respawn = false;
        self.end_all(Kind::Worker, self.setup.grace_ms + 12_000).await?;
        let all = self.read_store().await?;
        snapshot::tell(&self.journal, &all);
        self.anchor();
        self.tick().await?;
        Ok(whole)
    }

    /// All keys of the queue as they are.
    pub(crate) async fn read_store(&mut self) -> Result<BTreeMap<String, Stored>, BoxError> {
        let (_, shard) = self.store().await?;
        let prefix = String::from_utf8_lossy(&shard.key("")).into_owned();
        let mut keys = Keys::open(&self.servers.url()).await?;
        snapshot::read_all(&mut keys, &prefix).await
    }

    async fn end_all(&mut self, kind: Kind, patience_ms: u64) -> Result<(), BoxError> {
        for name in self.names(kind) {
            self.signal(&name, Signal::TERM)?;
        }
        for name in self.names(kind) {
            if !self.gone(&name, patience_ms).await? {
                self.demand('S', false, format!("{name} did not end within {patience_ms} ms of SIGTERM"));
                self.kill(&name).await?;
            }
        }
        Ok(())
    }

    async fn drain(&mut self, patience: Duration) -> Result<bool, BoxError> {
        let until = Instant::now() + patience;
        loop {
            let client = self.client().await?;
            match client.stats(QUEUE).await {
                Ok(stats) if stats.waiting + stats.running == 0 => return Ok(true),
                _ if Instant::now() > until => return Ok(false),
                _ => {}
            }
            self.rest_ms(50).await?;
        }
    }

    pub(crate) fn malformed(&self) -> usize {
        self.tail.malformed.len()
    }
}

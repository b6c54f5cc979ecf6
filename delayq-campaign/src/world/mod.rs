//! The world of one run: servers, workers, producers, what stands between them, and the history that they write.

mod course;
mod home;
mod processes;
mod rewrite;
mod servers;
mod snapshot;
mod staff;
mod stalls;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq::engine::Engine;
use delayq::engine::embedded::{Clock, EmbeddedEngine};
use delayq::engine::redis::{self, Settings};
use delayq::store::{Prefix, Shard, Store};
use delayq::{BoxError, Client};
use uuid::Uuid;

use crate::dice::Dice;
use crate::history::{Event, Journal, Tail, What, now_us, wall_us};
use crate::sender::{Answer, Order, send};
use crate::work::{QUEUE, Task};

pub(crate) use delayq_redis_fixture::proxy::{Blow, End, Mode, Proxy};
pub(crate) use home::Home;
pub(crate) use processes::{Kind, Proc, end_with_parent};
pub(crate) use rewrite::{MUTANTS, Mutant};
pub(crate) use servers::{Servers, raw, steer};
pub(crate) use snapshot::patient;
pub(crate) use stalls::watch_this_process;

/// How long the store may take to answer the campaign itself, on a machine that is busy with all of this.
const ANSWER: Duration = Duration::from_secs(10);

/// What delayq runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineKind {
    Redis,
    Embedded,
}

/// How the servers of a run stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    /// A replica, and before both a proxy that leads to the primary.
    Pair,
    /// A replica, and three Sentinels that watch the primary.
    Watched,
    /// A cluster of three primaries with a replica each, one of which has the queue.
    Cluster,
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
    pub(crate) shape: Shape,
    /// The server's clock, disk and syncs are in the campaign's hand.
    pub(crate) shim: bool,
    /// The workers' clocks are, each by this many ms.
    pub(crate) worker_clocks_ms: Vec<i64>,
    /// Producers name delays only.
    pub(crate) delays_only: bool,
    /// So many replicas must confirm what producers are told to be sent.
    pub(crate) confirmed_by: u32,
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
            // Long enough for the embedded engine on a disk that is slow to sync.
            lease_ms: if engine == EngineKind::Redis { 2000 } else { 4000 },
            concurrency: 40,
            grace_ms: 5000,
            worker_proxies: false,
            producer_proxies: false,
            shape: Shape::One,
            shim: false,
            worker_clocks_ms: Vec::new(),
            delays_only: false,
            confirmed_by: 0,
            mutant: None,
        }
    }
}

/// The world of one run.
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) dice: Dice,
    seed: u64,
    /// How long the fault shall go on in all.
    pub(crate) time: Duration,
    /// A run of the short kind: what is large is made small.
    pub(crate) is_smoke: bool,
    /// How often the fault was fired before, and with which of its kinds it begins.
    pub(crate) turn: u64,
    pub(crate) spin: u64,
    /// The campaign's own seed: they follow each other, so that what goes by it is shared among them evenly.
    pub(crate) round: u64,
    /// How many single calls were struck at.
    pub(crate) strikes: u64,
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
    /// Finds out when the store itself is slow.
    pub(crate) probe: stalls::Probe,
}

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
        let probed = open_store(setup.engine, &servers.direct_url()).await?;
        let probe = stalls::Probe::start(probed, servers.probed(), &history)?;
        // What a changed script leaves behind may never end.
        let patience = Duration::from_secs(match (setup.mutant, is_smoke) {
            (Some(_), true) => 20,
            (None, true) => 40,
            (_, false) => 120,
        });
        let mut world = World {
            probe,
            dice: Dice::new(seed),
            seed,
            time,
            is_smoke,
            turn: 0,
            round: 0,
            strikes: 0,
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
            patience,
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

    /// Everyone was disturbed, as was found out only now.
    pub(crate) fn was_disturbed(&self, since: u64, what: &str) {
        self.journal.tell_at(since, What::Disturbed { who: None, what: what.to_owned() });
        self.calm(None);
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

    /// The campaign's own client, past all proxies.
    pub(crate) async fn client(&mut self) -> Result<Client, BoxError> {
        if let Some(client) = &self.control {
            return Ok(client.clone());
        }
        let client =
            Client::builder().connect_timeout(ANSWER).response_timeout(ANSWER).connect(&self.servers.url()).await?;
        self.control = Some(client.clone());
        Ok(client)
    }

    /// The store itself, for what no client does.
    pub(crate) async fn store(&self) -> Result<(Store, Shard), BoxError> {
        let store = open_store(self.setup.engine, &self.servers.url()).await?;
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

    pub(crate) fn malformed(&self) -> usize {
        self.tail.malformed.len()
    }
}

async fn open_store(kind: EngineKind, url: &str) -> Result<Store, BoxError> {
    let engine: Arc<dyn Engine> = match kind {
        EngineKind::Embedded => Arc::new(EmbeddedEngine::connect(url, Clock::system()).await?),
        EngineKind::Redis => {
            let settings = Settings { connect_timeout: ANSWER, response_timeout: ANSWER, ..Settings::default() };
            redis::connect(url, settings).await?.0
        }
    };
    Ok(Store::new(engine, Prefix::default()))
}

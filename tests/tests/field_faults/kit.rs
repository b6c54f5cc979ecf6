//! What the suite shares: a job that does as it is told, workers that tell what they ran, and a look at the keys behind it all.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq::store::SCRIPTS;
use delayq::{Client, DeadLetter, Job, JobContext, JobError, JobId, JobResult, JobType, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;
use delayq_tests::process::Process;
use delayq_tests::store_kit::World;
use delayq_tests::{Running, eventually, soon};
use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc};

/// The queue of [`Field`].
pub(crate) const FIELD: &str = "field";
/// The shortest lease that there is: what waits for its end waits no longer than it must.
pub(crate) const LEASE: Duration = Duration::from_millis(500);
/// A lease for where others wait for its end: a busy machine keeps nobody from renewing it who lives.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(3);
/// What a busy machine may add to a time that is promised.
pub(crate) const SLACK: Duration = Duration::from_millis(400);
/// Later than any case runs.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// What a [`Field`] does.
#[delayq::payload]
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Succeeds.
    Pass,
    /// Takes a while, then succeeds.
    Sleep { ms: u64 },
    /// Waits for the gate, then succeeds.
    Wait,
    /// Waits for the gate, then fails.
    WaitFail,
    /// In its first attempt it asks for the next one after this wait; then it succeeds.
    RetryIn { ms: u64 },
    /// The first time it asks to come again after this wait, no attempt spent; then it succeeds.
    Snooze { ms: u64 },
    /// Is buried.
    Bury,
}

/// A job that does as it is told. A number tells them apart.
#[delayed_job(name = "field", version = 1, queue = "field", max_retries = 2, backoff = fixed("20ms"), timeout = "1m")]
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) n: u64,
    pub(crate) act: Act,
}

pub(crate) fn field(n: u64, act: Act) -> Field {
    Field { n, act }
}

/// A run as its handler saw it.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) n: u64,
    pub(crate) id: JobId,
    pub(crate) attempt: u32,
    pub(crate) due: Timestamp,
    pub(crate) lateness: Duration,
    pub(crate) at: Instant,
}

/// Where runs are told.
pub(crate) type Tell = mpsc::UnboundedSender<Ran>;

/// What some jobs wait for.
struct Gate(Arc<Semaphore>);

/// Tells of a run, in the handlers of other job types too.
pub(crate) fn tell(n: u64, cx: &JobContext) -> JobResult {
    let ran = Ran { n, id: cx.id(), attempt: cx.attempt(), due: cx.due(), lateness: cx.lateness(), at: Instant::now() };
    cx.data::<Tell>()?.send(ran)?;
    Ok(())
}

/// Waits until the test lets it go on.
pub(crate) async fn gate(cx: &JobContext) -> JobResult {
    cx.data::<Gate>()?.0.acquire().await?.forget();
    Ok(())
}

impl Job for Field {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(self.n, &cx)?;
        match self.act {
            Act::Pass => Ok(()),
            Act::Sleep { ms } => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
            Act::Wait => gate(&cx).await,
            Act::WaitFail => {
                gate(&cx).await?;
                Err("told to fail")?
            }
            Act::RetryIn { ms } if cx.attempt() == 1 => {
                Err(JobError::retry_in(Duration::from_millis(ms), "told to come again"))
            }
            Act::Snooze { ms } if cx.request().free_returns() == 0 => Err(JobError::snooze(Duration::from_millis(ms))),
            Act::RetryIn { .. } | Act::Snooze { .. } => Ok(()),
            Act::Bury => Err(JobError::bury("told to be buried")),
        }
    }
}

/// Workers, and what they tell of their runs.
pub(crate) struct Stage {
    running: Vec<Running>,
    heard: mpsc::UnboundedReceiver<Ran>,
    gate: Arc<Semaphore>,
}

impl Stage {
    /// One worker on the queue of [`Field`], its lease the shortest.
    pub(crate) fn start(client: &Client) -> Stage {
        Stage::with(client, |worker| worker)
    }

    /// One worker with further settings.
    pub(crate) fn with(client: &Client, settings: impl Fn(Worker) -> Worker) -> Stage {
        Stage::team(1, client, settings)
    }

    /// Several workers of the same settings.
    pub(crate) fn team(workers: usize, client: &Client, settings: impl Fn(Worker) -> Worker) -> Stage {
        let (tell, heard) = mpsc::unbounded_channel();
        let gate = Arc::new(Semaphore::new(0));
        let start = |_| {
            let worker = Worker::new(client.clone()).queues([FIELD]).lease(LEASE);
            Running::start(settings(worker.data::<Tell>(tell.clone()).data(Gate(gate.clone()))))
        };
        Stage { running: (0..workers).map(start).collect(), heard, gate }
    }

    /// The next run.
    pub(crate) async fn next(&mut self) -> Ran {
        soon("a run", self.heard.recv()).await.expect("the worker has the other end")
    }

    /// The next so many runs.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<Ran> {
        let mut runs = Vec::with_capacity(count);
        while runs.len() < count {
            runs.push(self.next().await);
        }
        runs
    }

    /// What was told and not taken.
    pub(crate) fn rest(&mut self) -> Vec<Ran> {
        std::iter::from_fn(|| self.heard.try_recv().ok()).collect()
    }

    /// Lets so many jobs that wait at the gate go on.
    pub(crate) fn open(&self, jobs: usize) {
        self.gate.add_permits(jobs);
    }

    /// Stops the workers gracefully; gives what was told and not taken.
    pub(crate) async fn stop(mut self) -> Vec<Ran> {
        for worker in self.running.drain(..) {
            worker.stop().await.unwrap();
        }
        self.rest()
    }
}

/// Their numbers, in order.
pub(crate) fn numbers(runs: &[Ran]) -> Vec<u64> {
    let mut numbers: Vec<u64> = runs.iter().map(|ran| ran.n).collect();
    numbers.sort_unstable();
    numbers
}

/// What `crashing_worker` runs: ends well after some time. Its name is its number.
#[delayq::payload]
pub(crate) struct Steady {
    pub(crate) name: String,
    pub(crate) takes_ms: u64,
}

impl JobType for Steady {
    const NAME: &'static str = "steady";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "crash";
}

pub(crate) fn steady(n: u64, takes_ms: u64) -> Steady {
    Steady { name: n.to_string(), takes_ms }
}

/// What `crashing_worker` runs: ends its process. It may be run three times.
#[delayq::payload]
pub(crate) struct Poison {
    pub(crate) name: String,
    pub(crate) how: String,
}

impl JobType for Poison {
    const NAME: &'static str = "poison";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "crash";
    const MAX_RETRIES: u32 = 2;
}

/// A worker of this program on the queue that children work on too. Neither job does it any harm.
pub(crate) fn harmless(worker: Worker) -> Worker {
    worker
        .queues(["crash"])
        .handle(|job: Steady, cx: JobContext| async move { tell(job.name.parse()?, &cx) })
        .handle(|job: Poison, cx: JobContext| async move { tell(job.name.parse()?, &cx) })
}

/// A worker process.
pub(crate) fn child(url: &str, queue: &str, lease: Duration) -> Process {
    let lease_ms = lease.as_millis().to_string();
    Process::start(Command::new(env!("CARGO_BIN_EXE_crashing_worker")).args([url, queue, &lease_ms]))
}

/// Sends jobs in one go, and gives their ids.
pub(crate) async fn send_all<J: JobType>(
    schedule: delayq::Schedule<J>,
    jobs: impl IntoIterator<Item = J>,
) -> Vec<JobId> {
    schedule.send_all(jobs).await.into_iter().map(|sent| sent.unwrap().id()).collect()
}

/// Waits until so many have ended well, and none waits, runs, or is in no state at all.
pub(crate) async fn settled(client: &Client, queue: &str, done: u64) {
    eventually("all are done and nothing is left", || async {
        let stats = client.stats(queue).await.ok()?;
        (stats.done_total == done && stats.waiting == 0 && stats.running == 0 && stats.orphans == 0).then_some(())
    })
    .await;
}

/// Waits until there are so many dead letters.
pub(crate) async fn dead(client: &Client, queue: &str, letters: u64) {
    let all = || async { (client.stats(queue).await.unwrap().dead == letters).then_some(()) };
    eventually("the dead letters", all).await;
}

/// Waits for the dead letter of this id.
pub(crate) async fn letter(client: &Client, queue: &str, id: JobId) -> DeadLetter {
    eventually("the dead letter", || async { client.dead_letters(queue).get(id).await.unwrap() }).await
}

/// Waits until so many workers serve the queue.
pub(crate) async fn sessions(client: &Client, queue: &str, count: u64) {
    let there = || async { (client.stats(queue).await.unwrap().sessions == count).then_some(()) };
    eventually("the workers' sessions", there).await;
}

/// The keys of a queue laid open.
pub(crate) async fn world(server: &RedisServer, queue: &str) -> World {
    World::on(server).await.named("delayq", queue)
}

/// Every job of the queue is in exactly one state and has a body, and no index holds an unknown id. Nothing may be moving.
///
/// # Panics
/// It isn't so.
pub(crate) async fn conserved(server: &RedisServer, queue: &str) {
    world(server, queue).await.assert_conserved().await;
}

/// A job's id as it is stored.
pub(crate) fn stored(id: JobId) -> [u8; 16] {
    id.as_uuid().into_bytes()
}

/// An id that is text, so that any client can name it: "a hand's job 0007".
pub(crate) fn text_id(n: u64) -> (JobId, String) {
    let text = format!("a hand's job {n:03}");
    let bytes: [u8; 16] = text.as_bytes().try_into().expect("16 bytes");
    (JobId::from(uuid::Uuid::from_bytes(bytes)), text)
}

/// The name of a key of a queue.
pub(crate) fn key(queue: &str, name: &str) -> String {
    format!("delayq:{{{queue}/0}}:{name}")
}

/// What a call of a script looks like on its way to the server.
pub(crate) fn script(name: &str) -> String {
    let file = SCRIPTS.iter().find(|file| file.script.name == name).expect("a script of that name");
    redis::Script::new(file.script.source).get_hash().to_owned()
}

/// Panics on purpose need no trace on the screen.
pub(crate) fn quiet_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let payload = info.payload();
            let said = payload.downcast_ref::<&str>().copied();
            let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            // What is no text is thrown by tests alone; the second is of a Display that fails.
            let on_purpose = ["on purpose", "a Display implementation returned an error"];
            if said.is_some_and(|said| !on_purpose.iter().any(|text| said.contains(text))) {
                told(info);
            }
        }));
    });
}

/// Waits until somebody waits for the baton: whoever claims has done so.
pub(crate) async fn listened_to(server: &RedisServer) {
    let listens = || server.command(&["CLIENT", "LIST"]).unwrap().contains("cmd=bzpopmin");
    eventually("somebody listens", || async { listens().then_some(()) }).await;
}

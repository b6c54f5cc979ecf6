//! What these cases share: a job that does as it is told, a worker that tells what it ran, the server's keys, what was logged.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use delayq::{Client, Job, JobContext, JobError, JobId, JobResult, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;
use delayq_tests::{Running, soon};
use redis::aio::MultiplexedConnection;
use tokio::sync::{Semaphore, mpsc};
use tracing_subscriber::layer::SubscriberExt;

use crate::kit::key;

/// The queue of [`Deed`].
pub(crate) const QUEUE: &str = "b-deeds";
/// How long after its store is well again a worker may take to go on.
pub(crate) const RESUMES: Duration = Duration::from_secs(5);

/// What a job does.
#[delayq::payload]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// Succeeds.
    Pass,
    /// Succeeds after that time.
    Sleep {
        /// In ms.
        ms: u64,
    },
    /// Waits for the gate, then succeeds.
    Wait,
    /// Waits for the gate, then fails.
    WaitFail,
    /// Fails with this text.
    Fail(String),
    /// Fails up to this attempt, then succeeds.
    FailUntil(u32),
    /// Is discarded with this text.
    Discard(String),
    /// Is buried with this text.
    Bury(String),
    /// Panics with this text.
    Panic(String),
    /// Panics with a number.
    PanicWithNumber,
    /// Panics when what it holds is dropped.
    PanicInDrop,
}

/// Runs once, whatever comes of it.
#[delayed_job(name = "b_deed", version = 1, queue = "b-deeds", max_retries = 0)]
#[derive(Debug, Clone)]
pub(crate) struct Deed {
    pub(crate) n: u64,
    pub(crate) act: Act,
}

/// The same with little time.
#[delayed_job(name = "b_hasty", version = 1, queue = "b-deeds", max_retries = 0, timeout = "150ms")]
pub(crate) struct Hasty {
    pub(crate) n: u64,
    pub(crate) act: Act,
}

/// The same with another chance.
#[delayed_job(name = "b_retried", version = 1, queue = "b-deeds", max_retries = 3, backoff = fixed("20ms", jitter = 0))]
pub(crate) struct Retried {
    pub(crate) n: u64,
    pub(crate) act: Act,
}

pub(crate) fn pass(n: u64) -> Deed {
    Deed { n, act: Act::Pass }
}

pub(crate) fn does(n: u64, act: Act) -> Deed {
    Deed { n, act }
}

/// A run as its handler saw it.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) n: u64,
    pub(crate) id: JobId,
    pub(crate) attempt: u32,
    pub(crate) token: u64,
    pub(crate) lateness: Duration,
    pub(crate) at: Instant,
}

type Tell = mpsc::UnboundedSender<Ran>;
type Gate = Arc<Semaphore>;

/// Panics when it is dropped, unless a panic is under way.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "on purpose, in drop");
    }
}

async fn act(n: u64, what: Act, cx: &JobContext) -> JobResult {
    cx.data::<Tell>()?.send(Ran {
        n,
        id: cx.id(),
        attempt: cx.attempt(),
        token: cx.run_token(),
        lateness: cx.lateness(),
        at: Instant::now(),
    })?;
    match what {
        Act::Pass => Ok(()),
        Act::Sleep { ms } => {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(())
        }
        Act::Wait => {
            cx.data::<Gate>()?.acquire().await?.forget();
            Ok(())
        }
        Act::WaitFail => {
            cx.data::<Gate>()?.acquire().await?.forget();
            Err("told to fail")?
        }
        Act::FailUntil(attempt) if cx.attempt() > attempt => Ok(()),
        Act::FailUntil(_) => Err("not yet")?,
        Act::Fail(why) => Err(why)?,
        Act::Discard(why) => Err(JobError::discard(why)),
        Act::Bury(why) => Err(JobError::bury(why)),
        Act::Panic(why) => panic!("on purpose: {why}"),
        Act::PanicWithNumber => std::panic::panic_any(7_u32),
        Act::PanicInDrop => {
            let _grenade = Grenade;
            Ok(())
        }
    }
}

macro_rules! acts {
    ($($job:ident)+) => {
        $(impl Job for $job {
            async fn run(self, cx: JobContext) -> JobResult {
                act(self.n, self.act, &cx).await
            }
        })+
    };
}

acts!(Deed Hasty Retried);

/// A worker, and what it tells.
pub(crate) struct Stage {
    running: Running,
    heard: mpsc::UnboundedReceiver<Ran>,
    gate: Gate,
}

impl Stage {
    pub(crate) fn start(client: &Client) -> Stage {
        Stage::with(client, |worker| worker)
    }

    pub(crate) fn with(client: &Client, settings: impl FnOnce(Worker) -> Worker) -> Stage {
        let (tell, heard) = mpsc::unbounded_channel();
        let gate: Gate = Arc::new(Semaphore::new(0));
        let worker = Worker::new(client.clone()).queues([QUEUE]).lease(Duration::from_secs(5));
        let worker = settings(worker.data::<Tell>(tell).data::<Gate>(gate.clone()));
        Stage { running: Running::start(worker), heard, gate }
    }

    /// The next run.
    pub(crate) async fn next(&mut self) -> Ran {
        soon("a run", self.heard.recv()).await.unwrap()
    }

    /// The next so many runs.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<Ran> {
        let mut runs = Vec::with_capacity(count);
        while runs.len() < count {
            runs.push(self.next().await);
        }
        runs
    }

    /// The runs that were told and not taken.
    pub(crate) fn rest(&mut self) -> Vec<Ran> {
        std::iter::from_fn(|| self.heard.try_recv().ok()).collect()
    }

    /// Lets so many waiting jobs go on.
    pub(crate) fn open(&self, jobs: usize) {
        self.gate.add_permits(jobs);
    }

    pub(crate) async fn stop(self) {
        self.ended().await;
    }

    /// Stops it, and gives the runs that were told and not taken.
    pub(crate) async fn ended(mut self) -> Vec<Ran> {
        self.running.stop().await.unwrap();
        std::iter::from_fn(|| self.heard.try_recv().ok()).collect()
    }
}

/// A counter of the queue that the store keeps, 0 where there is none.
pub(crate) fn counter(server: &RedisServer, queue: &str, field: &str) -> u64 {
    let told = server.command(&["HGET", &key(queue, "stats"), field]).unwrap();
    told.lines().nth(1).map_or(0, |value| value.trim().parse().unwrap())
}

/// Whether a worker waits for the baton's marker.
pub(crate) fn listens(server: &RedisServer) -> bool {
    server.command(&["CLIENT", "LIST"]).is_ok_and(|list| list.contains("cmd=bzpopmin"))
}

/// A server, past the library.
pub(crate) struct Raw(pub(crate) MultiplexedConnection);

impl Raw {
    pub(crate) async fn connect(server: &RedisServer) -> Raw {
        let client = redis::Client::open(server.url()).unwrap();
        // What is asked for may take as long as the server is made to be busy.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        Raw(client.get_multiplexed_async_connection_with_config(&config).await.unwrap())
    }

    pub(crate) async fn ask<T: redis::FromRedisValue>(&mut self, parts: &[impl AsRef<[u8]>]) -> T {
        let mut command = redis::Cmd::new();
        for part in parts {
            command.arg(part.as_ref());
        }
        command.query_async(&mut self.0).await.unwrap()
    }

    /// Sets a setting of the server.
    pub(crate) async fn set(&mut self, setting: &str, value: &str) {
        let _: () = self.ask(&["CONFIG", "SET", setting, value]).await;
    }
}

/// An event that was logged.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) level: tracing::Level,
    pub(crate) message: String,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

/// What the library logs on this thread, for as long as this lives.
pub(crate) struct Logged {
    events: Arc<Mutex<Vec<Event>>>,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Logged {
    pub(crate) fn from_now() -> Logged {
        keep_listening();
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let subscriber = tracing_subscriber::registry().with(Collect(events.clone()));
        Logged { events, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The events of this level or a graver one.
    pub(crate) fn of(&self, level: tracing::Level) -> Vec<Event> {
        self.events.lock().unwrap().iter().filter(|event| event.level <= level).cloned().collect()
    }
}

/// While there is one subscriber in the program, tracing asks the thread that first comes by an event whether it is wanted, and a
/// thread without one says no for all. With a second one that stays, each is asked.
pub(crate) fn keep_listening() {
    static SECOND: OnceLock<tracing::Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| tracing::Dispatch::new(tracing_subscriber::registry()));
}

struct Collect(Arc<Mutex<Vec<Event>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Collect {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if event.metadata().target().starts_with("delayq") {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let message = fields.0.remove("message").unwrap_or_default();
            let level = *event.metadata().level();
            self.0.lock().unwrap().push(Event { level, message, fields: fields.0 });
        }
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

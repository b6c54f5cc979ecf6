//! What the cases share: a job that does as it is told, a worker that tells what it ran, the server's keys.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use delayq::envelope::Record;
use delayq::{Client, Job, JobContext, JobError, JobId, JobResult, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;
use delayq_tests::{Running, eventually, soon};
use redis::aio::MultiplexedConnection;
use tokio::sync::{Semaphore, mpsc};

/// The queue of [`Task`].
pub(crate) const TASKS: &str = "tasks";

/// What SECURITY.md lists, without INFO and CONFIG GET.
pub(crate) const RIGHTS: &str = "~delayq:* +eval +evalsha +bzpopmin +hello +ping +select +time \
    +hdel +hexists +hget +hincrby +hlen +hmget +hscan +hset +sadd +scard +smembers +smismember +srandmember +srem \
    +zadd +zcard +zcount +zmscore +zrange +zrangebyscore +zrank +zrem +zremrangebyrank +zrevrange +zrevrank +zscore";

/// What a task does.
#[delayq::payload]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Succeeds.
    Pass,
    /// Fails.
    Fail,
    /// Waits for the gate, then succeeds.
    WaitPass,
    /// Waits for the gate, then fails.
    WaitFail,
    /// Is discarded.
    Discard,
    /// Is buried.
    Bury,
}

/// A job that does as it is told. It is never retried.
#[delayed_job(name = "task", version = 1, queue = "tasks", max_retries = 0)]
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) n: u64,
    pub(crate) act: Act,
}

/// The same, with retries that nobody lives to see.
#[delayed_job(name = "retried", version = 1, queue = "tasks", max_retries = 3, backoff = fixed("1h"))]
pub(crate) struct Retried {
    pub(crate) act: Act,
}

/// A job that fails until its third attempt.
#[delayed_job(name = "third", version = 1, queue = "tasks", max_retries = 2, backoff = fixed("1ms"))]
pub(crate) struct ThirdTime {
    pub(crate) n: u64,
}

/// A job of which there is one for a key.
#[delayed_job(name = "only", version = 1, queue = "tasks", max_retries = 0, unique = key)]
#[derive(Debug, Clone)]
pub(crate) struct Only {
    pub(crate) key: String,
    pub(crate) act: Act,
}

pub(crate) fn pass(n: u64) -> Task {
    Task { n, act: Act::Pass }
}

pub(crate) fn does(act: Act) -> Task {
    Task { n: 0, act }
}

pub(crate) fn only(key: &str, act: Act) -> Only {
    Only { key: key.to_owned(), act }
}

/// A run as its handler saw it.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) n: u64,
    pub(crate) id: JobId,
    pub(crate) attempt: u32,
    pub(crate) at: Instant,
    pub(crate) trace_parent: Option<String>,
}

type Tell = mpsc::UnboundedSender<Ran>;
type Gate = Arc<Semaphore>;

async fn act(n: u64, what: Act, cx: &JobContext) -> JobResult {
    cx.data::<Tell>()?.send(Ran {
        n,
        id: cx.id(),
        attempt: cx.attempt(),
        at: Instant::now(),
        trace_parent: cx.request().trace_parent().map(str::to_owned),
    })?;
    if matches!(what, Act::WaitPass | Act::WaitFail) {
        cx.data::<Gate>()?.acquire().await?.forget();
    }
    match what {
        Act::Pass | Act::WaitPass => Ok(()),
        Act::Fail | Act::WaitFail => Err("told to fail")?,
        Act::Discard => Err(JobError::discard("told to")),
        Act::Bury => Err(JobError::bury("told to")),
    }
}

impl Job for Task {
    async fn run(self, cx: JobContext) -> JobResult {
        act(self.n, self.act, &cx).await
    }
}

impl Job for Retried {
    async fn run(self, cx: JobContext) -> JobResult {
        act(0, self.act, &cx).await
    }
}

impl Job for Only {
    async fn run(self, cx: JobContext) -> JobResult {
        act(0, self.act, &cx).await
    }
}

impl Job for ThirdTime {
    async fn run(self, cx: JobContext) -> JobResult {
        act(self.n, if cx.attempt() == 3 { Act::Pass } else { Act::Fail }, &cx).await
    }
}

/// A worker on the tasks' queue, and what it tells.
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
        let worker = Worker::new(client.clone()).queues([TASKS]).lease(Duration::from_secs(2));
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

    /// Whether there was no further run up to now.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.heard.try_recv().is_err()
    }

    /// Lets so many waiting tasks go on.
    pub(crate) fn open(&self, tasks: usize) {
        self.gate.add_permits(tasks);
    }

    /// Waits until all who were let go have gone on.
    pub(crate) async fn passed(&self) {
        eventually("they went through the gate", || async { (self.gate.available_permits() == 0).then_some(()) }).await;
    }

    pub(crate) async fn stop(self) {
        self.running.stop().await.unwrap();
    }
}

/// A server's keys, past the library.
pub(crate) struct Raw(pub(crate) MultiplexedConnection);

impl Raw {
    pub(crate) async fn connect(server: &RedisServer) -> Raw {
        let client = redis::Client::open(server.url()).unwrap();
        // What is asked for may take as long as the server is made to be busy.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        Raw(client.get_multiplexed_async_connection_with_config(&config).await.unwrap())
    }

    pub(crate) async fn ask<T: redis::FromRedisValue>(&mut self, parts: &[&[u8]]) -> T {
        let mut command = redis::Cmd::new();
        for part in parts {
            command.arg(*part);
        }
        command.query_async(&mut self.0).await.unwrap()
    }

    /// How many keys there are.
    pub(crate) async fn keys(&mut self) -> u64 {
        self.ask(&[b"DBSIZE"]).await
    }

    /// The due time in the due set of this priority, ms.
    pub(crate) async fn due(&mut self, priority: u8, id: JobId) -> Option<u64> {
        let score: Option<f64> =
            self.ask(&[b"ZSCORE", key(&format!("due:{priority}")).as_bytes(), id.as_uuid().as_bytes()]).await;
        score.map(|score| score as u64)
    }

    /// The record of a job.
    pub(crate) async fn record(&mut self, id: JobId) -> Option<Record> {
        let bytes: Option<Vec<u8>> = self.ask(&[b"HGET", key("jobs").as_bytes(), id.as_uuid().as_bytes()]).await;
        bytes.map(|bytes| Record::decode(&Bytes::from(bytes)).unwrap())
    }

    /// The store's clock, µs.
    pub(crate) async fn now_us(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = self.ask(&[b"TIME"]).await;
        seconds * 1_000_000 + micros
    }
}

/// A key of the tasks' queue.
pub(crate) fn key(name: &str) -> String {
    format!("delayq:{{tasks/0}}:{name}")
}

/// How often the server was asked for this command.
pub(crate) fn calls(server: &RedisServer, command: &str) -> u64 {
    let info = server.command(&["INFO", "commandstats"]).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// An end of the task, as [`Client::stats`] counts it, with nothing left over.
pub(crate) async fn settled(client: &Client, done: u64) {
    delayq_tests::eventually("all are done and nothing is left", || async {
        let stats = client.stats(TASKS).await.unwrap();
        (stats.done_total == done && stats.waiting == 0 && stats.running == 0 && stats.orphans == 0).then_some(())
    })
    .await;
}

/// Whether a worker waits for the baton's marker.
pub(crate) fn listens(server: &RedisServer) -> bool {
    server.command(&["CLIENT", "LIST"]).is_ok_and(|list| list.contains("cmd=bzpopmin"))
}

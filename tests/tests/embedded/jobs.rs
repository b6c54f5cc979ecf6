//! Whole jobs through the public API, in a file and in memory.

use std::time::{Duration, Instant};

use delayq::{CancelOutcome, Client, DeadReason, Job, JobContext, JobResult, JobStatus, Worker, delayed_job};
use delayq_tests::{Lag, Running, eventually, soon};
use tokio::sync::mpsc;

use super::{Base, HOUR};

#[delayed_job(name = "probe", version = 1, queue = "probes", max_retries = 1, backoff = fixed("50ms"))]
struct Probe {
    name: String,
    fails: u32,
}

struct Ran {
    name: String,
    attempt: u32,
    lateness: Duration,
}

struct Log(mpsc::UnboundedSender<Ran>);

impl Job for Probe {
    async fn run(self, cx: JobContext) -> JobResult {
        let ran = Ran { name: self.name, attempt: cx.attempt(), lateness: cx.lateness() };
        let _ = cx.data::<Log>()?.0.send(ran);
        if cx.attempt() <= self.fails { Err("told to fail")? } else { Ok(()) }
    }
}

fn probe(name: &str, fails: u32) -> Probe {
    Probe { name: name.to_owned(), fails }
}

fn start(client: &Client) -> (Running, mpsc::UnboundedReceiver<Ran>) {
    let (sender, runs) = mpsc::unbounded_channel();
    (Running::start(Worker::new(client.clone()).queues(["probes"]).data(Log(sender))), runs)
}

async fn next(runs: &mut mpsc::UnboundedReceiver<Ran>) -> Ran {
    soon("a run", runs.recv()).await.unwrap()
}

async fn done(client: &Client, count: u64) {
    eventually("jobs done", || async { (client.stats("probes").await.unwrap().done_total == count).then_some(()) })
        .await;
}

/// A job's whole life, whatever the database is in.
async fn lives(client: Client) {
    let (worker, mut runs) = start(&client);

    // On time.
    let lag = Lag::watch();
    for n in 0..20u64 {
        client.schedule(Duration::from_millis(100 + n * 7)).send(probe(&n.to_string(), 0)).await.unwrap();
    }
    let (mut exact, mut late) = (0, 0);
    for _ in 0..20 {
        let ran = next(&mut runs).await;
        exact += usize::from(ran.lateness.is_zero());
        late += usize::from(ran.lateness > Duration::from_millis(250) + lag.so_far());
    }
    // What is claimed early shows a lateness cut off at zero; one may be that prompt by chance.
    assert!(exact <= 2, "{exact} of 20 were claimed at or before their due time");
    assert!(late <= 2, "{late} of 20 were late");
    done(&client, 20).await;

    // Retries, then success; a dead letter, then a new life.
    client.enqueue().send(probe("retried", 1)).await.unwrap();
    assert_eq!((next(&mut runs).await.attempt, next(&mut runs).await.attempt), (1, 2));
    done(&client, 21).await;
    let dying = client.enqueue().send(probe("dying", 2)).await.unwrap();
    assert_eq!((next(&mut runs).await.attempt, next(&mut runs).await.attempt), (1, 2));
    let letters = client.dead_letters("probes");
    let letter = eventually("the dead letter", || async { letters.get(dying.id()).await.unwrap() }).await;
    assert_eq!((letter.reason, letter.error.as_str()), (Some(DeadReason::RetriesExhausted), "told to fail"));
    letters.redrive(dying.id()).await.unwrap();
    assert_eq!((next(&mut runs).await.attempt, next(&mut runs).await.attempt), (1, 2));
    eventually("its second death", || async { (client.stats("probes").await.unwrap().dead == 1).then_some(()) }).await;
    letters.delete(dying.id()).await.unwrap();

    // Cancelled, and moved to now.
    let cancelled = client.schedule(HOUR).send(probe("cancelled", 0)).await.unwrap();
    let moved = client.schedule(HOUR).send(probe("moved", 0)).await.unwrap();
    assert_eq!(cancelled.cancel().await.unwrap(), CancelOutcome::Cancelled);
    assert_eq!(cancelled.status().await.unwrap(), JobStatus::Cancelled);
    moved.reschedule(Duration::from_millis(50)).await.unwrap();
    assert_eq!(next(&mut runs).await.name, "moved");
    done(&client, 22).await;

    // Unique while it hasn't ended.
    let first = client.schedule(HOUR).unique("one").send(probe("unique", 0)).await.unwrap();
    let second = client.schedule(HOUR).unique("one").send(probe("unique", 0)).await.unwrap_err();
    assert!(second.is_duplicate(), "{second:?}");
    first.cancel().await.unwrap();

    worker.stop().await.unwrap();
    let stats = client.stats("probes").await.unwrap();
    assert_eq!((stats.waiting, stats.running, stats.sessions, stats.orphans), (0, 0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_live_in_memory() {
    lives(Client::connect("sqlite::memory:").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_live_in_a_file() {
    let base = Base::new();
    lives(base.client().await).await;
    base.assert_whole();
}

#[tokio::test]
async fn databases_in_memory_are_apart() {
    let (one, other) =
        (Client::connect("sqlite::memory:").await.unwrap(), Client::connect("sqlite::memory:").await.unwrap());
    one.schedule(HOUR).send(probe("a", 0)).await.unwrap();
    assert_eq!(one.stats("probes").await.unwrap().waiting, 1);
    assert_eq!(other.stats("probes").await.unwrap().waiting, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_jobs_survive_the_file_s_closing() {
    let base = Base::new();
    let (far, near, sent) = {
        let client = base.client().await;
        let far = client.schedule(HOUR).send(probe("far", 0)).await.unwrap().id();
        let sent = Instant::now();
        let near = client.schedule(Duration::from_millis(700)).send(probe("near", 0)).await.unwrap().id();
        (far, near, sent)
    };
    eventually("the file's closing", || async { (!base.beside("-wal").exists()).then_some(()) }).await;
    let client = base.client().await;
    let (worker, mut runs) = start(&client);
    let ran = next(&mut runs).await;
    assert_eq!((ran.name.as_str(), ran.attempt), ("near", 1));
    assert!(sent.elapsed() > Duration::from_millis(690), "early: after {:?}", sent.elapsed());
    done(&client, 1).await;
    assert_eq!(client.handle::<Probe>(near).status().await.unwrap(), JobStatus::Done);
    assert!(matches!(client.handle::<Probe>(far).status().await.unwrap(), JobStatus::Waiting { .. }));
    worker.stop().await.unwrap();
}

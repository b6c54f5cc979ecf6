//! B25 to B31: how long a job is somebody's, and what of handlers that don't end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use delayq::store::ops::Rescue;
use delayq::{Client, DeadReason, Job, JobContext, JobResult, JobStatus, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;
use delayq_tests::store_kit::{World, job};
use delayq_tests::{PATIENCE, eventually, server_and_client, soon};
use futures_util::future::join_all;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tokio::sync::{mpsc, oneshot};

use crate::kit::{
    Act, FIELD, LEASE, LONG_LEASE, Stage, Tell, child, conserved, field, harmless, letter, numbers, send_all, sessions,
    settled, steady, tell, world,
};

/// How a [`Long`] spends its time.
#[delayq::payload]
#[derive(Debug, Clone, Copy)]
enum Spends {
    /// It sleeps, as a future should.
    Asleep,
    /// It is never done, and lets others work all the time.
    Yielding,
    /// On a thread for such work.
    OnItsThread,
    /// On the thread that others need too.
    OnTheRuntimes,
}

/// Takes longer than a lease, and is allowed to.
#[delayed_job(name = "long", version = 1, queue = "field", timeout = "1m")]
#[derive(Debug, Clone)]
struct Long {
    n: u64,
    ms: u64,
    spends: Spends,
}

impl Job for Long {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(self.n, &cx)?;
        let time = Duration::from_millis(self.ms);
        match self.spends {
            Spends::Asleep => tokio::time::sleep(time).await,
            Spends::Yielding => {
                let started = Instant::now();
                while started.elapsed() < time {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            Spends::OnItsThread => tokio::task::spawn_blocking(move || std::thread::sleep(time)).await?,
            Spends::OnTheRuntimes => std::thread::sleep(time),
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b25_a_run_of_three_leases_keeps_its_job() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::team(2, &client, |worker| worker.concurrency(20).lease(LONG_LEASE));
    sessions(&client, FIELD, 2).await;
    let ms = 3 * LONG_LEASE.as_millis() as u64;
    let spends = |n: u64| [Spends::Asleep, Spends::Yielding, Spends::OnItsThread][n as usize % 3];
    send_all(client.enqueue(), (0..12).map(|n| Long { n, ms, spends: spends(n) })).await;
    let runs = stage.take(12).await;
    assert!(numbers(&runs).into_iter().eq(0..12) && runs.iter().all(|ran| ran.attempt == 1), "{runs:?}");
    settled(&client, FIELD, 12).await;
    assert!(stage.stop().await.is_empty(), "one start each");
    let stats = client.stats(FIELD).await.unwrap();
    assert_eq!((stats.crashed_total, stats.retried_total, stats.dead_total), (0, 0, 0));
    conserved(&server, FIELD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b26_a_process_that_was_asked_to_end_keeps_its_job_until_it_is_done() {
    let (server, client) = server_and_client().await;
    let mut ending = child(&server.url(), "crash", LONG_LEASE);
    ending.says("ready").await;
    client.enqueue().send(steady(1, 2 * LONG_LEASE.as_millis() as u64)).await.unwrap();
    ending.says("start 1 1").await;
    let stage = Stage::team(2, &client, |worker| harmless(worker).lease(LONG_LEASE));
    sessions(&client, "crash", 3).await;
    ending.signal("TERM");
    assert_eq!(ending.rest().await, ["end 1", "ended"]);
    settled(&client, "crash", 1).await;
    assert!(stage.stop().await.is_empty(), "a second start");
    let stats = client.stats("crash").await.unwrap();
    assert_eq!((stats.crashed_total, stats.retried_total, stats.sessions), (0, 0, 0));
    conserved(&server, "crash").await;
}

/// A worker that went silent: its job is its own until its lease is over by the store's clock, and anybody's from then on.
async fn leased_and_then_not(server: &RedisServer, lease: Duration) {
    let world = World::on(server).await;
    world.create(&[job(1)]).await;
    // Somebody else lives, and beats: there is no outage.
    let other = world.open().await;
    let before_ms = world.now_ms().await;
    let mut silent = world.open_for(lease).await;
    silent.take_one().await;
    let expires_ms = world.score("sessions", silent.id).await.unwrap();
    let opened_ms = expires_ms - lease.as_millis() as u64;
    assert!((before_ms..=world.now_ms().await).contains(&opened_ms), "a moment, not a length: {expires_ms}");
    let mut alive = 0;
    loop {
        let before_ms = world.now_ms().await;
        let listed = other.beat().await.lost.contains(&silent.id);
        let rescue = world.store.rescue(&world.shard, &silent.id, 10).await.unwrap();
        let after_ms = world.now_ms().await;
        if rescue == Rescue::Alive {
            assert!(!listed && before_ms < expires_ms, "still leased at {before_ms}, though it ended at {expires_ms}");
            alive += 1;
        } else {
            assert!(after_ms >= expires_ms, "given away at {after_ms}, before {expires_ms}");
            assert!(matches!(rescue, Rescue::Took { given_back: 1, .. }), "{rescue:?}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(alive > 0, "nobody looked while it was leased");
    world.assert_conserved().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b28_a_lost_workers_job_is_leased_until_its_lease_is_over_and_then_recoverable() {
    let server = RedisServer::start().unwrap();
    join_all([900, 1500, 2500].map(|ms| leased_and_then_not(&server, Duration::from_millis(ms)))).await;
}

/// Ignores that its time is over.
#[delayed_job(name = "stuck", version = 1, queue = "field", max_retries = 0, timeout = "300ms")]
struct Stuck {
    n: u64,
    how: Spends,
}

/// Set when the stuck may go on: their threads must end before the test does.
struct Release(Arc<AtomicBool>);

impl Job for Stuck {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(self.n, &cx)?;
        let released = cx.data::<Release>()?.0.clone();
        let stuck = move || {
            // As good as for ever, but for a test that failed meanwhile.
            let started = Instant::now();
            while !released.load(Ordering::Relaxed) && started.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        match self.how {
            Spends::OnTheRuntimes => stuck(),
            Spends::OnItsThread => tokio::task::spawn_blocking(stuck).await?,
            Spends::Asleep | Spends::Yielding => std::future::pending().await,
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b30_a_handler_that_ignores_its_timeout_fails_then_and_holds_up_nobody() {
    let (server, client) = server_and_client().await;
    let released = Arc::new(AtomicBool::new(false));
    let grace = Duration::from_millis(300);
    let mut stage = Stage::with(&client, |worker| worker.data(Release(released.clone())).concurrency(1).grace(grace));
    for (n, how) in (0..).zip([Spends::OnItsThread, Spends::Asleep, Spends::OnItsThread]) {
        let stuck = client.enqueue().send(Stuck { n, how }).await.unwrap();
        let started = stage.next().await;
        assert_eq!(started.n, n);
        client.enqueue().send(field(100, Act::Pass)).await.unwrap();
        let next = stage.next().await;
        let held = next.at - started.at;
        // The place is free when the attempt has failed, though the thread is not: that is until it is released.
        assert!(next.n == 100 && held >= Duration::from_millis(300), "{held:?}");
        assert!(held < Duration::from_secs(5), "{held:?}");
        let letter = letter(&client, FIELD, stuck.id()).await;
        assert_eq!((letter.reason, letter.attempts), (Some(DeadReason::RetriesExhausted), 1));
        assert_eq!(letter.error, "the run timed out after 300ms");
    }
    settled(&client, FIELD, 3).await;
    // One more runs when the worker is asked to end: its thread keeps nobody waiting beyond the grace.
    client.enqueue().send(Stuck { n: 9, how: Spends::OnItsThread }).await.unwrap();
    assert_eq!(stage.next().await.n, 9);
    let asked = Instant::now();
    assert!(stage.stop().await.is_empty());
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    released.store(true, Ordering::Relaxed);
    conserved(&server, FIELD).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b30_a_handler_that_blocks_its_thread_keeps_no_worker_from_ending() {
    let (server, client) = server_and_client().await;
    let released = Arc::new(AtomicBool::new(false));
    let grace = Duration::from_millis(300);
    let mut stage = Stage::with(&client, |worker| worker.data(Release(released.clone())).grace(grace));
    let stuck = client.enqueue().send(Stuck { n: 1, how: Spends::OnTheRuntimes }).await.unwrap();
    assert_eq!(stage.next().await.n, 1);
    let asked = Instant::now();
    assert!(stage.stop().await.is_empty());
    // The grace, and a second in which it could have been stopped: the thread is free only when it is released.
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    released.store(true, Ordering::Relaxed);
    let status = stuck.status().await.unwrap();
    assert!(matches!(status, JobStatus::Waiting { attempts: 0, .. }), "it is not in limbo: {status:?}");
    let stats = client.stats(FIELD).await.unwrap();
    assert_eq!((stats.sessions, stats.running), (0, 0));
    conserved(&server, FIELD).await;
}

/// Keeps the gauge of runs that are stuck.
#[derive(Default)]
struct StuckRuns(Arc<AtomicU64>);

impl StuckRuns {
    fn told(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl Recorder for StuckRuns {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let labels: Vec<_> = key.labels().map(|label| (label.key(), label.value())).collect();
        assert_eq!((key.name(), labels.as_slice()), ("delayq_stuck_runs", &[("queue", FIELD)][..]));
        Gauge::from_arc(self.0.clone())
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b30_a_run_that_blocks_its_thread_keeps_its_place_and_is_counted_as_stuck_until_it_ends() {
    let stuck_runs = StuckRuns::default();
    // A worker asks for its gauge where it is polled first: on this thread.
    let _recording = metrics::set_default_local_recorder(&stuck_runs);
    let (server, client) = server_and_client().await;
    let released = Arc::new(AtomicBool::new(false));
    let (tell, mut heard) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::new(client.clone()).queues([FIELD]).lease(LEASE).concurrency(1);
    let working = worker.data::<Tell>(tell).data(Release(released.clone())).run_until(async {
        let _ = stopped.await;
    });
    let looking = async {
        let stuck = client.enqueue().send(Stuck { n: 1, how: Spends::OnTheRuntimes }).await.unwrap();
        assert_eq!(soon("its start", heard.recv()).await.unwrap().n, 1);
        client.enqueue().send(field(100, Act::Pass)).await.unwrap();
        assert_eq!(stuck_runs.told(), 0.0, "it has not lost all patience");
        eventually("it is stuck", || async { (stuck_runs.told() == 1.0).then_some(()) }).await;
        let letter = letter(&client, FIELD, stuck.id()).await;
        assert!(letter.error.contains("blocks its thread"), "{letter:?}");
        // Its end is on record, and there are threads enough. Its place is taken all the same.
        tokio::time::sleep(LEASE).await;
        let stats = client.stats(FIELD).await.unwrap();
        assert_eq!((stats.running, stats.due, stuck_runs.told()), (0, 1, 1.0));
        assert!(heard.try_recv().is_err());
        released.store(true, Ordering::Relaxed);
        assert_eq!(soon("the next start", heard.recv()).await.unwrap().n, 100);
        assert_eq!(stuck_runs.told(), 0.0);
        settled(&client, FIELD, 1).await;
        drop(stop);
    };
    let (worked, ()) = tokio::join!(working, looking);
    worked.unwrap();
    assert_eq!(stuck_runs.told(), 0.0);
    conserved(&server, FIELD).await;
}

/// A worker on a runtime of its own, on a thread of its own.
fn apart(
    url: String,
    queue: &'static str,
    mut runtime: tokio::runtime::Builder,
    tell: Tell,
    stop: oneshot::Receiver<()>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        runtime.enable_all().build().unwrap().block_on(async {
            let client = Client::connect(&url).await.unwrap();
            let worker = Worker::new(client).queues([queue]).lease(LONG_LEASE).data::<Tell>(tell);
            let stopped = async {
                let _ = stop.await;
            };
            worker.run_until(stopped).await.unwrap();
        });
    })
}

/// A handler blocks the only thread of this runtime for three leases, and keeps its job.
async fn blocked(queue: &'static str, runtime: tokio::runtime::Builder) {
    let (server, client) = server_and_client().await;
    let (tell, mut heard) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel();
    let thread = apart(server.url(), queue, runtime, tell, stopped);
    let job = Long { n: 1, ms: 3 * LONG_LEASE.as_millis() as u64, spends: Spends::OnTheRuntimes };
    client.enqueue().queue(queue).send(job).await.unwrap();
    assert_eq!(soon("its start", heard.recv()).await.unwrap().attempt, 1);
    let stage = Stage::with(&client, |worker| worker.queues([queue]).lease(LONG_LEASE));
    sessions(&client, queue, 2).await;
    // All the while its lease is renewed, by a thread that no handler can block.
    let world = world(&server, queue).await;
    let mut looked = 0;
    eventually("its end", || {
        looked += 1;
        async {
            let stats = client.stats(queue).await.unwrap();
            assert_eq!((stats.crashed_total, stats.retried_total), (0, 0));
            (stats.done_total == 1).then_some(())
        }
    })
    .await;
    assert!(looked > 10);
    assert!(stage.stop().await.is_empty(), "it was given to another");
    drop(stop);
    tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
    assert!(heard.try_recv().is_err());
    world.assert_conserved().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b31_a_handler_that_blocks_its_whole_runtime_keeps_its_lease() {
    let mut one_of_many = tokio::runtime::Builder::new_multi_thread();
    one_of_many.worker_threads(1);
    tokio::join!(blocked("alone", tokio::runtime::Builder::new_current_thread()), blocked("pool", one_of_many));
}

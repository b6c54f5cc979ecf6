//! A panic, a wedged thread, a bad stack: each fails its job alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use delayq::{CancelOutcome, DeadReason, Job, JobContext, JobResult, JobStatus, Worker, delayed_job};
use delayq_tests::{PATIENCE, Running, eventually, server_and_client};
use tower::util::MapFutureLayer;

use super::{Act, Probe, gate, log, probe, quiet_panics, tell};

#[tokio::test(flavor = "multi_thread")]
async fn b84_a_panic_fails_its_job_and_nothing_else() {
    quiet_panics();
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log).concurrency(1));
    let mut panicking = Vec::new();
    for act in [Act::Panic, Act::PanicWithNumber, Act::PanicInDrop] {
        panicking.push(client.enqueue::<Probe>().send(probe("panics", act)).await.unwrap());
    }
    client.enqueue::<Probe>().send(probe("well", Act::Succeed)).await.unwrap();
    let runs = runs.take(3 * 3 + 1).await;
    assert!(runs.iter().any(|run| run.name == "well"));
    eventually("all ends", || async {
        let stats = client.stats("default").await.unwrap();
        (stats.dead == 3 && stats.done_total == 1).then_some(())
    })
    .await;
    let texts = [
        "the run panicked: told to panic",
        "the run panicked: a value that is not a text",
        "the run panicked: in drop",
    ];
    for (job, text) in panicking.iter().zip(texts) {
        let letter = client.dead_letters("default").get(job.id()).await.unwrap().unwrap();
        assert_eq!(
            (letter.reason, letter.error.as_str(), letter.attempts),
            (Some(DeadReason::RetriesExhausted), text, 3)
        );
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn b31_a_handler_that_blocks_the_runtime_keeps_its_lease() {
    const LEASE: Duration = Duration::from_secs(2);
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    // The blocked worker lives on a runtime of its own thread, the other one here.
    let url = _server.url();
    let blocked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = delayq::Client::connect(&url).await.unwrap();
            let stop = {
                let client = client.clone();
                async move {
                    eventually("the blocking job's end", || async {
                        (client.stats("default").await.unwrap().done_total == 1).then_some(())
                    })
                    .await;
                }
            };
            Worker::new(client).data(log).lease(LEASE).run_until(stop).await.unwrap();
        });
    });
    client.enqueue::<Probe>().send(probe("blocks", Act::Block { ms: 4_000 })).await.unwrap();
    runs.next().await;
    let (other_log, mut other_runs) = super::log();
    let other = Running::start(Worker::new(client.clone()).data(other_log).lease(LEASE));
    eventually("its end", || async { (client.stats("default").await.unwrap().done_total == 1).then_some(()) }).await;
    other.stop().await.unwrap();
    assert!(other_runs.rest().is_empty(), "the job was given away");
    tokio::task::spawn_blocking(move || blocked.join().unwrap()).await.unwrap();
    assert_eq!(client.stats("default").await.unwrap().crashed_total, 0);
}

/// Blocks its thread until its test lets it go.
#[delayed_job(name = "wedged", version = 1, queue = "wedged", backoff = fixed("1h"), timeout = "1s")]
struct Wedged;

/// Set when the wedged may go on: their threads must end before the test does.
struct Release(Arc<AtomicBool>);

impl Job for Wedged {
    async fn run(self, cx: JobContext) -> JobResult {
        tell("wedged", &cx)?;
        let released = &cx.data::<Release>()?.0;
        // As good as for ever, but for a test that failed meanwhile.
        let started = Instant::now();
        while !released.load(Ordering::Relaxed) && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f_a_run_that_blocks_its_thread_for_ever_is_given_up() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let released = Arc::new(AtomicBool::new(false));
    let worker = Worker::new(client.clone()).data(log).data(Release(released.clone())).queues(["wedged"]);
    let worker = Running::start(worker.lease(Duration::from_secs(1)).concurrency(10));
    // Timeout 1 s, grace after it 5 s: given up at 6 s.
    let job = client.enqueue().send(Wedged).await.unwrap();
    assert_eq!(runs.next().await.attempt, 1);
    let status = eventually("the retry in the store", || async {
        let status = job.status().await.unwrap();
        matches!(status, JobStatus::Waiting { .. }).then_some(status)
    })
    .await;
    let JobStatus::Waiting { attempts, last_error, .. } = status else { unreachable!("matched above") };
    assert_eq!(attempts, 1, "the attempt counts");
    let error = last_error.unwrap();
    assert!(error.contains("blocks its thread"), "only after the thread was free: {error}");
    assert_eq!(job.cancel().await.unwrap(), CancelOutcome::Cancelled);
    released.store(true, Ordering::Relaxed);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn f_a_run_that_is_given_up_before_it_began_does_not_begin_beside_its_retry() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    // A layer of the user's holds the first run up, past its timeout and the grace after it.
    let (gate, is_first) = (gate(), Arc::new(AtomicBool::new(true)));
    let held = gate.clone();
    let layer = MapFutureLayer::new(move |run| {
        let (gate, waits) = (held.clone(), is_first.swap(false, Ordering::SeqCst));
        async move {
            if waits {
                gate.acquire().await.unwrap().forget();
            }
            run.await
        }
    });
    let worker = Running::start(Worker::new(client.clone()).data(log).lease(Duration::from_secs(1)).layer(layer));
    client.enqueue::<Probe>().send(probe("held up", Act::Succeed)).await.unwrap();
    eventually("it is given up", || async {
        (client.stats("default").await.unwrap().retried_total == 1).then_some(())
    })
    .await;
    gate.add_permits(1);
    assert_eq!(runs.next().await.attempt, 2);
    eventually("its end", || async { (client.stats("default").await.unwrap().done_total == 1).then_some(()) }).await;
    worker.stop().await.unwrap();
    assert!(runs.rest().is_empty(), "the first run went on");
}

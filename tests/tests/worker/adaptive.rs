//! A worker that finds out how many jobs to run at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use delayq::{Client, ErrorKind, Job, JobContext, JobResult, Worker, delayed_job};
use delayq_tests::{Running, eventually, server_and_client};
use tokio::sync::Semaphore;

/// Calls a service that serves some calls at once, and lets the others wait.
#[delayed_job(name = "call_bank", version = 1, queue = "bank", max_retries = 0)]
struct CallBank;

struct Bank {
    counters: Semaphore,
    inside: AtomicUsize,
    peak: AtomicUsize,
    served: AtomicUsize,
}

impl Bank {
    fn new(counters: usize) -> Arc<Bank> {
        let zero = || AtomicUsize::new(0);
        Arc::new(Bank { counters: Semaphore::new(counters), inside: zero(), peak: zero(), served: zero() })
    }
}

impl Job for CallBank {
    async fn run(self, cx: JobContext) -> JobResult {
        let bank = cx.data::<Arc<Bank>>()?;
        bank.peak.fetch_max(bank.inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let counter = bank.counters.acquire().await?;
        // What the service takes.
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(counter);
        bank.inside.fetch_sub(1, Ordering::SeqCst);
        bank.served.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

async fn queue_up(client: &Client, jobs: usize) {
    for sent in client.enqueue().send_all((0..jobs).map(|_| CallBank)).await {
        sent.unwrap();
    }
}

async fn reported(client: &Client) -> Option<u64> {
    client.workers("bank").await.unwrap().first()?.concurrency
}

#[tokio::test(flavor = "multi_thread")]
async fn it_runs_about_as_many_jobs_as_the_service_behind_them_serves() {
    let (_server, client) = server_and_client().await;
    queue_up(&client, 5000).await;
    let bank = Bank::new(40);
    let worker = Worker::new(client.clone()).data(bank.clone()).queues(["bank"]).adaptive_concurrency(10..=400);
    let worker = Running::start(worker.grace(Duration::ZERO));
    // It doubles from 10 to 80, which is too many, and stays near 50.
    eventually("it has risen", || async { reported(&client).await.filter(|limit| *limit >= 30) }).await;
    let served = bank.served.load(Ordering::SeqCst);
    eventually("it has had time to rise on", || async {
        (bank.served.load(Ordering::SeqCst) >= served + 800).then_some(())
    })
    .await;
    let peak = bank.peak.load(Ordering::SeqCst);
    assert!((30..=160).contains(&peak), "{peak} at once for a service of 40");
    // A window in which the machine was slow lowers it for a while.
    let fits = |limit: &u64| (20..=160).contains(limit);
    eventually("as many are allowed as fit a service of 40", || async { reported(&client).await.filter(fits) }).await;
    worker.stop().await.unwrap();
    let stats = client.stats("bank").await.unwrap();
    assert_eq!((stats.running, stats.dead, stats.crashed_total), (0, 0, 0), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stays_within_its_bounds() {
    let (_server, client) = server_and_client().await;
    queue_up(&client, 5000).await;
    let bank = Bank::new(1000);
    let worker = Worker::new(client.clone()).data(bank.clone()).queues(["bank"]).adaptive_concurrency(10..=30);
    let worker = Running::start(worker.grace(Duration::ZERO));
    eventually("it is at the upper bound", || async { reported(&client).await.filter(|limit| *limit == 30) }).await;
    eventually("30 at once", || async { (bank.peak.load(Ordering::SeqCst) >= 30).then_some(()) }).await;
    let served = bank.served.load(Ordering::SeqCst);
    eventually("it has had time to rise on", || async {
        (bank.served.load(Ordering::SeqCst) >= served + 300).then_some(())
    })
    .await;
    assert_eq!(bank.peak.load(Ordering::SeqCst), 30);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn bounds_that_are_none_are_refused() {
    let (_server, client) = server_and_client().await;
    #[allow(clippy::reversed_empty_ranges)] // What is refused.
    for bounds in [0..=5, 1..=10_001, 9..=3] {
        let text = format!("{bounds:?}");
        let worker = Worker::new(client.clone()).queues(["bank"]).adaptive_concurrency(bounds);
        let error = worker.run_until(std::future::pending()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{text}");
        assert!(error.to_string().contains("concurrency"), "{text}: {error}");
    }
}

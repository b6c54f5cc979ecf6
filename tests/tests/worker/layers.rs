//! tower's layers around runs, and back-pressure all the way to the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use delayq::layer::{JobService, SharedLayer, TimeoutLayer};
use delayq::{BoxError, DeadReason, JobRequest, Outcome, Worker};
use delayq_tests::{Lag, Running, eventually, server_and_client};
use tower::buffer::BufferLayer;
use tower::limit::{ConcurrencyLimitLayer, RateLimitLayer};
use tower::load_shed::LoadShedLayer;
use tower::timeout::TimeoutLayer as TowerTimeoutLayer;
use tower::{Layer, Service, ServiceBuilder};

use super::{Act, Probe, gate, held, log, probe, quiet_panics};

/// Panics if it is called without having said that it is ready, and counts what it sees.
#[derive(Clone, Default)]
struct Strict(Arc<Seen>);

#[derive(Default)]
struct Seen {
    calls: AtomicUsize,
    /// Reservations that are held at this moment, and the most that ever were while the worker was idle.
    reserved: AtomicUsize,
    closed: AtomicBool,
    wakers: std::sync::Mutex<Vec<std::task::Waker>>,
}

struct StrictService {
    inner: JobService,
    seen: Arc<Seen>,
    ready: bool,
}

impl Clone for StrictService {
    fn clone(&self) -> StrictService {
        StrictService { inner: self.inner.clone(), seen: self.seen.clone(), ready: false }
    }
}

impl Drop for StrictService {
    fn drop(&mut self) {
        if self.ready {
            self.seen.reserved.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Layer<JobService> for Strict {
    type Service = StrictService;

    fn layer(&self, inner: JobService) -> StrictService {
        StrictService { inner, seen: self.0.clone(), ready: false }
    }
}

impl Service<JobRequest> for StrictService {
    type Response = Outcome;
    type Error = BoxError;
    type Future = <JobService as Service<JobRequest>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.seen.closed.load(Ordering::SeqCst) {
            self.seen.wakers.lock().unwrap().push(cx.waker().clone());
            return Poll::Pending;
        }
        let polled = self.inner.poll_ready(cx);
        if polled.is_ready() && !self.ready {
            self.ready = true;
            self.seen.reserved.fetch_add(1, Ordering::SeqCst);
        }
        polled
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called before it was ready");
        self.seen.reserved.fetch_sub(1, Ordering::SeqCst);
        self.seen.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.call(request)
    }
}

impl Seen {
    fn open(&self) {
        self.closed.store(false, Ordering::SeqCst);
        self.wakers.lock().unwrap().drain(..).for_each(std::task::Waker::wake);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_called_only_when_it_is_ready_and_idle_workers_hold_no_reservation() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let strict = Strict::default();
    let worker = Running::start(Worker::new(client.clone()).data(log).layer(strict.clone()));
    let jobs: Vec<Probe> = (0..500).map(|n| probe(&n.to_string(), Act::Succeed)).collect();
    for sent in client.enqueue::<Probe>().send_all(jobs).await {
        sent.unwrap();
    }
    runs.take(500).await;
    assert_eq!(strict.0.calls.load(Ordering::SeqCst), 500);
    eventually("all done", || async { (client.stats("default").await.unwrap().done_total == 500).then_some(()) }).await;
    // From then on a look finds none, save for the blink of a probe.
    let mut in_a_row = 0;
    eventually("no reservation at 100 looks in a row", || {
        let is_reserved = strict.0.reserved.load(Ordering::SeqCst) > 0;
        in_a_row = if is_reserved { 0 } else { in_a_row + 1 };
        std::future::ready((in_a_row == 100).then_some(()))
    })
    .await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_not_ready_claims_nothing() {
    let (server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let strict = Strict::default();
    strict.0.closed.store(true, Ordering::SeqCst);
    let worker = Running::start(Worker::new(client.clone()).data(log).layer(strict.clone()));
    eventually("a session", || async { (client.stats("default").await.unwrap().sessions == 1).then_some(()) }).await;
    client.enqueue::<Probe>().send(probe("a", Act::Succeed)).await.unwrap();
    let calls = || {
        let stats = server.command(&["INFO", "commandstats"]).unwrap();
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
        calls.map_or(0, |calls| calls.parse::<u64>().unwrap())
    };
    let (before, since) = (calls(), Instant::now());
    // That nothing is claimed, beats and waits passing, is what is tested.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // Nor does it spin on its own marker.
    let per_second = (calls() - before) as f64 / since.elapsed().as_secs_f64();
    assert!(per_second < 40.0, "{per_second} calls a second");
    let stats = client.stats("default").await.unwrap();
    assert_eq!((stats.due, stats.running), (1, 0));
    // Another worker that is ready takes it.
    let (other_log, mut other) = super::log();
    let second = Running::start(Worker::new(client.clone()).data(other_log));
    other.next().await;
    second.stop().await.unwrap();
    client.enqueue::<Probe>().send(probe("b", Act::Succeed)).await.unwrap();
    strict.0.open();
    assert_eq!(runs.next().await.name, "b");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn towers_concurrency_limit_holds_over_all_runs_of_a_worker() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log).layer(ConcurrencyLimitLayer::new(2)));
    let jobs: Vec<Probe> = (0..8).map(|n| probe(&n.to_string(), Act::Sleep { ms: 100 })).collect();
    for sent in client.enqueue::<Probe>().send_all(jobs).await {
        sent.unwrap();
    }
    let mut starts: Vec<Instant> = runs.take(8).await.into_iter().map(|run| run.at).collect();
    // What begins at once is told in any order.
    starts.sort_unstable();
    for (earlier, later) in starts.iter().zip(&starts[2..]) {
        assert!(later.duration_since(*earlier) >= Duration::from_millis(95), "three ran at once");
    }
    // What waits, waits in the store.
    worker.stop().await.unwrap();
    assert_eq!(client.stats("default").await.unwrap().done_total, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn towers_rate_limit_works_behind_shared_layer() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let limit = SharedLayer::new(RateLimitLayer::new(5, Duration::from_millis(500)));
    let worker = Running::start(Worker::new(client.clone()).data(log).layer(limit));
    let jobs: Vec<Probe> = (0..12).map(|n| probe(&n.to_string(), Act::Succeed)).collect();
    for sent in client.enqueue::<Probe>().send_all(jobs).await {
        sent.unwrap();
    }
    let starts: Vec<Instant> = runs.take(12).await.into_iter().map(|run| run.at).collect();
    // A window opens with its first call: ten calls take at least one whole window after that.
    assert!(starts[11].duration_since(starts[0]) >= Duration::from_millis(900), "{:?}", starts[11] - starts[0]);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn towers_timeout_is_an_error_of_the_run() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let timeout = TowerTimeoutLayer::new(Duration::from_millis(100));
    let worker = Running::start(Worker::new(client.clone()).data(log).data(gate()).layer(timeout));
    let job = client.enqueue().send(held("endless")).await.unwrap();
    assert_eq!(runs.take(3).await.last().unwrap().attempt, 3);
    let letter =
        eventually("the dead letter", || async { client.dead_letters("default").get(job.id()).await.unwrap() }).await;
    assert_eq!((letter.reason, letter.error.as_str()), (Some(DeadReason::RetriesExhausted), "request timed out"));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_load_shed_turns_away_spends_no_attempt() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Worker::new(client.clone())
        .data(log)
        .layer(ServiceBuilder::new().layer(LoadShedLayer::new()).layer(ConcurrencyLimitLayer::new(1)).into_inner());
    let worker = Running::start(worker);
    let jobs: Vec<Probe> = (0..3).map(|n| probe(&n.to_string(), Act::Sleep { ms: 200 })).collect();
    for sent in client.enqueue::<Probe>().send_all(jobs).await {
        sent.unwrap();
    }
    let runs = runs.take(3).await;
    assert!(runs.iter().all(|run| run.attempt == 1), "{runs:?}");
    eventually("all done", || async { (client.stats("default").await.unwrap().done_total == 3).then_some(()) }).await;
    worker.stop().await.unwrap();
    assert_eq!(client.stats("default").await.unwrap().retried_total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn towers_buffer_composes() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let buffered = ServiceBuilder::new().layer(BufferLayer::new(16)).layer(ConcurrencyLimitLayer::new(2)).into_inner();
    let worker = Running::start(Worker::new(client.clone()).data(log).layer(buffered));
    let jobs: Vec<Probe> = (0..40).map(|n| probe(&n.to_string(), Act::Succeed)).collect();
    for sent in client.enqueue::<Probe>().send_all(jobs).await {
        sent.unwrap();
    }
    assert_eq!(runs.take(40).await.len(), 40);
    worker.stop().await.unwrap();
    assert_eq!(client.stats("default").await.unwrap().done_total, 40);
}

/// Repeats a failed run once, in process.
#[derive(Clone)]
struct Once(bool);

impl tower::retry::Policy<JobRequest, Outcome, BoxError> for Once {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut JobRequest, result: &mut Result<Outcome, BoxError>) -> Option<Self::Future> {
        (result.is_err() && std::mem::take(&mut self.0)).then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, request: &JobRequest) -> Option<JobRequest> {
        Some(request.clone())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn towers_retry_composes_even_over_a_limit_of_one() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Worker::new(client.clone())
        .data(log)
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(tower::retry::RetryLayer::new(Once(true)));
    let worker = Running::start(worker);
    let job = client.enqueue::<Probe>().send(probe("a", Act::Fail)).await.unwrap();
    let attempts: Vec<u32> = runs.take(6).await.into_iter().map(|run| run.attempt).collect();
    assert_eq!(attempts, [1, 1, 2, 2, 3, 3]);
    eventually("the dead letter", || async { client.dead_letters("default").get(job.id()).await.unwrap() }).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_layer_added_last_is_the_outermost() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let order: Arc<std::sync::Mutex<Vec<&'static str>>> = Arc::default();
    let noting = |name: &'static str| {
        let order = order.clone();
        tower::util::MapRequestLayer::new(move |request: JobRequest| {
            order.lock().unwrap().push(name);
            request
        })
    };
    let worker = Worker::new(client.clone()).data(log).layer(noting("first")).layer(noting("second"));
    let worker = Running::start(worker);
    client.enqueue::<Probe>().send(probe("a", Act::Succeed)).await.unwrap();
    runs.next().await;
    assert_eq!(*order.lock().unwrap(), ["second", "first"]);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_stack_of_ones_own_is_used_and_its_errors_and_panics_are_retried() {
    quiet_panics();
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Worker::new(client.clone()).data(log).stack(|dispatch| {
        ServiceBuilder::new()
            .map_request(|request: JobRequest| {
                assert!(request.name() == "probe" && request.attempt() != 2, "in a layer");
                request
            })
            .layer(TimeoutLayer::new())
            .service(dispatch)
    });
    let worker = Running::start(worker);
    let lag = Lag::watch();
    let job = client.enqueue::<Probe>().send(probe("a", Act::Fail)).await.unwrap();
    // The second attempt ends in the panic of the layer, so the handler sees the first and the third.
    let seen = runs.take(2).await;
    assert_eq!([seen[0].attempt, seen[1].attempt], [1, 3]);
    // By the type's own backoff, 50 ms each; the default would be 5 s and 10 s.
    let waited = seen[1].at - seen[0].at;
    assert!(waited < Duration::from_secs(4) + lag.so_far(), "{waited:?}");
    let letter =
        eventually("the dead letter", || async { client.dead_letters("default").get(job.id()).await.unwrap() }).await;
    assert_eq!(letter.attempts, 3);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b86_timed_out_runs_give_their_places_and_permits_back() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let limit = ConcurrencyLimitLayer::new(8);
    let timeout = TowerTimeoutLayer::new(Duration::from_millis(5));
    let worker = Worker::new(client.clone()).data(log).layer(timeout).layer(limit).concurrency(8);
    let worker = Running::start(worker);
    let jobs: Vec<Probe> = (0..170).map(|n| probe(&n.to_string(), Act::Sleep { ms: 60_000 })).collect();
    for sent in client.enqueue::<Probe>().send_all(jobs).await {
        sent.unwrap();
    }
    // 510 runs, each timed out.
    runs.take(510).await;
    eventually("all dead", || async { (client.stats("default").await.unwrap().dead == 170).then_some(()) }).await;
    // All eight places are free again: eight short jobs run beside each other.
    let jobs: Vec<Probe> = (0..8).map(|n| probe(&n.to_string(), Act::Sleep { ms: 2 })).collect();
    for sent in client.enqueue::<Probe>().send_all(jobs).await {
        sent.unwrap();
    }
    eventually("eight done", || async { (client.stats("default").await.unwrap().done_total == 8).then_some(()) }).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_that_can_not_become_ready_ends_the_worker() {
    let (_server, client) = server_and_client().await;
    let (log, _runs) = log();
    let failing = tower::layer::layer_fn(|inner: JobService| NeverReady { _inner: inner });
    let worker = Running::start(Worker::new(client.clone()).data(log).layer(failing));
    client.enqueue::<Probe>().send(probe("a", Act::Succeed)).await.unwrap();
    let error = worker.ends_by_itself().await.unwrap_err();
    assert!(error.to_string().contains("failed to become ready"), "{error}");
    // Nothing was claimed for it.
    let stats = client.stats("default").await.unwrap();
    assert_eq!((stats.waiting, stats.running, stats.sessions), (1, 0, 0));
}

#[derive(Clone)]
struct NeverReady {
    _inner: JobService,
}

impl Service<JobRequest> for NeverReady {
    type Response = Outcome;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Outcome, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Err("the backend is gone".into()))
    }

    fn call(&mut self, _: JobRequest) -> Self::Future {
        std::future::ready(Ok(Outcome::Done))
    }
}

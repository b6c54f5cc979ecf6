//! The service stack, from dispatch alone outwards, a layer more each; without a subscriber and a recorder.
//! `cargo bench -p delayq-bench --bench stack`
//!
//! All but the finding of the registered type: a request is taken from a worker when that has been done.
#![allow(missing_docs)] // The macros' own items.

use std::sync::mpsc;
use std::task::{Context, Poll};

use delayq::layer::{
    CatchPanicLayer, Dispatch, JobService, MetricsLayer, PersistentRetryLayer, TimeoutLayer, TraceLayer,
};
use delayq::{Client, Job, JobContext, JobRequest, JobResult, Outcome, Worker, delayed_job};
use divan::Bencher;
use futures_util::FutureExt;
use tokio::runtime::Runtime;
use tower::{Service, ServiceBuilder};

/// 120 bytes of JSON.
#[delayed_job(name = "bench_order", version = 1, queue = "bench")]
struct BenchOrder {
    order_id: u64,
    customer: String,
    note: String,
}

impl Job for BenchOrder {
    async fn run(self, _: JobContext) -> JobResult {
        Ok(())
    }
}

fn main() {
    // What is measured takes less than the timer's precision allows for a single one.
    divan::Divan::from_args().sample_size(200).sample_count(500).main();
}

/// Gives away what a worker calls its dispatch with.
#[derive(Clone)]
struct Tap {
    dispatch: Dispatch,
    taken: mpsc::Sender<(Dispatch, JobRequest)>,
}

impl Service<JobRequest> for Tap {
    type Response = Outcome;
    type Error = <Dispatch as Service<JobRequest>>::Error;
    type Future = <Dispatch as Service<JobRequest>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.dispatch.poll_ready(cx)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        // Only the first is waited for.
        let _ = self.taken.send((self.dispatch.clone(), request.clone()));
        self.dispatch.call(request)
    }
}

/// A worker's dispatch, and a request that it can run.
fn tapped(runtime: &Runtime) -> (Dispatch, JobRequest) {
    let (taken, tap) = mpsc::channel();
    runtime.block_on(async {
        let client = Client::connect("sqlite::memory:").await.expect("a database");
        let order =
            BenchOrder { order_id: 1_000_000_042, customer: "customer-0000042".to_owned(), note: "x".repeat(57) };
        client.enqueue().send(order).await.expect("it is sent");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let worker = Worker::new(client).stack(move |dispatch| Tap { dispatch, taken });
        let worker = tokio::spawn(worker.run_until(async {
            let _ = stopped.await;
        }));
        let tapped = tokio::task::spawn_blocking(move || tap.recv()).await.expect("no panic").expect("a run");
        drop(stop);
        worker.await.expect("no panic").expect("a worker that ends well");
        tapped
    })
}

/// Runs the request through a service, as often as it is asked to. The handler is ready at once.
fn through<S>(bencher: Bencher<'_, '_>, make: impl FnOnce(Dispatch) -> S)
where
    S: Service<JobRequest, Response = Outcome>,
    S::Error: std::fmt::Debug,
{
    let runtime = Runtime::new().expect("a runtime");
    let (dispatch, request) = tapped(&runtime);
    let mut service = make(dispatch);
    let _inside = runtime.enter();
    bencher.bench_local(|| {
        let outcome = service.call(request.clone()).now_or_never().expect("it is ready at once");
        assert!(matches!(outcome, Ok(Outcome::Done)), "{outcome:?}");
    });
}

/// What each of the others does beside what it measures.
#[divan::bench]
fn a_clone_of_the_request(bencher: Bencher<'_, '_>) {
    let (_, request) = tapped(&Runtime::new().expect("a runtime"));
    bencher.bench_local(|| request.clone());
}

#[divan::bench]
fn b_dispatch(bencher: Bencher<'_, '_>) {
    through(bencher, |dispatch| dispatch);
}

#[divan::bench]
fn c_timeout(bencher: Bencher<'_, '_>) {
    through(bencher, |dispatch| ServiceBuilder::new().layer(TimeoutLayer::new()).service(dispatch));
}

#[divan::bench]
fn d_catch_panic(bencher: Bencher<'_, '_>) {
    through(bencher, |dispatch| {
        ServiceBuilder::new().layer(CatchPanicLayer::new()).layer(TimeoutLayer::new()).service(dispatch)
    });
}

#[divan::bench]
fn e_retry(bencher: Bencher<'_, '_>) {
    through(bencher, |dispatch| {
        ServiceBuilder::new()
            .layer(PersistentRetryLayer::new())
            .layer(CatchPanicLayer::new())
            .layer(TimeoutLayer::new())
            .service(dispatch)
    });
}

#[divan::bench]
fn f_metrics(bencher: Bencher<'_, '_>) {
    through(bencher, |dispatch| {
        ServiceBuilder::new()
            .layer(MetricsLayer::new())
            .layer(PersistentRetryLayer::new())
            .layer(CatchPanicLayer::new())
            .layer(TimeoutLayer::new())
            .service(dispatch)
    });
}

#[divan::bench]
fn g_trace(bencher: Bencher<'_, '_>) {
    through(bencher, whole);
}

/// The same in a box that is cloned for each run, as a worker does.
#[divan::bench]
fn h_boxed_and_cloned(bencher: Bencher<'_, '_>) {
    let runtime = Runtime::new().expect("a runtime");
    let (dispatch, request) = tapped(&runtime);
    let service = JobService::new(whole(dispatch));
    let _inside = runtime.enter();
    bencher.bench_local(|| {
        let outcome = service.clone().call(request.clone()).now_or_never().expect("it is ready at once");
        assert!(matches!(outcome, Ok(Outcome::Done)), "{outcome:?}");
    });
}

fn whole(
    dispatch: Dispatch,
) -> impl Service<JobRequest, Response = Outcome, Error = delayq::BoxError, Future: Send> + Clone + Send + 'static {
    ServiceBuilder::new()
        .layer(TraceLayer::new())
        .layer(MetricsLayer::new())
        .layer(PersistentRetryLayer::new())
        .layer(CatchPanicLayer::new())
        .layer(TimeoutLayer::new())
        .service(dispatch)
}

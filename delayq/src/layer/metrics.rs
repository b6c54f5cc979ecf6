//! Counts runs, and measures how long and how late they are.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use metrics::SharedString;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::error::BoxError;
use crate::job::{JobRequest, Outcome};

/// Counts runs, and measures how long and how late they are, through the `metrics` facade:
///
/// | metric | kind | labels |
/// |---|---|---|
/// | `delayq_jobs_total` | counter | queue, job, outcome |
/// | `delayq_job_duration_seconds` | histogram | queue, job |
/// | `delayq_lateness_seconds` | histogram | queue, job |
///
/// No id becomes a label, and all unknown names are `unknown`.
#[derive(Debug, Clone, Copy, Default)]
pub struct MetricsLayer;

impl MetricsLayer {
    /// The layer.
    pub fn new() -> MetricsLayer {
        MetricsLayer
    }
}

impl<S> Layer<S> for MetricsLayer {
    type Service = Metrics<S>;

    fn layer(&self, inner: S) -> Metrics<S> {
        Metrics { inner }
    }
}

/// The service of [`MetricsLayer`].
#[derive(Debug, Clone)]
pub struct Metrics<S> {
    inner: S,
}

impl<S> Service<JobRequest> for Metrics<S>
where
    S: Service<JobRequest, Response = Outcome>,
    S::Error: Into<BoxError>,
{
    type Response = Outcome;
    type Error = BoxError;
    type Future = MetricsFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        let queue = SharedString::from(request.meta().queue.clone());
        // The worker keeps known names as they are linked; what was copied is what somebody sent.
        let job = match &request.meta().name {
            Cow::Borrowed(known) => known,
            Cow::Owned(_) => "unknown",
        };
        metrics::histogram!("delayq_lateness_seconds", "queue" => queue.clone(), "job" => job)
            .record(request.lateness());
        MetricsFuture { run: self.inner.call(request), started: Instant::now(), queue, job }
    }
}

pin_project! {
    /// The future of [`Metrics`].
    #[derive(Debug)]
    pub struct MetricsFuture<F> {
        #[pin]
        run: F,
        started: Instant,
        queue: SharedString,
        job: &'static str,
    }
}

impl<F, E> Future for MetricsFuture<F>
where
    F: Future<Output = Result<Outcome, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Outcome, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let ended = ready!(this.run.poll(cx)).map_err(Into::into);
        let outcome = ended.as_ref().map_or("error", Outcome::name);
        let (queue, job) = (this.queue.clone(), *this.job);
        metrics::histogram!("delayq_job_duration_seconds", "queue" => queue.clone(), "job" => job)
            .record(this.started.elapsed());
        metrics::counter!("delayq_jobs_total", "queue" => queue, "job" => job, "outcome" => outcome).increment(1);
        Poll::Ready(ended)
    }
}

//! Counts runs, and measures how long and how late they are.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use foldhash::fast::RandomState;
use metrics::{Counter, Histogram, SharedString};
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
/// No id becomes a label, and all unknown names are `unknown`. Install the recorder before the worker runs.
///
/// The worker itself, whatever its stack, has the gauge `delayq_stuck_runs` by queue: runs that block their threads 5 s past their timeout
/// and still take a place.
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
        Metrics { inner, handles: Arc::default() }
    }
}

/// The service of [`MetricsLayer`].
#[derive(Clone)]
pub struct Metrics<S> {
    inner: S,
    handles: Arc<Handles>,
}

impl<S: fmt::Debug> fmt::Debug for Metrics<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// By queue and job.
type ByJob = HashMap<(Arc<str>, &'static str), Histograms, RandomState>;

/// The histograms that were asked for before: asking the recorder costs more than recording.
#[derive(Default)]
struct Handles(RwLock<ByJob>);

#[derive(Clone)]
struct Histograms {
    lateness: Histogram,
    duration: Histogram,
    done: Counter,
}

impl Handles {
    fn of(&self, queue: &Arc<str>, job: &'static str) -> Histograms {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // A key that only borrows would have to be of another type; cloning an Arc is cheap.
        if let Some(handles) = known.get(&(queue.clone(), job)) {
            return handles.clone();
        }
        drop(known);
        let label = SharedString::from(queue.clone());
        let handles = Histograms {
            lateness: metrics::histogram!("delayq_lateness_seconds", "queue" => label.clone(), "job" => job),
            duration: metrics::histogram!("delayq_job_duration_seconds", "queue" => label.clone(), "job" => job),
            done: metrics::counter!("delayq_jobs_total", "queue" => label, "job" => job, "outcome" => "done"),
        };
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert((queue.clone(), job), handles.clone());
        handles
    }
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
        // The worker keeps known names as they are linked; what was copied is what somebody sent.
        let job = match &request.meta().name {
            Cow::Borrowed(known) => known,
            Cow::Owned(_) => "unknown",
        };
        let queue = request.meta().queue.clone();
        let handles = self.handles.of(&queue, job);
        handles.lateness.record(request.lateness());
        MetricsFuture { run: self.inner.call(request), started: Instant::now(), handles, queue, job }
    }
}

pin_project! {
    /// The future of [`Metrics`].
    pub struct MetricsFuture<F> {
        #[pin]
        run: F,
        started: Instant,
        handles: Histograms,
        queue: Arc<str>,
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
        this.handles.duration.record(this.started.elapsed());
        match ended.as_ref().map_or("error", Outcome::name) {
            "done" => this.handles.done.increment(1),
            outcome => {
                let queue = SharedString::from(this.queue.clone());
                metrics::counter!("delayq_jobs_total", "queue" => queue, "job" => *this.job, "outcome" => outcome)
                    .increment(1);
            }
        }
        Poll::Ready(ended)
    }
}

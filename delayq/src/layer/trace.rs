//! A span a run, and an event for how it ended.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use pin_project_lite::pin_project;
use tower::{Layer, Service};
use tracing::Span;

use crate::error::BoxError;
use crate::job::{JobRequest, Outcome};
use crate::trace;

/// Runs each job in a span `job` with its id, name, queue, attempt and lateness, and says how it ended:
///
/// | event | level |
/// |---|---|
/// | started, finished, snoozed | debug |
/// | discarded | info |
/// | retried | warn |
/// | dead | error |
///
/// With the feature `opentelemetry` the first run is a child of the span that sent the job; later ones are linked to it.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceLayer;

impl TraceLayer {
    /// The layer.
    pub fn new() -> TraceLayer {
        TraceLayer
    }
}

impl<S> Layer<S> for TraceLayer {
    type Service = Trace<S>;

    fn layer(&self, inner: S) -> Trace<S> {
        Trace { inner }
    }
}

/// The service of [`TraceLayer`].
#[derive(Debug, Clone)]
pub struct Trace<S> {
    inner: S,
}

impl<S> Service<JobRequest> for Trace<S>
where
    S: Service<JobRequest, Response = Outcome>,
    S::Error: Into<BoxError>,
{
    type Response = Outcome;
    type Error = BoxError;
    type Future = TraceFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        let span = tracing::info_span!(
            "job",
            otel.kind = "consumer",
            job.id = %request.id(),
            job.name = request.name(),
            job.version = request.version(),
            job.queue = request.queue(),
            job.attempt = request.attempt(),
            job.lateness_ms = request.lateness().as_secs_f64() * 1000.0,
            job.outcome = tracing::field::Empty,
        );
        if let Some(parent) = request.trace_parent() {
            trace::follow(&span, parent, request.attempt() == 1);
        }
        let run = span.in_scope(|| {
            tracing::debug!("started");
            self.inner.call(request)
        });
        TraceFuture { run, span, started: Instant::now() }
    }
}

pin_project! {
    /// The future of [`Trace`].
    #[derive(Debug)]
    pub struct TraceFuture<F> {
        #[pin]
        run: F,
        span: Span,
        started: Instant,
    }
}

impl<F, E> Future for TraceFuture<F>
where
    F: Future<Output = Result<Outcome, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Outcome, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let _entered = this.span.enter();
        let ended = ready!(this.run.poll(cx)).map_err(Into::into);
        if !this.span.is_disabled() {
            this.span.record("job.outcome", ended.as_ref().map_or("error", Outcome::name));
        }
        tell(&ended, *this.started);
        Poll::Ready(ended)
    }
}

/// Texts of others are written as debug values: a line break in them can't make a line of its own.
fn tell(ended: &Result<Outcome, BoxError>, started: Instant) {
    let took_ms = || started.elapsed().as_secs_f64() * 1000.0;
    match ended {
        Ok(Outcome::Done) => tracing::debug!(took_ms = took_ms(), "finished"),
        Ok(Outcome::Snooze { delay }) => tracing::debug!(took_ms = took_ms(), ?delay, "snoozed"),
        Ok(Outcome::Discard { why }) => tracing::info!(took_ms = took_ms(), ?why, "discarded"),
        Ok(Outcome::Retry { delay, error }) => tracing::warn!(took_ms = took_ms(), ?delay, ?error, "retried"),
        Ok(Outcome::Dead { reason, error }) => {
            tracing::error!(took_ms = took_ms(), reason = reason.as_str(), ?error, "dead");
        }
        Err(error) => tracing::error!(took_ms = took_ms(), error = ?error.to_string(), "the stack failed"),
    }
}

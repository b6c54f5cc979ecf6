//! Finds the registered type of a job; what is unknown ends here, its handler uncalled.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::error::BoxError;
use crate::job::{Backoff, DeadReason, JobRequest, Outcome};
use crate::registry::{Lookup, Registry};

/// What becomes of a job whose name or version a worker doesn't know.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Unknown {
    /// It goes to the dead-letter queue with its bytes, from where it can be redriven.
    #[default]
    DeadLetter,
    /// It goes back for workers that know it, no attempt spent: for rolling deploys.
    Release {
        /// The wait before it comes back; its attempt is the number of times it came back.
        backoff: Backoff,
        /// How often it may come back before it goes to the dead-letter queue after all.
        returns_max: u32,
    },
}

impl Unknown {
    /// Releases up to 100 times, after 1 s at first and 30 s at last: the better part of an hour for a deploy.
    pub fn release() -> Unknown {
        let backoff = Backoff::exponential(Duration::from_secs(1)).max(Duration::from_secs(30)).jitter(0.2);
        Unknown::Release { backoff, returns_max: 100 }
    }
}

/// Finds the registered type and its policy.
#[derive(Clone)]
pub struct ResolveLayer {
    registry: Arc<Registry>,
    unknown: Unknown,
}

impl ResolveLayer {
    pub(crate) fn new(registry: Arc<Registry>, unknown: Unknown) -> ResolveLayer {
        ResolveLayer { registry, unknown }
    }
}

impl fmt::Debug for ResolveLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResolveLayer").field("unknown", &self.unknown).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for ResolveLayer {
    type Service = Resolve<S>;

    fn layer(&self, inner: S) -> Resolve<S> {
        Resolve { inner, registry: self.registry.clone(), unknown: self.unknown }
    }
}

/// The service of [`ResolveLayer`].
#[derive(Clone)]
pub struct Resolve<S> {
    inner: S,
    registry: Arc<Registry>,
    unknown: Unknown,
}

impl<S: fmt::Debug> fmt::Debug for Resolve<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolve").field("inner", &self.inner).field("unknown", &self.unknown).finish_non_exhaustive()
    }
}

impl<S> Service<JobRequest> for Resolve<S>
where
    S: Service<JobRequest, Response = Outcome>,
    S::Error: Into<BoxError>,
{
    type Response = Outcome;
    type Error = BoxError;
    type Future = ResolveFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: JobRequest) -> Self::Future {
        if request.resolved().is_some() {
            return ResolveFuture { run: Some(self.inner.call(request)), unknown: None };
        }
        let reason = match self.registry.lookup(request.name(), request.version()) {
            Lookup::Found(registered) => {
                request.set_resolved(registered.clone());
                return ResolveFuture { run: Some(self.inner.call(request)), unknown: None };
            }
            Lookup::UnknownVersion => DeadReason::UnknownVersion,
            Lookup::UnknownJob => DeadReason::UnknownJob,
        };
        ResolveFuture { run: None, unknown: Some(unknown(self.unknown, reason, &request, fastrand::f64())) }
    }
}

/// What becomes of an unknown job.
fn unknown(policy: Unknown, reason: DeadReason, request: &JobRequest, random: f64) -> Outcome {
    if let Unknown::Release { backoff, returns_max } = policy
        && request.free_returns() < returns_max
    {
        return Outcome::Snooze { delay: backoff.delay(request.free_returns().saturating_add(1), random) };
    }
    let what = match reason {
        DeadReason::UnknownVersion => "this version of it",
        _ => "a job of this name",
    };
    let error = format!("{} version {}: the worker does not know {what}", request.name(), request.version());
    Outcome::Dead { reason, error }
}

pin_project! {
    /// The future of [`Resolve`].
    #[derive(Debug)]
    pub struct ResolveFuture<F> {
        #[pin]
        run: Option<F>,
        // Without a run: what becomes of the unknown job.
        unknown: Option<Outcome>,
    }
}

impl<F, E> Future for ResolveFuture<F>
where
    F: Future<Output = Result<Outcome, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Outcome, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.run.as_pin_mut() {
            Some(run) => run.poll(cx).map_err(Into::into),
            None => Poll::Ready(this.unknown.take().ok_or_else(|| "polled after its end".into())),
        }
    }
}

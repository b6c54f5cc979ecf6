//! Ends a run that takes longer than its type allows.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::error::BoxError;
use crate::job::{JobRequest, Outcome};
use crate::limits;

/// Gives each run the time that its type allows, 15 minutes if that doesn't say.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeoutLayer;

impl TimeoutLayer {
    /// The layer.
    pub fn new() -> TimeoutLayer {
        TimeoutLayer
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout { inner }
    }
}

/// The service of [`TimeoutLayer`].
#[derive(Debug, Clone)]
pub struct Timeout<S> {
    inner: S,
}

impl<S> Service<JobRequest> for Timeout<S>
where
    S: Service<JobRequest, Response = Outcome>,
    S::Error: Into<BoxError>,
{
    type Response = Outcome;
    type Error = BoxError;
    type Future = TimeoutFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        let after = request.resolved().map_or(limits::DEFAULT_TIMEOUT, |registered| registered.timeout);
        let started = Instant::now();
        TimeoutFuture { run: self.inner.call(request), started, sleep: None, after }
    }
}

pin_project! {
    /// The future of [`Timeout`].
    #[derive(Debug)]
    pub struct TimeoutFuture<F> {
        #[pin]
        run: F,
        started: Instant,
        // Most runs end when they are polled first: only one that goes on needs a timer.
        #[pin]
        sleep: Option<tokio::time::Sleep>,
        after: Duration,
    }
}

impl<F, E> Future for TimeoutFuture<F>
where
    F: Future<Output = Result<Outcome, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Outcome, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(ended) = this.run.poll(cx) {
            return Poll::Ready(ended.map_err(Into::into));
        }
        if this.sleep.is_none() {
            let sleep = match this.started.checked_add(*this.after) {
                Some(until) => tokio::time::sleep_until(until),
                None => tokio::time::sleep(*this.after),
            };
            this.sleep.set(Some(sleep));
        }
        if let Some(sleep) = this.sleep.as_pin_mut() {
            ready!(sleep.poll(cx));
        }
        Poll::Ready(Err(TimedOut { after: *this.after }.into()))
    }
}

/// A run took longer than its type allows, and was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut {
    after: Duration,
}

impl TimedOut {
    /// How long it was given.
    pub fn after(&self) -> Duration {
        self.after
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the run timed out after {:?}", self.after)
    }
}

impl std::error::Error for TimedOut {}

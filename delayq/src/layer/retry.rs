//! Turns an error and the job's policy into an outcome. It decides; the store does the retry.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower::load_shed::error::Overloaded;
use tower::{Layer, Service};

use super::dispatch::HandlerError;
use crate::error::BoxError;
use crate::job::{Backoff, DeadReason, JobRequest, Outcome, describe};
use crate::limits::FREE_RETURNS_MAX;

/// How long a job waits on average that a load-shedding layer turned away: it did not run, so no attempt is spent.
const SHED_DELAY: Duration = Duration::from_secs(1);

/// Turns errors into outcomes: a retry after the job's backoff, or its dead letter once no attempt is left.
#[derive(Debug, Clone, Copy, Default)]
pub struct PersistentRetryLayer;

impl PersistentRetryLayer {
    /// The layer.
    pub fn new() -> PersistentRetryLayer {
        PersistentRetryLayer
    }
}

impl<S> Layer<S> for PersistentRetryLayer {
    type Service = PersistentRetry<S>;

    fn layer(&self, inner: S) -> PersistentRetry<S> {
        PersistentRetry { inner }
    }
}

/// The service of [`PersistentRetryLayer`]. Its runs never fail: each has an outcome.
#[derive(Debug, Clone)]
pub struct PersistentRetry<S> {
    inner: S,
}

impl<S> Service<JobRequest> for PersistentRetry<S>
where
    S: Service<JobRequest, Response = Outcome>,
    S::Error: Into<BoxError>,
{
    type Response = Outcome;
    type Error = BoxError;
    type Future = RetryFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        let attempts = Attempts::of(&request);
        RetryFuture { run: self.inner.call(request), attempts }
    }
}

pin_project! {
    /// The future of [`PersistentRetry`].
    #[derive(Debug)]
    pub struct RetryFuture<F> {
        #[pin]
        run: F,
        attempts: Attempts,
    }
}

impl<F, E> Future for RetryFuture<F>
where
    F: Future<Output = Result<Outcome, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Outcome, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let ended = ready!(this.run.poll(cx));
        Poll::Ready(Ok(ended.unwrap_or_else(|error| decide(&error.into(), this.attempts, fastrand::f64()))))
    }
}

/// What the decision depends on besides the error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempts {
    attempt: u32,
    max: Option<u32>,
    free_returns: u32,
    backoff: Backoff,
}

impl Attempts {
    pub(crate) fn of(request: &JobRequest) -> Attempts {
        Attempts {
            attempt: request.attempt(),
            max: request.attempts_max(),
            free_returns: request.free_returns(),
            backoff: request.resolved().map_or(Backoff::DEFAULT, |registered| registered.backoff),
        }
    }
}

/// What becomes of a job after this error. `random` is a number in 0 ..= 1 for the jitter.
pub(crate) fn decide(error: &BoxError, attempts: &Attempts, random: f64) -> Outcome {
    if error.is::<Overloaded>() && attempts.free_returns < FREE_RETURNS_MAX {
        return Outcome::Snooze { delay: SHED_DELAY.mul_f64(0.5 + random) };
    }
    let text = describe(error.as_ref());
    if attempts.max.is_some_and(|max| attempts.attempt >= max) {
        return Outcome::Dead { reason: DeadReason::RetriesExhausted, error: text };
    }
    let asked = error.downcast_ref::<HandlerError>().and_then(HandlerError::delay);
    let delay = asked.unwrap_or_else(|| attempts.backoff.delay(attempts.attempt, random));
    Outcome::Retry { delay, error: text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(attempt: u32, max: Option<u32>) -> Attempts {
        Attempts { attempt, max, free_returns: 0, backoff: Backoff::exponential(Duration::from_secs(5)).jitter(0.0) }
    }

    #[test]
    fn b39_the_last_attempt_is_the_last() {
        let error: BoxError = "no".into();
        assert!(matches!(
            decide(&error, &attempts(1, Some(1)), 0.5),
            Outcome::Dead { reason: DeadReason::RetriesExhausted, .. }
        ));
        assert!(matches!(decide(&error, &attempts(1, Some(2)), 0.5), Outcome::Retry { .. }));
        assert!(matches!(decide(&error, &attempts(2, Some(2)), 0.5), Outcome::Dead { .. }));
        assert!(matches!(decide(&error, &attempts(u32::MAX, None), 0.5), Outcome::Retry { .. }));
    }

    #[test]
    fn waits_are_5_10_and_20_seconds_by_default() {
        let error: BoxError = "no".into();
        for (attempt, seconds) in [(1, 5), (2, 10), (3, 20)] {
            let Outcome::Retry { delay, error } = decide(&error, &attempts(attempt, Some(4)), 0.5) else {
                panic!("no retry")
            };
            assert_eq!((delay, error.as_str()), (Duration::from_secs(seconds), "no"));
        }
    }

    #[test]
    fn q_what_was_shed_spends_no_attempt_up_to_a_cap() {
        let shed: BoxError = Overloaded::new().into();
        let after =
            |free_returns, attempt| decide(&shed, &Attempts { free_returns, ..attempts(attempt, Some(4)) }, 0.5);
        for free_returns in [0, FREE_RETURNS_MAX - 1] {
            assert_eq!(after(free_returns, 4), Outcome::Snooze { delay: SHED_DELAY });
        }
        assert!(matches!(after(FREE_RETURNS_MAX, 3), Outcome::Retry { .. }));
        assert!(matches!(after(FREE_RETURNS_MAX, 4), Outcome::Dead { reason: DeadReason::RetriesExhausted, .. }));
    }
}

//! The innermost service: decodes, upcasts, runs.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tower::Service;

use crate::error::BoxError;
use crate::job::{Data, DeadReason, Failure, JobContext, JobRequest, Outcome, RunFuture, bounded, describe};
use crate::limits::FREE_RETURNS_MAX;

/// The innermost service: decodes the payload, turns an older version into the current one, and runs the handler.
///
/// A handler's verdicts (discard, bury, snooze) leave it as outcomes; only failures that want a retry leave it as
/// errors, as [`HandlerError`].
#[derive(Clone)]
pub struct Dispatch {
    data: Arc<Data>,
}

impl Dispatch {
    pub(crate) fn new(data: Arc<Data>) -> Dispatch {
        Dispatch { data }
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch").finish_non_exhaustive()
    }
}

impl Service<JobRequest> for Dispatch {
    type Response = Outcome;
    type Error = BoxError;
    type Future = DispatchFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: JobRequest) -> DispatchFuture {
        #[cfg(feature = "testing")]
        let watch = request.extensions().get::<PanicWatch>().cloned();
        #[cfg(feature = "testing")]
        let _watched = watch.clone().map(Watched);
        let free_returns = request.free_returns();
        let step = match request.resolved().cloned() {
            Some(registered) => {
                let (version, payload) = (request.version(), request.payload().clone());
                match registered.start(version, &payload, JobContext::new(request, self.data.clone())) {
                    Ok(run) => Step::Running(run),
                    Err(error) => Step::undecodable(describe(&error)),
                }
            }
            None => Step::Ended(Some(Err("the request was not resolved: put ResolveLayer around Dispatch".into()))),
        };
        DispatchFuture {
            step,
            free_returns,
            #[cfg(feature = "testing")]
            watch,
        }
    }
}

/// The future of [`Dispatch`].
#[must_use = "nothing runs before it is awaited"]
pub struct DispatchFuture {
    step: Step,
    free_returns: u32,
    #[cfg(feature = "testing")]
    watch: Option<PanicWatch>,
}

enum Step {
    Running(RunFuture),
    /// It did not come to a run; `None` once that was told.
    Ended(Option<Result<Outcome, BoxError>>),
}

impl Step {
    fn undecodable(error: String) -> Step {
        Step::Ended(Some(Ok(Outcome::Dead { reason: DeadReason::Undecodable, error })))
    }
}

impl Future for DispatchFuture {
    type Output = Result<Outcome, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        #[cfg(feature = "testing")]
        let _watched = self.watch.clone().map(Watched);
        let free_returns = self.free_returns;
        match &mut self.step {
            Step::Running(run) => Poll::Ready(match ready!(run.as_mut().poll(cx)) {
                Ok(()) => Ok(Outcome::Done),
                Err(error) => decide(error.into_failure(), free_returns),
            }),
            Step::Ended(ended) => {
                Poll::Ready(ended.take().unwrap_or_else(|| Err("the run was polled after its end".into())))
            }
        }
    }
}

impl fmt::Debug for DispatchFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatchFuture").finish_non_exhaustive()
    }
}

/// A handler's verdicts are outcomes; only what wants a retry stays an error.
fn decide(failure: Failure, free_returns: u32) -> Result<Outcome, BoxError> {
    match failure {
        Failure::Retry { error, delay } => Err(HandlerError { error, delay }.into()),
        Failure::Discard { why } => Ok(Outcome::Discard { why: bounded(&why) }),
        Failure::Bury { why } => Ok(Outcome::Dead { reason: DeadReason::Buried, error: bounded(&why) }),
        Failure::Snooze { delay } if free_returns < FREE_RETURNS_MAX => Ok(Outcome::Snooze { delay }),
        Failure::Snooze { delay } => {
            let error = format!("snoozed {FREE_RETURNS_MAX} times: from now on a snooze counts as a failed attempt");
            Err(HandlerError { error: error.into(), delay: Some(delay) }.into())
        }
    }
}

/// A handler failed and wants a retry.
///
/// It is told apart at the top level only: if a handler's own HTTP client timed out, that is the handler's error, not
/// the run's timeout.
#[derive(Debug)]
pub struct HandlerError {
    error: BoxError,
    delay: Option<Duration>,
}

impl HandlerError {
    /// The wait that the handler asked for.
    pub fn delay(&self) -> Option<Duration> {
        self.delay
    }

    /// What the handler returned.
    pub fn get_ref(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        self.error.as_ref()
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for HandlerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Sees whether a handler panicked, whatever the layers around it make of that.
#[cfg(feature = "testing")]
#[derive(Debug, Clone, Default)]
pub(crate) struct PanicWatch(Arc<std::sync::atomic::AtomicBool>);

#[cfg(feature = "testing")]
impl PanicWatch {
    pub(crate) fn saw_one(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Dropped with the run, in the middle of a panic if there is one.
#[cfg(feature = "testing")]
struct Watched(PanicWatch);

#[cfg(feature = "testing")]
impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_snoozes_are_free_up_to_a_cap() {
        let delay = Duration::from_secs(7);
        let snoozed = |free_returns| decide(Failure::Snooze { delay }, free_returns);
        for free_returns in [0, FREE_RETURNS_MAX - 1] {
            assert!(
                matches!(snoozed(free_returns), Ok(Outcome::Snooze { delay: after }) if after == delay),
                "{free_returns}"
            );
        }
        for free_returns in [FREE_RETURNS_MAX, u32::MAX] {
            let error = snoozed(free_returns).expect_err("it spends an attempt");
            let error = error.downcast::<HandlerError>().expect("it is as a handler's error");
            assert_eq!(error.delay(), Some(delay));
            assert!(error.to_string().contains("snoozed 1000 times"), "{error}");
        }
    }
}

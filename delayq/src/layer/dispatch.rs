//! The innermost service: decodes, upcasts, runs.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tower::Service;

use super::OutcomeFuture;
use crate::error::BoxError;
use crate::job::{Data, DeadReason, Failure, JobContext, JobRequest, Outcome, bounded, describe};
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
    type Future = OutcomeFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: JobRequest) -> OutcomeFuture {
        Box::pin(run(request, self.data.clone()))
    }
}

async fn run(request: JobRequest, data: Arc<Data>) -> Result<Outcome, BoxError> {
    #[cfg(feature = "testing")]
    let _watched = request.extensions().get::<PanicWatch>().cloned().map(Watched);
    let Some(registered) = request.resolved().cloned() else {
        return Err("the request was not resolved: put ResolveLayer around Dispatch".into());
    };
    let (version, payload) = (request.version(), request.payload().clone());
    let free_returns = request.free_returns();
    let started = registered.start(version, &payload, JobContext::new(request, data));
    let failure = match started {
        Ok(running) => match running.await {
            Ok(()) => return Ok(Outcome::Done),
            Err(error) => error.into_failure(),
        },
        Err(error) => {
            return Ok(Outcome::Dead { reason: DeadReason::Undecodable, error: describe(&error) });
        }
    };
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

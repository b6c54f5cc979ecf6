//! How a handler says that it did not succeed.

use std::fmt;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::error::BoxError;

/// What a handler returns.
pub type JobResult = Result<(), JobError>;

/// A run that did not succeed, and what is to become of the job.
///
/// Every error that `?` meets becomes "try again": std errors, anyhow, strings.
///
/// ```
/// use delayq::{JobError, JobResult};
/// use std::time::Duration;
///
/// fn charge(status: u16) -> JobResult {
///     match status {
///         200 => Ok(()),
///         404 => Err(JobError::discard("the order is gone")),
///         410 => Err(JobError::bury("a person should look at this")),
///         429 => Err(JobError::retry_in(Duration::from_secs(90), "the bank asks for patience")),
///         other => Err(format!("the bank answered {other}"))?,
///     }
/// }
/// # assert!(charge(200).is_ok());
/// # assert!(charge(500).is_err());
/// ```
///
/// It is not itself a `std::error::Error`: it is a verdict, and the conversion above needs the place.
pub struct JobError(Failure);

/// A [`JobError`] taken apart.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Run it again, after the policy's wait or this one.
    Retry { error: BoxError, delay: Option<Duration> },
    /// End it, counted.
    Discard { why: String },
    /// Put it into the dead-letter queue.
    Bury { why: String },
    /// Run it later without spending an attempt.
    Snooze { delay: Duration },
}

impl JobError {
    /// Ends the job: it is counted as discarded, not run again and not kept as a dead letter.
    pub fn discard(why: impl Into<String>) -> JobError {
        JobError(Failure::Discard { why: why.into() })
    }

    /// Puts the job into the dead-letter queue now, whatever attempts are left.
    pub fn bury(why: impl Into<String>) -> JobError {
        JobError(Failure::Bury { why: why.into() })
    }

    /// Fails this attempt and asks for the next one after `delay` instead of the policy's wait.
    pub fn retry_in(delay: Duration, why: impl Into<BoxError>) -> JobError {
        JobError(Failure::Retry { error: why.into(), delay: Some(delay) })
    }

    /// Runs the job again after `delay` without spending an attempt.
    ///
    /// A job may come back like this [`FREE_RETURNS_MAX`](crate::limits::FREE_RETURNS_MAX) times; after that
    /// each snooze counts as a failed attempt.
    pub fn snooze(delay: Duration) -> JobError {
        JobError(Failure::Snooze { delay })
    }

    pub(crate) fn into_failure(self) -> Failure {
        self.0
    }
}

impl<E: Into<BoxError>> From<E> for JobError {
    fn from(error: E) -> JobError {
        JobError(Failure::Retry { error: error.into(), delay: None })
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A payload is not what its type and version want.
#[derive(Debug)]
pub struct PayloadError(BoxError);

impl PayloadError {
    /// A payload error with a cause of your own, for a [`JobType`](crate::JobType) written by hand.
    pub fn new(cause: impl Into<BoxError>) -> PayloadError {
        PayloadError(cause.into())
    }
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the payload can't be decoded: {}", self.0)
    }
}

impl std::error::Error for PayloadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.0.as_ref())
    }
}

/// Decodes a JSON payload.
pub fn decode_json<T: DeserializeOwned>(payload: &[u8]) -> Result<T, PayloadError> {
    serde_json::from_slice(payload).map_err(PayloadError::new)
}

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
    serde_json::from_slice(payload).map_err(|error| PayloadError::new(without_values(&error.to_string())))
}

/// What serde says of a payload, without the values that it quotes: the text goes to logs, the payload must not.
fn without_values(text: &str) -> String {
    /// What serde names before it quotes a value in backticks; names of fields are quoted like this too, and stay.
    const VALUES: [&str; 6] =
        ["integer `", "floating point `", "boolean `", "character `", "unknown variant `", "unknown field `"];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['"', '`']) {
        let quote = &rest[at..=at];
        let (before, quoted) = rest.split_at(at + 1);
        out.push_str(before);
        let is_value = quote == "\"" || VALUES.iter().any(|value| before.ends_with(value));
        // A value may hold the quote itself: up to the last one that is left, for a value.
        let end = if is_value && quote == "\"" { quoted.rfind('"') } else { quoted.find(quote) };
        let Some(end) = end else {
            out.push('…');
            return out;
        };
        out.push_str(if is_value { "…" } else { &quoted[..end] });
        out.push_str(quote);
        rest = &quoted[end + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)] // Only ever refused.
    struct Card {
        number: u64,
        kind: Kind,
    }

    #[derive(Debug, serde::Deserialize)]
    enum Kind {
        Debit,
    }

    #[test]
    fn what_is_said_of_a_payload_holds_none_of_its_values() {
        for payload in [
            r#"{"number":"SECRET"}"#,
            r#"{"number":"SE\"CRET `x` SECRET"}"#,
            r#"{"number":-4242}"#,
            r#"{"number":42.42}"#,
            r#"{"number":1,"kind":"SECRET"}"#,
            r#"{"number":1,"kind":{"SECRET":4242}}"#,
            r#""SECRET""#,
        ] {
            let told = decode_json::<Card>(payload.as_bytes()).expect_err("no card").to_string();
            assert!(!told.contains("SECRET") && !told.contains("42"), "{told}");
        }
        let told = decode_json::<Card>(b"{}").expect_err("no card").to_string();
        assert_eq!(told, "the payload can't be decoded: missing field `number` at line 1 column 2");
    }
}

//! Jobs as JSON: every field by its name, payloads byte for byte.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use delayq::{JobFailure, JobInfo};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::time;

/// Bytes as JSON where they are JSON that fits into a line, in base64 otherwise.
#[derive(Debug)]
pub(crate) enum Payload<'a> {
    Json(&'a RawValue),
    Base64(String),
}

impl<'a> Payload<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Payload<'a> {
        match serde_json::from_slice::<&RawValue>(bytes) {
            // With space around it, or over several lines, it would not come back byte for byte.
            Ok(value) if value.get().len() == bytes.len() && !bytes.contains(&b'\n') && !bytes.contains(&b'\r') => {
                Payload::Json(value)
            }
            _ => Payload::Base64(STANDARD.encode(bytes)),
        }
    }

    pub(crate) fn json(&self) -> Option<&'a RawValue> {
        match self {
            Payload::Json(value) => Some(value),
            Payload::Base64(_) => None,
        }
    }

    pub(crate) fn base64(&self) -> Option<&str> {
        match self {
            Payload::Json(_) => None,
            Payload::Base64(text) => Some(text),
        }
    }
}

/// What base64 stands for.
pub(crate) fn from_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    STANDARD.decode(text)
}

/// A job with all that is known of it.
#[derive(Debug, Serialize)]
pub(crate) struct JobView<'a> {
    id: String,
    queue: &'a str,
    state: &'a str,
    name: Option<&'a str>,
    version: Option<u32>,
    priority: Option<u8>,
    enqueued_at: Option<String>,
    due: Option<String>,
    running_since: Option<String>,
    session: Option<&'a str>,
    dead_since: Option<String>,
    retained_until: Option<String>,
    attempts: u32,
    attempts_max: Option<u32>,
    crashes: u32,
    free_returns: u32,
    cancelling: bool,
    expires_at: Option<String>,
    retain_for_ms: Option<u64>,
    unique: Option<&'a str>,
    trace_parent: Option<&'a str>,
    failure: Option<FailureView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

/// A job's last failure.
#[derive(Debug, Serialize)]
struct FailureView<'a> {
    at: Option<String>,
    code: &'a str,
    attempts: u32,
    text: &'a str,
}

impl<'a> JobView<'a> {
    pub(crate) fn of(job: &'a JobInfo) -> JobView<'a> {
        let payload = Payload::of(&job.payload);
        JobView {
            id: job.id.to_string(),
            queue: &job.queue,
            state: job.state.as_str(),
            name: job.name.as_deref(),
            version: job.version,
            priority: job.priority,
            enqueued_at: instant(job.enqueued_at),
            due: instant(job.due),
            running_since: instant(job.running_since),
            session: job.session.as_deref(),
            dead_since: instant(job.dead_since),
            retained_until: instant(job.retained_until),
            attempts: job.attempts,
            attempts_max: job.attempts_max,
            crashes: job.crashes,
            free_returns: job.free_returns,
            cancelling: job.cancelling,
            expires_at: instant(job.expires_at),
            retain_for_ms: job.retain_for.map(ms),
            unique: job.unique_key.as_deref(),
            trace_parent: job.trace_parent.as_deref(),
            failure: job.failure.as_ref().map(FailureView::of),
            payload: payload.json(),
            payload_base64: payload.base64().map(str::to_owned),
        }
    }
}

impl<'a> FailureView<'a> {
    fn of(failure: &'a JobFailure) -> FailureView<'a> {
        FailureView { at: instant(failure.at), code: &failure.code, attempts: failure.attempts, text: &failure.text }
    }
}

/// A dead letter as `export` writes it and `enqueue --lines` reads it: what makes a job, and beside it why it died.
#[derive(Debug, Serialize)]
pub(crate) struct Letter<'a> {
    name: Option<&'a str>,
    version: Option<u32>,
    queue: &'a str,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    max_retries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retain_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_parent: Option<&'a str>,
    dead: Death<'a>,
}

#[derive(Debug, Serialize)]
struct Death<'a> {
    died_at: Option<String>,
    reason: Option<&'a str>,
    error: &'a str,
    attempts: u32,
    enqueued_at: Option<String>,
    due: Option<String>,
}

impl<'a> Letter<'a> {
    pub(crate) fn of(job: &'a JobInfo) -> Letter<'a> {
        let payload = Payload::of(&job.payload);
        let failure = job.failure.as_ref();
        Letter {
            name: job.name.as_deref(),
            version: job.version,
            queue: &job.queue,
            id: job.id.to_string(),
            payload: payload.json(),
            payload_base64: payload.base64().map(str::to_owned),
            priority: job.priority,
            max_retries: job.attempts_max.map_or(u32::MAX, |attempts| attempts.saturating_sub(1)),
            unique: job.unique_key.as_deref(),
            retain_for: job.retain_for.map(time::exact),
            trace_parent: job.trace_parent.as_deref(),
            dead: Death {
                died_at: instant(job.dead_since),
                reason: failure.map(|failure| failure.code.as_str()),
                error: failure.map_or("", |failure| failure.text.as_str()),
                attempts: job.attempts,
                enqueued_at: instant(job.enqueued_at),
                due: instant(job.due),
            },
        }
    }
}

/// An instant in whole milliseconds, always with three digits: as texts they are in the order of time.
pub(crate) fn instant(at: Option<Timestamp>) -> Option<String> {
    at.map(in_ms)
}

/// The same of one that is there.
pub(crate) fn in_ms(at: Timestamp) -> String {
    format!("{at:.3}")
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_json_only_where_it_comes_back_byte_for_byte() {
        for json in [r#"{"a":1}"#, r#"{"a": 1.0e0, "a":2}"#, "null", "\"\\u001b\"", "123456789012345678901234567890"] {
            let payload = Payload::of(json.as_bytes());
            assert_eq!(payload.json().map(RawValue::get), Some(json));
            assert_eq!(payload.base64(), None);
        }
        for other in [&b""[..], b" {}", b"{}\n", b"{\n}", b"[1,\r2]", b"{\"a\":}", b"\xff\x00", b"\"\xff\""] {
            let payload = Payload::of(other);
            assert!(payload.json().is_none(), "{other:?}");
            assert_eq!(from_base64(payload.base64().unwrap_or_default()), Ok(other.to_vec()));
        }
    }
}

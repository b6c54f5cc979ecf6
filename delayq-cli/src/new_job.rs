//! A job as JSON tells it, in a line or in a request: what its fields come to.

use delayq::RawJob;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::output::json::from_base64;
use crate::time;

/// The fields that make a job; its id and its queue are the caller's. Its payload is in it: there is no `Debug`.
pub(crate) struct Fields<'a> {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) payload: Option<&'a RawValue>,
    pub(crate) payload_base64: Option<&'a str>,
    pub(crate) delay: Option<&'a str>,
    pub(crate) at: Option<&'a str>,
    pub(crate) priority: Option<u8>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) unique: Option<String>,
    pub(crate) expires_in: Option<&'a str>,
    pub(crate) retain_for: Option<&'a str>,
    pub(crate) trace_parent: Option<String>,
}

impl Fields<'_> {
    /// The job, or what is wrong with the fields.
    pub(crate) fn job(self) -> Result<RawJob, String> {
        let payload = match (self.payload, self.payload_base64) {
            (Some(json), None) => json.get().as_bytes().to_vec(),
            (None, Some(text)) => from_base64(text).map_err(|error| format!("payload_base64 is no base64: {error}"))?,
            (Some(_), Some(_)) => return Err("it has both payload and payload_base64: which one?".to_owned()),
            (None, None) => return Err("it has no payload: give {} if there is nothing to say".to_owned()),
        };
        let mut job = RawJob::new(self.name, self.version, payload);
        match (self.delay, self.at) {
            (Some(_), Some(_)) => return Err("it has both in and at: which one?".to_owned()),
            (Some(delay), None) => job = job.at(time::duration(delay)?),
            (None, Some(at)) => job = job.at(time::instant(at)?),
            (None, None) => {}
        }
        if let Some(priority) = self.priority {
            job = job.priority(priority);
        }
        if let Some(retries) = self.max_retries {
            job = job.max_retries(retries);
        }
        if let Some(key) = self.unique {
            job = job.unique(key);
        }
        if let Some(after_due) = self.expires_in {
            job = job.expires_in(time::duration(after_due)?);
        }
        if let Some(after_done) = self.retain_for {
            job = job.retain_for(time::duration(after_done)?);
        }
        if let Some(parent) = self.trace_parent {
            job = job.trace_parent(parent);
        }
        Ok(job)
    }
}

/// `null` is a payload too.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What is wrong with a job, and what must be said of it, wherever it comes from.
#[cfg(test)]
pub(crate) const WRONG: &[(&str, &str)] = &[
    (r#"{"name":"a","version":1}"#, "no payload"),
    (r#"{"name":"a","payload":1}"#, "missing field `version`"),
    (r#"{"name":"a","version":1,"payload":1,"payload_base64":"e30="}"#, "both payload"),
    (r#"{"name":"a","version":1,"payload_base64":"?"}"#, "no base64"),
    (r#"{"name":"a","version":1,"payload":1,"in":"1m","at":"2026-12-24T18:00:00Z"}"#, "both in and at"),
    (r#"{"name":"a","version":1,"payload":1,"in":"soon"}"#, "no duration"),
    (r#"{"name":"a","version":1,"payload":1,"at":"soon"}"#, "no instant"),
    (r#"{"name":"a","version":1,"payload":1,"id":"7"}"#, "not a job id"),
    (r#"{"name":"a","version":1,"payload":1,"delay":"1m"}"#, "unknown field `delay`"),
    (r#"{"name":"a","version":-1,"payload":1}"#, "invalid value"),
    (r#"{"name":"a","name":"b","version":1,"payload":1}"#, "duplicate field `name`"),
];

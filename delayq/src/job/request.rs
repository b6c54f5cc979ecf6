//! One run of a job on its way through the service stack.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Extensions;
use jiff::Timestamp;

use super::id::JobId;
use super::registered::Registered;
use crate::clock::{timestamp, timestamp_us};

/// One run of a job: the request of the service stack. Cheap to clone.
#[derive(Clone)]
pub struct JobRequest {
    meta: Arc<Meta>,
    resolved: Option<Arc<Registered>>,
    extensions: Extensions,
}

/// What is known of a job when it is claimed.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) id: JobId,
    pub(crate) name: Cow<'static, str>,
    pub(crate) version: u32,
    pub(crate) queue: Arc<str>,
    pub(crate) attempt: u32,
    pub(crate) attempts_max: Option<u32>,
    pub(crate) free_returns: u32,
    pub(crate) run_token: u64,
    pub(crate) due_ms: u64,
    pub(crate) enqueued_ms: u64,
    /// The store's clock when the job was claimed.
    pub(crate) claimed_us: u64,
    pub(crate) trace_parent: Option<String>,
    pub(crate) payload: Bytes,
}

impl JobRequest {
    pub(crate) fn new(meta: Meta) -> JobRequest {
        JobRequest { meta: Arc::new(meta), resolved: None, extensions: Extensions::new() }
    }

    pub(crate) fn meta(&self) -> &Arc<Meta> {
        &self.meta
    }

    pub(crate) fn resolved(&self) -> Option<&Arc<Registered>> {
        self.resolved.as_ref()
    }

    pub(crate) fn set_resolved(&mut self, registered: Arc<Registered>) {
        self.resolved = Some(registered);
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.meta.id
    }

    /// The name that the job was stored under.
    pub fn name(&self) -> &str {
        &self.meta.name
    }

    /// The version of its payload.
    pub fn version(&self) -> u32 {
        self.meta.version
    }

    /// The queue that it came from.
    pub fn queue(&self) -> &str {
        &self.meta.queue
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.meta.attempt
    }

    /// How many attempts the job has, or `None` if there is no limit.
    pub fn attempts_max(&self) -> Option<u32> {
        self.meta.attempts_max
    }

    /// How often the job came back without spending an attempt.
    pub fn free_returns(&self) -> u32 {
        self.meta.free_returns
    }

    /// The number of this run. It rises from run to run of a job, so whatever the job writes to can refuse a
    /// late run by comparing it.
    pub fn run_token(&self) -> u64 {
        self.meta.run_token
    }

    /// When this run was due, by the store's clock.
    pub fn due(&self) -> Timestamp {
        timestamp(self.meta.due_ms)
    }

    /// When the job was sent, by the store's clock.
    pub fn enqueued_at(&self) -> Timestamp {
        timestamp(self.meta.enqueued_ms)
    }

    /// When it was claimed, by the store's clock: never before [`due`](JobRequest::due).
    pub fn claimed_at(&self) -> Timestamp {
        timestamp_us(self.meta.claimed_us)
    }

    /// How long after its due time it was claimed, by the store's clock alone. A job whose due time had passed when it was sent
    /// counts from then: it can't be late before it was there.
    pub fn lateness(&self) -> Duration {
        let expected_ms = self.meta.due_ms.max(self.meta.enqueued_ms);
        Duration::from_micros(self.meta.claimed_us.saturating_sub(expected_ms * 1000))
    }

    /// The W3C `traceparent` of the sender, if it had one.
    pub fn trace_parent(&self) -> Option<&str> {
        self.meta.trace_parent.as_deref()
    }

    /// The payload's bytes, as they were sent.
    pub fn payload(&self) -> &Bytes {
        &self.meta.payload
    }

    /// What layers hand to layers further in, and to the handler.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// What layers hand to layers further in, and to the handler, to be added to.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }
}

impl fmt::Debug for JobRequest {
    // Payloads may hold what must not be in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobRequest")
            .field("id", &self.meta.id)
            .field("name", &self.meta.name)
            .field("version", &self.meta.version)
            .field("queue", &self.meta.queue)
            .field("attempt", &self.meta.attempt)
            .field("payload_bytes", &self.meta.payload.len())
            .finish_non_exhaustive()
    }
}

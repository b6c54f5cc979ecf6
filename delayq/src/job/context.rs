//! What a handler is told about its run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::data::{Data, MissingData};
use super::id::JobId;
use super::request::JobRequest;

/// What a handler is told about its run, and what the worker gave it to work with. Cheap to clone.
#[derive(Clone)]
pub struct JobContext {
    request: JobRequest,
    data: Arc<Data>,
}

impl JobContext {
    pub(crate) fn new(request: JobRequest, data: Arc<Data>) -> JobContext {
        JobContext { request, data }
    }

    /// The value of this type that [`Worker::data`](crate::Worker::data) was given.
    ///
    /// # Errors
    /// There is none. With `?` the run fails and says so.
    pub fn data<T: Send + Sync + 'static>(&self) -> Result<&T, MissingData> {
        self.data.get()
    }

    /// The request as it reached the handler, with what layers added to its extensions.
    pub fn request(&self) -> &JobRequest {
        &self.request
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.request.id()
    }

    /// The queue that it came from.
    pub fn queue(&self) -> &str {
        self.request.queue()
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.request.attempt()
    }

    /// Whether a failure of this attempt would be the last.
    pub fn is_last_attempt(&self) -> bool {
        self.request.attempts_max().is_some_and(|max| self.request.attempt() >= max)
    }

    /// The number of this run, rising from run to run of a job: hand it to what the job writes to, and let it
    /// refuse a lower one than it has seen. Then a run that was thought dead can't undo what a later one did.
    pub fn run_token(&self) -> u64 {
        self.request.run_token()
    }

    /// When this run was due, by the store's clock.
    pub fn due(&self) -> Timestamp {
        self.request.due()
    }

    /// When the job was sent, by the store's clock.
    pub fn enqueued_at(&self) -> Timestamp {
        self.request.enqueued_at()
    }

    /// When it was claimed, by the store's clock: never before [`due`](JobContext::due).
    pub fn claimed_at(&self) -> Timestamp {
        self.request.claimed_at()
    }

    /// How long after its due time it was claimed, or after it was sent if that was later.
    pub fn lateness(&self) -> Duration {
        self.request.lateness()
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext").field("request", &self.request).finish_non_exhaustive()
    }
}

//! What a job type is: [`JobType`] says enough to schedule it, [`Job`] adds the handler.

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::backoff::Backoff;
use super::context::JobContext;
use super::error::{JobResult, PayloadError};

/// A typed job: its stable name, its version and its policies. Implemented by [`#[delayed_job]`](crate::delayed_job).
///
/// It is all that a producer needs. The handler is the separate trait [`Job`], so that a service can schedule
/// jobs whose handlers it doesn't link.
pub trait JobType: Serialize + DeserializeOwned + Send + 'static {
    /// The name under which jobs are stored. It is written down, never derived from the Rust path: moving a
    /// module must not orphan jobs that wait in the store.
    const NAME: &'static str;
    /// The version of the payload that this type writes.
    const VERSION: u32;
    /// The oldest payload version that [`decode`](JobType::decode) still reads.
    const OLDEST_VERSION: u32 = Self::VERSION;
    /// The queue that jobs go to unless the sender names another.
    const QUEUE: &'static str = "default";
    /// How often a failed job is run again: 3 means four runs at most. Stored with each job when it is sent.
    const MAX_RETRIES: u32 = 3;
    /// The wait before each retry.
    const BACKOFF: Backoff = Backoff::DEFAULT;
    /// How long one run may take; `None` is the default of 15 minutes, [`DEFAULT_TIMEOUT`](crate::limits::DEFAULT_TIMEOUT).
    const TIMEOUT: Option<Duration> = None;
    /// The priority among jobs that are due: 0 runs first, 9 last.
    const PRIORITY: u8 = 5;

    /// The key that makes this job unique while it hasn't ended, or `None`.
    fn unique_key(&self) -> Option<String> {
        None
    }

    /// Decodes a payload written as `version`, turning an older one into this type.
    ///
    /// `version` is between [`OLDEST_VERSION`](JobType::OLDEST_VERSION) and [`VERSION`](JobType::VERSION).
    ///
    /// # Errors
    /// The payload is not what that version's type wants.
    fn decode(version: u32, payload: &[u8]) -> Result<Self, PayloadError> {
        let _ = version;
        super::error::decode_json(payload)
    }
}

/// A job type with its handler.
///
/// ```
/// use delayq::{Job, JobContext, JobResult, delayed_job};
///
/// #[delayed_job(name = "send_reminder", version = 1)]
/// struct SendReminder {
///     guest: String,
/// }
///
/// impl Job for SendReminder {
///     async fn run(self, cx: JobContext) -> JobResult {
///         println!("attempt {}: remind {}", cx.attempt(), self.guest);
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the job type `{Self}` has no handler",
    label = "no `impl Job for {Self}`",
    note = "write `impl delayq::Job for {Self}`, or declare it with `handler = external` and give its handler to `Worker::handle`"
)]
pub trait Job: JobType {
    /// Runs the job once. Any error by `?` means "try again"; the other ends are made by [`JobError`](crate::JobError).
    ///
    /// A job runs at least once: after a crash or a lost connection it runs again, so its effect must be
    /// idempotent. [`JobContext::run_token`] helps to fence a late first run.
    fn run(self, cx: JobContext) -> impl Future<Output = JobResult> + Send;
}

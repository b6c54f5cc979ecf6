//! Typed jobs that run later: on time, at least once, through a tower stack, on Redis or without a server.
//!
//! A job is a struct with [`#[delayed_job]`](delayed_job) and a handler, [`Job`]. A [`Client`] schedules it; a [`Worker`]
//! on any machine runs it when it is due.
//!
//! ```no_run
//! use delayq::{Client, Job, JobContext, JobResult, Worker, delayed_job};
//! use std::time::Duration;
//!
//! #[delayed_job(name = "send_reminder", version = 1, queue = "mail")]
//! struct SendReminder {
//!     guest: String,
//! }
//!
//! impl Job for SendReminder {
//!     async fn run(self, _cx: JobContext) -> JobResult {
//!         println!("see you tomorrow, {}", self.guest);
//!         Ok(())
//!     }
//! }
//!
//! # async fn example() -> Result<(), delayq::Error> {
//! let client = Client::connect("redis://127.0.0.1/").await?;
//! client.schedule::<SendReminder>(Duration::from_secs(86_400)).send(SendReminder { guest: "Ada".to_owned() }).await?;
//! Worker::new(client).run().await
//! # }
//! ```
//!
//! # What is promised
//!
//! 1. When a send succeeds, the job is in the store and will run at least once or reach a recorded end.
//!    On an error of kind [`Unknown`](ErrorKind::Unknown) it may be there: send again with the same id and there is one job.
//! 2. A job never starts before its due time by Redis's clock. The clocks of producers and workers don't matter.
//! 3. A run holds a lease. A worker that dies, freezes or is cut off loses it, another worker runs the job, and the
//!    late run can settle nothing. So a job may run twice, and its effect must be idempotent;
//!    [`JobContext::run_token`] helps to refuse a late one.
//! 4. Every end is recorded: done, discarded, cancelled, expired, or a dead letter with reason, error, attempts and bytes.
//! 5. Nothing is trimmed silently. Limits are typed errors; they all stand in [`limits`].
//! 6. What Redis loses, for example in a power cut with `appendfsync everysec`, is lost here too.
//! 7. Among the jobs that are due, priority decides, then due time; best effort.
//!
//! # How a run ends
//!
//! | the handler returns | the job |
//! |---|---|
//! | `Ok(())` | is done |
//! | any error by `?` | runs again after its backoff, or is a dead letter if that was its last attempt |
//! | [`JobError::retry_in`] | the same, with a wait of its own |
//! | [`JobError::snooze`] | runs again later, no attempt spent |
//! | [`JobError::discard`] | ends, counted |
//! | [`JobError::bury`] | is a dead letter now |
//! | a panic, or nothing within its timeout | as an error |
//!
//! # Job types that are not there
//!
//! A worker serves the job types that are linked into its program. A crate that nothing mentions is not linked by Rust, and
//! its jobs are silently absent: `use my_jobs as _;` is mention enough. [`Worker::requires`] makes it loud.
//!
//! # Features
//!
//! - `embedded`: the engine without a server, for `sqlite://jobs.db` and `sqlite::memory:`. It runs the scripts that Redis
//!   runs, in process; building it needs a C compiler.
//! - `testing`: `delayq::testing`, where a test moves time. For `[dev-dependencies]`.
//! - `opentelemetry`: the sender's OpenTelemetry context travels with a job. Its first run is a child of the span that
//!   sent it, later runs are linked to that span.

pub mod limits;

mod client;
mod clock;
mod error;
mod job;
pub mod layer;
mod registry;
#[cfg(feature = "testing")]
pub mod testing;
mod trace;
mod worker;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
#[cfg(doctest)]
#[doc = include_str!("../../docs/guarantees.md")]
struct Guarantees;
#[cfg(doctest)]
#[doc = include_str!("../../docs/payload-migration.md")]
struct PayloadMigration;
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedded.md")]
struct Embedded;
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/testing.md")]
struct Testing;

#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod engine;
#[cfg(not(feature = "internals"))]
#[allow(unreachable_pub, dead_code, unused_imports)]
mod engine;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod envelope;
#[cfg(not(feature = "internals"))]
#[allow(unreachable_pub, dead_code, unused_imports)]
mod envelope;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod store;
#[cfg(not(feature = "internals"))]
#[allow(unreachable_pub, dead_code, unused_imports)]
mod store;

pub use client::{
    AnyJob, CancelOutcome, Client, ClientBuilder, Damage, DeadCursor, DeadLetter, DeadLetters, DeadListing, Diagnosis,
    Durability, Finding, Forecast, JobCursor, JobFailure, JobHandle, JobInfo, JobPage, JobQuery, JobState, JobStatus,
    Jobs, Level, QueueRates, QueueStats, RawJob, RedriveReport, RepairReport, Schedule, SendAll, SendJob, WorkerInfo,
    WorkerLateness,
};
pub use clock::When;
pub use delayq_macros::{delayed_job, payload};
pub use error::{BoxError, Error, ErrorKind};
pub use job::{
    Backoff, DeadReason, InvalidJobId, Job, JobContext, JobError, JobId, JobRequest, JobResult, JobType, MissingData,
    Outcome, PayloadError,
};
pub use layer::Unknown;
pub use registry::JobSet;
pub use worker::Worker;

/// What the macros' code refers to. Not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use crate::job::decode_json;
    pub use crate::registry::Registration;
    pub use inventory;
    pub use serde;
    pub use std::string::String;

    use std::fmt::{Display, Write};

    /// The unique key of one field.
    pub fn unique_key<T: Display + ?Sized>(name: &str, value: &T) -> String {
        format!("{name}:{value}")
    }

    /// The unique key of several fields; the length of each keeps ("a", "b:c") and ("a:b", "c") apart.
    pub fn unique_key_of(name: &str, values: &[&dyn Display]) -> String {
        let mut key = name.to_owned();
        for value in values {
            let text = value.to_string();
            let _ = write!(key, ":{}:{text}", text.len());
        }
        key
    }
}

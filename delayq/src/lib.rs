//! Typed jobs that run later: on time, at least once, through a tower stack, on Redis.

pub mod limits;

mod client;
mod clock;
mod error;
mod job;
pub mod layer;
mod registry;
mod trace;
mod worker;

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
    CancelOutcome, Client, ClientBuilder, DeadCursor, DeadLetter, DeadLetters, DeadListing, JobHandle, JobStatus,
    QueueStats, RedriveReport, Schedule, SendAll, SendJob,
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

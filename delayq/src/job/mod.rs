//! The job model: what a job is called, how it is identified, what a run gets and how it can end.

mod backoff;
mod context;
mod data;
mod error;
mod id;
mod name;
mod outcome;
mod registered;
mod report;
mod request;
mod types;

pub use backoff::Backoff;
pub use context::JobContext;
pub use data::MissingData;
pub use error::{JobError, JobResult, PayloadError, decode_json};
pub use id::{InvalidJobId, JobId};
pub use outcome::{DeadReason, Outcome};
pub use request::JobRequest;
pub use types::{Job, JobType};

pub(crate) use data::Data;
pub(crate) use error::Failure;
pub(crate) use name::check_name;
pub(crate) use registered::{Registered, Run, RunFuture, StaticRun};
pub(crate) use report::{bounded, describe, describe_panic};
pub(crate) use request::Meta;

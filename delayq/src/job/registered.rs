//! One job type as a worker serves it: its policy, and how its handler is reached.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::backoff::Backoff;
use super::context::JobContext;
use super::error::{JobResult, PayloadError};

pub(crate) type RunFuture = Pin<Box<dyn Future<Output = JobResult> + Send>>;
pub(crate) type StaticRun = fn(u32, &[u8], JobContext) -> Result<RunFuture, PayloadError>;
type DynRun = dyn Fn(u32, &[u8], JobContext) -> Result<RunFuture, PayloadError> + Send + Sync;

/// A job type that a worker serves.
pub(crate) struct Registered {
    pub(crate) name: &'static str,
    pub(crate) version: u32,
    pub(crate) oldest_version: u32,
    pub(crate) queue: &'static str,
    pub(crate) max_retries: u32,
    pub(crate) backoff: Backoff,
    pub(crate) timeout: Duration,
    pub(crate) source: String,
    pub(crate) run: Run,
}

/// How a handler is reached.
pub(crate) enum Run {
    Static(StaticRun),
    Dyn(Box<DynRun>),
}

impl Registered {
    pub(crate) fn start(&self, version: u32, payload: &[u8], cx: JobContext) -> Result<RunFuture, PayloadError> {
        match &self.run {
            Run::Static(run) => run(version, payload, cx),
            Run::Dyn(run) => run(version, payload, cx),
        }
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{} ({})", self.name, self.version, self.source)
    }
}

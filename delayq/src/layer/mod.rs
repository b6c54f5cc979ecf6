//! The service stack: each layer of a run, public, so that a stack of your own can be put together from them.
//!
//! A stack is a `Service<JobRequest, Response = Outcome>`. The default one, outermost first:
//!
//! 1. [`TraceLayer`]: a span a run, and an event for how it ended
//! 2. [`MetricsLayer`]: how many, how long, how late
//! 3. [`ResolveLayer`]: finds the registered type and its policy; what is unknown ends here
//! 4. [`PersistentRetryLayer`]: turns an error and the job's policy into an [`Outcome`](crate::Outcome); it never calls again
//! 5. [`CatchPanicLayer`]: a panic becomes an error
//! 6. the layers given to [`Worker::layer`](crate::Worker::layer)
//! 7. [`TimeoutLayer`]: the run's own time, not what it waited for in a layer of yours
//! 8. [`Dispatch`]: decodes, upcasts, runs
//!
//! Retries are in one place only, the store: a retry survives a crash, and the layers never run a job twice.

mod catch_panic;
mod dispatch;
mod metrics;
mod resolve;
mod retry;
mod shared;
mod stack;
mod timeout;
mod trace;

pub use catch_panic::{CatchPanic, CatchPanicLayer, Panicked};
pub use dispatch::{Dispatch, DispatchFuture, HandlerError};
pub use metrics::{Metrics, MetricsLayer};
pub use resolve::{Resolve, ResolveLayer, Unknown};
pub use retry::{PersistentRetry, PersistentRetryLayer};
pub use shared::{Shared, SharedLayer};
pub use stack::JobService;
pub use timeout::{TimedOut, Timeout, TimeoutLayer};
pub use trace::{Trace, TraceLayer};

#[cfg(feature = "testing")]
pub(crate) use dispatch::PanicWatch;
pub(crate) use retry::{Attempts, decide};
pub(crate) use stack::Stack;

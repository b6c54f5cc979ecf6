//! What a checked `#[delayed_job]` says: only values that the expansion may use as they are.

use std::time::Duration;

use syn::{Member, Path, Type};

/// A job type. What is `None` or empty was not given, and keeps the default of the trait.
pub(crate) struct JobModel {
    /// The path of the delayq crate in generated code.
    pub(crate) crate_path: Path,
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) queue: Option<String>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) priority: Option<u8>,
    /// The fields that make up the unique key.
    pub(crate) unique: Vec<Member>,
    /// The payload types of older versions: ascending, without a gap, the last one version below this one.
    pub(crate) older: Vec<(u32, Type)>,
    /// Whether the handler is given to the worker rather than by `impl Job`.
    pub(crate) handler_is_external: bool,
    /// Whether the user sees to the serde impls.
    pub(crate) serde_is_external: bool,
}

/// The wait between retries.
pub(crate) enum Backoff {
    Exponential { first: Duration, factor: Option<f64>, max: Option<Duration>, jitter: Option<f64> },
    Fixed { delay: Duration, jitter: Option<f64> },
}

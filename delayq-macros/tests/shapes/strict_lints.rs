//! The generated code passes the lints that a strict crate turns on.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused_qualifications, missing_debug_implementations)]
#![deny(rust_2018_idioms, unused_lifetimes, single_use_lifetimes, trivial_casts)]

use delayq::{Job, JobContext, JobResult, JobType, delayed_job, payload};

/// The first payload.
#[payload]
#[derive(Debug)]
struct CancelOrderV1 {
    order: u64,
}

/// Cancels an order.
#[delayed_job(
    name = "cancel_order",
    version = 2,
    backoff = exponential("5s", factor = 2, max = "1h", jitter = 0.1),
    timeout = "30s",
    unique = (shop, order_id),
    from(1 = CancelOrderV1),
)]
#[derive(Debug)]
#[must_use]
pub(crate) struct CancelOrder {
    /// Whose order it is.
    pub(crate) shop: String,
    order_id: u64,
}

impl From<CancelOrderV1> for CancelOrder {
    fn from(old: CancelOrderV1) -> Self {
        CancelOrder { shop: String::new(), order_id: old.order }
    }
}

impl Job for CancelOrder {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

mod old {
    /// Retired, and still served.
    #[delayq::delayed_job(name = "retired", version = 1, handler = external)]
    #[deprecated = "send CancelOrder"]
    #[derive(Debug)]
    pub(crate) struct Retired;
}

pub(crate) fn main() {
    assert_eq!(CancelOrder::decode(1, br#"{"order":7}"#).unwrap().order_id, 7);
    #[allow(deprecated)]
    let name = old::Retired::NAME;
    assert_eq!(name, "retired");
}

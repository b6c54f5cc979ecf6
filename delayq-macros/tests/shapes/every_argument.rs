//! Every argument at once, and each form of a backoff.

use std::time::Duration;

use delayq::{Backoff, JobType, delayed_job};

#[delayq::payload]
struct CancelOrderV1 {
    order: u64,
}

#[delayq::payload(crate = delayq)]
struct CancelOrderV2 {
    order_id: u64,
}

impl From<CancelOrderV1> for CancelOrderV2 {
    fn from(old: CancelOrderV1) -> Self {
        CancelOrderV2 { order_id: old.order }
    }
}

impl From<CancelOrderV2> for CancelOrder {
    fn from(old: CancelOrderV2) -> Self {
        CancelOrder { order_id: old.order_id }
    }
}

#[delayed_job(
    name = "cancel-order.v2",
    version = 3,
    queue = "orders",
    max_retries = 4294967295,
    timeout = "1m30s",
    priority = 0,
    backoff = exponential("5s", factor = 1.5, max = "1d", jitter = 0.25),
    unique = order_id,
    from(1 = CancelOrderV1, 2 = CancelOrderV2,),
    handler = external,
    serde = external,
    crate = ::delayq,
)]
#[derive(serde::Serialize, serde::Deserialize)]
struct CancelOrder {
    order_id: u64,
}

#[delayed_job(name = "a", version = 1, backoff = exponential("2s"), handler = external)]
struct Doubling;

#[delayed_job(name = "b", version = 1, backoff = exponential("2s", factor = 3, jitter = 1,), handler = external)]
struct Tripling;

#[delayed_job(name = "c", version = 1, backoff = fixed("0s"), handler = external)]
struct Immediate;

#[delayed_job(name = "d", version = 1, backoff = fixed("10s", jitter = 0.5), handler = external)]
struct Spread;

pub(crate) fn main() {
    assert_eq!(CancelOrder::NAME, "cancel-order.v2");
    assert_eq!(CancelOrder::VERSION, 3);
    assert_eq!(CancelOrder::OLDEST_VERSION, 1);
    assert_eq!(CancelOrder::QUEUE, "orders");
    assert_eq!(CancelOrder::MAX_RETRIES, u32::MAX);
    assert_eq!(CancelOrder::TIMEOUT, Some(Duration::from_secs(90)));
    assert_eq!(CancelOrder::PRIORITY, 0);
    let day = Duration::from_secs(86_400);
    assert_eq!(CancelOrder::BACKOFF, Backoff::exponential(Duration::from_secs(5)).factor(1.5).max(day).jitter(0.25));
    assert!(CancelOrder { order_id: 7 }.unique_key().is_some());

    let two = Duration::from_secs(2);
    assert_eq!(Doubling::BACKOFF, Backoff::exponential(two));
    assert_eq!(Tripling::BACKOFF, Backoff::exponential(two).factor(3.0).jitter(1.0));
    assert_eq!(Immediate::BACKOFF, Backoff::fixed(Duration::ZERO));
    assert_eq!(Spread::BACKOFF, Backoff::fixed(Duration::from_secs(10)).jitter(0.5));
    // The macro refuses a first wait above this cap when no `max` is given.
    assert_eq!(Backoff::exponential(two).base_delay(u32::MAX), Duration::from_secs(3_600));
}

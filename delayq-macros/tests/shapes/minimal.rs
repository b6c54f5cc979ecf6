//! Name and version are enough: everything else has the default of the trait.

use delayq::{Backoff, Job, JobContext, JobResult, JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1)]
struct CancelOrder {
    order_id: u64,
}

impl Job for CancelOrder {
    async fn run(self, _cx: JobContext) -> JobResult {
        let _ = self.order_id;
        Ok(())
    }
}

pub(crate) fn main() {
    assert_eq!(CancelOrder::NAME, "cancel_order");
    assert_eq!(CancelOrder::VERSION, 1);
    assert_eq!(CancelOrder::OLDEST_VERSION, 1);
    assert_eq!(CancelOrder::QUEUE, "default");
    assert_eq!(CancelOrder::MAX_RETRIES, 3);
    assert_eq!(CancelOrder::BACKOFF, Backoff::DEFAULT);
    assert_eq!(CancelOrder::TIMEOUT, None);
    assert_eq!(CancelOrder::PRIORITY, 5);
    assert_eq!(CancelOrder { order_id: 7 }.unique_key(), None);
    assert_eq!(CancelOrder::decode(1, br#"{"order_id":7}"#).unwrap().order_id, 7);
    assert!(CancelOrder::decode(1, br#"{"order_id":"seven"}"#).is_err());
}

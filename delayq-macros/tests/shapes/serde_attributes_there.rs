//! Serde's attributes work on the item and its fields as if the derives were written out, and raise no lint.
#![deny(warnings)]

use delayq::{Job, JobContext, JobResult, JobType, delayed_job};

fn seven() -> u64 {
    7
}

#[delayed_job(name = "cancel_order", version = 1)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Debug, Clone, PartialEq)]
struct CancelOrder {
    order_id: u64,
    #[serde(default = "seven")]
    shop: u64,
    #[serde(rename = "why", skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Job for CancelOrder {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

pub(crate) fn main() {
    let job = CancelOrder::decode(1, br#"{"orderId":1,"why":"late"}"#).unwrap();
    assert_eq!(job, CancelOrder { order_id: 1, shop: 7, reason: Some("late".to_owned()) });
    assert!(CancelOrder::decode(1, br#"{"orderId":1,"other":2}"#).is_err());
}

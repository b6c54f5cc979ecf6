use delayq::{Job, JobContext, JobResult, JobType, delayed_job};

#[delayq::payload]
struct V1;

#[delayed_job(
    nmae = "cancel_order",
    version = 0,
    queue = "my orders",
    max_retries = "3",
    timeout = "30",
    priority = 10,
    backoff = exponential("5 s", factor = 0, max = 7, jitter = 2, step = 1),
    unique = (oder_id, shop),
    from(1 = V1, 1 = V1, two = V1),
    handler = internal,
    timeout = "0s",
)]
struct CancelOrder {
    order_id: u64,
    shop: String,
}

impl Job for CancelOrder {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

fn main() {
    let _ = (CancelOrder::NAME, CancelOrder::VERSION);
}

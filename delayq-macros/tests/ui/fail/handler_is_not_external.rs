use delayq::{Job, JobContext, JobResult, JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, handler = cancel_order)]
struct CancelOrder {
    order_id: u64,
}

impl Job for CancelOrder {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

fn main() {
    let _ = (CancelOrder::NAME, CancelOrder::VERSION);
}

use delayq::{Job, JobContext, JobResult, JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, unique = order_id)]
struct CancelOrder;

impl Job for CancelOrder {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

fn main() {
    let _ = (CancelOrder::NAME, CancelOrder::VERSION);
}

use delayq::{Job, JobContext, JobResult, JobType, delayed_job};

#[delayq::payload]
struct V1;

#[delayq::payload]
struct V2;

#[delayed_job(name = "cancel_order", version = 3, from(1 = V1, 2 = V2))]
struct CancelOrder;

impl Job for CancelOrder {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

fn main() {
    let _ = (CancelOrder::NAME, CancelOrder::VERSION);
}

use delayq::{Job, JobContext, JobResult, JobType, delayed_job};

struct V1;

impl From<V1> for CancelOrder {
    fn from(_: V1) -> Self {
        CancelOrder
    }
}

#[delayed_job(name = "cancel_order", version = 2, from(1 = V1))]
struct CancelOrder;

impl Job for CancelOrder {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

fn main() {
    let _ = (CancelOrder::NAME, CancelOrder::VERSION);
}

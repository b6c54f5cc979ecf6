use delayq::{Job, JobContext, JobResult, JobType, delayed_job};

#[delayq::payload]
struct V1;

#[delayq::payload]
struct V2;

#[delayed_job(name = "cancel_order", version = 3, from(1 = V1, 2 = V2, 1 = V2))]
struct CancelOrder;

impl Job for CancelOrder {
    async fn run(self, _cx: JobContext) -> JobResult {
        Ok(())
    }
}

impl From<V1> for V2 {
    fn from(_: V1) -> Self {
        V2
    }
}

impl From<V2> for CancelOrder {
    fn from(_: V2) -> Self {
        CancelOrder
    }
}

fn main() {
    let _ = (CancelOrder::NAME, CancelOrder::VERSION);
}

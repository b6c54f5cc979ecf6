use delayq::delayed_job;

#[delayed_job(name = "function", version = 1)]
async fn cancel_order(_order_id: u64) {}

struct CancelOrder;

#[delayed_job(name = "impl", version = 1)]
impl CancelOrder {}

fn main() {
    let _ = (cancel_order(1), CancelOrder);
}

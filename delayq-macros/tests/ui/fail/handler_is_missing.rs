use delayq::delayed_job;

#[delayed_job(name = "cancel_order", version = 1)]
struct CancelOrder {
    order_id: u64,
}

fn main() {}

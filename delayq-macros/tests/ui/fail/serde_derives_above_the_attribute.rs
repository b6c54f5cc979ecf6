use delayq::delayed_job;
use serde::{Deserialize, Serialize};

// The attribute doesn't see what is above it: it goes first.
#[derive(Serialize, Deserialize)]
#[delayed_job(name = "cancel_order", version = 1, handler = external)]
struct CancelOrder {
    order_id: u64,
}

fn main() {}

use delayq::{JobType, delayed_job};

#[delayed_job("cancel_order", version = 1, handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, , queue = "orders", handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, 7, handler = external)]
struct Third(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME];
}

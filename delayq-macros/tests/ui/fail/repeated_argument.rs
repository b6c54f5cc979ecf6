use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, queue = "orders", name = "cancel", handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, queue = "orders", queue = "or ders", handler = external)]
struct Second(u64);

fn main() {
    let _ = [First::NAME, Second::NAME];
}

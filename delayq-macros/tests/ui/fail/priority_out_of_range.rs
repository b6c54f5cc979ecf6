use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, priority = 10, handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, priority = -1, handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, priority = 256, handler = external)]
struct Third(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME];
}

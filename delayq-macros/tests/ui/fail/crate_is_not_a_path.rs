use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, crate = "::delayq", handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, crate = 7, handler = external)]
struct Second(u64);

fn main() {
    let _ = [First::NAME, Second::NAME];
}

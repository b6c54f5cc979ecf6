use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, timeout = "30s1m", handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, timeout = "1m1m", handler = external)]
struct Second(u64);

fn main() {
    let _ = [First::NAME, Second::NAME];
}

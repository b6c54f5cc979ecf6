use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("5s", jitter = 10), handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = fixed("5s", jitter = -0.1), handler = external)]
struct Second(u64);

fn main() {
    let _ = [First::NAME, Second::NAME];
}

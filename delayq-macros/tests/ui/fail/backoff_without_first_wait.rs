use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential(), handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = fixed(), handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential(factor = 2), handler = external)]
struct Third(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME];
}

use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("5s", factor = 0.5), handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("5s", factor = -2), handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("5s", factor = "2"), handler = external)]
struct Third(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("5s", factor = 1e999), handler = external)]
struct Fourth(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME, Fourth::NAME];
}

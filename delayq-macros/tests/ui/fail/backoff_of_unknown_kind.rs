use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, backoff = linear("5s"), handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = "5s", handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential, handler = external)]
struct Third(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = Backoff::DEFAULT, handler = external)]
struct Fourth(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME, Fourth::NAME];
}

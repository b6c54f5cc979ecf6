use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("5s", facter = 2), handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = fixed("5s", factor = 2), handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("5s", "1h"), handler = external)]
struct Third(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("5s", max = "1h", max = "2h"), handler = external)]
struct Fourth(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("5s", jitter), handler = external)]
struct Fifth(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("5s" factor = 2), handler = external)]
struct Sixth(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME, Fourth::NAME, Fifth::NAME, Sixth::NAME];
}

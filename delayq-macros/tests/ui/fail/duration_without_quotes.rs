use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, timeout = 30, handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, timeout = 30s, handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, timeout = 1.5, handler = external)]
struct Third(u64);

#[delayed_job(name = "cancel_order", version = 1, timeout = Duration::from_secs(30), handler = external)]
struct Fourth(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = fixed(10), handler = external)]
struct Fifth(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential(5s, max = 1h), handler = external)]
struct Sixth(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME, Fourth::NAME, Fifth::NAME, Sixth::NAME];
}

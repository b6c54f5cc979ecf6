use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, timeout = "25h", handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, timeout = "99999999999999999999d", handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = fixed("366d"), handler = external)]
struct Third(u64);

#[delayed_job(name = "cancel_order", version = 1, backoff = exponential("1s", max = "365d1ms"), handler = external)]
struct Fourth(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME, Fourth::NAME];
}

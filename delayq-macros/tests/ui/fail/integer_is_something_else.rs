use delayq::{JobType, delayed_job};

#[delayed_job(name = "a", version = VERSION, handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, max_retries = 3u32, handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, max_retries = 1 + 2, handler = external)]
struct Third(u64);

#[delayed_job(name = "cancel_order", version = 1, priority = 2.5, handler = external)]
struct Fourth(u64);

#[delayed_job(name = "cancel_order", version = 1, priority = true, handler = external)]
struct Fifth(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME, Fourth::NAME, Fifth::NAME];
}

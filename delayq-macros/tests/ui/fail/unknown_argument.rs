use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, retries = 5, handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, time_out = "5s", handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, colour(red, green) = "blue", handler = external)]
struct Third(u64);

#[delayed_job(name = "cancel_order", version = 1, delayq::queue = "orders", handler = external)]
struct Fourth(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME, Fourth::NAME];
}

use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel order", version = 1, handler = external)]
struct First(u64);

#[delayed_job(name = "orders/cancel", version = 1, handler = external)]
struct Second(u64);

#[delayed_job(name = "bestätigt", version = 1, handler = external)]
struct Third(u64);

#[delayed_job(name = "::", version = 1, handler = external)]
struct Fourth(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME, Fourth::NAME];
}

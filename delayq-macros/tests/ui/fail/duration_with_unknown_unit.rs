use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, timeout = "30 s", handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, timeout = "5min", handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, timeout = "1.5h", handler = external)]
struct Third(u64);

#[delayed_job(name = "cancel_order", version = 1, timeout = "-5s", handler = external)]
struct Fourth(u64);

#[delayed_job(name = "cancel_order", version = 1, timeout = "soon", handler = external)]
struct Fifth(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME, Fourth::NAME, Fifth::NAME];
}

use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, unique = "order_id", handler = external)]
struct First(u64);

#[delayed_job(name = "cancel_order", version = 1, unique = self.0, handler = external)]
struct Second(u64);

#[delayed_job(name = "cancel_order", version = 1, unique = (), handler = external)]
struct Third(u64);

#[delayed_job(name = "cancel_order", version = 1, unique = (0, 1 + 1), handler = external)]
struct Fourth(u64);

#[delayed_job(name = "cancel_order", version = 1, unique = 0u8, handler = external)]
struct Fifth(u64);

fn main() {
    let _ = [First::NAME, Second::NAME, Third::NAME, Fourth::NAME, Fifth::NAME];
}

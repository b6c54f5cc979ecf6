use delayq::{JobType, delayed_job};

#[delayed_job(name = "cancel_order", version = 1, unique = (0, 0), handler = external)]
struct First(u64);

fn main() {
    let _ = [First::NAME];
}

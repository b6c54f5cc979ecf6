use delayq::delayed_job;

#[delayed_job(name = "one", version = 1, unique = items, handler = external)]
struct One {
    items: Vec<u64>,
}

#[delayed_job(name = "several", version = 1, unique = (shop, items), handler = external)]
struct Several {
    shop: String,
    items: Vec<u64>,
}

fn main() {}

//! A unique key is made of one field or several, named or numbered.

use delayq::{JobType, delayed_job};

#[delayed_job(name = "one", version = 1, unique = order_id, handler = external)]
struct One {
    order_id: u64,
    #[allow(dead_code)]
    note: String,
}

#[delayed_job(name = "several", version = 1, unique = (shop, order_id), handler = external)]
struct Several {
    shop: String,
    order_id: u64,
}

#[delayed_job(name = "raw", version = 1, unique = type, handler = external)]
struct Raw {
    r#type: String,
}

#[delayed_job(name = "numbered", version = 1, unique = 1, handler = external)]
struct Numbered(u64, String);

#[delayed_job(name = "both", version = 1, unique = (1, 0,), handler = external)]
struct Both(u64, String);

pub(crate) fn main() {
    let one = |order_id, note: &str| One { order_id, note: note.to_owned() }.unique_key();
    assert!(one(1, "a").is_some());
    assert_eq!(one(1, "a"), one(1, "b"));
    assert_ne!(one(1, "a"), one(2, "a"));

    let several = |shop: &str, order_id| Several { shop: shop.to_owned(), order_id }.unique_key();
    assert!(several("a", 1).is_some());
    assert_ne!(several("a", 1), several("b", 1));
    assert_ne!(several("a", 1), several("a", 2));

    assert_ne!(Raw { r#type: "a".to_owned() }.unique_key(), Raw { r#type: "b".to_owned() }.unique_key());

    let numbered = |id, text: &str| Numbered(id, text.to_owned()).unique_key();
    assert_eq!(numbered(1, "a"), numbered(2, "a"));
    assert_ne!(numbered(1, "a"), numbered(1, "b"));

    let both = |id, text: &str| Both(id, text.to_owned()).unique_key();
    assert_ne!(both(1, "a"), both(2, "a"));
    assert_ne!(both(1, "a"), both(1, "b"));
}

//! A payload may be any struct or enum, with parameters too.

use delayq::payload;

#[payload]
struct Plain {
    id: u64,
}

#[payload]
pub enum Either {
    Left,
    Right(u64),
    Both { left: String, right: u64 },
}

#[payload]
struct Wrapper<T> {
    inner: T,
}

#[payload()]
#[derive(Clone, Copy)]
#[serde(transparent)]
struct Id(u64);

#[payload(crate = ::delayq,)]
struct Unit;

fn is_payload<T: serde::Serialize + serde::de::DeserializeOwned>(_: T) {}

pub(crate) fn main() {
    is_payload(Plain { id: 1 });
    is_payload(Either::Left);
    is_payload(Either::Right(1));
    is_payload(Either::Both { left: String::new(), right: 1 });
    is_payload(Wrapper { inner: Id(1) });
    is_payload(Unit);
}

//! With `serde = external` the serde impls are the user's own.

use delayq::{JobType, delayed_job};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[delayed_job(name = "cancel_order", version = 1, handler = external, serde = external)]
struct CancelOrder(u64);

impl Serialize for CancelOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for CancelOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|id| CancelOrder(id + 1))
    }
}

pub(crate) fn main() {
    assert_eq!(CancelOrder::decode(1, b"7").unwrap().0, 8);
}

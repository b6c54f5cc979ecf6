//! Faults: data.

use super::{Fault, Group, open};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        open(55, "one-unique-key", Group::Data, "one unique key, 64 producers at once: one job", "not built yet"),
        open(56, "a-million-at-once", Group::Data, "1,000,000 jobs due in one millisecond", "not built yet"),
        open(57, "foreign-garbage", Group::Data, "a foreign writer puts garbage into the keys", "not built yet"),
        open(58, "large-integers", Group::Data, "integers above 2^53 come as they were sent", "not built yet"),
        open(59, "impossible-due", Group::Data, "negative and overflowing due times", "not built yet"),
        open(60, "races", Group::Data, "cancel, redrive and pause race with claims", "not built yet"),
    ]
}

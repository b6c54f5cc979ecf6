//! Faults: clock.

use super::{Fault, Group, open};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        open(51, "server-clock-ahead", Group::Clock, "the server is set 1 h ahead", "not built yet"),
        open(52, "server-clock-behind", Group::Clock, "the server is set 1 h back", "not built yet"),
        open(53, "worker-clock-off", Group::Clock, "the workers are 1 h off", "not built yet"),
        open(54, "replica-clock-ahead", Group::Clock, "the promoted replica is 5 s ahead", "not built yet"),
    ]
}

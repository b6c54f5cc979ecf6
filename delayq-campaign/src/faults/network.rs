//! Faults: network.

use super::{Fault, Group, open};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        open(44, "slow-network", Group::Network, "200 ms with jitter", "not built yet"),
        open(
            45,
            "reset-at-each-byte",
            Group::Network,
            "a reset at each byte of a reply to enqueue, claim, settle",
            "not built yet",
        ),
        open(46, "half-open", Group::Network, "connections that are dead, though nobody was told", "not built yet"),
        open(
            47,
            "truncated-reply",
            Group::Network,
            "a reply ends in the middle, the connection stays",
            "not built yet",
        ),
        open(48, "a-byte-a-second", Group::Network, "replies come byte by byte", "not built yet"),
        open(
            49,
            "lost-enqueue-reply",
            Group::Network,
            "the reply to a send is lost, the same id is sent again: one job",
            "not built yet",
        ),
        open(50, "refused-at-start", Group::Network, "nothing listens when processes start", "not built yet"),
    ]
}

//! Faults: replication.

use super::{Fault, Group, open};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        open(35, "demotion", Group::Replication, "the primary is demoted (READONLY)", "not built yet"),
        open(36, "sentinel-failover", Group::Replication, "Sentinel promotes a replica", "not built yet"),
        open(
            37,
            "frozen-master-wakes",
            Group::Replication,
            "a frozen primary wakes beside the new one",
            "not built yet",
        ),
        open(
            38,
            "unacknowledged-wait",
            Group::Replication,
            "replication is cut, then the replica promoted",
            "not built yet",
        ),
        open(39, "max-lag", Group::Replication, "the replica lags", "not built yet"),
        open(
            40,
            "empty-master-restarts",
            Group::Replication,
            "a primary without persistence restarts empty",
            "not built yet",
        ),
        open(41, "slot-migration", Group::Replication, "a slot moves (TRYAGAIN, ASK, MOVED)", "not built yet"),
        open(42, "node-loss", Group::Replication, "a node of a cluster is lost", "not built yet"),
        open(
            43,
            "loss-before-first-sync",
            Group::Replication,
            "the primary is lost before the first sync",
            "not built yet",
        ),
    ]
}

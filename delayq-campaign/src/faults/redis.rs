//! Faults: redis.

use super::{Fault, Group, open};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        open(
            19,
            "kill-server",
            Group::Redis,
            "kill -9 of the server under AOF always, everysec, no, and RDB alone",
            "not built yet",
        ),
        open(20, "power-cut", Group::Redis, "a power cut: what was not synced is gone", "not built yet"),
        open(21, "torn-aof-tail", Group::Redis, "the end of the append-only file is torn", "not built yet"),
        open(22, "freeze-server", Group::Redis, "SIGSTOP of the server for 1 s and for 30 s", "not built yet"),
        open(23, "script-flush", Group::Redis, "SCRIPT FLUSH, also with calls under way", "not built yet"),
        open(24, "full-memory", Group::Redis, "maxmemory with noeviction", "not built yet"),
        open(25, "eviction", Group::Redis, "maxmemory with allkeys-lru", "not built yet"),
        open(26, "maxclients", Group::Redis, "no further connection is let in", "not built yet"),
        open(27, "full-disk-everysec", Group::Redis, "the disk is full under everysec", "not built yet"),
        open(28, "full-disk-always", Group::Redis, "the disk is full under always", "not built yet"),
        open(29, "foreign-slow-script", Group::Redis, "a foreign script holds the server (BUSY)", "not built yet"),
        open(30, "client-kill", Group::Redis, "CLIENT KILL of all connections", "not built yet"),
        open(31, "aof-rewrite", Group::Redis, "the append-only file is rewritten at 1,000,000 jobs", "not built yet"),
        open(32, "loading", Group::Redis, "the server loads its data for long", "not built yet"),
        open(33, "empty-restart", Group::Redis, "the server comes back empty: noticed and alarmed", "not built yet"),
        open(34, "deleted-key", Group::Redis, "an internal key is deleted: repaired or reported", "not built yet"),
    ]
}

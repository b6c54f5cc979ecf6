//! A cluster that a run's queue lives in, and which of its nodes has it now.

use std::io;

use delayq::BoxError;
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::cluster::{Cluster, SLOTS};

use crate::work::QUEUE;

/// The queue that the probe writes to.
pub(super) const PROBED: &str = "probe";

/// Three primaries with a replica each.
const PRIMARIES: usize = 3;
const REPLICAS_EACH: usize = 1;

/// A cluster, and where in it the campaign's queue is.
pub(crate) struct Home {
    pub(crate) cluster: Cluster,
    /// The slot of all keys of the queue.
    pub(crate) slot: u16,
    /// The node that had it when it was last looked for.
    pub(crate) at: usize,
    /// Which shard of the probe's queue lies in the same slot, so that it is asked of the same node wherever that is.
    pub(super) probed: u32,
}

impl Home {
    pub(super) fn start(settings: &[&str]) -> Result<Home, BoxError> {
        let cluster = Cluster::start(PRIMARIES, REPLICAS_EACH, settings)?;
        let slot = slot_of(&tag(QUEUE, 0));
        let told = cluster.slot(&format!("{{{}}}", tag(QUEUE, 0)))?;
        if told != slot {
            return Err(format!("the queue was reckoned to be in slot {slot}, and Redis says {told}").into());
        }
        let probed = (0..u32::MAX).find(|index| slot_of(&tag(PROBED, *index)) == slot).unwrap_or_default();
        let at = cluster.owner(slot)?;
        Ok(Home { cluster, slot, at, probed })
    }

    /// The node that has the queue, as far as is known.
    pub(super) fn node(&mut self) -> &mut RedisServer {
        self.cluster.node_mut(self.at)
    }

    pub(super) fn port(&self) -> u16 {
        self.cluster.node(self.at).port()
    }

    /// Looks for the node that has the queue.
    pub(crate) fn look(&mut self) -> io::Result<usize> {
        self.at = self.cluster.owner(self.slot)?;
        Ok(self.at)
    }

    /// Starts again whoever is down.
    pub(super) fn heal(&mut self) -> Result<(), BoxError> {
        for index in 0..self.cluster.len() {
            let node = self.cluster.node_mut(index);
            if node.pid().is_none() || node.ended().is_some() {
                node.restart()?;
            }
        }
        Ok(())
    }
}

/// What stands between the braces of the keys of a shard.
fn tag(queue: &str, shard: u32) -> String {
    format!("{queue}/{shard}")
}

/// The slot of keys with this between their braces: CRC-16 as XMODEM has it.
fn slot_of(tag: &str) -> u16 {
    let shift = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    tag.bytes().fold(0, |crc, byte| (0..8).fold(crc ^ (u16::from(byte) << 8), shift)) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // As the documentation of Redis Cluster has it, and CLUSTER KEYSLOT of a server.
        for (tag, slot) in [("123456789", 0x31c3), ("foo", 12182), ("user1000", 3443)] {
            assert_eq!(slot_of(tag), slot, "{tag}");
        }
    }
}

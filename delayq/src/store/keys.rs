//! The only place that spells a key.

use std::sync::{Arc, Mutex, PoisonError};

use super::SessionId;
use crate::error::Error;
use crate::job::check_name;

/// What all keys of a store begin with, so that several applications can share a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// A prefix: a name like those of queues.
    ///
    /// # Errors
    /// It isn't.
    pub fn new(prefix: &str) -> Result<Prefix, Error> {
        check_name("prefix", prefix)?;
        Ok(Prefix(prefix.to_owned()))
    }

    /// The list of the queues in use, which belongs to no queue.
    pub(super) fn queues(&self) -> KeySet {
        vec![format!("{}:queues", self.0).into_bytes()].into()
    }
}

impl Default for Prefix {
    fn default() -> Prefix {
        Prefix("delayq".to_owned())
    }
}

/// A shard of a queue: `delayq:{orders/0}:`, the braces keeping its keys on one node of a cluster.
#[derive(Debug, Clone)]
pub struct Shard {
    base: String,
    queue: String,
    index: u32,
    /// The keys of the last session that was asked for: a worker wants the same twenty with each call.
    last: Arc<Mutex<Option<(SessionId, KeySet)>>>,
}

/// Keys in the order that a script names them.
#[derive(Debug, Clone)]
pub(super) struct KeySet(pub(super) Arc<[Vec<u8>]>);

impl From<Vec<Vec<u8>>> for KeySet {
    fn from(keys: Vec<Vec<u8>>) -> KeySet {
        KeySet(keys.into())
    }
}

impl Shard {
    pub(super) fn new(prefix: &Prefix, queue: &str, index: u32) -> Shard {
        Shard {
            base: format!("{}:{{{queue}/{index}}}:", prefix.0),
            queue: queue.to_owned(),
            index,
            last: Arc::default(),
        }
    }

    /// The queue's name.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Which of the queue's shards it is.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// One key by the name that the key table gives it.
    pub fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.base).into_bytes()
    }

    /// The set of what a session holds.
    pub fn held(&self, session: &SessionId) -> Vec<u8> {
        let mut key = self.key("held:");
        for byte in session {
            key.extend_from_slice(format!("{byte:02x}").as_bytes());
        }
        key
    }

    pub(super) fn wake(&self) -> Vec<u8> {
        self.key("wake")
    }

    /// All keys of the shard as `lua/lib/shard.lua` names them; without a session the held set is one that never exists.
    pub(super) fn all(&self, session: Option<&SessionId>) -> KeySet {
        let Some(session) = session else { return self.list(self.key("held:")).into() };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, keys)) if known == session => keys.clone(),
            _ => {
                let keys = KeySet::from(self.list(self.held(session)));
                *last = Some((*session, keys.clone()));
                keys
            }
        }
    }

    fn list(&self, held: Vec<u8>) -> Vec<Vec<u8>> {
        let mut keys = vec![self.key("jobs"), self.key("stats"), self.wake(), self.key("sessions"), held];
        for name in ["dead", "error", "done", "unique", "tombs"] {
            keys.push(self.key(name));
        }
        for priority in 0..=9u8 {
            keys.push(self.due(priority));
        }
        keys
    }

    /// All keys of the shard and the held sets of these sessions.
    pub(super) fn all_and_held(&self, sessions: &[SessionId]) -> KeySet {
        let mut keys = self.list(self.key("held:"));
        keys.extend(sessions.iter().map(|session| self.held(session)));
        keys.into()
    }

    /// The keys of `probe`.
    pub(super) fn probe(&self) -> KeySet {
        ["hash", "set", "sorted"].iter().map(|kind| self.key(&format!("probe:{kind}"))).collect::<Vec<_>>().into()
    }

    /// The keys of `enqueue`, with the due sets of these priorities.
    pub(super) fn enqueue(&self, priorities: &[u8]) -> KeySet {
        let mut keys: Vec<Vec<u8>> =
            ["jobs", "stats", "wake", "tombs", "unique"].iter().map(|name| self.key(name)).collect();
        keys.extend(priorities.iter().map(|priority| self.due(*priority)));
        keys.into()
    }

    fn due(&self, priority: u8) -> Vec<u8> {
        self.key(&format!("due:{priority}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_shard_share_its_hash_tag() {
        let shard = Shard::new(&Prefix::default(), "orders", 0);
        for key in shard.all(Some(&[7; 16])).0.iter().chain(&*shard.enqueue(&[0, 9]).0) {
            assert!(key.starts_with(b"delayq:{orders/0}:"), "{}", String::from_utf8_lossy(key));
        }
        assert_eq!(shard.all(None).0.len(), 20);
        let of = |session: u8| shard.all(Some(&[session; 16])).0;
        assert_eq!(of(7)[4], shard.held(&[7; 16]));
        assert_eq!((&of(8)[4], &of(7)[4]), (&shard.held(&[8; 16]), &shard.held(&[7; 16])), "not those of another");
        assert_eq!((of(7).len(), &of(7)[..4], &of(7)[5..]), (20, &of(8)[..4], &of(8)[5..]));
    }
}

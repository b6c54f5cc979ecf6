//! Puts jobs into the store, each once: `lua/enqueue.lua`.

use super::Call;
use crate::{Counter, DUE_MAX, Id, Key, Lock, NewJob, Part, Record, Reply, Sent, When};

impl Call<'_> {
    /// What refuses a caller of another layout.
    pub(super) fn layout(&self, schema: u32, shards: u32) -> Option<Reply> {
        let differs = |stored: Option<u32>, given: u32, part| stored.filter(|s| *s != given && self.keeps(part));
        if let Some(stored) = differs(self.s.stats.schema, schema, Part::WSchema) {
            return Some(Reply::OtherSchema(stored));
        }
        differs(self.s.stats.shards, shards, Part::VShards).map(Reply::OtherShards)
    }

    pub(super) fn set_layout(&mut self, schema: u32, shards: u32) {
        if self.s.stats.schema.is_none() {
            self.s.stats.schema = Some(schema);
            self.s.stats.shards = Some(shards);
        }
    }

    pub(super) fn enqueue(&mut self, jobs: &[NewJob], schema: u32, shards: u32) -> Reply {
        if let Some(refused) = self.layout(schema, shards) {
            return refused;
        }
        let mut head: Option<u64> = None;
        let mut replies = Vec::with_capacity(jobs.len());
        for new in jobs {
            let (sent, due) = self.send(new);
            if sent == Sent::Created {
                head = Some(head.map_or(due, |head| head.min(due)));
            }
            replies.push(sent);
        }
        if let Some(head) = head {
            self.set_layout(schema, shards);
            self.arm(Part::LEnqueue, head);
        }
        Reply::Sent(replies)
    }

    fn send(&mut self, new: &NewJob) -> (Sent, u64) {
        let due = self.due_of(new.when);
        let gone = self.ended_as(new.id).is_some();
        if let Some(owner) = new.key.filter(|_| !gone).and_then(|key| self.owner_of(key, new.id)) {
            return (Sent::Duplicate(owner), due);
        }
        if gone || (self.s.jobs.contains_key(&new.id) && self.keeps(Part::KOnce)) {
            return (Sent::Already, due);
        }
        if let Some(key) = new.key {
            let until = if new.key_ttl > 0 { (due + new.key_ttl).min(DUE_MAX) } else { 0 };
            self.s.unique.insert(key, Lock { owner: new.id, until });
        }
        let record = Record {
            priority: new.priority,
            cancel_waits: false,
            crashes: 0,
            free: 0,
            attempts: 0,
            limit: new.limit,
            run: self.now.ms(),
            due,
            enqueued: self.now.ms(),
            expires: new.expires.map_or(0, |ms| (due + ms).min(DUE_MAX)),
            retain: new.retain.min(DUE_MAX),
            key: new.key,
        };
        self.s.stats.priorities |= 1 << new.priority;
        self.count(Counter::Enqueued, 1);
        self.wait(new.id, record);
        (Sent::Created, due)
    }

    pub(super) fn due_of(&self, when: When) -> u64 {
        match when {
            When::In(ms) => self.rounded() + ms,
            When::At(ms) => ms,
        }
    }

    /// The job that has this key, if it is neither this one nor over.
    fn owner_of(&self, key: Key, id: Id) -> Option<Id> {
        let lock = self.s.unique.get(&key)?;
        let over = lock.until > 0 && lock.until <= self.now.ms();
        let keeps = lock.owner != id && !over && self.s.jobs.contains_key(&lock.owner) && self.keeps(Part::RRefuse);
        keeps.then_some(lock.owner)
    }
}

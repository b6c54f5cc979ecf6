//! How a job ends or comes back: `lua/lib/ends.lua` and the rewriting of `lua/lib/record.lua`.

use super::Call;
use crate::{Code, Counter, DUE_MAX, End, Id, Member, Note, Part, Record, TOMB_MS, Tomb};

impl Call<'_> {
    pub(super) fn count(&mut self, counter: Counter, n: u32) {
        self.s.stats.counters[counter as usize] += n;
    }

    /// How the job ended that left a tombstone which still counts.
    pub(super) fn ended_as(&self, id: Id) -> Option<End> {
        self.s.tombs.get(&id).filter(|tomb| !self.is_old(**tomb)).map(|tomb| tomb.how)
    }

    /// A tombstone of just that age still counts: its score has the end's code in its last bits.
    fn is_old(&self, tomb: Tomb) -> bool {
        tomb.at + TOMB_MS < self.now.ms()
    }

    pub(super) fn bury_tomb(&mut self, id: Id, how: End) {
        if self.keeps(Part::ITomb) {
            self.s.tombs.insert(id, Tomb { at: self.now.ms(), how });
        }
    }

    /// Drops at most so many old tombstones, the oldest first.
    pub(super) fn trim_tombs(&mut self, most: usize) {
        let mut old: Vec<(u64, End, Id)> =
            self.s.tombs.iter().filter(|(_, tomb)| self.is_old(**tomb)).map(|(id, t)| (t.at, t.how, *id)).collect();
        old.sort_unstable();
        for (_, _, id) in old.into_iter().take(most) {
            self.s.tombs.remove(&id);
        }
    }

    /// Only the owner releases (rule r).
    pub(super) fn release_key(&mut self, id: Id, record: &Record) {
        if let Some(key) = record.key
            && let Some(lock) = self.s.unique.get(&key)
            && (lock.owner == id || !self.keeps(Part::ROwner))
            && self.keeps(Part::RRelease)
        {
            self.s.unique.remove(&key);
        }
    }

    /// The job is over and leaves nothing but a tombstone.
    pub(super) fn erase(&mut self, id: Id, record: &Record, how: End) {
        self.release_key(id, record);
        self.s.jobs.remove(&id);
        self.s.notes.remove(&id);
        self.bury_tomb(id, how);
    }

    pub(super) fn note(&mut self, id: Id, code: Code, attempts: u16) {
        self.s.notes.insert(id, Note { code, at: self.now.ms(), attempts });
    }

    /// The job becomes a dead letter.
    pub(super) fn bury(&mut self, member: Member, record: &Record, code: Code, attempts: u16) {
        self.release_key(member.id, record);
        let buried = Record { attempts, ..self.again(record, Some(member.run)) };
        self.s.jobs.insert(member.id, buried);
        self.note(member.id, code, attempts);
        self.s.dead.insert(member.id, self.now.ms());
    }

    /// Retained jobs whose time is over.
    pub(super) fn trim_done(&mut self) {
        let now = self.now.ms();
        let over: Vec<Id> = self.s.done.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect();
        for id in over {
            self.s.done.remove(&id);
            self.s.jobs.remove(&id);
        }
    }

    /// The record as it waits again: a new run number, and no cancel that waits.
    pub(super) fn again(&self, record: &Record, run: Option<u64>) -> Record {
        let mut again = Record { cancel_waits: false, ..record.clone() };
        if self.keeps(Part::DRise) {
            again.run = (record.run + 1).max(run.unwrap_or(0) + 1);
            if self.keeps(Part::DClock) {
                again.run = again.run.max(self.now.ms());
            }
        }
        again
    }

    /// It waits again.
    pub(super) fn wait(&mut self, id: Id, record: Record) {
        self.s.due.insert((record.priority, id), record.due);
        self.s.jobs.insert(id, record);
    }

    pub(super) fn due_in(&self, delay: u64) -> u64 {
        (self.rounded() + delay).min(DUE_MAX)
    }

    /// Now as due times are counted from.
    pub(super) fn rounded(&self) -> u64 {
        if self.keeps(Part::HRound) { self.now.ms_up() } else { self.now.ms() }
    }
}

/// One more attempt; the number above is no limit's.
pub(super) fn attempts_plus_one(record: &Record) -> u16 {
    record.attempts.saturating_add(1).min(crate::NO_LIMIT - 1)
}

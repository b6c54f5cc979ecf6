//! What is done about dead letters: `lua/dead_redrive.lua` and `lua/dead_delete.lua`.

use super::Call;
use crate::{Counter, End, Id, Lock, Part, Record, Redriven, Reply};

impl Call<'_> {
    pub(super) fn redrive(&mut self, ids: &[Id]) -> Reply {
        if ids.is_empty() {
            return Reply::Redriven(Vec::new());
        }
        let due = self.rounded();
        let letters: Vec<Redriven> = ids.iter().map(|id| self.redrive_one(*id, due)).collect();
        let redriven = letters.iter().filter(|letter| **letter == Redriven::Ok).count();
        if redriven > 0 {
            self.count(Counter::Redriven, redriven as u32);
            self.arm(Part::LRedrive, due);
        }
        Reply::Redriven(letters)
    }

    fn redrive_one(&mut self, id: Id, due: u64) -> Redriven {
        if !self.s.dead.contains_key(&id) {
            return Redriven::NoLetter;
        }
        let Some(record) = self.s.jobs.get(&id).cloned() else { return Redriven::Missing };
        if let Some(key) = record.key {
            let owner = self.s.unique.get(&key).map(|lock| lock.owner);
            let taken = owner.is_some_and(|owner| owner != id && self.s.jobs.contains_key(&owner));
            if taken && self.keeps(Part::RConflict) {
                return Redriven::KeyTaken;
            }
            if self.keeps(Part::RRedrive) {
                self.s.unique.insert(key, Lock { owner: id, until: 0 });
            }
        }
        // Its attempts begin anew; what it did to its workers is remembered. An expiry is over: a person wants it to run.
        let again = Record { attempts: 0, due, expires: 0, ..self.again(&record, None) };
        self.s.dead.remove(&id);
        self.s.notes.remove(&id);
        self.wait(id, again);
        Redriven::Ok
    }

    pub(super) fn delete(&mut self, ids: &[Id]) -> Reply {
        if ids.is_empty() {
            return Reply::Deleted(Vec::new());
        }
        // Read before anything is written, as the script does.
        let was_dead: Vec<bool> = ids.iter().map(|id| self.s.dead.contains_key(id)).collect();
        let was_deleted: Vec<bool> = ids.iter().map(|id| self.ended_as(*id) == Some(End::Deleted)).collect();
        let mut deleted = 0;
        for id in ids {
            if self.s.dead.remove(id).is_some() {
                self.s.jobs.remove(id);
                self.s.notes.remove(id);
                self.bury_tomb(*id, End::Deleted);
                deleted += 1;
            }
        }
        self.count(Counter::Deleted, deleted);
        self.trim_tombs(2 * ids.len());
        Reply::Deleted(was_dead.iter().zip(was_deleted).map(|(dead, deleted)| *dead || deleted).collect())
    }
}

//! What clients ask of a job: `lua/cancel.lua` and `lua/reschedule.lua`.

use super::Call;
use crate::{Counter, DUE_MAX, End, Id, Part, Reply, When};

impl Call<'_> {
    /// What a job is that can be neither cancelled nor moved, if it is one.
    fn not_there(&self, id: Id) -> Option<Reply> {
        if !self.s.jobs.contains_key(&id) {
            return Some(self.ended_as(id).map_or(Reply::NoJob, Reply::Ended));
        }
        if self.s.dead.contains_key(&id) {
            return Some(Reply::IsDead);
        }
        self.s.done.contains_key(&id).then_some(Reply::IsDone)
    }

    pub(super) fn cancel(&mut self, id: Id) -> Reply {
        match self.not_there(id) {
            Some(Reply::Ended(End::Cancelled)) => return Reply::Cancelled,
            Some(reply) => return reply,
            None => {}
        }
        let Some(mut record) = self.s.jobs.get(&id).cloned() else { return Reply::NoJob };
        if self.s.due.remove(&(record.priority, id)).is_some() {
            self.erase(id, &record, End::Cancelled);
            self.trim_tombs(2);
            if self.keeps(Part::SCounted) {
                self.count(Counter::Cancelled, 1);
            }
            return Reply::Cancelled;
        }
        if !self.keeps(Part::OFlag) {
            self.erase(id, &record, End::Cancelled);
            self.count(Counter::Cancelled, 1);
        } else if !record.cancel_waits {
            record.cancel_waits = true;
            self.s.jobs.insert(id, record);
            self.s.stats.cancelling += 1;
        }
        Reply::Running
    }

    pub(super) fn reschedule(&mut self, id: Id, when: When) -> Reply {
        let due = self.due_of(when);
        if let Some(reply) = self.not_there(id) {
            return reply;
        }
        let Some(mut record) = self.s.jobs.get(&id).cloned() else { return Reply::NoJob };
        if !self.s.due.contains_key(&(record.priority, id)) {
            return Reply::Running;
        }
        if record.expires > 0 {
            // It expires as long after the new due time as after the old one.
            let moved = due as i64 - record.due as i64;
            record.expires = (record.expires as i64 + moved).clamp(1, DUE_MAX as i64) as u64;
        }
        record.due = due;
        self.wait(id, record);
        self.arm(Part::LReschedule, due);
        Reply::Rescheduled(due)
    }
}

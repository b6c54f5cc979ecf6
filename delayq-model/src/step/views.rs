//! What only looks: `lua/inspect.lua` and `lua/stats.lua`.

use super::Call;
use crate::{Counts, Id, Part, Place, Reply};

impl Call<'_> {
    pub(super) fn inspect(&self, id: Id) -> Reply {
        let Some(record) = self.s.jobs.get(&id) else {
            return self.ended_as(id).map_or(Reply::NoJob, Reply::Ended);
        };
        let due = self.s.due.get(&(record.priority, id));
        match (self.s.dead.get(&id), self.s.done.get(&id), due) {
            (Some(since), ..) => Reply::Found(Place::Dead, *since),
            (None, Some(until), _) => Reply::Found(Place::Done, *until),
            (None, None, Some(due)) => Reply::Found(Place::Due, *due),
            (None, None, None) => Reply::Found(Place::Running, record.due),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let (s, now) = (&*self.s, self.now.ms());
        let (records, waiting, dead, done) = (s.jobs.len(), s.due.len(), s.dead.len(), s.done.len());
        // Counted from the held sets, never by subtraction (rule s).
        let running = if self.keeps(Part::SRunning) {
            s.held.iter().filter(|(session, _)| s.sessions.contains_key(session)).count()
        } else {
            records.saturating_sub(waiting + dead + done)
        };
        Counts {
            records,
            waiting,
            due: s.due.values().filter(|due| **due <= now).count(),
            running,
            dead,
            done,
            sessions: s.sessions.values().filter(|ends| **ends > now).count(),
            expired: s.sessions.values().filter(|ends| **ends <= now).count(),
            paused: s.stats.paused.is_some(),
            head: s.head(),
        }
    }
}

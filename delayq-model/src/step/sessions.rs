//! A session's beginning, signs of life and end: `lua/open.lua`, `lua/beat.lua` and `lua/close.lua`.

use super::Call;
use crate::{Part, Reply, Session};

/// How many lost sessions one beat tells of.
const TOLD: usize = 5;
/// How long a timer may be overdue before a beat does something about it, ms.
const OVERDUE: u64 = 50;

impl Call<'_> {
    pub(super) fn open(&mut self, session: Session, lease: u64, schema: u32, shards: u32) -> Reply {
        if let Some(refused) = self.layout(schema, shards) {
            return refused;
        }
        let used = self.s.sessions.contains_key(&session) || self.s.held_count(session) > 0;
        if used && self.keeps(Part::AOnce) {
            return Reply::Exists;
        }
        self.set_layout(schema, shards);
        let longest = self.s.stats.lease_max.unwrap_or(0).max(lease);
        self.s.stats.lease_max = Some(longest);
        self.s.sessions.insert(session, self.now.ms() + lease);
        self.s.stats.seqs.insert(session, 0);
        Reply::Opened
    }

    pub(super) fn beat(&mut self, session: Session, lease: u64, timer: u64) -> Reply {
        if !self.s.stands(session) && self.keeps(Part::ARenew) {
            return Reply::Lost;
        }
        let now = self.now.ms();
        let (paused, lease_max) = (self.s.stats.paused.is_some(), self.s.stats.lease_max.unwrap_or(lease));
        let held = self.s.held_count(session);
        self.s.sessions.insert(session, now + lease);
        for (priority, _) in self.s.due.keys() {
            self.s.stats.priorities |= 1 << priority;
        }

        // Rule e: nobody could beat for a while, so nobody's expiry means anything for one more lease.
        let last = self.s.stats.last_beat.unwrap_or(now);
        if 2 * now.saturating_sub(last) > lease_max && self.keeps(Part::EHold) {
            self.s.stats.hold_until = Some(now + lease_max);
        }
        self.s.stats.last_beat = Some(now);
        if self.keeps(Part::ECut) {
            self.s.stats.hold_until = self.s.stats.hold_until.map(|until| until.min(now + lease_max));
            for ends in self.s.sessions.values_mut() {
                *ends = (*ends).min(now + lease_max);
            }
        }
        self.trim_done();

        let timer_at = self.s.stats.timer_at.unwrap_or(0);
        let mut wait_us = None;
        if timer > 0 && timer == timer_at {
            wait_us = Some((timer_at * 1000).saturating_sub(self.now.us));
        } else if timer_at + OVERDUE <= now && !paused && self.keeps(Part::MBeat) {
            // Nobody watches the clock: its holder died, or a dead connection ate the marker (rule m).
            if let Some(head) = self.s.head() {
                self.pass_on(Some(head));
            }
        }
        let mut lost: Vec<(u64, Session)> =
            self.s.sessions.iter().filter(|(_, ends)| **ends <= now).map(|(session, ends)| (*ends, *session)).collect();
        lost.sort_unstable();
        let lost = lost.into_iter().take(TOLD).map(|(_, session)| session).collect();
        Reply::Beat { held, paused, wait_us, lost }
    }

    pub(super) fn close(&mut self, session: Session) -> Reply {
        if !self.s.stands(session) {
            return Reply::Lost;
        }
        let held = self.s.held_count(session);
        if held > 0 && self.keeps(Part::GHolds) {
            return Reply::Holds(held);
        }
        self.s.sessions.remove(&session);
        self.s.stats.seqs.remove(&session);
        if self.keeps(Part::MClose) {
            self.pass_on(self.s.head());
        }
        Reply::Closed
    }
}

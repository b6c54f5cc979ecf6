//! Who watches the clock: `lua/lib/arm.lua`, and the scripts that pass the baton on.

use super::Call;
use crate::{Part, Reply};

impl Call<'_> {
    /// A job became due then, earlier than before perhaps: one marker, if no timer covers it.
    pub(super) fn arm(&mut self, part: Part, due: u64) {
        let at = self.s.stats.timer_at;
        if self.keeps(part) && at.is_none_or(|at| due < at || at <= self.now.ms()) {
            // An overdue timer stays as it is, so that beats see that nobody came.
            let due = at.map_or(due, |at| at.min(due));
            self.s.stats.timer_at = Some(due);
            self.s.wake = Some(due);
        }
    }

    /// Gives the clock away: whoever is idle next takes the marker.
    pub(super) fn pass_on(&mut self, head: Option<u64>) {
        self.s.stats.timer_at = head;
        if head.is_some() {
            self.s.wake = head;
        }
    }

    pub(super) fn pass(&mut self) -> Reply {
        if self.keeps(Part::MPass) {
            let head = self.s.head().filter(|_| self.s.stats.paused.is_none());
            self.pass_on(head);
        }
        Reply::Passed
    }

    pub(super) fn pause(&mut self, on: bool) -> Reply {
        let was = self.s.stats.paused.is_some();
        if on {
            self.s.stats.paused.get_or_insert(self.now.ms());
        } else {
            self.s.stats.paused = None;
            if self.keeps(Part::LResume) {
                self.pass_on(self.s.head());
            }
        }
        Reply::Paused(was != on)
    }
}

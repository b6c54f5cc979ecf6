//! A job that was there in two crashes runs while nothing else does in this process (rule p).

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::pump::{Pump, not_ready};
use crate::error::Error;
use crate::limits::CLAIM_BYTES_MAX;
use crate::store::SessionId;
use crate::store::ops::Claim;

/// From this many crashes on a job runs alone; `lua/lib/record.lua` has the same number.
pub(super) const SOLO_AT: u8 = 2;
/// How long a lane empties itself for a job that wants to run alone, before it goes on with others.
const DRAIN_FOR_SOLO: Duration = Duration::from_secs(10);
/// For how long a lane that emptied itself in vain leaves such jobs to others: where runs are long, it would only ever wait.
const SOLO_PAUSE: Duration = Duration::from_secs(60);

/// The process's running for one job alone.
pub(super) enum Alone {
    No,
    /// This job wants it: nothing is claimed until nothing runs.
    Wanted {
        id: [u8; 16],
        since: Instant,
    },
    /// It runs.
    Running,
}

impl Pump {
    pub(super) fn may_claim(&mut self) -> bool {
        match &self.alone {
            Alone::No => !self.hub.solo.is_taken(),
            Alone::Running => {
                // It was judged and blocks its thread on: there is nothing to be alone for.
                let is_over = self.lane.runs.are_stuck();
                if is_over {
                    self.end_alone();
                }
                is_over
            }
            Alone::Wanted { since, .. } => {
                if since.elapsed() < DRAIN_FOR_SOLO {
                    return false;
                }
                self.end_alone();
                self.solo_after = Some(Instant::now() + SOLO_PAUSE);
                true
            }
        }
    }

    /// A job was deferred that wants to run alone: the lane empties itself for it.
    pub(super) fn want_alone(&mut self, id: [u8; 16]) {
        let may = self.solo_after.is_none_or(|after| Instant::now() >= after);
        if may && matches!(self.alone, Alone::No) && self.hub.solo.take() {
            self.alone = Alone::Wanted { id, since: Instant::now() };
        }
    }

    /// A job that must run alone was given to the lane. If something else runs, or may be given to another lane in this moment, it
    /// can't be begun.
    pub(super) fn begins_alone(&mut self, id: [u8; 16], is_alone: bool) -> bool {
        let is_ours = matches!(self.alone, Alone::Wanted { .. }) || self.hub.solo.take();
        if is_ours && is_alone {
            self.alone = Alone::Running;
            return true;
        }
        if is_ours && matches!(self.alone, Alone::No) {
            self.alone = Alone::Wanted { id, since: Instant::now() };
        }
        false
    }

    pub(super) fn end_alone(&mut self) {
        self.alone = Alone::No;
        self.hub.solo.release();
        self.hungry = true;
    }

    /// The job that wants to run alone, once nothing else runs.
    pub(super) fn its_turn_alone(&self) -> Option<[u8; 16]> {
        match self.alone {
            Alone::Wanted { id, .. } if self.hub.slots.are_all_free() => Some(id),
            _ => None,
        }
    }

    pub(super) async fn call_alone(&mut self, session: SessionId, id: [u8; 16]) -> Result<(), Error> {
        if !self.hub.slots.take(1) {
            return Ok(());
        }
        let mut ready = Vec::with_capacity(1);
        let polled = poll_fn(|cx| Poll::Ready(self.poll_reserve(cx, 1, &mut ready))).await;
        if ready.is_empty() {
            self.hub.slots.free(1);
            self.end_alone();
            return polled.map_err(not_ready);
        }
        let timer_ms = self.duty.unwrap_or_else(|| self.lane.timer_ms());
        let claim =
            Claim { count: 1, bytes: CLAIM_BYTES_MAX, timer_ms, alone: Some(id), in_company: false, verdicts: &[] };
        let calling = self.lane.calling();
        let answer = self.store.claim(&self.lane.shard, &session, self.lane.next_seq(), claim).await;
        drop(calling);
        match answer {
            Ok(Ok(claimed)) => {
                self.duty = None;
                self.claimed(claimed, self.lane.timer_ms(), &mut ready);
                self.hungry = true;
                if !matches!(self.alone, Alone::Running) {
                    // Somebody else has it by now.
                    self.end_alone();
                }
                self.hub.slots.free(ready.len());
                Ok(())
            }
            Ok(Err(refusal)) => {
                self.hub.slots.free(1);
                self.end_alone();
                self.refused(refusal);
                Ok(())
            }
            Err(error) => {
                self.hub.slots.free(1);
                self.end_alone();
                Err(error)
            }
        }
    }
}

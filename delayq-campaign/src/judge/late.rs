//! T: every acknowledged job ends, and each run comes in time, counted from when all was well again.

use super::facts::{Claim, Facts};
use super::{Invariant, Look};

/// What a job that was there in several crashes may wait for a process of its own, µs.
const ALONE: u64 = 15_000_000;
/// A beat, and a hold of one more lease after an outage, µs.
const BEATS: u64 = 2_500_000;

pub(super) fn look(facts: &Facts) -> Look {
    let mut look = Look::new(Invariant::T);
    for (id, job) in facts.jobs.iter().filter(|(_, job)| !job.invokes.is_empty()) {
        look.saw();
        if job.is_live() && !job.reported {
            let place = job.stored.as_ref().map(|stored| format!("{:?}", stored.places)).unwrap_or_default();
            look.found(Some(*id), format!("{id} has not ended when all else had: {place}"));
        }
        for (nth, claim) in job.claims.iter().enumerate() {
            let sent = job.invokes.first().map_or(0, |invoke| invoke.t);
            if let Some(late_us) = late(facts, claim, nth, sent) {
                look.found(Some(*id), format!("{id} was claimed {} ms later than it had to be", late_us / 1000));
            }
        }
    }
    look
}

fn late(facts: &Facts, claim: &Claim, nth: usize, sent: u64) -> Option<u64> {
    if !facts.clocks.is_empty() {
        return None;
    }
    let due = (claim.due_ms as i64 * 1000 - facts.wall_offset?).max(0) as u64;
    let since = due.max(sent).max(facts.calm_since(claim.t));
    let alone = if nth >= 2 { ALONE } else { 0 };
    let until = since + 2 * facts.lease_us + BEATS + facts.slack_us + alone;
    claim.t.checked_sub(until).filter(|late| *late > 0)
}

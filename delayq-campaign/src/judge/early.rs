//! E: nothing starts before it is due, by the store's clock and by the monotonic one.

use super::facts::{Claim, Facts, Job, WALL_DRIFT};
use super::{Invariant, Look};
use crate::history::When;

/// What two readings of different clocks may differ by, µs.
const TOLERANCE: i64 = 3500;
/// How long after the claim its process may write it down, µs: so long an earlier offset of the clock may have counted.
const AWHILE: u64 = 3_000_000;

pub(super) fn look(facts: &Facts) -> Look {
    let mut look = Look::new(Invariant::E);
    for (id, job) in facts.jobs.iter().filter(|(_, job)| !job.is_foreign()) {
        for (nth, claim) in job.claims.iter().enumerate() {
            look.saw();
            let early = by_the_claim(claim)
                .or_else(|| by_the_wall(facts, claim))
                .or_else(|| if nth == 0 { by_the_send(facts, job, claim) } else { None });
            if let Some((us, which)) = early {
                look.found(Some(*id), format!("{id} started {us} µs before it was due, {which}"));
            }
        }
    }
    look
}

/// The claim's own single reading of the store's clock.
fn by_the_claim(claim: &Claim) -> Option<(i64, &'static str)> {
    let early = claim.due_ms as i64 * 1000 - claim.now_us as i64;
    (early > 0).then_some((early, "by the store's clock at its claim"))
}

/// The machine's clock, which is the store's, plus what the campaign put the store's off by.
fn by_the_wall(facts: &Facts, claim: &Claim) -> Option<(i64, &'static str)> {
    let wall = claim.t as i64 + facts.wall_offset?;
    let store = wall + facts.clock_offset(claim.t.saturating_sub(AWHILE), claim.t);
    let early = claim.due_ms as i64 * 1000 - store;
    (early > TOLERANCE).then_some((early, "by the store's clock at its start"))
}

/// The monotonic clock: a delay counts from when the send arrived, so not from before it was asked for.
fn by_the_send(facts: &Facts, job: &Job, claim: &Claim) -> Option<(i64, &'static str)> {
    let invoke = job.invokes.first()?;
    let When::In(delay_ms) = invoke.when else { return None };
    if !facts.clocks.is_empty() || facts.wall_moved_us > WALL_DRIFT {
        return None;
    }
    let early = (invoke.t + delay_ms * 1000) as i64 - claim.t as i64;
    (early > TOLERANCE).then_some((early, "by the monotonic clock since its send"))
}

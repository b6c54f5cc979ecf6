//! L: what was acknowledged is there or has ended; what nobody sent, or what was refused, is not there.

use super::facts::{Facts, Job};
use super::{Invariant, Look};

pub(super) fn look(facts: &Facts) -> Look {
    let mut look = Look::new(Invariant::L);
    for (id, job) in &facts.jobs {
        let there = job.is_live() || job.is_dead() || job.is_retained() || job.tomb.is_some() || !job.claims.is_empty();
        if job.invokes.is_empty() {
            if there && !job.reported {
                look.found(Some(*id), format!("nobody sent {id}, and yet it is there or was run"));
            }
            continue;
        }
        if !job.is_acked() {
            // Refused each time: nothing of it may be there. An unknown outcome, or none, may be either.
            let all_refused = job.unknowns == 0 && job.refusals.len() == job.invokes.len();
            if all_refused && there {
                look.found(
                    Some(*id),
                    format!("the send of {id} was refused ({}), and yet it is there", job.refusals[0]),
                );
            }
            continue;
        }
        look.saw();
        let excused = job.reported || job.acks.iter().all(|ack| facts.may_be_lost(*ack));
        if !excused && !job.is_live() && !has_ended(job) {
            look.found(Some(*id), format!("{id} was acknowledged, and is gone without a trace of an end"));
        }
    }
    look
}

/// What is gone in windows in which it may be: how many acknowledged jobs, and how long before the end of its window the first
/// of them was acknowledged, µs.
pub(super) fn in_windows(facts: &Facts) -> (usize, u64) {
    let gone = |job: &&Job| job.is_acked() && !job.reported && !job.is_live() && !has_ended(job);
    let ages = facts.jobs.values().filter(gone).filter_map(|job| {
        // An acknowledgement that was told twice was there when it was told last.
        job.acks.iter().filter_map(|ack| facts.left_of_window(*ack)).min()
    });
    ages.fold((0, 0), |(count, oldest), age| (count + 1, oldest.max(age)))
}

/// Something shows that it ended: the store's record, or the process that ended it.
fn has_ended(job: &Job) -> bool {
    job.is_dead()
        || job.is_retained()
        || job.tomb.is_some()
        || job.has_effect()
        || job.claims.iter().any(|claim| claim.ended_it())
        || job.may_be_cancelled()
}

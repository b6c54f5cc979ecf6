//! D: each further run of a job has a cause: its own wish, or what befell the run before it.

use super::facts::{Claim, Facts, Job};
use super::{Invariant, Look};

/// How long after a run's end its settle may still be under way, µs.
const SETTLING: u64 = 1_500_000;

pub(super) fn look(facts: &Facts) -> Look {
    let mut look = Look::new(Invariant::D);
    for (id, job) in facts.jobs.iter().filter(|(_, job)| !job.is_foreign()) {
        let mut runs: Vec<&Claim> = job.claims.iter().collect();
        // By the store's order: a frozen process writes its claim down late.
        runs.sort_by_key(|claim| (claim.token, claim.t));
        for (nth, run) in runs.iter().enumerate() {
            look.saw();
            let Some(next) = runs.get(nth + 1) else { continue };
            if cause(facts, job, run, next).is_none() {
                look.found(
                    Some(*id),
                    format!(
                        "{id} ran again at {} by {} without a cause: {} had run it at {}",
                        next.t, next.by, run.by, run.t
                    ),
                );
            }
        }
    }
    look
}

/// Why the job ran again.
fn cause(facts: &Facts, job: &Job, run: &Claim, next: &Claim) -> Option<String> {
    if run.came_to("retry") || run.came_to("snooze") {
        return Some("it asked for it".to_owned());
    }
    if job.redriven.iter().any(|t| *t <= next.t) && run.came_to("dead") {
        return Some("it was redriven".to_owned());
    }
    // A lease may have run out before the claim, and be noticed after it.
    let from = run.t.min(next.t).saturating_sub(facts.lease_us + SETTLING);
    let to = match &run.outcome {
        Some((ended, ..)) if run.ended_it() => (*ended + SETTLING).min(next.t.max(*ended)),
        _ => next.t,
    };
    if let Some(interval) = facts.disturbed(&run.by, from, to) {
        return Some(interval.what.clone());
    }
    facts.rolled_back(from, next.t).then(|| "the store went back".to_owned())
}

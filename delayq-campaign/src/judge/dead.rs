//! Q: the dead letters are exactly the jobs that belong there, with reason, attempts and bytes.

use super::facts::{Facts, Job, Stored};
use super::{Invariant, Look};
use crate::history::Ending;

/// As many crashes put a job aside.
const CRASHES: u32 = 2;

pub(super) fn look(facts: &Facts) -> Look {
    let mut look = Look::new(Invariant::Q);
    for (id, job) in &facts.jobs {
        let wanted = job.ending().and_then(reason_of);
        if job.is_dead() && !job.reported {
            look.saw();
            if let Some(wrong) = job.stored.as_ref().and_then(|stored| wrong_letter(facts, job, stored, wanted)) {
                look.found(Some(*id), format!("the dead letter {id} {wrong}"));
            }
        } else if let Some(wanted) = wanted.filter(|_| job.is_acked() && !job.is_dead()) {
            look.saw();
            let excused = job.reported || job.may_be_cancelled() || job.acks.iter().any(|ack| facts.may_be_lost(*ack));
            // What is not over yet is T's; what left no trace at all is L's.
            let over = job.tomb.is_some() || job.is_retained() || job.claims.iter().any(|claim| claim.ended_it());
            if over && !job.is_live() && !excused && job.redriven.is_empty() {
                look.found(Some(*id), format!("{id} must be a dead letter ({wanted}), and is none"));
            }
        }
    }
    look
}

fn reason_of(ending: Ending) -> Option<&'static str> {
    Some(match ending {
        Ending::RetriesExhausted => "retries_exhausted",
        Ending::Buried => "buried",
        Ending::CrashLoop => "crash_loop",
        Ending::UnknownJob => "unknown_job",
        Ending::UnknownVersion => "unknown_version",
        Ending::Undecodable => "undecodable",
        Ending::Done | Ending::Discarded | Ending::Any => return None,
    })
}

fn wrong_letter(facts: &Facts, job: &Job, stored: &Stored, wanted: Option<&str>) -> Option<String> {
    if job.invokes.is_empty() {
        return None;
    }
    let Some(reason) = stored.reason.as_deref() else { return Some("has no reason".to_owned()) };
    if job.invokes.iter().all(|invoke| invoke.bytes != stored.bytes) {
        return Some("has other bytes than were sent".to_owned());
    }
    if Some(reason) == wanted {
        let max = job.invokes.first().map_or(0, |invoke| invoke.attempts_max);
        return (reason == "retries_exhausted" && stored.attempts < max)
            .then(|| format!("is exhausted after {} of {max} attempts", stored.attempts));
    }
    // Any job may have been there in too many crashes.
    let crashed = !facts.intervals.is_empty();
    let max = job.invokes.first().map_or(u32::MAX, |invoke| invoke.attempts_max);
    match reason {
        "crash_loop" if crashed && stored.crashes >= CRASHES => None,
        "retries_exhausted" if crashed && stored.crashes > 0 && stored.attempts >= max => None,
        _ => Some(format!(
            "is there for {reason}, and {}",
            wanted.map_or("does not belong there".to_owned(), |w| format!("belongs there for {w}"))
        )),
    }
}

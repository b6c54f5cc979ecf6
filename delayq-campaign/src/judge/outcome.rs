//! O: every acknowledged job has its effect, or a dead letter, a cancel or a discard on record.

use super::facts::{Facts, Job};
use super::{Invariant, Look};
use crate::history::Ending;

pub(super) fn look(facts: &Facts) -> Look {
    let mut look = Look::new(Invariant::O);
    for (id, job) in facts.jobs.iter().filter(|(_, job)| job.is_acked()) {
        look.saw();
        let sent = job.invokes.first().map(|invoke| invoke.bytes);
        let spoiled = job.claims.iter().flat_map(|claim| &claim.effects).find(|bytes| Some(**bytes) != sent);
        if let (Some(_), true) = (spoiled, sent.is_some()) {
            look.found(Some(*id), format!("{id} ran with other bytes than were sent"));
        }
        // What is gone without a trace is L's, what never ends is T's.
        let says_done = job.is_retained() || job.tomb.as_deref() == Some("done") || done_by_a_run(job);
        if says_done && !job.has_effect() && !job.may_be_cancelled() && job.ending() == Some(Ending::Done) {
            look.found(Some(*id), format!("{id} counts as done, and no run of it had its effect"));
        }
        if job.tomb.as_deref() == Some("discarded") && job.ending() == Some(Ending::Done) {
            look.found(Some(*id), format!("{id} was discarded, which nobody asked for"));
        }
        if matches!(job.tomb.as_deref(), Some("expired" | "deleted")) {
            look.found(
                Some(*id),
                format!("{id} ended as {}, which nobody asked for", job.tomb.as_deref().unwrap_or("")),
            );
        }
    }
    look
}

fn done_by_a_run(job: &Job) -> bool {
    !job.is_live() && job.claims.iter().any(|claim| claim.came_to("done"))
}

//! A: attempts are bounded, run tokens rise, and what is stale can settle nothing.

use std::collections::HashMap;

use super::facts::{Claim, Facts};
use super::{Invariant, Look};

pub(super) fn look(facts: &Facts) -> Look {
    let mut look = Look::new(Invariant::A);
    for (id, job) in facts.jobs.iter().filter(|(_, job)| !job.is_foreign()) {
        let attempts_max = job.invokes.first().map(|invoke| invoke.attempts_max);
        let mut tokens: HashMap<u64, &Claim> = HashMap::new();
        let mut runs: Vec<&Claim> = job.claims.iter().collect();
        runs.sort_by_key(|claim| claim.now_us);
        let mut highest = 0;
        for claim in &runs {
            look.saw();
            if let Some(max) = attempts_max.filter(|max| claim.attempt > *max) {
                look.found(Some(*id), format!("{id} was run as attempt {}, and {max} are allowed", claim.attempt));
            }
            if let Some(first) = tokens.insert(claim.token, claim) {
                let text =
                    format!("{id} was given out twice with token {}: to {} and to {}", claim.token, first.by, claim.by);
                look.found(Some(*id), text);
            } else if claim.token < highest && facts.clocks.is_empty() {
                // A store whose clock was set back has no order of claims that its clock could tell.
                look.found(Some(*id), format!("{id}: token {} came after {highest}", claim.token));
            }
            highest = highest.max(claim.token);
        }
        let failed = runs.iter().filter(|claim| claim.came_to("retry")).count();
        // A store that went back knows less of a job's attempts than happened.
        let between = job.claims.iter().map(|claim| claim.t);
        let went_back = between.clone().min().zip(between.max()).is_some_and(|(from, to)| facts.rolled_back(from, to));
        let is_bounded = !went_back && job.redriven.is_empty();
        if let Some(max) = attempts_max.filter(|max| failed > *max as usize && is_bounded) {
            look.found(Some(*id), format!("{id} failed {failed} times, and {max} attempts are allowed"));
        }
        for (t, token, accepted) in &job.settles {
            look.saw();
            if *accepted {
                look.found(
                    Some(*id),
                    format!("{id}: at {t} a settle of token {token} was accepted from a session that held no such run"),
                );
            }
        }
    }
    look
}

//! C: each job is in one state, a held job has its record, and the store's counts agree with each other and with the senders.

use std::collections::BTreeMap;

use super::facts::Facts;
use super::{Invariant, Look};

pub(super) fn look(facts: &Facts) -> Look {
    let mut look = Look::new(Invariant::C);
    for (id, job) in &facts.jobs {
        let Some(stored) = job.stored.as_ref().filter(|_| !job.reported) else { continue };
        look.saw();
        if !stored.record {
            look.found(Some(*id), format!("{id} is in {:?}, and has no record", stored.places));
        } else if stored.places.is_empty() {
            look.found(Some(*id), format!("{id} has a record, and is in no state"));
        } else if stored.places.len() > 1 {
            look.found(Some(*id), format!("{id} is in several states: {:?}", stored.places));
        }
    }
    let Some(counters) = facts.counters.as_ref().filter(|_| !facts.counters_gone) else { return look };
    look.saw();
    let sum: i64 = ["waiting", "running", "dead_now", "done", "cancelled", "expired", "discarded", "deleted"]
        .iter()
        .map(|name| count(counters, name))
        .sum();
    let (enqueued, quarantined) = (count(counters, "enqueued"), count(counters, "quarantined"));
    let orphans = count(counters, "orphans");
    // What a foreign hand put in was not counted, and may have ended like any other.
    let uncounted = quarantined + facts.jobs.values().filter(|job| job.is_foreign()).count() as i64;
    // What the store itself reports as orphans was enqueued too; whether there may be any is asked below.
    if (enqueued - sum - orphans).abs() > uncounted && (enqueued - sum).abs() > uncounted {
        look.found(None, format!("{enqueued} were enqueued, and the states and ends add up to {sum}: {counters:?}"));
    }
    // Nothing but a foreign hand makes what is no job.
    if quarantined > 0 && facts.may_lose.is_empty() && !facts.jobs.values().any(|job| job.reported) {
        look.found(None, format!("the store put {quarantined} entries aside that were no jobs"));
    }
    if orphans.abs() > 0 && !facts.jobs.values().any(|job| job.reported) {
        look.found(None, format!("the store reports {orphans} orphans"));
    }
    if facts.may_lose.is_empty() {
        let sent = facts.jobs.values().filter(|job| job.is_acked()).count() as i64;
        let perhaps = facts.jobs.values().filter(|job| !job.is_acked() && !job.invokes.is_empty()).count() as i64;
        if enqueued < sent || enqueued > sent + perhaps {
            look.found(
                None,
                format!(
                    "the store counts {enqueued} enqueued; the senders know of {sent}, and of {perhaps} more perhaps"
                ),
            );
        }
        let twice = facts.jobs.iter().find(|(_, job)| job.new_acks > 1);
        if let Some((id, job)) = twice {
            look.found(Some(*id), format!("{id} was made {} times", job.new_acks));
        }
    }
    look
}

fn count(counters: &BTreeMap<String, i64>, name: &str) -> i64 {
    counters.get(name).copied().unwrap_or_default()
}

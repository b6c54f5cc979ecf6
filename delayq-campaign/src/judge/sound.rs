//! S: errors are typed, every send is answered, nobody panics, memory and descriptors are bounded.

use super::facts::Facts;
use super::{Invariant, Look};

/// What a worker or producer of a few jobs takes at most.
const RSS_KIB_MAX: u64 = 768 * 1024;
const FDS_MAX: u64 = 400;
/// What a send may be refused as. Everything else says that something is wrong with the library, not with the store.
const REFUSALS: [&str; 7] = ["InvalidArgument", "Payload", "Unreachable", "Unavailable", "Full", "Duplicate", "Denied"];

pub(super) fn look(facts: &Facts) -> Look {
    let mut look = Look::new(Invariant::S);
    for (name, text) in &facts.panics {
        look.found(None, format!("{name} panicked: {text}"));
    }
    for down in &facts.downs {
        look.saw();
        if !down.asked {
            look.found(None, format!("{} ended by itself: {}", down.name, down.how));
        }
    }
    for (name, rss_kib, fds) in &facts.samples {
        look.saw();
        if *rss_kib > RSS_KIB_MAX {
            look.found(None, format!("{name} takes {} MiB", rss_kib / 1024));
        }
        if *fds > FDS_MAX {
            look.found(None, format!("{name} has {fds} files open"));
        }
    }
    for (id, job) in &facts.jobs {
        let typed = |kind: &str| REFUSALS.contains(&kind) || (facts.corrupt && kind == "Corrupt");
        if let Some(kind) = job.refusals.iter().find(|kind| !typed(kind)) {
            look.found(Some(*id), format!("the send of {id} failed as {kind}"));
        }
        let answers = job.acks.len() + job.refusals.len() + job.unknowns;
        if answers < job.invokes.len() {
            // A sender that was killed had no time to write its answer down.
            let by = job.invokes.last().map_or("", |invoke| invoke.by.as_str());
            let killed = facts.downs.iter().any(|down| down.name == by && down.how != "exit 0");
            if !killed {
                look.found(Some(*id), format!("the send of {id} was never answered"));
            }
        }
    }
    look
}

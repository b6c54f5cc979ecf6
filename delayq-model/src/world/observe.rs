//! What an onlooker remembers of each call.

use super::Seen;
use super::scenes::LEASE;
use crate::{Id, Now, Op, Redriven, Reply, Sent, Settled, State, Verdict, When};

/// A call that was executed.
#[derive(Debug, Clone)]
pub struct Moment {
    /// What was asked.
    pub op: Op,
    /// What was answered.
    pub reply: Reply,
    /// When.
    pub now: Now,
}

pub(super) fn observe(seen: &mut Seen, before: &State, moment: &Moment, after: &State) {
    let (now, now_us) = (moment.now.ms(), moment.now.us);
    // A job that is kept once it is done has ended as well.
    let ends = |id: &Id, state: &State| !state.jobs.contains_key(id) || state.done.contains_key(id);
    for id in before.jobs.keys().filter(|id| ends(id, after) && !ends(id, before)) {
        seen.jobs.entry(*id).or_default().ended = Some(now);
    }
    for ((member, verdict), settled) in moment.settled() {
        let told = seen.jobs.entry(member.id).or_default();
        match verdict {
            Verdict::Retry(delay) if settled == Settled::Accepted => {
                told.fails += 1;
                told.due_us = now_us + delay * 1000;
            }
            Verdict::Snooze(delay) if settled == Settled::Accepted => {
                told.snoozes += 1;
                told.due_us = now_us + delay * 1000;
            }
            _ => {}
        }
    }
    match (&moment.op, &moment.reply) {
        (Op::Enqueue { jobs, .. }, Reply::Sent(sent)) => {
            for (job, _) in jobs.iter().zip(sent).filter(|(_, sent)| **sent == Sent::Created) {
                let told = seen.jobs.entry(job.id).or_default();
                (told.fails, told.snoozes, told.cancelled, told.ended) = (0, 0, false, None);
                told.due_us = due_us(job.when, now_us);
                if let Some(key) = job.key {
                    seen.keys.insert(key, job.id);
                }
            }
        }
        (Op::Claim { .. }, Reply::Claimed(claimed)) => {
            for member in &claimed.taken {
                let told = seen.jobs.entry(member.id).or_default();
                told.run = told.run.max(member.run);
            }
        }
        (Op::Reschedule { id, when }, Reply::Rescheduled(_)) => {
            seen.jobs.entry(*id).or_default().due_us = due_us(*when, now_us);
        }
        (Op::Redrive { ids }, Reply::Redriven(letters)) => {
            for (id, _) in ids.iter().zip(letters).filter(|(_, letter)| **letter == Redriven::Ok) {
                let told = seen.jobs.entry(*id).or_default();
                (told.fails, told.due_us) = (0, now_us);
                if let Some(key) = before.jobs.get(id).and_then(|record| record.key) {
                    seen.keys.insert(key, *id);
                }
            }
        }
        (Op::Cancel { id }, Reply::Running) => seen.jobs.entry(*id).or_default().cancelled = true,
        (Op::Rescue { session, .. }, Reply::Rescued { .. }) => {
            seen.lost.insert(*session);
        }
        (Op::Beat { .. }, Reply::Beat { .. }) => {
            if 2 * now.saturating_sub(seen.beat.unwrap_or(now)) > LEASE {
                seen.hold = now + LEASE;
            }
            // The clock was set back: a lease from now on is as long as it may be.
            seen.hold = seen.hold.min(now + LEASE);
            seen.beat = Some(now);
        }
        _ => {}
    }
}

fn due_us(when: When, now_us: u64) -> u64 {
    match when {
        When::In(ms) => now_us + ms * 1000,
        When::At(ms) => ms * 1000,
    }
}

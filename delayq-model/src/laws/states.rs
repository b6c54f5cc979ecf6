//! Laws of what a shard holds, whenever no script runs.

use std::collections::BTreeSet;

use super::{Law, View, law};
use crate::world::World;
use crate::{Counter, Id, Member, NO_LIMIT, Now, Op, Reply, SOLO_AT, step};

pub(super) const LAWS: &[Law] = &[
    law('a', "what is held is held by a session that is listed, so that somebody takes it back", held_is_listed),
    law('a', "a session that was lost never stands again", lost_is_lost),
    law('c', "a session without doubt holds what its worker knows that it holds", agreement),
    law('l', "where something waits, a timer is armed for it or for earlier", timer_covers),
    law('m', "somebody watches for the first job that is due, unless the watcher died", watched),
    law('o', "a job that was cancelled while it ran never waits again", cancelled_never_waits),
    law('p', "a job that waits has attempts left", attempts_left),
    law('p', "a job that waits was in two crashes at most", two_crashes),
    law('p', "crashes in company cost one attempt", one_charged),
    law('q', "every snooze is counted", snoozes_counted),
    law('r', "a key's owner waits or runs", owner_lives),
    law('r', "who took a key last has it while it waits or runs", last_taker_owns),
    law('s', "a record is in one place, and what is in a place has a record", one_place),
    law('s', "the jobs that a cancel waits for are counted", cancelling_counted),
    law('s', "what begins and ends is counted", ends_counted),
    law('s', "records that are nowhere are told", orphans_told),
];

fn held_is_listed(view: &View<'_>) -> bool {
    let store = &view.after.store;
    store.held.iter().all(|(session, _)| store.sessions.contains_key(session))
}

fn lost_is_lost(view: &View<'_>) -> bool {
    let after = view.after;
    after.seen.rolled_back || after.seen.lost.iter().all(|session| !after.store.stands(*session))
}

fn agreement(view: &View<'_>) -> bool {
    let after = view.after;
    after.workers.iter().all(|worker| match worker.session {
        Some(session) if !worker.unsure && after.store.stands(session) => {
            after.store.held_by(session).eq(worker.knows.iter().copied())
        }
        _ => true,
    })
}

fn timer_covers(view: &View<'_>) -> bool {
    let store = &view.after.store;
    match store.head() {
        Some(head) if store.stats.paused.is_none() => store.stats.timer_at.is_some_and(|at| at <= head),
        _ => true,
    }
}

fn watched(view: &View<'_>) -> bool {
    let World { store, workers, seen, .. } = view.after;
    if seen.baton_lost || seen.damaged || seen.rolled_back || store.stats.paused.is_some() {
        return true;
    }
    let Some(head) = store.head() else { return true };
    store.wake.is_some() || workers.iter().any(|worker| worker.is_awake() || (worker.timer > 0 && worker.timer <= head))
}

fn cancelled_never_waits(view: &View<'_>) -> bool {
    let after = view.after;
    let waits = |id: &Id| after.store.due.keys().any(|(_, waits)| waits == id);
    let flagged = after.store.due.keys().any(|(_, id)| after.store.jobs.get(id).is_some_and(|r| r.cancel_waits));
    after.seen.rolled_back || (!flagged && !after.seen.jobs.iter().any(|(id, told)| told.cancelled && waits(id)))
}

fn attempts_left(view: &View<'_>) -> bool {
    let store = &view.after.store;
    let records = store.due.keys().filter_map(|(_, id)| store.jobs.get(id));
    records.into_iter().all(|record| record.limit == NO_LIMIT || record.attempts < record.limit)
}

fn two_crashes(view: &View<'_>) -> bool {
    let store = &view.after.store;
    store.due.keys().filter_map(|(_, id)| store.jobs.get(id)).all(|record| record.crashes <= SOLO_AT)
}

fn one_charged(view: &View<'_>) -> bool {
    let after = view.after;
    after.store.jobs.iter().all(|(id, record)| {
        let fails = after.seen.jobs.get(id).map_or(0, |told| told.fails);
        after.store.dead.contains_key(id) || record.attempts <= fails + 1
    })
}

fn snoozes_counted(view: &View<'_>) -> bool {
    let after = view.after;
    let told = |id: &Id| after.seen.jobs.get(id).map_or(0, |told| told.snoozes);
    after.seen.rolled_back || after.store.jobs.iter().all(|(id, record)| record.free == told(id))
}

fn owner_lives(view: &View<'_>) -> bool {
    let after = view.after;
    after.seen.damaged || after.store.unique.values().all(|lock| after.store.is_live(lock.owner))
}

fn last_taker_owns(view: &View<'_>) -> bool {
    let after = view.after;
    let owns = |key, id| after.store.unique.get(key).is_some_and(|lock| lock.owner == id);
    after.seen.damaged || after.seen.keys.iter().all(|(key, id)| !after.store.is_live(*id) || owns(key, *id))
}

fn one_place(view: &View<'_>) -> bool {
    let after = view.after;
    if after.seen.damaged {
        return true;
    }
    let store = &after.store;
    let places = store.due.keys().map(|(_, id)| *id).chain(store.held.iter().map(|(_, member)| member.id));
    let places: Vec<Id> = places.chain(store.dead.keys().copied()).chain(store.done.keys().copied()).collect();
    let once: BTreeSet<Id> = places.iter().copied().collect();
    once.len() == places.len()
        && once.iter().eq(store.jobs.keys())
        && store.notes.keys().all(|id| store.jobs.contains_key(id))
}

fn cancelling_counted(view: &View<'_>) -> bool {
    let after = view.after;
    let record = |member: &Member| after.store.jobs.get(&member.id);
    let flagged = after.store.held.iter().filter(|(_, m)| record(m).is_some_and(|record| record.cancel_waits)).count();
    after.seen.damaged || after.store.stats.cancelling == flagged as i64
}

fn ends_counted(view: &View<'_>) -> bool {
    if view.moment.is_none() || view.before.seen.damaged {
        return true;
    }
    let (before, after) = (&view.before.store, &view.after.store);
    let count = |counter: Counter| i64::from(after.stats.counters[counter as usize]);
    let grown = |of: fn(&crate::State) -> usize| of(after) as i64 - of(before) as i64;
    let ended = [Counter::Done, Counter::Cancelled, Counter::Expired, Counter::Deleted, Counter::Discarded];
    let ended: i64 = ended.into_iter().map(count).sum();
    grown(|s| s.jobs.len()) - grown(|s| s.done.len()) == count(Counter::Enqueued) - ended
        && grown(|s| s.dead.len()) == count(Counter::Dead) - count(Counter::Redriven) - count(Counter::Deleted)
}

/// Looked at where there may be some.
fn orphans_told(view: &View<'_>) -> bool {
    let after = view.after;
    if !after.seen.damaged {
        return true;
    }
    let store = &after.store;
    let places = store.due.len() + store.held.len() + store.dead.len() + store.done.len();
    match step(store, &Op::Stats, Now { us: 0 }, view.rules).1 {
        Reply::Counted(counts) => counts.orphans() == store.jobs.len() as i64 - places as i64,
        _ => false,
    }
}

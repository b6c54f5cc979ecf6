//! Laws of what a call does and answers.

use super::{Law, View, law};
use crate::{
    Claimed, Code, Id, Key, Member, Op, Redriven, Reply, SCHEMA, SHARDS, SOLO_AT, Sent, Session, Settled, State,
    TOMB_MS,
};

pub(super) const LAWS: &[Law] = &[
    law('a', "a session that is listed can't be opened again", opened_once),
    law('b', "nothing is taken from a session whose lease stands", lease_protects),
    law('b', "a drained session is no longer listed", drained_is_gone),
    law('d', "the numbers of a job's runs rise", runs_rise),
    law('d', "a verdict counts only for a run that its session holds", only_what_is_held),
    law('e', "after an outage nobody is lost for one more lease", outage_holds),
    law('e', "no lease reaches further than a lease from now", leases_are_cut),
    law('g', "a session that is closed holds nothing", closed_holds_nothing),
    law('h', "no run is given out before the instant that was asked for", never_early),
    law('i', "an id that ended is not taken in again for a while", ended_stays_ended),
    law('k', "a job that is there is not made anew, and what makes nothing changes nothing", made_once),
    law('m', "a claim that says there is more leaves a marker", full_leaves_marker),
    law('n', "a claim that leaves due jobs behind says so", leaves_nothing_silently),
    law('p', "a job that was in two crashes is claimed alone, by a session that holds nothing", claimed_alone),
    law('p', "only a crash alone buries as a crash loop", buried_alone),
    law('p', "a second crash brings a job back apart from the others", comes_back_apart),
    law('r', "a key that another has is not taken", key_is_kept),
    law('u', "a claim goes on past what is no job", goes_on),
    law('v', "a caller with another number of shards changes nothing", other_shards_kept_out),
    law('w', "a caller with another layout changes nothing", other_schema_kept_out),
];

/// The call, what it answered, and the shard before and after it.
fn call<'w>(view: &View<'w>) -> Option<(&'w Op, &'w Reply, &'w State, &'w State)> {
    view.moment.map(|moment| (&moment.op, &moment.reply, &view.before.store, &view.after.store))
}

fn claimed<'w>(view: &View<'w>) -> Option<(Session, &'w Claimed)> {
    match call(view)? {
        (Op::Claim { session, .. }, Reply::Claimed(claimed), ..) => Some((*session, claimed)),
        _ => None,
    }
}

fn now(view: &View<'_>) -> (u64, u64) {
    view.moment.map_or((0, 0), |moment| (moment.now.ms(), moment.now.us))
}

fn opened_once(view: &View<'_>) -> bool {
    match call(view) {
        Some((Op::Open { session, .. }, _, before, after)) if before.sessions.contains_key(session) => before == after,
        _ => true,
    }
}

fn lease_protects(view: &View<'_>) -> bool {
    match call(view) {
        Some((Op::Rescue { session, .. }, Reply::Rescued { .. }, before, _)) => {
            before.sessions.get(session).is_some_and(|ends| *ends <= now(view).0)
        }
        _ => true,
    }
}

fn drained_is_gone(view: &View<'_>) -> bool {
    match call(view) {
        Some((Op::Rescue { session, .. }, Reply::Rescued { .. }, _, after)) => {
            after.held_count(*session) > 0 || !after.sessions.contains_key(session)
        }
        _ => true,
    }
}

fn runs_rise(view: &View<'_>) -> bool {
    let given = |id| view.before.seen.jobs.get(&id).map_or(0, |told| told.run);
    claimed(view).is_none_or(|(_, claimed)| claimed.taken.iter().all(|member| member.run > given(member.id)))
}

fn only_what_is_held(view: &View<'_>) -> bool {
    let Some(moment) = view.moment else { return true };
    let (Op::Claim { session, .. } | Op::Settle { session, .. }) = &moment.op else { return true };
    let held = |member: Member| view.before.store.held.contains(&(*session, member));
    moment.settled().into_iter().all(|((member, _), settled)| settled == Settled::NotHeld || held(member))
}

fn outage_holds(view: &View<'_>) -> bool {
    match call(view) {
        Some((Op::Rescue { session, .. }, Reply::Rescued { .. }, before, _)) if !view.before.seen.rolled_back => {
            !before.stands(*session) || now(view).0 >= view.before.seen.hold
        }
        _ => true,
    }
}

fn leases_are_cut(view: &View<'_>) -> bool {
    match call(view) {
        Some((Op::Beat { .. }, Reply::Beat { .. }, _, after)) => {
            let longest = after.stats.lease_max.unwrap_or(0);
            after.sessions.values().all(|ends| *ends <= now(view).0 + longest)
        }
        _ => true,
    }
}

fn closed_holds_nothing(view: &View<'_>) -> bool {
    match call(view) {
        Some((Op::Close { session }, Reply::Closed, before, _)) => before.held_count(*session) == 0,
        _ => true,
    }
}

fn never_early(view: &View<'_>) -> bool {
    let asked = |id| view.before.seen.jobs.get(&id).map_or(0, |told| told.due_us);
    view.before.seen.rolled_back
        || claimed(view).is_none_or(|(_, claimed)| claimed.taken.iter().all(|m| now(view).1 >= asked(m.id)))
}

/// The jobs that a call created.
fn created(view: &View<'_>) -> Vec<Id> {
    match call(view) {
        Some((Op::Enqueue { jobs, .. }, Reply::Sent(sent), ..)) => {
            let both = jobs.iter().zip(sent);
            both.filter(|(_, sent)| **sent == Sent::Created).map(|(job, _)| job.id).collect()
        }
        _ => Vec::new(),
    }
}

fn ended_stays_ended(view: &View<'_>) -> bool {
    let ended = |id: &Id| view.before.seen.jobs.get(id).and_then(|told| told.ended);
    view.before.seen.rolled_back
        || created(view).iter().all(|id| ended(id).is_none_or(|ended| now(view).0 >= ended + TOMB_MS))
}

fn made_once(view: &View<'_>) -> bool {
    match call(view) {
        Some((Op::Enqueue { .. }, Reply::Sent(sent), before, after)) => {
            let created = created(view);
            created.iter().all(|id| !before.jobs.contains_key(id)) && (sent.contains(&Sent::Created) || before == after)
        }
        _ => true,
    }
}

fn full_leaves_marker(view: &View<'_>) -> bool {
    claimed(view).is_none_or(|(_, claimed)| !claimed.more || view.after.store.wake.is_some())
}

fn leaves_nothing_silently(view: &View<'_>) -> bool {
    let left = view.after.store.due.values().any(|due| *due <= now(view).0);
    claimed(view).is_none_or(|(_, claimed)| claimed.paused || claimed.more || !left)
}

fn claimed_alone(view: &View<'_>) -> bool {
    let crashes = |id| view.before.store.jobs.get(&id).map_or(0, |record| record.crashes);
    claimed(view).is_none_or(|(session, claimed)| {
        let last_life = claimed.taken.iter().any(|member| crashes(member.id) >= SOLO_AT);
        !last_life || view.after.store.held_count(session) == 1
    })
}

fn buried_alone(view: &View<'_>) -> bool {
    let Some((Op::Rescue { session, .. }, Reply::Rescued { .. }, before, after)) = call(view) else { return true };
    before.held_by(*session).all(|member| {
        let looped = after.notes.get(&member.id).is_some_and(|note| note.code == Code::CrashLoop);
        let alone = before.held_count(*session) == 1;
        !looped || (alone && before.jobs.get(&member.id).is_some_and(|record| record.crashes >= SOLO_AT))
    })
}

fn comes_back_apart(view: &View<'_>) -> bool {
    let Some((Op::Rescue { session, .. }, Reply::Rescued { .. }, before, after)) = call(view) else { return true };
    before.held_by(*session).all(|member| {
        let again = before.jobs.get(&member.id).is_some_and(|record| record.crashes > 0);
        let due = after.due.iter().find(|((_, id), _)| *id == member.id).map(|(_, due)| *due);
        !again || due.is_none_or(|due| due >= now(view).0 + 2000)
    })
}

/// Another job than this that has the key for as long as it likes.
fn other_owner(store: &State, key: Key, id: Id, now: u64) -> bool {
    store.unique.get(&key).is_some_and(|lock| {
        lock.owner != id && (lock.until == 0 || lock.until > now) && store.jobs.contains_key(&lock.owner)
    })
}

fn key_is_kept(view: &View<'_>) -> bool {
    let (before, now) = (&view.before.store, now(view).0);
    let key = |id: Id| view.after.store.jobs.get(&id).and_then(|record| record.key);
    let free = |id: Id| key(id).is_none_or(|key| !other_owner(before, key, id, now));
    match call(view) {
        Some((Op::Redrive { ids }, Reply::Redriven(letters), ..)) => {
            ids.iter().zip(letters).all(|(id, letter)| *letter != Redriven::Ok || free(*id))
        }
        _ => created(view).into_iter().all(free),
    }
}

fn goes_on(view: &View<'_>) -> bool {
    !matches!(call(view), Some((Op::Claim { .. }, Reply::Corrupt, ..)))
}

fn other_shards_kept_out(view: &View<'_>) -> bool {
    match call(view) {
        Some((Op::Enqueue { shards, .. } | Op::Open { shards, .. }, _, before, after)) => {
            before.stats.shards.is_none_or(|stored| stored == *shards) || (*shards != SHARDS && before == after)
        }
        _ => true,
    }
}

fn other_schema_kept_out(view: &View<'_>) -> bool {
    match call(view) {
        Some((Op::Enqueue { schema, .. } | Op::Open { schema, .. }, _, before, after)) => {
            before.stats.schema.is_none_or(|stored| stored == *schema) || (*schema != SCHEMA && before == after)
        }
        _ => true,
    }
}

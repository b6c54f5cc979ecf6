//! What each operation does to a shard and what it answers: the scripts of `delayq/lua`, told again.

mod claim;
mod clients;
mod clock;
mod dead;
mod ends;
mod enqueue;
mod rescue;
mod sessions;
mod settle;
mod views;

use crate::{Now, Op, Part, Reply, Rules, Session, State};

/// What a call makes of a shard, and what it answers.
pub fn step(state: &State, op: &Op, now: Now, rules: Rules) -> (State, Reply) {
    let mut after = state.clone();
    let reply = apply(&mut after, op, now, rules);
    (after, reply)
}

/// The same in place.
pub fn apply(state: &mut State, op: &Op, now: Now, rules: Rules) -> Reply {
    let mut call = Call { s: state, now, rules };
    match op {
        Op::Open { session, lease, schema, shards } => call.open(*session, *lease, *schema, *shards),
        Op::Beat { session, lease, timer } => call.beat(*session, *lease, *timer),
        Op::Claim { session, seq, count, timer, alone, verdicts } => call.fenced(*session, *seq, |call| {
            let settled = call.settle(*session, verdicts);
            call.claim(*session, *count, *timer, *alone, settled)
        }),
        Op::Settle { session, seq, verdicts } => {
            call.fenced(*session, *seq, |call| Reply::Settled(call.settle(*session, verdicts)))
        }
        Op::Reconcile { session, seq, known } => {
            call.fenced(*session, *seq, |call| Reply::Reconciled(call.reconcile(*session, known)))
        }
        Op::Rescue { session, chosen } => call.rescue(*session, *chosen),
        Op::Close { session } => call.close(*session),
        Op::Enqueue { jobs, schema, shards } => call.enqueue(jobs, *schema, *shards),
        Op::Cancel { id } => call.cancel(*id),
        Op::Reschedule { id, when } => call.reschedule(*id, *when),
        Op::Redrive { ids } => call.redrive(ids),
        Op::Delete { ids } => call.delete(ids),
        Op::Pause { on } => call.pause(*on),
        Op::Pass => call.pass(),
        Op::TakeMarker => Reply::Marker(call.s.wake.take()),
        Op::Inspect { id } => call.inspect(*id),
        Op::Stats => Reply::Counted(call.counts()),
    }
}

/// A script that runs: the shard, the clock as it read it, and the rules that it keeps.
struct Call<'s> {
    s: &'s mut State,
    now: Now,
    rules: Rules,
}

impl Call<'_> {
    fn keeps(&self, part: Part) -> bool {
        self.rules.keeps(part)
    }

    /// Refuses a session that is lost and a call that came late, else runs it and notes its number.
    fn fenced(&mut self, session: Session, seq: u64, run: impl FnOnce(&mut Self) -> Reply) -> Reply {
        if self.keeps(Part::AFence) && !self.s.stands(session) {
            return Reply::Lost;
        }
        let last = self.s.stats.seqs.get(&session).copied().unwrap_or(0);
        if self.keeps(Part::CSeq) && seq <= last {
            return Reply::Stale;
        }
        let reply = run(self);
        if reply != Reply::Corrupt {
            self.s.stats.seqs.insert(session, seq);
        }
        reply
    }
}

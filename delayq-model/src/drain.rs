//! Whether one healthy worker, once all others are gone, brings every job to its end.
//!
//! It claims only when the baton or its own timer says so, and looks after the rest with its beats: what a shard needs to get
//! going again must lie in the shard.

use crate::{Chosen, Claimed, Id, Now, Op, Reply, Rules, SCHEMA, SHARDS, Session, State, Verdict, apply};

/// The worker's session.
const SESSION: Session = 200;
/// Its lease, ms: as that of all others.
const LEASE: u64 = 1000;
/// How often it beats, ms: seldom enough to be quick, often enough that no outage is seen.
const BEAT: u64 = LEASE / 2 - 1;
/// How many beats a drain may take: minutes, where seconds are enough.
const BEATS_MAX: usize = 200;
/// How many claims follow each other without a pause.
const CLAIMS_MAX: usize = 50;

/// A drain that didn't come to its end, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuck(pub &'static str);

/// Drains a copy of a shard. In a damaged one some records are nowhere, and end nowhere.
///
/// # Errors
/// Jobs are left.
pub fn drain(state: &State, now: Now, rules: Rules, damaged: bool) -> Result<(), Stuck> {
    let mut worker = Healthy { s: state.clone(), now, rules, seq: 0, timer: 0 };
    if worker.s.stats.paused.is_some() {
        worker.ask(Op::Pause { on: false });
    }
    worker.ask(Op::Open { session: SESSION, lease: LEASE, schema: SCHEMA, shards: SHARDS });
    for _ in 0..BEATS_MAX {
        if worker.s.due.is_empty() && worker.s.held.is_empty() {
            let ended = worker.s.dead.len() + worker.s.done.len();
            return if damaged || worker.s.jobs.len() == ended { Ok(()) } else { Err(Stuck("a job is nowhere")) };
        }
        worker.turn()?;
    }
    Err(Stuck("jobs wait, and nobody is told to claim them"))
}

struct Healthy {
    s: State,
    now: Now,
    rules: Rules,
    seq: u64,
    timer: u64,
}

impl Healthy {
    fn ask(&mut self, op: Op) -> Reply {
        apply(&mut self.s, &op, self.now, self.rules)
    }

    fn turn(&mut self) -> Result<(), Stuck> {
        let Reply::Beat { lost, .. } = self.ask(Op::Beat { session: SESSION, lease: LEASE, timer: self.timer }) else {
            return Err(Stuck("its session is lost"));
        };
        for session in lost {
            self.ask(Op::Rescue { session, chosen: Chosen::All });
        }
        if let Reply::Marker(Some(due)) = self.ask(Op::TakeMarker) {
            return self.work(due);
        }
        let now = self.now.ms();
        if self.timer > 0 && self.timer <= now {
            return self.work(self.timer);
        }
        let next = if self.timer > now { self.timer.min(now + BEAT) } else { now + BEAT };
        self.now = Now { us: self.now.us.max(next * 1000) };
        Ok(())
    }

    /// Claims until it is told that there is no more.
    fn work(&mut self, due: u64) -> Result<(), Stuck> {
        let (mut timer, mut alone) = (due, None);
        for _ in 0..CLAIMS_MAX {
            let claimed = self.claim(timer, alone)?;
            if claimed.wait_us.is_some() || timer == self.timer {
                self.timer = claimed.timer;
            }
            alone = claimed.solo;
            timer = self.timer;
            if !claimed.more && alone.is_none() {
                return Ok(());
            }
        }
        Err(Stuck("there is always more to claim"))
    }

    fn claim(&mut self, timer: u64, alone: Option<Id>) -> Result<Claimed, Stuck> {
        self.seq += 1;
        let claim = Op::Claim { session: SESSION, seq: self.seq, count: 1, timer, alone, verdicts: Vec::new() };
        let Reply::Claimed(claimed) = self.ask(claim) else { return Err(Stuck("a claim is refused")) };
        if !claimed.taken.is_empty() {
            self.seq += 1;
            let verdicts = claimed.taken.iter().map(|member| (*member, Verdict::DoneExtended)).collect();
            self.ask(Op::Settle { session: SESSION, seq: self.seq, verdicts });
        }
        Ok(claimed)
    }
}

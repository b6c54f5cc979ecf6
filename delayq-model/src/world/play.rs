//! Lets one event happen: what is called, what comes of it, and what its callers learn.

use super::observe::{Moment, observe};
use super::scenes::LEASE;
use super::{Event, Fate, Kinds, Scene, World};
use crate::{Claimed, Member, Now, Op, Reply, Rules, SCHEMA, SHARDS, Session, Settled, State, Verdict, apply};

/// What an event makes of a world, and the call that was executed, if one was.
pub fn play(world: &World, event: Event, cost: u8, scene: &Scene, rules: Rules) -> (World, Option<Moment>) {
    let mut after = world.clone();
    after.left -= cost;
    let moment = Player { before: &world.store, world: &mut after, scene, rules }.play(event);
    if !scene.kinds.has(Kinds::BATON) {
        after.forget_timers();
    }
    if event == Event::Tick && after.saved.is_some() {
        after.saved = Some(Box::new(world.store.clone()));
    }
    (after, moment)
}

struct Player<'w> {
    before: &'w State,
    world: &'w mut World,
    scene: &'w Scene,
    rules: Rules,
}

impl Player<'_> {
    fn now(&self) -> Now {
        self.world.now(self.scene)
    }

    /// Executes a call.
    fn run(&mut self, op: Op) -> Moment {
        let now = self.now();
        let reply = apply(&mut self.world.store, &op, now, self.rules);
        let moment = Moment { op, reply, now };
        observe(&mut self.world.seen, self.before, &moment, &self.world.store);
        moment
    }

    /// Makes a call that may go wrong. Answers whether its caller has the answer.
    fn call(&mut self, op: Op, fate: Fate) -> (Option<Moment>, bool) {
        match fate {
            Fate::Answered => (Some(self.run(op)), true),
            Fate::AnswerLost => (Some(self.run(op)), false),
            Fate::Late => {
                self.world.late.push(op);
                (None, false)
            }
            Fate::Doubled => {
                self.world.late.push(op.clone());
                (Some(self.run(op)), true)
            }
        }
    }

    fn play(&mut self, event: Event) -> Option<Moment> {
        match event {
            Event::Tick => self.world.at += 1,
            Event::SetBack => self.world.at -= 1,
            Event::RollBack => self.roll_back(),
            Event::Send(id, fate) => return self.send(id, fate),
            Event::SendOther(id, schema, shards) => return Some(self.send_as(id, schema, shards)),
            Event::Arrive(at) => {
                let op = self.world.late.remove(at);
                return Some(self.run(op));
            }
            Event::Open(worker) => return Some(self.open(worker)),
            Event::OpenAgain(session) => return Some(self.run(opening(session))),
            Event::Claim(worker, count, fate) => return self.claim(worker, count, fate),
            Event::Settle(worker, member, verdict, fate) => return self.settle(worker, (member, verdict), fate),
            Event::Beat(worker) => return Some(self.beat(worker)),
            Event::Reconcile(worker, fate) => return self.reconcile(worker, fate),
            Event::Rescue(session, chosen) => return Some(self.run(Op::Rescue { session, chosen })),
            Event::Close(worker) => return Some(self.close(worker)),
            Event::TakeMarker(worker) => return Some(self.take_marker(worker)),
            Event::LoseMarker => {
                self.world.seen.baton_lost = true;
                return Some(self.run(Op::TakeMarker));
            }
            Event::Pass(worker) => return Some(self.pass(worker)),
            Event::Crash(worker) => {
                self.world.workers[worker].lose(false);
                self.world.seen.baton_lost = true;
            }
            Event::Cancel(id) => return Some(self.run(Op::Cancel { id })),
            Event::Reschedule(id, when) => return Some(self.run(Op::Reschedule { id, when })),
            Event::Redrive(id) => return Some(self.run(Op::Redrive { ids: vec![id] })),
            Event::Delete(id) => return Some(self.run(Op::Delete { ids: vec![id] })),
            Event::Pause(on) => return Some(self.run(Op::Pause { on })),
            Event::Vanish(id) => {
                self.world.store.jobs.remove(&id);
                self.world.seen.damaged = true;
            }
            Event::Misplace(id) => {
                self.world.store.due.retain(|(_, waits), _| *waits != id);
                self.world.seen.damaged = true;
            }
        }
        None
    }

    /// The store comes back as it was, later; its workers ask what they still hold.
    fn roll_back(&mut self) {
        if let Some(saved) = &self.world.saved {
            self.world.store = (**saved).clone();
        }
        self.world.at += 1;
        self.world.seen.rolled_back = true;
        for worker in &mut self.world.workers {
            worker.unsure = worker.session.is_some();
        }
    }

    fn send(&mut self, id: u8, fate: Fate) -> Option<Moment> {
        let op = self.sending(id, SCHEMA, SHARDS);
        let (moment, answered) = self.call(op, fate);
        if answered && let Some(told) = self.world.seen.jobs.get_mut(&id) {
            told.sent = true;
        }
        moment
    }

    fn send_as(&mut self, id: u8, schema: u32, shards: u32) -> Moment {
        let op = self.sending(id, schema, shards);
        self.run(op)
    }

    fn sending(&self, id: u8, schema: u32, shards: u32) -> Op {
        let jobs = self.scene.jobs.iter().filter(|job| job.id == id).cloned().collect();
        Op::Enqueue { jobs, schema, shards }
    }

    fn open(&mut self, at: usize) -> Moment {
        let session = self.scene.next_session(at, self.world.workers[at].opened);
        let moment = self.run(opening(session));
        let worker = &mut self.world.workers[at];
        worker.lose(false);
        worker.opened += 1;
        (worker.session, worker.hungry) = (Some(session), true);
        moment
    }

    /// The number of a worker's next call, and its session.
    fn next(&mut self, at: usize) -> (Session, u64) {
        let worker = &mut self.world.workers[at];
        worker.seq += 1;
        (worker.session.unwrap_or_default(), worker.seq)
    }

    /// Whether a call was answered by the session's end, or by a newer call's. An answer that is lost leaves doubt.
    fn refused(&mut self, at: usize, moment: Option<&Moment>, answered: bool) -> bool {
        let worker = &mut self.world.workers[at];
        match moment.map(|moment| &moment.reply) {
            Some(Reply::Lost) if answered => worker.lose(true),
            Some(Reply::Stale) if answered => worker.unsure = true,
            _ if answered => return false,
            _ => (worker.unsure, worker.hungry) = (true, true),
        }
        true
    }

    fn claim(&mut self, at: usize, count: usize, fate: Fate) -> Option<Moment> {
        let (session, seq) = self.next(at);
        let worker = &mut self.world.workers[at];
        let duty = worker.duty.take();
        let timer = duty.unwrap_or(worker.timer);
        let alone = worker.solo.take();
        worker.hungry = false;
        let count = if alone.is_some() { 1 } else { count };
        let op = Op::Claim { session, seq, count, timer, alone, verdicts: Vec::new() };
        let (moment, answered) = self.call(op, fate);
        if self.refused(at, moment.as_ref(), answered) {
            self.world.workers[at].duty = duty;
        } else if let Some(Moment { reply: Reply::Claimed(claimed), .. }) = &moment {
            self.claimed(at, timer, claimed);
        }
        // What the lost answer said of timers nobody knows: beats notice (rule m).
        self.world.seen.baton_lost |= !answered;
        moment
    }

    fn claimed(&mut self, at: usize, timer: u64, claimed: &Claimed) {
        let worker = &mut self.world.workers[at];
        worker.hungry |= claimed.more;
        if claimed.wait_us.is_some() || timer == worker.timer {
            worker.timer = claimed.timer;
        }
        worker.knows.extend(claimed.taken.iter().copied());
        worker.solo = claimed.solo;
    }

    fn settle(&mut self, at: usize, verdict: (Member, Verdict), fate: Fate) -> Option<Moment> {
        let (session, seq) = self.next(at);
        let (moment, answered) = self.call(Op::Settle { session, seq, verdicts: vec![verdict] }, fate);
        if !self.refused(at, moment.as_ref(), answered) {
            self.world.workers[at].knows.remove(&verdict.0);
        }
        moment
    }

    fn beat(&mut self, at: usize) -> Moment {
        let worker = &self.world.workers[at];
        let (session, timer) = (worker.session.unwrap_or_default(), worker.timer);
        let moment = self.run(Op::Beat { session, lease: LEASE, timer });
        if moment.reply == Reply::Lost {
            self.world.workers[at].lose(true);
        }
        moment
    }

    fn reconcile(&mut self, at: usize, fate: Fate) -> Option<Moment> {
        let (session, seq) = self.next(at);
        let known = self.world.workers[at].knows.iter().copied().collect();
        let (moment, answered) = self.call(Op::Reconcile { session, seq, known }, fate);
        if !self.refused(at, moment.as_ref(), answered)
            && let Some(Moment { reply: Reply::Reconciled(missing), .. }) = &moment
        {
            let worker = &mut self.world.workers[at];
            worker.knows.retain(|member| !missing.contains(member));
            worker.unsure = false;
        }
        moment
    }

    fn close(&mut self, at: usize) -> Moment {
        let session = self.world.workers[at].session.unwrap_or_default();
        let moment = self.run(Op::Close { session });
        if !matches!(moment.reply, Reply::Holds(_)) {
            let lost = moment.reply == Reply::Lost;
            self.world.workers[at].lose(lost);
        }
        moment
    }

    fn take_marker(&mut self, at: usize) -> Moment {
        let moment = self.run(Op::TakeMarker);
        if let Reply::Marker(Some(due)) = moment.reply {
            let worker = &mut self.world.workers[at];
            (worker.duty, worker.hungry) = (Some(due), true);
        }
        moment
    }

    fn pass(&mut self, at: usize) -> Moment {
        let moment = self.run(Op::Pass);
        let worker = &mut self.world.workers[at];
        (worker.duty, worker.hungry, worker.timer) = (None, false, 0);
        moment
    }
}

fn opening(session: Session) -> Op {
    Op::Open { session, lease: LEASE, schema: SCHEMA, shards: SHARDS }
}

impl Moment {
    /// What became of each verdict of a call, with it.
    pub(crate) fn settled(&self) -> Vec<((Member, Verdict), Settled)> {
        let (Op::Claim { verdicts, .. } | Op::Settle { verdicts, .. }) = &self.op else { return Vec::new() };
        let settled = match &self.reply {
            Reply::Settled(settled) => settled,
            Reply::Claimed(claimed) => &claimed.settled,
            _ => return Vec::new(),
        };
        verdicts.iter().copied().zip(settled.iter().copied()).collect()
    }
}

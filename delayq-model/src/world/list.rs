//! Lists what can happen next.

use super::{Event, Fate, Kinds, Scene, Worker, World};
use crate::{Chosen, Member, SOLO_AT, Verdict, When};

use super::scenes::DELAY;

/// How many runs a worker has at most.
const ROOM: usize = 2;
/// How many calls are late at once.
const LATE: usize = 2;

impl World {
    /// What can happen next, and how many unusual events that costs.
    pub fn events(&self, scene: &Scene) -> Vec<(Event, u8)> {
        let mut list = Vec::new();
        if self.at + 1 < scene.instants_us.len() {
            list.push((Event::Tick, 0));
            self.add(&mut list, scene, Kinds::ROLL_BACK, Event::RollBack);
        }
        if self.at > 0 {
            self.add(&mut list, scene, Kinds::SET_BACK, Event::SetBack);
        }
        list.extend((0..self.late.len()).map(|at| (Event::Arrive(at), 0)));
        for worker in 0..self.workers.len() {
            self.of_worker(&mut list, scene, worker);
        }
        self.of_sessions(&mut list, scene);
        self.of_clients(&mut list, scene);
        list.retain(|(_, cost)| *cost <= self.left);
        list
    }

    fn add(&self, list: &mut Vec<(Event, u8)>, scene: &Scene, kinds: Kinds, event: Event) {
        if scene.kinds.has(kinds) {
            list.push((event, 1));
        }
    }

    /// A call with each fate that it may have.
    fn call(&self, list: &mut Vec<(Event, u8)>, scene: &Scene, bad: Kinds, cost: u8, call: impl Fn(Fate) -> Event) {
        list.push((call(Fate::Answered), cost));
        if scene.kinds.has(bad) && cost == 0 {
            list.push((call(Fate::AnswerLost), 1));
            if self.late.len() < LATE {
                list.push((call(Fate::Late), 1));
                list.push((call(Fate::Doubled), 1));
            }
        }
    }

    fn of_worker(&self, list: &mut Vec<(Event, u8)>, scene: &Scene, at: usize) {
        let worker = &self.workers[at];
        let now = self.now(scene).ms();
        let Some(session) = worker.session else {
            if worker.opened < scene.incarnations {
                list.push((Event::Open(at), 0));
            }
            return;
        };
        if scene.kinds.has(Kinds::BEAT) {
            list.push((Event::Beat(at), 0));
        }
        self.add(list, scene, Kinds::CRASH, Event::Crash(at));
        for member in &worker.knows {
            self.verdicts(list, scene, at, *member);
        }
        if worker.unsure {
            self.call(list, scene, Kinds::BAD_CALLS, 0, |fate| Event::Reconcile(at, fate));
            return;
        }
        let room = ROOM - worker.knows.len().min(ROOM);
        let due = worker.solo.is_some() || self.store.due.values().any(|due| *due <= now);
        let baton = scene.kinds.has(Kinds::BATON);
        if worker.may_claim(self) && (due || baton || self.store.stats.paused.is_some()) {
            // One at a time is of interest where it matters who looks after the rest.
            for count in if baton { 1..=room } else { room..=room } {
                self.call(list, scene, Kinds::BAD_CALLS, 0, |fate| Event::Claim(at, count, fate));
            }
        }
        if scene.kinds.has(Kinds::CLOSE) {
            list.push((Event::Close(at), 0));
        }
        if scene.kinds.has(Kinds::BATON) {
            if self.store.wake.is_some() && !worker.is_awake() {
                list.push((Event::TakeMarker(at), 0));
            }
            if worker.duty.is_some() || (worker.timer > 0 && worker.timer <= now) {
                list.push((Event::Pass(at), 0));
            }
        }
        if self.store.sessions.contains_key(&session) {
            self.add(list, scene, Kinds::OTHERS, Event::OpenAgain(session));
        }
    }

    /// What a run may come to. Its worker decides as the library's does: the last attempt that fails buries.
    fn verdicts(&self, list: &mut Vec<(Event, u8)>, scene: &Scene, at: usize, member: Member) {
        let record = self.store.jobs.get(&member.id);
        let looked_up = record.is_some_and(|r| r.key.is_some() || r.retain > 0 || r.attempts > 0 || r.crashes > 0);
        let done = if looked_up { Verdict::DoneExtended } else { Verdict::DoneYoung };
        let mut call = |verdict, cost| {
            self.call(list, scene, Kinds::BAD_CALLS, cost, |fate| Event::Settle(at, member, verdict, fate));
        };
        call(done, 0);
        if scene.kinds.has(Kinds::RETRY) {
            let last = record.is_none_or(|record| record.attempts + 1 >= record.limit);
            call(if last { Verdict::Bury } else { Verdict::Retry(DELAY) }, 0);
        }
        if scene.kinds.has(Kinds::VERDICTS) {
            call(Verdict::Snooze(0), 1);
            call(Verdict::HandBack, 1);
            call(Verdict::Discard, 1);
            call(Verdict::Bury, 1);
        }
    }

    fn of_sessions(&self, list: &mut Vec<(Event, u8)>, scene: &Scene) {
        if !scene.kinds.has(Kinds::RESCUE) {
            return;
        }
        for session in self.store.sessions.keys() {
            list.push((Event::Rescue(*session, Chosen::All), 0));
            if self.store.held_count(*session) > 1 {
                let each = self.store.held_by(*session);
                list.extend(each.map(|member| (Event::Rescue(*session, Chosen::One(member)), 0)));
            }
        }
    }

    fn of_clients(&self, list: &mut Vec<(Event, u8)>, scene: &Scene) {
        for (id, told) in &self.seen.jobs {
            if !told.sent {
                self.call(list, scene, Kinds::BAD_SENDS, 0, |fate| Event::Send(*id, fate));
            } else {
                self.add(list, scene, Kinds::BAD_SENDS, Event::Send(*id, Fate::Answered));
            }
            if self.store.stats.schema.is_some() {
                self.add(list, scene, Kinds::OTHERS, Event::SendOther(*id, crate::SCHEMA + 1, crate::SHARDS));
                self.add(list, scene, Kinds::OTHERS, Event::SendOther(*id, crate::SCHEMA, crate::SHARDS + 1));
            }
            if self.store.jobs.contains_key(id) {
                self.add(list, scene, Kinds::CANCEL, Event::Cancel(*id));
                self.add(list, scene, Kinds::RESCHEDULE, Event::Reschedule(*id, When::In(0)));
                self.add(list, scene, Kinds::RESCHEDULE, Event::Reschedule(*id, When::In(2 * DELAY)));
                self.add(list, scene, Kinds::DAMAGE, Event::Vanish(*id));
            }
            if self.store.dead.contains_key(id) {
                self.add(list, scene, Kinds::DEAD, Event::Redrive(*id));
                self.add(list, scene, Kinds::DEAD, Event::Delete(*id));
            }
            if self.store.due.keys().any(|(_, waits)| waits == id) {
                self.add(list, scene, Kinds::DAMAGE, Event::Misplace(*id));
            }
        }
        match self.store.stats.paused {
            Some(_) => list.push((Event::Pause(false), 0)),
            None => self.add(list, scene, Kinds::PAUSE, Event::Pause(true)),
        }
        if self.store.wake.is_some() {
            self.add(list, scene, Kinds::BATON, Event::LoseMarker);
        }
    }
}

impl Worker {
    /// Whether it asks for jobs: it has room, and no run of its own that must be alone, nor waits to be alone for one.
    fn may_claim(&self, world: &World) -> bool {
        let crashes = |member: &Member| world.store.jobs.get(&member.id).map_or(0, |record| record.crashes);
        let alone = self.knows.iter().any(|member| crashes(member) >= SOLO_AT);
        self.knows.len() < ROOM && !alone && (self.solo.is_none() || self.knows.is_empty())
    }
}

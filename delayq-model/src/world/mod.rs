//! A shard with those who use it: workers, senders, a network, and what an onlooker remembers of all of them.

mod events;
mod list;
mod observe;
mod play;
mod scenes;

use std::collections::{BTreeMap, BTreeSet};

pub use events::{Event, Fate};
pub use observe::Moment;
pub use play::play;
pub use scenes::{Kinds, SCENES, Scene, scene};

use crate::{Id, Key, Member, Now, Op, Session, State};

/// How many sessions a worker may have, one after the other; they are numbered through.
pub const INCARNATIONS: u8 = 4;

/// A worker: what it knows of its session. What the store knows may differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Worker {
    /// Its session, if it has one.
    pub session: Option<Session>,
    /// How many sessions it has had.
    pub opened: u8,
    /// It was told that its session is lost, and will open another.
    pub between: bool,
    /// The number of its last call.
    pub seq: u64,
    /// The runs that it has.
    pub knows: BTreeSet<Member>,
    /// The outcome of a call is not known to it: it reconciles before it claims (rule c).
    pub unsure: bool,
    /// The due time that it has a timer for, ms; 0: none.
    pub timer: u64,
    /// The marker's due time that it took and hasn't claimed for, ms.
    pub duty: Option<u64>,
    /// Jobs may be due that it hasn't asked for.
    pub hungry: bool,
    /// A job that it was told wants to run alone.
    pub solo: Option<Id>,
}

impl Worker {
    /// Whether it will claim or pass the baton on without being woken.
    pub(crate) fn is_awake(&self) -> bool {
        self.between || (self.session.is_some() && (self.hungry || self.unsure || self.duty.is_some()))
    }

    /// Its session is others' now.
    fn lose(&mut self, between: bool) {
        *self = Worker { opened: self.opened, between, ..Worker::default() };
    }
}

/// What is remembered of a job that the store need not remember.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Told {
    /// Whether its sender knows that it is in the store.
    pub sent: bool,
    /// The instant that was asked for, us.
    pub due_us: u64,
    /// The highest number of a run that was given out.
    pub run: u64,
    /// How many of its runs failed.
    pub fails: u16,
    /// How often it was snoozed.
    pub snoozes: u16,
    /// Whether somebody was told that its run is its last.
    pub cancelled: bool,
    /// When its record went, ms.
    pub ended: Option<u64>,
}

/// What an onlooker remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seen {
    /// Of each job.
    pub jobs: BTreeMap<Id, Told>,
    /// Who took each key last.
    pub keys: BTreeMap<Key, Id>,
    /// Sessions that rescue has begun with.
    pub lost: BTreeSet<Session>,
    /// The last sign of life, ms.
    pub beat: Option<u64>,
    /// Until when nobody is lost, ms.
    pub hold: u64,
    /// Whether somebody died or was cut off that watched the clock, or might have.
    pub baton_lost: bool,
    /// Whether a foreign hand was there.
    pub damaged: bool,
    /// Whether the store was rolled back.
    pub rolled_back: bool,
}

/// A shard and its users at an instant.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct World {
    /// The shard.
    pub store: State,
    /// Which of the scene's instants it is.
    pub at: usize,
    /// The workers.
    pub workers: Vec<Worker>,
    /// Calls that are under way still, though nobody waits for their answers.
    pub late: Vec<Op>,
    /// How many unusual events may yet come.
    pub left: u8,
    /// What an onlooker remembers.
    pub seen: Seen,
    /// What a store that is rolled back will be again.
    pub saved: Option<Box<State>>,
}

impl World {
    /// The store's clock.
    pub fn now(&self, scene: &Scene) -> Now {
        Now { us: scene.instants_us[self.at] }
    }

    /// Forgets what nothing goes by any more, so that worlds that will go on alike are one. Counters start anew with each event.
    pub fn forget(&mut self) {
        let store = &mut self.store;
        store.stats.counters = Default::default();
        store.jobs.values_mut().for_each(|record| record.enqueued = 0);
        store.dead.values_mut().for_each(|since| *since = 0);
        store.notes.values_mut().for_each(|note| (note.at, note.attempts) = (0, 0));
        store.stats.paused = store.stats.paused.map(|_| 1);
        for (id, told) in &mut self.seen.jobs {
            if !store.jobs.contains_key(id) {
                // It is told anew if the job comes again.
                *told = Told { sent: told.sent, run: told.run, ended: told.ended, ..Told::default() };
            }
        }
        self.seen.keys.retain(|_, id| store.jobs.contains_key(id));
        self.late.sort_unstable();
        self.number_calls_anew();
    }

    /// Where the marker is never taken, workers claim whenever there is something due.
    fn forget_timers(&mut self) {
        for worker in &mut self.workers {
            (worker.timer, worker.duty, worker.hungry) = (0, None, false);
        }
        self.seen.baton_lost = true;
    }

    /// Only the order of a session's calls matters.
    fn number_calls_anew(&mut self) {
        let sessions: Vec<Session> = self.store.stats.seqs.keys().copied().collect();
        for session in sessions {
            let mut numbers: Vec<u64> = self.numbers_of(session).into_iter().map(|n| *n).collect();
            if numbers.len() == 1 {
                // Nobody calls for it any more.
                numbers.clear();
            }
            numbers.push(0);
            numbers.sort_unstable();
            numbers.dedup();
            for number in self.numbers_of(session) {
                *number = numbers.binary_search(number).unwrap_or_default() as u64;
            }
        }
    }

    fn numbers_of(&mut self, session: Session) -> Vec<&mut u64> {
        let mut numbers: Vec<&mut u64> = self.store.stats.seqs.get_mut(&session).into_iter().collect();
        let workers = self.workers.iter_mut().filter(|worker| worker.session == Some(session));
        numbers.extend(workers.map(|worker| &mut worker.seq));
        for op in &mut self.late {
            match op {
                Op::Claim { session: of, seq, .. }
                | Op::Settle { session: of, seq, .. }
                | Op::Reconcile { session: of, seq, .. }
                    if *of == session =>
                {
                    numbers.push(seq);
                }
                _ => {}
            }
        }
        numbers
    }
}

//! Scenes: who is there, what can happen, and how much of it.

use super::{Event, Fate, INCARNATIONS, Seen, Told, Worker, World, play};
use crate::{NewJob, Rules, When};

/// The lease of every session, ms.
pub(super) const LEASE: u64 = 1000;
/// How long a failed or snoozed job waits, ms: one instant in most scenes.
pub(super) const DELAY: u64 = 400;

/// Kinds of events, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// Sends whose answers are lost, or that come late or twice.
    pub const BAD_SENDS: Kinds = Kinds(1);
    /// Calls of workers that go wrong like that.
    pub const BAD_CALLS: Kinds = Kinds(1 << 1);
    /// Workers that die.
    pub const CRASH: Kinds = Kinds(1 << 2);
    /// Rescue, also of a part.
    pub const RESCUE: Kinds = Kinds(1 << 3);
    /// Beats.
    pub const BEAT: Kinds = Kinds(1 << 4);
    /// Cancels.
    pub const CANCEL: Kinds = Kinds(1 << 5);
    /// Jobs that are moved.
    pub const RESCHEDULE: Kinds = Kinds(1 << 6);
    /// Redrives and deletions.
    pub const DEAD: Kinds = Kinds(1 << 7);
    /// Pause and resume.
    pub const PAUSE: Kinds = Kinds(1 << 8);
    /// The marker is taken, lost and passed on.
    pub const BATON: Kinds = Kinds(1 << 9);
    /// Runs that fail.
    pub const RETRY: Kinds = Kinds(1 << 10);
    /// Snoozed, discarded, buried and handed back runs.
    pub const VERDICTS: Kinds = Kinds(1 << 11);
    /// Sessions that are closed.
    pub const CLOSE: Kinds = Kinds(1 << 12);
    /// Foreign hands.
    pub const DAMAGE: Kinds = Kinds(1 << 13);
    /// A clock that is set back.
    pub const SET_BACK: Kinds = Kinds(1 << 14);
    /// A store that is rolled back.
    pub const ROLL_BACK: Kinds = Kinds(1 << 15);
    /// Programs of another layout, and sessions that are opened twice.
    pub const OTHERS: Kinds = Kinds(1 << 16);
    /// All but rolling back.
    pub const ALL: Kinds = Kinds(0x1ffff).but(Kinds::ROLL_BACK);

    /// These without those.
    pub const fn but(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    /// These and those.
    pub const fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Whether these are among them.
    pub fn has(self, other: Kinds) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A small world, all of whose histories are looked at.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// What can happen.
    pub kinds: Kinds,
    /// The instants that come one after the other, us.
    pub instants_us: Vec<u64>,
    /// The jobs that are sent.
    pub jobs: Vec<NewJob>,
    /// How many workers there are.
    pub workers: usize,
    /// How many sessions each may have.
    pub incarnations: u8,
    /// How many unusual events there are in one history.
    pub unusual: u8,
    /// Whether the jobs are sent when it begins.
    pub sent: bool,
    /// Whether the sessions are open when it begins.
    pub opened: bool,
    /// How many crashes each of those jobs has behind it.
    pub crashes: [u8; 2],
}

/// The first instant, us.
const FIRST: u64 = 10_000_700;

/// Instants some ms apart. Every other one comes half a ms sooner than that, so that rounding shows.
fn instants(after_ms: &[u64]) -> Vec<u64> {
    after_ms.iter().zip([0, 500].into_iter().cycle()).map(|(ms, sooner)| FIRST + ms * 1000 - sooner).collect()
}

fn job(id: u8) -> NewJob {
    NewJob { id, when: When::In(0), priority: 5, limit: 2, expires: None, retain: 0, key: None, key_ttl: 0 }
}

/// The names of the scenes.
pub const SCENES: [&str; 7] = ["whole", "leases", "network", "sends", "crashes", "baton", "damage"];

/// A scene by its name.
pub fn scene(name: &str) -> Option<Scene> {
    let base = Scene {
        name: SCENES.into_iter().find(|known| *known == name)?,
        about: "",
        kinds: Kinds::ALL,
        instants_us: Vec::new(),
        jobs: Vec::new(),
        workers: 2,
        incarnations: 1,
        unusual: 1,
        sent: true,
        opened: true,
        crashes: [0, 0],
    };
    let keyed = |id| NewJob { key: Some(1), ..job(id) };
    Some(match name {
        "whole" => Scene {
            about: "two jobs, one with a unique key, two workers, and whatever may happen once",
            kinds: Kinds::ALL.but(Kinds::BATON).but(Kinds::BEAT),
            instants_us: instants(&[0, 1001]),
            jobs: vec![keyed(1), NewJob { when: When::In(1), priority: 6, ..job(2) }],
            sent: false,
            ..base
        },
        "leases" => Scene {
            about: "leases run out, workers freeze and die, rescue goes step by step",
            kinds: Kinds::CRASH.and(Kinds::RESCUE).and(Kinds::BEAT).and(Kinds::CANCEL).and(Kinds::SET_BACK),
            instants_us: instants(&[0, 400, 1001, 2002]),
            jobs: vec![job(1), NewJob { limit: 1, ..job(2) }],
            ..base
        },
        "network" => Scene {
            about: "calls of workers are lost, delayed past a lease, and repeated",
            kinds: Kinds::BAD_CALLS.and(Kinds::RESCUE).and(Kinds::RETRY).and(Kinds::VERDICTS).and(Kinds::CANCEL),
            instants_us: instants(&[0, 400, 1401]),
            jobs: vec![job(1)],
            unusual: 2,
            ..base
        },
        "sends" => Scene {
            about: "two jobs with one unique key, sent over a bad network, ended, redriven, sent again",
            kinds: Kinds::BAD_SENDS
                .and(Kinds::CANCEL)
                .and(Kinds::RESCHEDULE)
                .and(Kinds::DEAD)
                .and(Kinds::RETRY)
                .and(Kinds::VERDICTS)
                .and(Kinds::OTHERS),
            instants_us: instants(&[0, 1, 401, 16_000]),
            jobs: vec![NewJob { key_ttl: 100, retain: 100, ..keyed(1) }, NewJob { when: When::In(1), ..keyed(2) }],
            workers: 1,
            unusual: 2,
            sent: false,
            opened: false,
            ..base
        },
        "crashes" => Scene {
            about: "one job with one crash behind it and one with two, and workers that die again",
            kinds: Kinds::CRASH.and(Kinds::RESCUE).and(Kinds::RESCHEDULE).and(Kinds::DEAD).and(Kinds::RETRY),
            instants_us: instants(&[0, 1, 1001, 4100]),
            jobs: vec![NewJob { limit: 3, ..job(1) }, NewJob { limit: 3, ..job(2) }],
            crashes: [1, 2],
            ..base
        },
        "baton" => Scene {
            about: "who watches the clock, whatever comes to be due or is no more",
            kinds: Kinds::BATON
                .and(Kinds::RESCHEDULE)
                .and(Kinds::CANCEL)
                .and(Kinds::PAUSE)
                .and(Kinds::RETRY)
                .and(Kinds::CLOSE),
            instants_us: instants(&[0, 400, 900]),
            jobs: vec![NewJob { when: When::In(400), ..job(1) }, NewJob { expires: Some(100), ..job(2) }],
            ..base
        },
        _ => Scene {
            about: "foreign hands, and a store that is rolled back",
            kinds: Kinds::DAMAGE.and(Kinds::ROLL_BACK).and(Kinds::RETRY).and(Kinds::VERDICTS),
            // Whatever is rolled back takes longer to come up than runs are counted beyond the clock.
            instants_us: instants(&[0, 1, 400]),
            jobs: vec![job(1), job(2)],
            unusual: 2,
            ..base
        },
    })
}

impl Scene {
    /// The world as it begins.
    pub fn start(&self) -> World {
        debug_assert!(self.incarnations <= INCARNATIONS);
        let mut world = World {
            workers: vec![Worker::default(); self.workers],
            left: self.unusual,
            seen: Seen { jobs: self.jobs.iter().map(|job| (job.id, Told::default())).collect(), ..Seen::default() },
            ..World::default()
        };
        self.begin(&mut world);
        world.saved = self.kinds.has(Kinds::ROLL_BACK).then(|| Box::new(world.store.clone()));
        world.forget();
        world
    }

    fn begin(&self, world: &mut World) {
        let sends = self.jobs.iter().map(|job| Event::Send(job.id, Fate::Answered));
        let opens = (0..self.workers).map(Event::Open);
        for event in sends.filter(|_| self.sent).chain(opens.filter(|_| self.opened)) {
            (*world, _) = play(world, event, 0, self, Rules::ALL);
        }
        for (crashes, record) in self.crashes.into_iter().zip(world.store.jobs.values_mut()) {
            // What a crash leaves behind: the first was charged.
            (record.crashes, record.attempts) = (crashes, u16::from(crashes.min(1)));
        }
    }

    /// The session that a worker opens next.
    pub(super) fn next_session(&self, worker: usize, opened: u8) -> u8 {
        worker as u8 * INCARNATIONS + opened
    }
}

//! What a shard holds: one field a key of the store, the numbers as the store has them.

use std::collections::{BTreeMap, BTreeSet};

/// A job. The order of the numbers is that of the ids' bytes.
pub type Id = u8;
/// A session. The order of the numbers is that of the ids' bytes.
pub type Session = u8;
/// A unique key.
pub type Key = u8;

/// An instant of the store's clock, read once a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now {
    /// us since 1970.
    pub us: u64,
}

impl Now {
    /// Rounded down: what is due by then is due whatever the fraction (rule h).
    pub fn ms(self) -> u64 {
        self.us / 1000
    }

    /// Rounded up: what is due then is not early, not even by a fraction (rule h).
    pub fn ms_up(self) -> u64 {
        self.us.div_ceil(1000)
    }
}

/// A job and the number of a run of it, as a session holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The job.
    pub id: Id,
    /// The run's number: the fencing token.
    pub run: u64,
}

/// A record's header. What the sender wrote after it no script looks into.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// 0 first, 9 last.
    pub priority: u8,
    /// Whether a cancel waits for the end of the run.
    pub cancel_waits: bool,
    /// How many lost sessions held it.
    pub crashes: u8,
    /// How often it came back without spending an attempt.
    pub free: u16,
    /// Attempts spent.
    pub attempts: u16,
    /// Attempts allowed.
    pub limit: u16,
    /// The lowest number that its next run may have.
    pub run: u64,
    /// Due, ms.
    pub due: u64,
    /// Sent, ms.
    pub enqueued: u64,
    /// Worth running before, ms; 0: always.
    pub expires: u64,
    /// How long the record is kept once it is done, ms.
    pub retain: u64,
    /// The key that no other waiting or running job may have.
    pub key: Option<Key>,
}

/// Why a note was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// A run failed, and another follows.
    Retry,
    /// A worker was lost with it, and it waits again.
    Crash,
    /// A worker was lost with it while it ran alone.
    CrashLoop,
    /// A worker was lost with it on its last attempt.
    Exhausted,
    /// Its worker gave it up.
    Buried,
}

/// The note on a job's last failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    /// Why.
    pub code: Code,
    /// When, ms.
    pub at: u64,
    /// After how many attempts.
    pub attempts: u16,
}

/// Who has a unique key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lock {
    /// The job.
    pub owner: Id,
    /// Until when, ms; 0: until the job ends.
    pub until: u64,
}

/// That an id ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tomb {
    /// When, ms.
    pub at: u64,
    /// How.
    pub how: crate::End,
}

/// What `stats` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // Each is the name of the field.
pub enum Counter {
    Enqueued,
    Done,
    Retried,
    Snoozed,
    Returned,
    Discarded,
    Dead,
    Cancelled,
    Expired,
    Crashed,
    Redriven,
    Deleted,
    Quarantined,
    SessionsLost,
}

/// The fields of the counters, in the order of [`Counter`].
pub const COUNTERS: [&str; 14] = [
    "enqueued",
    "done",
    "retried",
    "snoozed",
    "returned",
    "discarded",
    "dead",
    "cancelled",
    "expired",
    "crashed",
    "redriven",
    "deleted",
    "quarantined",
    "sessions_lost",
];

/// The hash `stats`. A counter that is missing is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stats {
    /// The layout.
    pub schema: Option<u32>,
    /// How many shards the queue has.
    pub shards: Option<u32>,
    /// The due sets in use, a bit a priority.
    pub priorities: u16,
    /// Paused since, ms.
    pub paused: Option<u64>,
    /// The due time that is watched for, ms.
    pub timer_at: Option<u64>,
    /// Running jobs that a cancel waits for.
    pub cancelling: i64,
    /// The last sign of life of any session, ms.
    pub last_beat: Option<u64>,
    /// Until when no session is lost, ms.
    pub hold_until: Option<u64>,
    /// The longest lease, ms.
    pub lease_max: Option<u64>,
    /// The number of each session's last call that changed what it holds.
    pub seqs: BTreeMap<Session, u64>,
    /// By [`Counter`].
    pub counters: [u32; COUNTERS.len()],
}

/// A shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The records.
    pub jobs: BTreeMap<Id, Record>,
    /// Who waits, by priority, and until when, ms.
    pub due: BTreeMap<(u8, Id), u64>,
    /// The sessions, and when their leases end, ms; 0: lost, and being drained.
    pub sessions: BTreeMap<Session, u64>,
    /// What each session holds.
    pub held: BTreeSet<(Session, Member)>,
    /// Dead letters, and since when, ms.
    pub dead: BTreeMap<Id, u64>,
    /// Notes on last failures.
    pub notes: BTreeMap<Id, Note>,
    /// Done jobs that are kept, and until when, ms.
    pub done: BTreeMap<Id, u64>,
    /// Who has which unique key.
    pub unique: BTreeMap<Key, Lock>,
    /// Ids that ended.
    pub tombs: BTreeMap<Id, Tomb>,
    /// The marker: the due time that wants to be watched, ms.
    pub wake: Option<u64>,
    /// Counters and clocks.
    pub stats: Stats,
}

impl State {
    /// What a session holds.
    pub fn held_by(&self, session: Session) -> impl Iterator<Item = Member> + '_ {
        self.held.iter().filter(move |(by, _)| *by == session).map(|(_, member)| *member)
    }

    /// How much a session holds.
    pub fn held_count(&self, session: Session) -> usize {
        self.held_by(session).count()
    }

    /// Whether a session stands: what it asks for is done.
    pub fn stands(&self, session: Session) -> bool {
        self.sessions.get(&session).is_some_and(|ends| *ends > 0)
    }

    /// Whether a job waits or runs.
    pub fn is_live(&self, id: Id) -> bool {
        self.due.keys().any(|(_, waits)| *waits == id) || self.held.iter().any(|(_, member)| member.id == id)
    }

    /// The earliest due time, ms.
    pub fn head(&self) -> Option<u64> {
        self.due.values().min().copied()
    }
}

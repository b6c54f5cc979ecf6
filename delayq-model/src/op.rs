//! What can be asked of a shard, one operation a script, and what it answers.

use crate::{Id, Key, Member, Session};

/// When a job is to be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum When {
    /// So many ms from now.
    In(u64),
    /// At that ms.
    At(u64),
}

/// A job to be sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NewJob {
    /// Its id.
    pub id: Id,
    /// When it is due.
    pub when: When,
    /// 0 first, 9 last.
    pub priority: u8,
    /// Attempts allowed.
    pub limit: u16,
    /// How long after its due time it is worth running, ms.
    pub expires: Option<u64>,
    /// How long its record is kept once it is done, ms.
    pub retain: u64,
    /// Its unique key.
    pub key: Option<Key>,
    /// How long after its due time it keeps the key at most, ms; 0: until it ends.
    pub key_ttl: u64,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Done, nothing to look up.
    Done,
    /// Done moments after it was sent: a tombstone stays.
    DoneYoung,
    /// Done, and its record says what else is to be done.
    DoneExtended,
    /// Failed: again after so many ms, an attempt spent.
    Retry(u64),
    /// Again after so many ms, no attempt spent.
    Snooze(u64),
    /// As if it had not been claimed.
    HandBack,
    /// Ended without success or dead letter.
    Discard,
    /// To the dead letters.
    Bury,
}

/// Which of the held jobs of a lost session a call takes back. The store chooses where it doesn't take all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chosen {
    /// All of them.
    All,
    /// This one.
    One(Member),
}

/// A call of a script.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Begins a session.
    Open {
        /// Its id.
        session: Session,
        /// Its lease, ms.
        lease: u64,
        /// The caller's layout.
        schema: u32,
        /// The caller's number of shards.
        shards: u32,
    },
    /// Renews a lease.
    Beat {
        /// Whose.
        session: Session,
        /// The lease, ms.
        lease: u64,
        /// The due time that the session has a timer for, ms; 0: none.
        timer: u64,
    },
    /// Settles, and takes due jobs.
    Claim {
        /// For which session.
        session: Session,
        /// The number of the call.
        seq: u64,
        /// How many at most.
        count: usize,
        /// The due time that the session watches for or took the marker of, ms; 0: none.
        timer: u64,
        /// One job to be taken alone, instead of what is due.
        alone: Option<Id>,
        /// What is settled before.
        verdicts: Vec<(Member, Verdict)>,
    },
    /// Ends runs.
    Settle {
        /// Of which session.
        session: Session,
        /// The number of the call.
        seq: u64,
        /// What they came to.
        verdicts: Vec<(Member, Verdict)>,
    },
    /// Hands back what a session holds without knowing it.
    Reconcile {
        /// Which session.
        session: Session,
        /// The number of the call.
        seq: u64,
        /// What it knows that it holds.
        known: Vec<Member>,
    },
    /// Takes back the jobs of a lost session.
    Rescue {
        /// Which session.
        session: Session,
        /// How much of it.
        chosen: Chosen,
    },
    /// Ends a session.
    Close {
        /// Which.
        session: Session,
    },
    /// Sends jobs.
    Enqueue {
        /// The jobs.
        jobs: Vec<NewJob>,
        /// The caller's layout.
        schema: u32,
        /// The caller's number of shards.
        shards: u32,
    },
    /// Ends a waiting job, flags a running one.
    Cancel {
        /// The job.
        id: Id,
    },
    /// Gives a waiting job another due time.
    Reschedule {
        /// The job.
        id: Id,
        /// The due time.
        when: When,
    },
    /// Sends dead letters to work again.
    Redrive {
        /// Which.
        ids: Vec<Id>,
    },
    /// Throws dead letters away.
    Delete {
        /// Which.
        ids: Vec<Id>,
    },
    /// Stops or starts claims.
    Pause {
        /// Whether it stops them.
        on: bool,
    },
    /// Passes the baton on.
    Pass,
    /// Takes the marker, as an idle worker does.
    TakeMarker,
    /// Says where a job is.
    Inspect {
        /// The job.
        id: Id,
    },
    /// Counts jobs by state.
    Stats,
}

/// What became of a sent job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sent {
    /// It is in the store now.
    Created,
    /// Its id was there already, or ended moments ago.
    Already,
    /// This job has its unique key.
    Duplicate(Id),
}

/// What became of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Settled {
    /// As asked.
    Accepted,
    /// The session doesn't hold this run (any more).
    NotHeld,
    /// A cancel had come while it ran.
    Cancelled,
    /// Its record is missing.
    Missing,
}

/// How a job ended; the number is its code in a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// It succeeded.
    Done = 1,
    /// It was cancelled.
    Cancelled = 2,
    /// It was not worth running any more.
    Expired = 3,
    /// It was a dead letter that was thrown away.
    Deleted = 4,
    /// Its worker dropped it.
    Discarded = 5,
}

/// What became of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Redriven {
    /// As asked.
    Ok,
    /// There is no such dead letter.
    NoLetter,
    /// Its unique key is taken.
    KeyTaken,
    /// Its record is gone.
    Missing,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// It waits.
    Due,
    /// A session holds it.
    Running,
    /// It is a dead letter.
    Dead,
    /// It is done, and its record is kept.
    Done,
}

/// The answer to a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claimed {
    /// Whether the queue is paused.
    pub paused: bool,
    /// How long until the timer rings, us, if the caller is to watch.
    pub wait_us: Option<u64>,
    /// The due time to watch for, ms; 0: somebody else does.
    pub timer: u64,
    /// Whether more jobs may be due.
    pub more: bool,
    /// A job that wants a session of its own.
    pub solo: Option<Id>,
    /// What became of the verdicts.
    pub settled: Vec<Settled>,
    /// The jobs and the numbers of their runs.
    pub taken: Vec<Member>,
}

/// The answer to a question for numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // Each is the name of what is counted.
pub struct Counts {
    pub records: usize,
    pub waiting: usize,
    pub due: usize,
    pub running: usize,
    pub dead: usize,
    pub done: usize,
    pub sessions: usize,
    pub expired: usize,
    pub paused: bool,
    pub head: Option<u64>,
}

impl Counts {
    /// Records that are nowhere: an alarm.
    pub fn orphans(&self) -> i64 {
        self.records as i64 - (self.waiting + self.running + self.dead + self.done) as i64
    }
}

/// What a call answers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    /// The session is open.
    Opened,
    /// The session's id was used before.
    Exists,
    /// The queue has this layout.
    OtherSchema(u32),
    /// The queue has so many shards.
    OtherShards(u32),
    /// The lease is renewed.
    Beat {
        /// How much the session holds.
        held: usize,
        /// Whether the queue is paused.
        paused: bool,
        /// How long until the session's timer rings, us, if it is the shard's.
        wait_us: Option<u64>,
        /// Sessions that are lost.
        lost: Vec<Session>,
    },
    /// No such session (any more).
    Lost,
    /// A newer call came first.
    Stale,
    /// What was claimed.
    Claimed(Claimed),
    /// What became of the verdicts.
    Settled(Vec<Settled>),
    /// Known members that are not held.
    Reconciled(Vec<Member>),
    /// What was taken back.
    Rescued {
        /// Whether that was all.
        done: bool,
        /// How many wait again.
        given: u32,
        /// How many are dead letters now.
        buried: u32,
        /// How many a cancel had come for.
        cancelled: u32,
        /// How many were no jobs.
        quarantined: u32,
    },
    /// The session's lease has not run out.
    Alive,
    /// After an outage nobody is lost for one more lease.
    OnHold,
    /// No such session.
    Gone,
    /// The session is closed.
    Closed,
    /// The session holds so many jobs.
    Holds(usize),
    /// What became of the sent jobs.
    Sent(Vec<Sent>),
    /// The job waited and is gone.
    Cancelled,
    /// It runs.
    Running,
    /// It is a dead letter.
    IsDead,
    /// It is done and kept.
    IsDone,
    /// It ended moments ago.
    Ended(End),
    /// There is no such job.
    NoJob,
    /// It is due then, ms.
    Rescheduled(u64),
    /// What became of the letters.
    Redriven(Vec<Redriven>),
    /// Which letters are gone, by this call or the same one before.
    Deleted(Vec<bool>),
    /// Whether that changed anything.
    Paused(bool),
    /// The baton is passed on.
    Passed,
    /// The marker's due time, ms.
    Marker(Option<u64>),
    /// The job is there since or until, ms.
    Found(Place, u64),
    /// The counts.
    Counted(Counts),
    /// The call gave up halfway: no script answers so while rule u stands.
    Corrupt,
}

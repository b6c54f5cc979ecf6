//! What can happen next in a world.

use std::fmt;

use crate::{Chosen, Id, Member, Session, Verdict, When};

/// What becomes of a call. A call that is lost before it is executed is one that comes late and never arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is executed, and its answer arrives.
    Answered,
    /// It is executed, and its answer is lost.
    AnswerLost,
    /// Its caller gives up, and it is under way still.
    Late,
    /// It is answered, and a copy of it is under way still.
    Doubled,
}

/// One thing that happens. Workers go by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The next instant comes.
    Tick,
    /// The clock is set back by one instant.
    SetBack,
    /// The store is again what it was before the last instant came, and time goes on.
    RollBack,
    /// A job is sent.
    Send(Id, Fate),
    /// A job is sent by a program with another layout, or another number of shards.
    SendOther(Id, u32, u32),
    /// A call that nobody waits for is executed.
    Arrive(usize),
    /// A worker opens a session.
    Open(usize),
    /// A session that is open is opened once more.
    OpenAgain(Session),
    /// A worker claims so many, or the job that wants to be alone.
    Claim(usize, usize, Fate),
    /// A worker settles a run.
    Settle(usize, Member, Verdict, Fate),
    /// A worker renews its lease.
    Beat(usize),
    /// A worker reconciles.
    Reconcile(usize, Fate),
    /// Somebody takes jobs of a session back.
    Rescue(Session, Chosen),
    /// A worker ends its session.
    Close(usize),
    /// A worker that is idle takes the marker.
    TakeMarker(usize),
    /// A dead connection is given the marker.
    LoseMarker,
    /// A worker that can't claim passes the baton on.
    Pass(usize),
    /// A worker dies.
    Crash(usize),
    /// A client cancels a job.
    Cancel(Id),
    /// A client moves a job.
    Reschedule(Id, When),
    /// A dead letter is sent to work again.
    Redrive(Id),
    /// A dead letter is thrown away.
    Delete(Id),
    /// The queue is paused or resumed.
    Pause(bool),
    /// A foreign hand removes a record.
    Vanish(Id),
    /// A foreign hand takes a job out of its due set.
    Misplace(Id),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = |fate: &Fate| match fate {
            Fate::Answered => "",
            Fate::AnswerLost => ", the answer is lost",
            Fate::Late => ", the call is delayed",
            Fate::Doubled => ", a copy of the call is delayed",
        };
        match self {
            Event::Tick => write!(f, "time passes"),
            Event::SetBack => write!(f, "the clock is set back"),
            Event::RollBack => write!(f, "the store is rolled back"),
            Event::Send(id, of) => write!(f, "job {id} is sent{}", fate(of)),
            Event::SendOther(id, schema, shards) => write!(f, "job {id} is sent for schema {schema}, {shards} shards"),
            Event::Arrive(_) => write!(f, "a delayed call arrives"),
            Event::Open(worker) => write!(f, "worker {worker} opens a session"),
            Event::OpenAgain(session) => write!(f, "session {session} is opened again"),
            Event::Claim(worker, count, of) => write!(f, "worker {worker} claims {count}{}", fate(of)),
            Event::Settle(worker, member, verdict, of) => {
                write!(f, "worker {worker} settles run {} of job {}: {verdict:?}{}", member.run, member.id, fate(of))
            }
            Event::Beat(worker) => write!(f, "worker {worker} beats"),
            Event::Reconcile(worker, of) => write!(f, "worker {worker} reconciles{}", fate(of)),
            Event::Rescue(session, Chosen::All) => write!(f, "session {session} is rescued"),
            Event::Rescue(session, Chosen::One(member)) => {
                write!(f, "job {} of session {session} is rescued", member.id)
            }
            Event::Close(worker) => write!(f, "worker {worker} closes its session"),
            Event::TakeMarker(worker) => write!(f, "worker {worker} takes the marker"),
            Event::LoseMarker => write!(f, "a dead connection takes the marker"),
            Event::Pass(worker) => write!(f, "worker {worker} passes the baton on"),
            Event::Crash(worker) => write!(f, "worker {worker} dies"),
            Event::Cancel(id) => write!(f, "job {id} is cancelled"),
            Event::Reschedule(id, when) => write!(f, "job {id} is moved: {when:?}"),
            Event::Redrive(id) => write!(f, "job {id} is redriven"),
            Event::Delete(id) => write!(f, "dead letter {id} is deleted"),
            Event::Pause(on) => write!(f, "the queue is {}", if *on { "paused" } else { "resumed" }),
            Event::Vanish(id) => write!(f, "the record of job {id} vanishes"),
            Event::Misplace(id) => write!(f, "job {id} vanishes from its due set"),
        }
    }
}

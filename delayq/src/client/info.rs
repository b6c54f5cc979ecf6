//! A job of any type, as it is stored: what there is to know of it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use super::dead::Note;
use crate::clock::timestamp;
use crate::envelope::{Envelope, Record};
use crate::error::Error;
use crate::job::{DeadReason, JobId};

/// The states that the jobs of a queue can be listed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum JobState {
    /// It waits for its due time, or is due and waits for a worker.
    Waiting,
    /// A worker runs it.
    Running,
    /// It is a dead letter.
    Dead,
    /// It succeeded, and its record is kept for a while.
    Retained,
}

impl JobState {
    /// All of them.
    pub const ALL: [JobState; 4] = [JobState::Waiting, JobState::Running, JobState::Dead, JobState::Retained];

    /// Its name: `waiting`, `running`, `dead`, `retained`.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Waiting => "waiting",
            JobState::Running => "running",
            JobState::Dead => "dead",
            JobState::Retained => "retained",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for JobState {
    type Err = Error;

    fn from_str(text: &str) -> Result<JobState, Error> {
        JobState::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
            Error::invalid(format!("there is no state {text:?}: jobs are waiting, running, dead or retained"))
        })
    }
}

/// A job of any type, as it is stored.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its id.
    pub id: JobId,
    /// Its queue.
    pub queue: String,
    /// Where it is.
    pub state: JobState,
    /// Its name, unless its bytes can't be read.
    pub name: Option<String>,
    /// Its payload's version, unless its bytes can't be read.
    pub version: Option<u32>,
    /// Its priority, unless its bytes can't be read.
    pub priority: Option<u8>,
    /// When it was sent, unless its bytes can't be read.
    pub enqueued_at: Option<Timestamp>,
    /// When it is due; of a running job or a dead letter when it was.
    pub due: Option<Timestamp>,
    /// Since when it runs, by the store's clock. A little early for a job that was sent for a time before the store's clock was
    /// set back.
    pub running_since: Option<Timestamp>,
    /// The worker's session that runs it, as in [`WorkerInfo::session`](super::WorkerInfo::session). A list has it.
    pub session: Option<String>,
    /// Since when it is a dead letter.
    pub dead_since: Option<Timestamp>,
    /// Until when its record is kept.
    pub retained_until: Option<Timestamp>,
    /// How many attempts it has spent; the run under way is not among them.
    pub attempts: u32,
    /// How many it may spend, `None` without limit.
    pub attempts_max: Option<u32>,
    /// How many workers were lost while they held it.
    pub crashes: u32,
    /// How often it came back without spending an attempt.
    pub free_returns: u32,
    /// Whether it was cancelled while it runs.
    pub cancelling: bool,
    /// When it is no longer worth starting.
    pub expires_at: Option<Timestamp>,
    /// How long its record is kept once it is done.
    pub retain_for: Option<Duration>,
    /// Its unique key; bytes that are not UTF-8 are replaced.
    pub unique_key: Option<String>,
    /// The trace context of whoever sent it.
    pub trace_parent: Option<String>,
    /// Its last failure. A list has it for dead letters only; [`Jobs::get`](super::Jobs::get) has it always.
    pub failure: Option<JobFailure>,
    /// The payload as it was sent; the whole envelope where that can't be read, the whole record where not even that.
    pub payload: Bytes,
}

/// The last failure of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobFailure {
    /// When, by the store's clock.
    pub at: Option<Timestamp>,
    /// What kind of failure: `retry` for a failed run, `crash` for a lost worker, `repaired` for a record that was in no place, a reason
    /// for a dead letter.
    pub code: String,
    /// The reason, of a dead letter.
    pub reason: Option<DeadReason>,
    /// How many attempts were spent by then.
    pub attempts: u32,
    /// Its text, up to 4 KiB.
    pub text: String,
}

impl JobInfo {
    /// What a record says; its state's own instants are still to be put in.
    pub(super) fn read(queue: &str, id: JobId, state: JobState, stored: &Bytes, note: &[u8]) -> JobInfo {
        let mut info = JobInfo {
            id,
            queue: queue.to_owned(),
            state,
            name: None,
            version: None,
            priority: None,
            enqueued_at: None,
            due: None,
            running_since: None,
            session: None,
            dead_since: None,
            retained_until: None,
            attempts: 0,
            attempts_max: None,
            crashes: 0,
            free_returns: 0,
            cancelling: false,
            expires_at: None,
            retain_for: None,
            unique_key: None,
            trace_parent: None,
            failure: Note::parse(note).map(JobFailure::from),
            payload: stored.clone(),
        };
        let Ok(record) = Record::decode(stored) else { return info };
        info.priority = Some(record.priority);
        info.enqueued_at = Some(timestamp(record.enqueued_ms));
        info.due = Some(timestamp(record.due_ms));
        info.attempts = u32::from(record.attempts);
        info.attempts_max = record.attempts_max;
        info.crashes = u32::from(record.crashes);
        info.free_returns = u32::from(record.free_returns);
        info.cancelling = record.cancel_waits;
        info.payload = record.envelope.clone();
        if let Some(extension) = record.extension {
            info.expires_at = extension.expires_ms.map(timestamp);
            info.retain_for = extension.retain_ms.map(Duration::from_millis);
            info.unique_key = extension.unique.map(|key| String::from_utf8_lossy(&key).into_owned());
        }
        if let Ok(envelope) = Envelope::decode(&record.envelope) {
            info.name = Some(envelope.name.to_owned());
            info.version = Some(envelope.version);
            info.trace_parent = envelope.trace_parent.map(str::to_owned);
            info.payload = record.envelope.slice(envelope.payload_at..);
        }
        info
    }
}

impl From<Note> for JobFailure {
    fn from(note: Note) -> JobFailure {
        JobFailure {
            at: note.at_ms.map(timestamp),
            reason: note.reason(),
            attempts: note.attempts,
            code: note.code,
            text: note.text,
        }
    }
}

impl fmt::Debug for JobInfo {
    // Payloads may hold what must not be in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobInfo")
            .field("id", &self.id)
            .field("queue", &self.queue)
            .field("state", &self.state)
            .field("name", &self.name)
            .field("version", &self.version)
            .field("due", &self.due)
            .field("attempts", &self.attempts)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

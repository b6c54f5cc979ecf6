//! One job that was sent: its state, and what can still be done about it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use super::Client;
use super::dead::Note;
use crate::clock::{When, timestamp};
use crate::envelope::Record;
use crate::error::{Error, ErrorKind};
use crate::job::{DeadReason, JobId};
use crate::store::ops::{Cancelled, End, Found, Place, Rescheduled};

/// A job that was sent.
pub struct JobHandle<J> {
    client: Client,
    queue: Arc<str>,
    id: JobId,
    created: bool,
    job: PhantomData<fn(J)>,
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobStatus {
    /// It waits for its due time, or for a worker.
    Waiting {
        /// When it is due.
        due: Timestamp,
        /// How many attempts it has spent.
        attempts: u32,
        /// What its last failure was.
        last_error: Option<String>,
    },
    /// A worker runs it.
    Running {
        /// How many attempts it had spent before this one.
        attempts: u32,
        /// Whether it was cancelled meanwhile.
        cancelling: bool,
    },
    /// It is a dead letter.
    Dead {
        /// Since when.
        since: Timestamp,
        /// Why, unless that was lost.
        reason: Option<DeadReason>,
        /// Why, as a text.
        error: String,
        /// How many attempts it has spent.
        attempts: u32,
    },
    /// It succeeded. Known while its record is retained, and for 15 s.
    Done,
    /// It was cancelled. Known for 15 s.
    Cancelled,
    /// It was too late to be run. Known for 15 s.
    Expired,
    /// Its handler discarded it. Known for 15 s.
    Discarded,
    /// Its dead letter was deleted. Known for 15 s.
    Deleted,
    /// The store doesn't know it: it ended some time ago, or was never sent to this queue.
    Gone,
}

/// What [`JobHandle::cancel`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The job waited and will not run.
    Cancelled,
    /// The job runs at this moment. It will not run again: if this run fails, the job ends as cancelled.
    Running,
}

impl<J> JobHandle<J> {
    pub(super) fn new(client: Client, queue: Arc<str>, id: JobId, created: bool) -> JobHandle<J> {
        JobHandle { client, queue, id, created, job: PhantomData }
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The queue that it was sent to.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Whether this send made the job; otherwise a job of this id was there already, or had just ended. A send whose
    /// answer was lost and that was repeated says false, although it made the job.
    pub fn is_new(&self) -> bool {
        self.created
    }

    /// Where the job is.
    ///
    /// # Errors
    /// The store doesn't answer.
    pub async fn status(&self) -> Result<JobStatus, Error> {
        let shard = self.client.shard(&self.queue)?;
        let found = self.client.ask(|| self.client.store().inspect(&shard, self.id.as_bytes())).await?;
        Ok(match found {
            Found::None => JobStatus::Gone,
            Found::Ended(End::Done) => JobStatus::Done,
            Found::Ended(End::Cancelled) => JobStatus::Cancelled,
            Found::Ended(End::Expired) => JobStatus::Expired,
            Found::Ended(End::Discarded) => JobStatus::Discarded,
            Found::Ended(End::Deleted) => JobStatus::Deleted,
            Found::Job { place: Place::Done, .. } => JobStatus::Done,
            Found::Job { place, at_ms, record, note } => placed(place, at_ms, &record, &note),
        })
    }

    /// Cancels the job. May be repeated.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound): it ended before, or never was. [`WrongState`](ErrorKind::WrongState): it is a dead
    /// letter, or done and retained.
    pub async fn cancel(&self) -> Result<CancelOutcome, Error> {
        let shard = self.client.shard(&self.queue)?;
        match self.client.ask(|| self.client.store().cancel(&shard, self.id.as_bytes())).await? {
            Cancelled::Cancelled => Ok(CancelOutcome::Cancelled),
            Cancelled::Running => Ok(CancelOutcome::Running),
            Cancelled::Dead => Err(self.wrong_state("it is a dead letter: delete it there")),
            Cancelled::Done => Err(self.wrong_state("it is done")),
            Cancelled::Ended(end) => Err(self.ended(end)),
            Cancelled::None => Err(self.not_found()),
        }
    }

    /// Moves a waiting job: it is due `delay` from now.
    ///
    /// # Errors
    /// [`WrongState`](ErrorKind::WrongState): it runs, is a dead letter, or is done and retained.
    /// [`NotFound`](ErrorKind::NotFound): it ended before, or never was. [`InvalidArgument`](ErrorKind::InvalidArgument): the
    /// delay is beyond the year 9999.
    pub async fn reschedule(&self, delay: Duration) -> Result<Timestamp, Error> {
        self.reschedule_at(delay).await
    }

    /// Moves a waiting job to an instant; answers when it is due now.
    ///
    /// # Errors
    /// As for [`reschedule`](JobHandle::reschedule).
    pub async fn reschedule_at(&self, at: impl Into<When>) -> Result<Timestamp, Error> {
        let shard = self.client.shard(&self.queue)?;
        let when = at.into().to_arg()?;
        match self.client.ask(|| self.client.store().reschedule(&shard, self.id.as_bytes(), &when)).await? {
            Rescheduled::Due(ms) => Ok(timestamp(ms)),
            Rescheduled::Running => Err(self.wrong_state("it runs at this moment")),
            Rescheduled::Dead => Err(self.wrong_state("it is a dead letter: redrive it first")),
            Rescheduled::Done => Err(self.wrong_state("it is done")),
            Rescheduled::Ended(end) => Err(self.ended(end)),
            Rescheduled::None => Err(self.not_found()),
        }
    }

    fn wrong_state(&self, why: &str) -> Error {
        Error::new(ErrorKind::WrongState, format!("the job {} can't be changed: {why}", self.id))
    }

    fn ended(&self, end: End) -> Error {
        let how = match end {
            End::Done => "succeeded",
            End::Cancelled => "was cancelled",
            End::Expired => "expired",
            End::Deleted => "was deleted",
            End::Discarded => "was discarded",
        };
        Error::new(ErrorKind::NotFound, format!("the job {} {how} before", self.id))
    }

    fn not_found(&self) -> Error {
        Error::new(
            ErrorKind::NotFound,
            format!("the queue {} has no job {}: it ended before, or was sent to another queue", self.queue, self.id),
        )
    }
}

fn placed(place: Place, at_ms: u64, record: &Bytes, note: &[u8]) -> JobStatus {
    let record = Record::decode(record).ok();
    let attempts = record.as_ref().map_or(0, |record| u32::from(record.attempts));
    let note = Note::parse(note);
    match place {
        Place::Running => JobStatus::Running { attempts, cancelling: record.is_some_and(|record| record.cancel_waits) },
        Place::Dead => {
            let (reason, error) = note.map_or((None, String::new()), |note| (note.reason(), note.text));
            JobStatus::Dead { since: timestamp(at_ms), reason, error, attempts }
        }
        Place::Due | Place::Done => {
            JobStatus::Waiting { due: timestamp(at_ms), attempts, last_error: note.map(|note| note.text) }
        }
    }
}

impl<J> Clone for JobHandle<J> {
    fn clone(&self) -> JobHandle<J> {
        JobHandle {
            client: self.client.clone(),
            queue: self.queue.clone(),
            id: self.id,
            created: self.created,
            job: PhantomData,
        }
    }
}

impl<J> fmt::Debug for JobHandle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle").field("id", &self.id).field("queue", &self.queue).finish_non_exhaustive()
    }
}

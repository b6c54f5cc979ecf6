//! What ran while a test moved the clock.

use std::fmt;

use bytes::Bytes;
use jiff::Timestamp;

use crate::clock::timestamp;
use crate::job::{JobId, JobRequest, JobType, Outcome};
use crate::worker::Run;

/// One run of a job.
#[derive(Clone)]
pub struct Ran {
    request: JobRequest,
    outcome: Option<Outcome>,
    started_us: u64,
}

impl Ran {
    pub(super) fn new(run: Run) -> Ran {
        Ran { request: run.request, outcome: run.outcome, started_us: run.started_us }
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.request.id()
    }

    /// The name that it is stored under.
    pub fn name(&self) -> &str {
        self.request.name()
    }

    /// The queue that it came from.
    pub fn queue(&self) -> &str {
        self.request.queue()
    }

    /// Which attempt it was, from 1.
    pub fn attempt(&self) -> u32 {
        self.request.attempt()
    }

    /// When it was due.
    pub fn due(&self) -> Timestamp {
        self.request.due()
    }

    /// When it started, by the moved clock.
    pub fn started_at(&self) -> Timestamp {
        timestamp(self.started_us / 1000)
    }

    /// What it came to; `None` if its worker was lost before it could tell
    /// ([`lose_worker_in_next_run`](super::TestQueue::lose_worker_in_next_run)).
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Whether it succeeded.
    pub fn is_done(&self) -> bool {
        self.outcome == Some(Outcome::Done)
    }

    /// The payload's bytes.
    pub fn payload(&self) -> &Bytes {
        self.request.payload()
    }

    /// The job, if it is of this type.
    pub fn job<J: JobType>(&self) -> Option<J> {
        if self.name() == J::NAME { J::decode(self.request.version(), self.request.payload()).ok() } else { None }
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}, attempt {}: ", self.started_at(), self.name(), shown(self.payload()), self.attempt())?;
        match &self.outcome {
            None => f.write_str("its worker was lost"),
            Some(Outcome::Done) => f.write_str("done"),
            Some(Outcome::Retry { delay, error }) => write!(f, "failed ({error}), again in {delay:?}"),
            Some(Outcome::Snooze { delay }) => write!(f, "snoozed, again in {delay:?}"),
            Some(Outcome::Discard { why }) => write!(f, "discarded ({why})"),
            Some(Outcome::Dead { reason, error }) => write!(f, "dead, {reason} ({error})"),
        }
    }
}

impl fmt::Debug for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How much of a payload a message shows, in characters.
const SHOWN_MAX: usize = 200;

/// A payload in a message of a test: whole, unless it is long.
pub(super) fn shown(payload: &[u8]) -> String {
    let text = String::from_utf8_lossy(payload);
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.into_owned(),
    }
}

/// What ran, in the order in which it started.
#[derive(Clone, Default)]
pub struct Report {
    pub(super) runs: Vec<Ran>,
}

impl Report {
    /// All runs.
    pub fn runs(&self) -> &[Ran] {
        &self.runs
    }

    /// The runs of one type.
    pub fn of<J: JobType>(&self) -> Vec<&Ran> {
        self.runs.iter().filter(|ran| ran.name() == J::NAME).collect()
    }

    /// How many runs of one type there were, failed ones too.
    pub fn count<J: JobType>(&self) -> usize {
        self.of::<J>().len()
    }

    /// How many runs there were.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether nothing ran.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() {
            return f.write_str("nothing ran");
        }
        for (at, ran) in self.runs.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            ran.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

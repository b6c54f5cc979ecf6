//! How a run ended, as the worker records it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What a run came to: the response of the service stack, and what the worker writes into the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It failed and runs again after `delay`; an attempt is spent.
    Retry {
        /// The wait before the next run.
        delay: Duration,
        /// What went wrong; kept with the job, up to [`ERROR_BYTES_MAX`](crate::limits::ERROR_BYTES_MAX) bytes.
        error: String,
    },
    /// It runs again after `delay`; no attempt is spent, the return is counted.
    Snooze {
        /// The wait before the next run.
        delay: Duration,
    },
    /// It ended without success and leaves no dead letter.
    Discard {
        /// Why.
        why: String,
    },
    /// It goes to the dead-letter queue.
    Dead {
        /// Why, as a code.
        reason: DeadReason,
        /// Why, as a text.
        error: String,
    },
}

impl Outcome {
    /// The outcome's name, for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Retry { .. } => "retry",
            Outcome::Snooze { .. } => "snooze",
            Outcome::Discard { .. } => "discard",
            Outcome::Dead { .. } => "dead",
        }
    }
}

/// Why a job is in the dead-letter queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// Its last attempt failed.
    RetriesExhausted,
    /// No worker that met it knows its name.
    UnknownJob,
    /// The worker that met it knows its name, not its version.
    UnknownVersion,
    /// Its bytes are not what its type and version want.
    Undecodable,
    /// Its handler asked for it with [`JobError::bury`](crate::JobError::bury).
    Buried,
    /// Workers that ran it were lost again and again, the last one while it ran nothing else.
    CrashLoop,
}

impl DeadReason {
    const ALL: [DeadReason; 6] = [
        DeadReason::RetriesExhausted,
        DeadReason::UnknownJob,
        DeadReason::UnknownVersion,
        DeadReason::Undecodable,
        DeadReason::Buried,
        DeadReason::CrashLoop,
    ];

    /// The reason as it is stored and shown.
    pub fn as_str(&self) -> &'static str {
        match self {
            DeadReason::RetriesExhausted => "retries_exhausted",
            DeadReason::UnknownJob => "unknown_job",
            DeadReason::UnknownVersion => "unknown_version",
            DeadReason::Undecodable => "undecodable",
            DeadReason::Buried => "buried",
            DeadReason::CrashLoop => "crash_loop",
        }
    }
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DeadReason {
    type Err = String;

    fn from_str(text: &str) -> Result<DeadReason, String> {
        DeadReason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| format!("{text:?} is no reason for a dead letter"))
    }
}

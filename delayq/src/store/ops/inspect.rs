//! Says where a job is and shows it.

use bytes::Bytes;

use super::super::script::INSPECT;
use super::super::{Shard, Store};
use crate::error::Error;

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It waits for its due time.
    Due,
    /// A session holds it.
    Running,
    /// It is a dead letter.
    Dead,
    /// It is done, and its record is retained.
    Done,
}

/// How a job ended that left no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It succeeded.
    Done,
    /// It was cancelled.
    Cancelled,
    /// It was too late to be run.
    Expired,
    /// Its dead letter was deleted.
    Deleted,
    /// Its handler discarded it.
    Discarded,
}

impl End {
    pub(super) fn from_code(code: i64) -> Option<End> {
        Some(match code {
            1 => End::Done,
            2 => End::Cancelled,
            3 => End::Expired,
            4 => End::Deleted,
            5 => End::Discarded,
            _ => return None,
        })
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A job with its record.
    Job {
        /// Where it is.
        place: Place,
        /// Due at, dead since, or kept until: ms since 1970.
        at_ms: u64,
        /// Its record.
        record: Bytes,
        /// What is noted of its last failure.
        note: Vec<u8>,
    },
    /// It ended moments ago.
    Ended(End),
    /// There is no such job.
    None,
}

impl Store {
    /// Looks a job up.
    ///
    /// # Errors
    /// The call failed.
    pub async fn inspect(&self, shard: &Shard, id: &[u8; 16]) -> Result<Found, Error> {
        let mut answer = self.call(&INSPECT, shard.all(None), &[id.to_vec()]).await?;
        let place = match answer.code() {
            "DUE" => Place::Due,
            "RUNNING" => Place::Running,
            "DEAD" => Place::Dead,
            "DONE" => Place::Done,
            "ENDED" => return Ok(Found::Ended(End::from_code(answer.int()?).ok_or_else(|| answer.unknown())?)),
            "NONE" => return Ok(Found::None),
            _ => return Err(answer.unknown()),
        };
        Ok(Found::Job { place, at_ms: answer.instant()?, record: answer.bytes()?.into(), note: answer.bytes()? })
    }
}

//! Shows sessions and what their workers say of themselves.

use serde::{Deserialize, Serialize};

use super::super::script::WORKERS;
use super::super::{SessionId, Shard, Store, reply};
use crate::error::Error;

/// What a worker says of itself with its signs of life. Releases may differ: what one doesn't know it passes over, what is missing
/// is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// What it is called.
    pub name: String,
    /// Its release of this library.
    pub release: String,
    /// Its process.
    pub pid: u32,
    /// When the worker was started, ms since 1970 by its own clock.
    pub started_ms: u64,
    /// How many jobs it runs at once, over all queues.
    pub concurrency: u64,
    /// How many runs of this queue it has begun.
    pub runs: u64,
    /// How late those of the last minute or so began, on average and at most, in µs. Absent where there were none.
    pub late_us: Option<(u64, u64)>,
}

impl Report {
    pub(super) fn encode(&self) -> Vec<u8> {
        // Numbers and a bounded name: nothing in it can fail to be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// A session, and what its worker said when it last gave a sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRow {
    /// The session.
    pub session: SessionId,
    /// When its lease ends, ms since 1970; 0 for one that is being taken back.
    pub expires_ms: u64,
    /// How many jobs it holds.
    pub held: u64,
    /// What the worker said, if it said something that can be read.
    pub report: Option<Report>,
}

impl Store {
    /// These sessions, without those that have ended meanwhile, and the store's clock in ms.
    ///
    /// # Errors
    /// The call failed.
    pub async fn workers(&self, shard: &Shard, sessions: &[SessionId]) -> Result<(u64, Vec<WorkerRow>), Error> {
        let mut answer = self.call(&WORKERS, shard.all_and_held(sessions), sessions).await?.require("OK")?;
        let now_ms = answer.count()?;
        if answer.len() != sessions.len() * 3 {
            return Err(reply::odd("workers", "another number of sessions"));
        }
        let mut rows = Vec::with_capacity(sessions.len());
        for session in sessions {
            let (expires_ms, held, report) = (answer.int()?, answer.count()?, answer.bytes()?);
            if let Ok(expires_ms) = u64::try_from(expires_ms) {
                let report = serde_json::from_slice(&report).ok();
                rows.push(WorkerRow { session: *session, expires_ms, held, report });
            }
        }
        Ok((now_ms, rows))
    }
}

//! Shows a page of the jobs that wait.

use bytes::Bytes;

use super::super::script::DUE_LIST;
use super::super::{Shard, Store, decimal};
use crate::error::Error;

/// Which page of the waiting jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DuePage {
    /// Of which priority; of all where it isn't said.
    pub priority: Option<u8>,
    /// Where the last page ended, or where this one begins.
    pub after: Option<DueCursor>,
    /// How many jobs at most.
    pub limit: usize,
}

/// A place among the waiting jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueCursor {
    /// Due, ms since 1970.
    pub due_ms: u64,
    /// The priority of the last job.
    pub priority: u8,
    /// The last job's id; empty to begin with all jobs of that instant.
    pub id: Vec<u8>,
}

/// A job that waits, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRow {
    /// Its id: 16 bytes, unless a foreign hand wrote it.
    pub id: Vec<u8>,
    /// When it is due, ms since 1970.
    pub due_ms: u64,
    /// Its priority, by the set that it waits in.
    pub priority: u8,
    /// Its record, empty if that is missing.
    pub record: Bytes,
}

impl DueRow {
    /// The place after this job.
    pub fn cursor(&self) -> DueCursor {
        DueCursor { due_ms: self.due_ms, priority: self.priority, id: self.id.clone() }
    }
}

impl Store {
    /// Reads a page.
    ///
    /// # Errors
    /// The call failed.
    pub async fn due_list(&self, shard: &Shard, page: &DuePage) -> Result<Vec<DueRow>, Error> {
        let priority = page.priority.map(decimal).unwrap_or_default();
        let (last_ms, last_priority, last_id) = match page.after.clone() {
            Some(DueCursor { due_ms, priority, id }) => (decimal(due_ms), decimal(priority), id),
            None => Default::default(),
        };
        let args = [priority, last_ms, last_priority, last_id, decimal(page.limit)];
        let mut answer = self.call(&DUE_LIST, shard.all(None), &args).await?.require("OK")?;
        let mut rows = Vec::with_capacity(answer.len() / 4);
        while answer.len() > 0 {
            rows.push(DueRow {
                id: answer.bytes()?,
                due_ms: answer.instant()?,
                priority: answer.priority()?,
                record: answer.bytes()?.into(),
            });
        }
        Ok(rows)
    }
}

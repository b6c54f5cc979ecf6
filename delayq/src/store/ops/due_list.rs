//! Shows a page of the jobs that wait.

use bytes::Bytes;

use super::super::script::DUE_LIST;
use super::super::{Shard, Store, decimal};
use crate::error::Error;

/// Which page of the waiting jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuePage {
    /// Of which priority.
    pub priority: u8,
    /// Where the last page ended: due time in ms, and id.
    pub after: Option<(u64, Vec<u8>)>,
    /// How many jobs at most.
    pub limit: usize,
}

/// A job that waits, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRow {
    /// Its id: 16 bytes, unless a foreign hand wrote it.
    pub id: Vec<u8>,
    /// When it is due, ms since 1970.
    pub due_ms: u64,
    /// Its record, empty if that is missing.
    pub record: Bytes,
}

impl Store {
    /// Reads a page.
    ///
    /// # Errors
    /// The call failed.
    pub async fn due_list(&self, shard: &Shard, page: &DuePage) -> Result<Vec<DueRow>, Error> {
        let (last_ms, last_id) = page.after.clone().map_or_else(Default::default, |(ms, id)| (decimal(ms), id));
        let args = [decimal(page.priority), last_ms, last_id, decimal(page.limit)];
        let mut answer = self.call(&DUE_LIST, shard.all(None), &args).await?.require("OK")?;
        let mut rows = Vec::with_capacity(answer.len() / 3);
        while answer.len() > 0 {
            rows.push(DueRow { id: answer.bytes()?, due_ms: answer.instant()?, record: answer.bytes()?.into() });
        }
        Ok(rows)
    }
}

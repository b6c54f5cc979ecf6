//! Shows a page of the finished jobs whose records are retained.

use bytes::Bytes;

use super::super::script::DONE_LIST;
use super::super::{Shard, Store, decimal};
use crate::error::Error;

/// Which page of the retained jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DonePage {
    /// Where the last page ended: until when its last record is kept in ms, and id.
    pub after: Option<(u64, Vec<u8>)>,
    /// How many jobs at most.
    pub limit: usize,
}

/// A retained job, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneRow {
    /// Its id: 16 bytes, unless a foreign hand wrote it.
    pub id: Vec<u8>,
    /// Until when its record is kept, ms since 1970.
    pub until_ms: u64,
    /// Its record, empty if that is missing.
    pub record: Bytes,
}

impl Store {
    /// Reads a page.
    ///
    /// # Errors
    /// The call failed.
    pub async fn done_list(&self, shard: &Shard, page: &DonePage) -> Result<Vec<DoneRow>, Error> {
        let (last_ms, last_id) = page.after.clone().map_or_else(Default::default, |(ms, id)| (decimal(ms), id));
        let args = [last_ms, last_id, decimal(page.limit)];
        let mut answer = self.call(&DONE_LIST, shard.all(None), &args).await?.require("OK")?;
        let mut rows = Vec::with_capacity(answer.len() / 3);
        while answer.len() > 0 {
            rows.push(DoneRow { id: answer.bytes()?, until_ms: answer.instant()?, record: answer.bytes()?.into() });
        }
        Ok(rows)
    }
}

//! Shows a page of the dead letters.

use super::super::script::DEAD_LIST;
use super::super::{Shard, Store, decimal};
use crate::error::Error;

/// Which end a list begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    OldestFirst,
    /// Newest first.
    NewestFirst,
}

/// Which page.
#[derive(Debug, Clone)]
pub struct DeadPage {
    /// Which way.
    pub order: Order,
    /// Where the last page ended: time of death in ms, and id.
    pub after: Option<(u64, Vec<u8>)>,
    /// How many letters at most.
    pub limit: usize,
    /// None that died after this, in ms.
    pub until_ms: Option<u64>,
    /// Whether records and notes are wanted.
    pub whole: bool,
}

/// A dead letter as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadRow {
    /// Its id: 16 bytes, unless a foreign hand wrote it.
    pub id: Vec<u8>,
    /// When it died, ms since 1970.
    pub died_ms: u64,
    /// Its record, if asked for.
    pub record: Vec<u8>,
    /// Why, if asked for.
    pub note: Vec<u8>,
}

impl Store {
    /// Reads a page.
    ///
    /// # Errors
    /// The call failed.
    pub async fn dead_list(&self, shard: &Shard, page: &DeadPage) -> Result<Vec<DeadRow>, Error> {
        let order: &[u8] = match page.order {
            Order::OldestFirst => b"after",
            Order::NewestFirst => b"before",
        };
        let (last_ms, last_id) = page.after.clone().map_or_else(Default::default, |(ms, id)| (decimal(ms), id));
        let args = [
            order.to_vec(),
            last_ms,
            last_id,
            decimal(page.limit),
            page.until_ms.map(decimal).unwrap_or_default(),
            decimal(u8::from(page.whole)),
        ];
        let mut answer = self.call(&DEAD_LIST, shard.all(None), &args).await?.require("OK")?;
        let mut rows = Vec::with_capacity(answer.len() / 4);
        while answer.len() > 0 {
            rows.push(DeadRow {
                id: answer.bytes()?,
                died_ms: answer.instant()?,
                record: answer.bytes()?,
                note: answer.bytes()?,
            });
        }
        Ok(rows)
    }
}

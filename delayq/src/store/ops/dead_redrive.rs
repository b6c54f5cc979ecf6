//! Sends dead letters to work again.

use super::super::script::DEAD_REDRIVE;
use super::super::{Shard, Store};
use crate::error::Error;

/// What became of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redriven {
    /// It waits again, due now.
    Waits,
    /// There is no such dead letter.
    NotDead,
    /// Another job has its unique key.
    Conflict,
    /// Its record is gone or unreadable.
    Unreadable,
}

impl Store {
    /// Redrives letters, at most [`REDRIVE_CHUNK`](crate::limits::REDRIVE_CHUNK).
    ///
    /// # Errors
    /// The call failed. If it may have happened, a letter that is repeated answers [`Redriven::NotDead`].
    pub async fn dead_redrive(&self, shard: &Shard, ids: &[Vec<u8>]) -> Result<Vec<Redriven>, Error> {
        let mut answer = self.call(&DEAD_REDRIVE, shard.all(None), ids).await?.require("OK")?;
        answer.letters(ids.len(), |letter| match letter {
            b'o' => Some(Redriven::Waits),
            b'n' => Some(Redriven::NotDead),
            b'u' => Some(Redriven::Conflict),
            b'm' => Some(Redriven::Unreadable),
            _ => None,
        })
    }
}

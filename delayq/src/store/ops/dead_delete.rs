//! Throws dead letters away.

use super::super::script::DEAD_DELETE;
use super::super::{Shard, Store};
use crate::error::Error;

impl Store {
    /// Deletes letters, at most [`REDRIVE_CHUNK`](crate::limits::REDRIVE_CHUNK); answers for each whether it is gone by this
    /// call or the same one before.
    ///
    /// # Errors
    /// The call failed; it may be repeated.
    pub async fn dead_delete(&self, shard: &Shard, ids: &[Vec<u8>]) -> Result<Vec<bool>, Error> {
        let mut answer = self.call(&DEAD_DELETE, shard.all(None), ids).await?.require("OK")?;
        answer.letters(ids.len(), |letter| match letter {
            b'o' => Some(true),
            b'n' => Some(false),
            _ => None,
        })
    }
}

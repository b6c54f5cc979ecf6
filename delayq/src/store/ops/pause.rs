//! Stops or starts claims.

use super::super::script::PAUSE;
use super::super::{Shard, Store, decimal};
use crate::error::Error;

impl Store {
    /// Pauses or resumes; answers whether that changed anything.
    ///
    /// # Errors
    /// The call failed; it may be repeated.
    pub async fn pause(&self, shard: &Shard, paused: bool) -> Result<bool, Error> {
        let mut answer = self.call(&PAUSE, shard.all(None), &[decimal(u8::from(paused))]).await?.require("OK")?;
        Ok(answer.int()? == 1)
    }
}

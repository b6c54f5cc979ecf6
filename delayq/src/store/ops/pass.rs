//! Passes the baton on.

use super::super::script::PASS;
use super::super::{NO_ARGS, Shard, Store};
use crate::error::Error;

impl Store {
    /// Lets the next idle worker watch the clock.
    ///
    /// # Errors
    /// The call failed; it may be repeated.
    pub async fn pass(&self, shard: &Shard) -> Result<(), Error> {
        self.call(&PASS, shard.all(None), NO_ARGS).await?.require("OK").map(drop)
    }
}

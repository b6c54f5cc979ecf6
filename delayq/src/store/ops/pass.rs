//! Passes the baton on.

use super::super::script::PASS;
use super::super::{Shard, Store};
use crate::error::Error;

impl Store {
    /// Lets the next idle worker watch the clock.
    ///
    /// # Errors
    /// The call failed; it may be repeated.
    pub async fn pass(&self, shard: &Shard) -> Result<(), Error> {
        self.call(&PASS, shard.all(None), &[]).await?.require("OK").map(drop)
    }
}

//! Tries each command that the work of jobs needs.

use super::super::script::PROBE;
use super::super::{NO_ARGS, Shard, Store};
use crate::error::Error;

impl Store {
    /// Tries whether this user may do all that workers and clients do, on keys of its own that are gone again after it.
    ///
    /// # Errors
    /// A command is refused, or the call failed.
    pub async fn probe(&self, shard: &Shard) -> Result<(), Error> {
        self.call(&PROBE, shard.probe(), NO_ARGS).await?.require("OK").map(drop)
    }
}

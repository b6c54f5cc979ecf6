//! Notes the name of a queue that is in use.

use super::super::script::REGISTER;
use super::super::{Shard, Store};
use crate::error::Error;

impl Store {
    /// Puts a queue on the list of those in use. May be repeated.
    ///
    /// # Errors
    /// The call failed.
    pub async fn register(&self, shard: &Shard) -> Result<(), Error> {
        self.call(&REGISTER, self.prefix.queues(), &[shard.queue()]).await?.require("OK").map(drop)
    }
}

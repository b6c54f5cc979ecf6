//! Opens a worker's session.

use std::time::Duration;

use super::super::script::OPEN;
use super::super::{SessionId, Shard, Store, decimal, mismatch};
use crate::error::{Error, ErrorKind};
use crate::limits::{SCHEMA, SHARDS};

impl Store {
    /// Opens a session; its id must never have been used before.
    ///
    /// # Errors
    /// The call failed, or the queue is of another layout.
    pub async fn open(&self, shard: &Shard, session: &SessionId, lease: Duration) -> Result<(), Error> {
        let args = [session.to_vec(), decimal(lease.as_millis()), decimal(SCHEMA), decimal(SHARDS)];
        let mut answer = self.call(&OPEN, shard.all(Some(session)), &args).await?;
        match answer.code() {
            "OK" => Ok(()),
            "EXISTS" => Err(Error::new(ErrorKind::WrongState, "this session was opened before")),
            "SCHEMA" => Err(mismatch("schema", &answer.text()?, SCHEMA)),
            "SHARDS" => Err(mismatch("shard count", &answer.text()?, SHARDS)),
            _ => Err(answer.unknown()),
        }
    }
}

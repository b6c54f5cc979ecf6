//! Ends a session.

use super::super::script::CLOSE;
use super::super::{SessionId, Shard, Store};
use crate::error::Error;

/// What a close came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::enum_variant_names)] // Named like the codes of the script.
pub enum Closed {
    /// The session is gone.
    Closed,
    /// It still holds jobs.
    Holds(u64),
    /// It was lost before.
    Lost,
}

impl Store {
    /// Ends a session that holds nothing.
    ///
    /// # Errors
    /// The call failed; it may be repeated.
    pub async fn close(&self, shard: &Shard, session: &SessionId) -> Result<Closed, Error> {
        let mut answer = self.call(&CLOSE, shard.all(Some(session)), &[session.to_vec()]).await?;
        match answer.code() {
            "OK" => Ok(Closed::Closed),
            "HOLDS" => Ok(Closed::Holds(answer.count()?)),
            "LOST" => Ok(Closed::Lost),
            _ => Err(answer.unknown()),
        }
    }
}

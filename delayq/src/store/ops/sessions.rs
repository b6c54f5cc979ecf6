//! Lists the sessions of a shard.

use super::super::script::SESSIONS;
use super::super::{SessionId, Shard, Store, decimal};
use crate::error::Error;
use crate::limits::SESSIONS_MAX;

/// A session of the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// When its lease ends, ms since 1970; 0 for one that is being taken back.
    pub expires_ms: u64,
}

impl Store {
    /// The sessions, at most [`SESSIONS_MAX`].
    ///
    /// # Errors
    /// The call failed.
    pub async fn sessions(&self, shard: &Shard) -> Result<Vec<Session>, Error> {
        let mut answer = self.call(&SESSIONS, shard.all(None), &[decimal(SESSIONS_MAX)]).await?.require("OK")?;
        let _now = answer.count()?;
        let mut sessions = Vec::with_capacity(answer.len() / 2);
        while answer.len() > 0 {
            let (id, expires_ms) = (answer.bytes()?, answer.instant()?);
            // What is no id is no session: a beat puts it aside.
            if let Ok(id) = id.try_into() {
                sessions.push(Session { id, expires_ms });
            }
        }
        Ok(sessions)
    }
}

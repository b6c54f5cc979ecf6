//! Mends what an audit found.

use super::super::script::REPAIR;
use super::super::{SessionId, Shard, Store, decimal};
use super::audit::Look;
use crate::error::Error;
use crate::limits::AUDIT_HELD_MAX;

/// What became of one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mended {
    /// Its job waits again.
    Waits,
    /// Its job ended as cancelled, as was asked for while it ran.
    Cancelled,
    /// It is a dead letter: its record can't be read, or its unique key has another owner by now.
    Buried,
    /// The entry is gone.
    Removed,
    /// It is no job, and was left as it is.
    Foreign,
    /// Nothing is wrong with it, or not any more.
    Sound,
}

/// What a repair answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// What became of each id.
    Each(Vec<Mended>),
    /// The sessions are others by now: nothing was done.
    Again,
    /// Sessions hold too much to be looked through: nothing was done.
    Many,
}

impl Store {
    /// Mends what an audit found, up to [`AUDIT_STEP`](crate::limits::AUDIT_STEP) ids; `sessions` are all of the shard. Each is looked at
    /// again first.
    ///
    /// # Errors
    /// The call failed; it may be repeated, and what was mended is sound then.
    pub async fn repair(
        &self,
        shard: &Shard,
        look: Look,
        ids: &[Vec<u8>],
        sessions: &[SessionId],
    ) -> Result<Repaired, Error> {
        let mut args = vec![look.to_arg(), decimal(AUDIT_HELD_MAX), decimal(ids.len())];
        args.extend(ids.iter().cloned());
        args.extend(sessions.iter().map(|session| session.to_vec()));
        let mut answer = self.call(&REPAIR, shard.all_and_held(sessions), &args).await?;
        match answer.code() {
            "OK" => {}
            "AGAIN" => return Ok(Repaired::Again),
            "MANY" => return Ok(Repaired::Many),
            _ => return Err(answer.unknown()),
        }
        let mended = answer.letters(ids.len(), |letter| match letter {
            b'g' => Some(Mended::Waits),
            b'c' => Some(Mended::Cancelled),
            b'd' => Some(Mended::Buried),
            b'r' => Some(Mended::Removed),
            b'f' => Some(Mended::Foreign),
            b'n' => Some(Mended::Sound),
            _ => None,
        });
        Ok(Repaired::Each(mended?))
    }
}

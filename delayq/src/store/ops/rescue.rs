//! Takes the jobs of a lost session back.

use super::super::script::RESCUE;
use super::super::{SessionId, Shard, Store, decimal};
use crate::error::Error;

/// What a rescue did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescue {
    /// Some jobs were taken back.
    Took {
        /// Whether the call must be repeated.
        more: bool,
        /// Jobs that wait again.
        given_back: u64,
        /// Jobs that went to the dead letters.
        buried: u64,
        /// Jobs that ended as cancelled.
        cancelled: u64,
        /// Entries that were no job.
        quarantined: u64,
    },
    /// The session's lease has not run out.
    Alive,
    /// After an outage, nobody is taken for lost yet.
    OnHold,
    /// There is no such session.
    Gone,
}

impl Store {
    /// Takes back up to `chunk` jobs of a session whose lease ran out.
    ///
    /// # Errors
    /// The call failed; it may be repeated.
    pub async fn rescue(&self, shard: &Shard, session: &SessionId, chunk: usize) -> Result<Rescue, Error> {
        let mut answer = self.call(&RESCUE, shard.all(Some(session)), &[session.to_vec(), decimal(chunk)]).await?;
        let more = match answer.code() {
            "DONE" => false,
            "MORE" => true,
            "ALIVE" => return Ok(Rescue::Alive),
            "HELD" => return Ok(Rescue::OnHold),
            "GONE" => return Ok(Rescue::Gone),
            _ => return Err(answer.unknown()),
        };
        Ok(Rescue::Took {
            more,
            given_back: answer.count()?,
            buried: answer.count()?,
            cancelled: answer.count()?,
            quarantined: answer.count()?,
        })
    }
}

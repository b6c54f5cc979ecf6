//! Cancels a job.

use super::super::script::CANCEL;
use super::super::{Shard, Store};
use super::inspect::End;
use crate::error::Error;

/// What a cancel came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::enum_variant_names)] // Named like the codes of the script.
pub enum Cancelled {
    /// It waited and is gone.
    Cancelled,
    /// It runs: it will not run again, unless this run succeeds it ends as cancelled.
    Running,
    /// It is a dead letter.
    Dead,
    /// It is done, and its record is retained.
    Done,
    /// It ended moments ago.
    Ended(End),
    /// There is no such job.
    None,
}

impl Store {
    /// Cancels a job.
    ///
    /// # Errors
    /// The call failed; it may be repeated.
    pub async fn cancel(&self, shard: &Shard, id: &[u8; 16]) -> Result<Cancelled, Error> {
        let (mut answer, confirmed) = self.call_durably(&CANCEL, shard.all(None), &[id.to_vec()]).await?;
        let cancelled = match answer.code() {
            "CANCELLED" => Cancelled::Cancelled,
            "RUNNING" => Cancelled::Running,
            "DEAD" => Cancelled::Dead,
            "DONE" => Cancelled::Done,
            "ENDED" => Cancelled::Ended(End::from_code(answer.int()?).ok_or_else(|| answer.unknown())?),
            "NONE" => Cancelled::None,
            _ => return Err(answer.unknown()),
        };
        if matches!(cancelled, Cancelled::Cancelled | Cancelled::Running) {
            confirmed?;
            // An earlier try may have done it, and not been confirmed.
            self.confirm(shard).await?;
        }
        Ok(cancelled)
    }
}

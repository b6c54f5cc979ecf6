//! Gives a waiting job another due time.

use super::super::script::RESCHEDULE;
use super::super::{Shard, Store};
use super::inspect::End;
use crate::error::Error;

/// What a reschedule came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescheduled {
    /// It is due then, in ms since 1970.
    Due(u64),
    /// It runs.
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
    /// Moves a job to `when`, `+delay_ms` or `@due_ms`.
    ///
    /// # Errors
    /// The call failed; it may be repeated.
    pub async fn reschedule(&self, shard: &Shard, id: &[u8; 16], when: &str) -> Result<Rescheduled, Error> {
        let (mut answer, confirmed) =
            self.call_durably(&RESCHEDULE, shard.all(None), &[id.to_vec(), when.as_bytes().to_vec()]).await?;
        let rescheduled = match answer.code() {
            "OK" => Rescheduled::Due(answer.count()?),
            "RUNNING" => Rescheduled::Running,
            "DEAD" => Rescheduled::Dead,
            "DONE" => Rescheduled::Done,
            "ENDED" => Rescheduled::Ended(End::from_code(answer.int()?).ok_or_else(|| answer.unknown())?),
            "NONE" => Rescheduled::None,
            _ => return Err(answer.unknown()),
        };
        if matches!(rescheduled, Rescheduled::Due(_)) {
            confirmed?;
        }
        Ok(rescheduled)
    }
}

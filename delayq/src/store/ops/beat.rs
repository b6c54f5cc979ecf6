//! Renews a session's lease.

use std::time::Duration;

use super::super::script::BEAT;
use super::super::{Refusal, SessionId, Shard, Store, decimal};
use super::workers::Report;
use crate::error::Error;

/// What a beat tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// How many jobs the session holds.
    pub held: u64,
    /// Whether the queue is paused.
    pub paused: bool,
    /// How long the session's timer still has, if it is the one that the shard relies on.
    pub wait: Option<Duration>,
    /// Sessions whose jobs want to be taken back.
    pub lost: Vec<SessionId>,
}

impl Store {
    /// Renews the lease of a session that has a timer for `timer_ms` (0 for none), and says what its worker
    /// reports of itself.
    ///
    /// # Errors
    /// The call failed.
    pub async fn beat(
        &self,
        shard: &Shard,
        session: &SessionId,
        lease: Duration,
        timer_ms: u64,
        report: Option<&Report>,
    ) -> Result<Result<Beat, Refusal>, Error> {
        let args = [
            session.to_vec(),
            decimal(lease.as_millis()),
            decimal(timer_ms),
            report.map(Report::encode).unwrap_or_default(),
        ];
        let mut answer = self.call(&BEAT, shard.all(Some(session)), &args).await?;
        match answer.code() {
            "OK" => {
                let (held, paused, wait_us) = (answer.count()?, answer.int()? == 1, answer.int()?);
                let mut lost = Vec::with_capacity(answer.len());
                while answer.len() > 0 {
                    lost.push(answer.id()?);
                }
                let wait = u64::try_from(wait_us).ok().map(Duration::from_micros);
                Ok(Ok(Beat { held, paused, wait, lost }))
            }
            "LOST" => Ok(Err(Refusal::Lost)),
            _ => Err(answer.unknown()),
        }
    }
}

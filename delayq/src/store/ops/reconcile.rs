//! After a call of unknown outcome: store and worker agree again on what the session holds.

use super::super::script::RECONCILE;
use super::super::{Member, Refusal, SessionId, Shard, Store, decimal};
use crate::error::Error;

/// What a reconciliation found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// Whether the call must be repeated.
    pub more: bool,
    /// What the worker thought it held, and doesn't.
    pub missing: Vec<Member>,
}

impl Store {
    /// Hands back what the session holds beyond `known`.
    ///
    /// # Errors
    /// The call failed; it may be repeated with a higher `seq`.
    pub async fn reconcile(
        &self,
        shard: &Shard,
        session: &SessionId,
        seq: u64,
        known: &[Member],
    ) -> Result<Result<Reconciled, Refusal>, Error> {
        let mut args = vec![session.to_vec(), decimal(seq)];
        args.extend(known.iter().map(|member| member.as_bytes().to_vec()));
        let mut answer = self.call(&RECONCILE, shard.all(Some(session)), &args).await?;
        match answer.code() {
            "OK" => {}
            "LOST" => return Ok(Err(Refusal::Lost)),
            "STALE" => return Ok(Err(Refusal::Stale)),
            _ => return Err(answer.unknown()),
        }
        let more = answer.int()? == 1;
        let mut missing = Vec::with_capacity(answer.len());
        while answer.len() > 0 {
            missing.push(Member::from_bytes(&answer.bytes()?).ok_or_else(|| answer.unknown())?);
        }
        Ok(Ok(Reconciled { more, missing }))
    }
}

//! Shows jobs that a session holds.

use bytes::Bytes;

use super::super::script::RUNNING_LIST;
use super::super::{Member, SessionId, Shard, Store, decimal};
use crate::error::Error;

/// A running job, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRow {
    /// The job and its run, as the session's set has them: 22 bytes, unless a foreign hand wrote them.
    pub member: Vec<u8>,
    /// Its record, empty if that is missing.
    pub record: Bytes,
}

impl RunningRow {
    /// The job and its run.
    pub fn member(&self) -> Option<Member> {
        Member::from_bytes(&self.member)
    }
}

impl Store {
    /// A page of up to `limit` jobs that a session holds, after the last member of the page before.
    ///
    /// # Errors
    /// The call failed.
    pub async fn running_list(
        &self,
        shard: &Shard,
        session: &SessionId,
        after: &[u8],
        limit: usize,
    ) -> Result<Vec<RunningRow>, Error> {
        let args = [after.to_vec(), decimal(limit)];
        let mut answer = self.call(&RUNNING_LIST, shard.all(Some(session)), &args).await?.require("OK")?;
        let mut rows = Vec::with_capacity(answer.len() / 2);
        while answer.len() > 0 {
            rows.push(RunningRow { member: answer.bytes()?, record: answer.bytes()?.into() });
        }
        Ok(rows)
    }
}

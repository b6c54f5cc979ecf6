//! Looks for records that are in no place of jobs, and for entries without a record.

use super::super::script::AUDIT;
use super::super::{SessionId, Shard, Store, decimal};
use crate::error::Error;
use crate::limits::AUDIT_HELD_MAX;

/// What is looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// All records, for those that are in no place.
    Records,
    /// The due set of a priority, for entries that have no record.
    Due(u8),
    /// The dead letters, likewise.
    Dead,
    /// The retained jobs, likewise.
    Done,
}

impl Look {
    /// All places of jobs: what else a record could be missing of.
    pub fn places() -> impl Iterator<Item = Look> {
        (0..=9).map(Look::Due).chain([Look::Dead, Look::Done])
    }

    pub(super) fn to_arg(self) -> Vec<u8> {
        match self {
            Look::Records => b"records".to_vec(),
            Look::Due(priority) => decimal(priority),
            Look::Dead => b"dead".to_vec(),
            Look::Done => b"done".to_vec(),
        }
    }
}

/// A page of what was looked through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// Where the next page begins; `None` after the last one.
    pub next: Option<Vec<u8>>,
    /// How many were looked at.
    pub looked: u64,
    /// Those that have no place, or no record: 16 bytes each, unless a foreign hand wrote them.
    pub found: Vec<Vec<u8>>,
}

/// What an audit answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audited {
    /// A page.
    Page(AuditPage),
    /// The sessions are others by now.
    Again,
    /// Sessions hold too much to be looked through.
    Many,
}

impl Store {
    /// Looks at about `count` records or entries from `cursor` on, an empty one for the first page; `sessions` are all of
    /// the shard.
    ///
    /// # Errors
    /// The call failed.
    pub async fn audit(
        &self,
        shard: &Shard,
        look: Look,
        cursor: &[u8],
        count: usize,
        sessions: &[SessionId],
    ) -> Result<Audited, Error> {
        self.audit_within(shard, look, cursor, count, sessions, AUDIT_HELD_MAX).await
    }

    /// The same, where sessions may hold `held_max` jobs.
    ///
    /// # Errors
    /// The call failed.
    pub async fn audit_within(
        &self,
        shard: &Shard,
        look: Look,
        cursor: &[u8],
        count: usize,
        sessions: &[SessionId],
        held_max: usize,
    ) -> Result<Audited, Error> {
        let cursor = if cursor.is_empty() { &b"0"[..] } else { cursor };
        let mut args = vec![look.to_arg(), cursor.to_vec(), decimal(count), decimal(held_max)];
        args.extend(sessions.iter().map(|session| session.to_vec()));
        let mut answer = self.call(&AUDIT, shard.all_and_held(sessions), &args).await?;
        match answer.code() {
            "OK" => {}
            "AGAIN" => return Ok(Audited::Again),
            "MANY" => return Ok(Audited::Many),
            _ => return Err(answer.unknown()),
        }
        let (next, looked) = (answer.bytes()?, answer.count()?);
        let mut found = Vec::with_capacity(answer.len());
        while answer.len() > 0 {
            found.push(answer.bytes()?);
        }
        Ok(Audited::Page(AuditPage { next: Some(next).filter(|next| next != b"0"), looked, found }))
    }
}

//! Counts jobs by state.

use std::collections::BTreeMap;

use super::super::script::STATS;
use super::super::{NO_ARGS, SessionId, Shard, Store};
use crate::error::Error;

/// The counts of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// The store's clock, ms since 1970.
    pub now_ms: u64,
    /// Records there are.
    pub records: u64,
    /// Jobs that wait, the due among them.
    pub waiting: u64,
    /// Jobs whose due time has come.
    pub due: u64,
    /// Jobs that sessions hold.
    pub running: u64,
    /// Dead letters.
    pub dead: u64,
    /// Finished jobs whose records are retained.
    pub done: u64,
    /// Sessions whose lease lives.
    pub sessions: u64,
    /// Sessions whose lease has run out, and lost ones that are being taken back.
    pub sessions_expired: u64,
    /// Whether claims are paused.
    pub paused: bool,
    /// The earliest due time, ms since 1970.
    pub head_ms: Option<u64>,
    /// Where the counters stood some time ago, if a worker has noted it.
    pub mark: Option<Mark>,
    /// What happened since the queue was made, by name.
    pub counters: BTreeMap<String, i64>,
}

/// Where counters stood at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// When, ms since 1970.
    pub at_ms: u64,
    /// Jobs sent.
    pub enqueued: u64,
    /// Jobs that succeeded.
    pub done: u64,
    /// Failed runs that were followed by another.
    pub retried: u64,
    /// Jobs that became dead letters.
    pub dead: u64,
}

impl Mark {
    /// Reads one; what a foreign hand made of it counts as missing.
    fn parse(text: &str) -> Option<Mark> {
        let mut numbers = text.split(' ').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Mark { at_ms: next()?, enqueued: next()?, done: next()?, retried: next()?, dead: next()? })
    }
}

impl Store {
    /// Counts.
    ///
    /// # Errors
    /// One of the two calls failed.
    pub async fn stats(&self, shard: &Shard) -> Result<Stats, Error> {
        // Two steps, since every key must be named before a script runs. A session that opens in between is
        // missing here; its jobs then show up as orphans for a moment.
        let sessions: Vec<SessionId> = self.sessions(shard).await?.iter().map(|session| session.id).collect();
        let mut answer = self.call(&STATS, shard.all_and_held(&sessions), NO_ARGS).await?.require("OK")?;
        let mut stats = Stats {
            now_ms: answer.count()?,
            records: answer.count()?,
            waiting: answer.count()?,
            due: answer.count()?,
            running: answer.count()?,
            dead: answer.count()?,
            done: answer.count()?,
            sessions: answer.count()?,
            sessions_expired: answer.count()?,
            paused: answer.int()? == 1,
            head_ms: u64::try_from(answer.int()?).ok(),
            mark: Mark::parse(&answer.text()?),
            counters: BTreeMap::new(),
        };
        while answer.len() > 0 {
            stats.counters.insert(answer.text()?, answer.int()?);
        }
        Ok(stats)
    }
}

impl Stats {
    /// Records that are in no state: more than passing ones are an alarm.
    pub fn orphans(&self) -> i64 {
        // Wider than any count that may come: a sum of them must not overflow.
        let places: i128 = [self.waiting, self.running, self.dead, self.done].map(i128::from).iter().sum();
        let orphans = i128::from(self.records) - places;
        i64::try_from(orphans).unwrap_or(if orphans < 0 { i64::MIN } else { i64::MAX })
    }
}

//! Steering a queue as a whole: pause, resume, counts.

use std::time::Duration;

use jiff::Timestamp;

use super::Client;
use crate::clock::timestamp;
use crate::error::Error;
use crate::job::check_name;
use crate::limits::{QUEUES_LISTED_MAX, QUEUES_PAGE_MAX};
use crate::store::ops::Mark;

/// The counts of a queue.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QueueStats {
    /// When they were taken, by the store's clock.
    pub now: Timestamp,
    /// Jobs that wait, those that are due among them.
    pub waiting: u64,
    /// Jobs whose due time has come and that no worker has taken yet.
    pub due: u64,
    /// Jobs that workers hold.
    pub running: u64,
    /// Dead letters.
    pub dead: u64,
    /// Finished jobs whose records are retained.
    pub retained: u64,
    /// Sessions of workers, as long as their lease lives.
    pub sessions: u64,
    /// Sessions whose lease has run out. Another worker takes their jobs back within seconds; where there is none, they stay until one starts.
    pub sessions_expired: u64,
    /// Whether the queue is paused.
    pub paused: bool,
    /// The earliest due time; in the past where jobs are due.
    pub next_due: Option<Timestamp>,
    /// For how long the oldest due job has been due, zero where none is.
    pub oldest_due: Duration,
    /// What happened lately, each second. Absent until a worker has served the queue for a minute, and when none has for minutes: what
    /// happened before would pass for what happens now.
    pub rates: Option<QueueRates>,
    /// Records in no state at all. A passing one is a count caught between two steps; more are an alarm.
    pub orphans: i64,
    /// Jobs sent since the queue was made.
    pub enqueued_total: u64,
    /// Jobs that succeeded since the queue was made.
    pub done_total: u64,
    /// Failed runs that were followed by another since the queue was made.
    pub retried_total: u64,
    /// Jobs that went to the dead letters since the queue was made.
    pub dead_total: u64,
    /// Jobs that were cancelled since the queue was made.
    pub cancelled_total: u64,
    /// Jobs that were too late to be run since the queue was made.
    pub expired_total: u64,
    /// Jobs that their handlers discarded since the queue was made.
    pub discarded_total: u64,
    /// Jobs taken back from lost sessions since the queue was made.
    pub crashed_total: u64,
    /// Jobs that were put off by their handlers since the queue was made.
    pub snoozed_total: u64,
    /// Jobs that came back without spending an attempt since the queue was made.
    pub returned_total: u64,
    /// Dead letters that were sent to work again since the queue was made.
    pub redriven_total: u64,
    /// Dead letters that were deleted since the queue was made.
    pub deleted_total: u64,
    /// Workers' sessions that were lost since the queue was made.
    pub sessions_lost_total: u64,
    /// Entries that were no jobs and were put aside since the queue was made.
    pub quarantined_total: u64,
    /// Jobs that were in no place and were given back to work since the queue was made: see [`Client::repair`].
    pub repaired_total: u64,
}

/// What happened to a queue lately, each second.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct QueueRates {
    /// How long ago the count began: one to two minutes where workers are.
    pub over: Duration,
    /// Jobs sent.
    pub enqueued: f64,
    /// Jobs that succeeded.
    pub done: f64,
    /// Failed runs that were followed by another.
    pub retried: f64,
    /// Jobs that became dead letters.
    pub dead: f64,
}

impl Client {
    /// Stops claims of a queue: what runs goes on, sends are taken, nothing new starts. Answers whether it was running.
    ///
    /// # Errors
    /// The name is none, or the store doesn't answer.
    pub async fn pause(&self, queue: &str) -> Result<bool, Error> {
        let shard = self.shard(queue)?;
        self.ask(|| self.store().pause(&shard, true)).await
    }

    /// Lets a paused queue go on. Answers whether it was paused.
    ///
    /// # Errors
    /// The name is none, or the store doesn't answer.
    pub async fn resume(&self, queue: &str) -> Result<bool, Error> {
        let shard = self.shard(queue)?;
        self.ask(|| self.store().pause(&shard, false)).await
    }

    /// Counts the jobs of a queue, at a cost that doesn't grow with them.
    ///
    /// # Errors
    /// The name is none, or the store doesn't answer.
    pub async fn stats(&self, queue: &str) -> Result<QueueStats, Error> {
        let shard = self.shard(queue)?;
        let stats = self.ask(|| self.store().stats(&shard)).await?;
        let total = |name: &str| stats.counters.get(name).map_or(0, |n| u64::try_from(*n).unwrap_or(0));
        let late_ms = stats.head_ms.map_or(0, |head_ms| stats.now_ms.saturating_sub(head_ms));
        Ok(QueueStats {
            now: timestamp(stats.now_ms),
            oldest_due: Duration::from_millis(late_ms),
            rates: stats.mark.and_then(|mark| rates(&mark, stats.now_ms, total)),
            waiting: stats.waiting,
            due: stats.due,
            running: stats.running,
            dead: stats.dead,
            retained: stats.done,
            sessions: stats.sessions,
            sessions_expired: stats.sessions_expired,
            paused: stats.paused,
            next_due: stats.head_ms.map(timestamp),
            orphans: stats.orphans(),
            enqueued_total: total("enqueued"),
            done_total: total("done"),
            retried_total: total("retried"),
            dead_total: total("dead"),
            cancelled_total: total("cancelled"),
            expired_total: total("expired"),
            discarded_total: total("discarded"),
            crashed_total: total("crashed"),
            snoozed_total: total("snoozed"),
            returned_total: total("returned"),
            redriven_total: total("redriven"),
            deleted_total: total("deleted"),
            sessions_lost_total: total("sessions_lost"),
            quarantined_total: total("quarantined"),
            repaired_total: total("repaired"),
        })
    }

    /// The names of the queues that were ever sent to or served, in the order of their bytes; up to 100,000. What a foreign hand put
    /// among them and is no name is left out.
    ///
    /// # Errors
    /// The store doesn't answer.
    pub async fn queues(&self) -> Result<Vec<String>, Error> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for _ in 0..QUEUES_LISTED_MAX / QUEUES_PAGE_MAX {
            let last = names.last().cloned().unwrap_or_default();
            let mut page = self.ask(|| self.store().queues(&last)).await?;
            let is_last = page.len() < QUEUES_PAGE_MAX;
            names.append(&mut page);
            if is_last {
                break;
            }
        }
        let name = |bytes| String::from_utf8(bytes).ok().filter(|name| check_name("queue", name).is_ok());
        Ok(names.into_iter().filter_map(name).collect())
    }
}

/// Workers make a new mark each minute, and the older of two is counted from.
const MARK_AGE_MS: std::ops::RangeInclusive<u64> = 1000..=180_000;

/// How much more there was since a mark, each second.
fn rates(mark: &Mark, now_ms: u64, total: impl Fn(&str) -> u64) -> Option<QueueRates> {
    let over = Duration::from_millis(now_ms.checked_sub(mark.at_ms).filter(|ms| MARK_AGE_MS.contains(ms))?);
    let rate = |name: &str, before: u64| total(name).saturating_sub(before) as f64 / over.as_secs_f64();
    Some(QueueRates {
        over,
        enqueued: rate("enqueued", mark.enqueued),
        done: rate("done", mark.done),
        retried: rate("retried", mark.retried),
        dead: rate("dead", mark.dead),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_lately_or_not_told() {
        let mark = Mark { at_ms: 10_000, enqueued: 5, done: 4, retried: 0, dead: 0 };
        let at = |now_ms| rates(&mark, now_ms, |name| if name == "enqueued" { 125 } else { 4 });
        let over_a_minute = at(70_000).expect("a mark that is a minute old");
        assert_eq!((over_a_minute.enqueued, over_a_minute.done), (2.0, 0.0));
        // Too young, of a clock that was set back, and from before all workers were gone.
        assert_eq!([at(10_500), at(9_000), at(200_000)], [None, None, None]);
    }
}

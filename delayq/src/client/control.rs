//! Steering a queue as a whole: pause, resume, counts.

use jiff::Timestamp;

use super::Client;
use crate::clock::timestamp;
use crate::error::Error;

/// The counts of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
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
    /// Sessions of workers.
    pub sessions: u64,
    /// Whether the queue is paused.
    pub paused: bool,
    /// The earliest due time.
    pub next_due: Option<Timestamp>,
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
    /// Entries that were no jobs and were put aside since the queue was made.
    pub quarantined_total: u64,
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
        Ok(QueueStats {
            waiting: stats.waiting,
            due: stats.due,
            running: stats.running,
            dead: stats.dead,
            retained: stats.done,
            sessions: stats.sessions,
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
            quarantined_total: total("quarantined"),
        })
    }
}

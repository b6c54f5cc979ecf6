//! The workers of a queue, as they say of themselves.

use std::time::Duration;

use jiff::Timestamp;

use super::Client;
use crate::clock::timestamp;
use crate::error::Error;
use crate::store::SessionId;

/// A worker's session on a queue. A worker has one for each queue that it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// The session, 32 hex digits.
    pub session: String,
    /// The queue.
    pub queue: String,
    /// What the worker is called. Absent for its first second, as all that it says of itself.
    pub name: Option<String>,
    /// The release of delayq that it was built with.
    pub release: Option<String>,
    /// Its process's id.
    pub pid: Option<u32>,
    /// When it was started, by its own clock.
    pub started_at: Option<Timestamp>,
    /// How many jobs it runs at once, over all its queues.
    pub concurrency: Option<u64>,
    /// How many runs of this queue it has begun.
    pub runs_total: Option<u64>,
    /// How late its runs of the last 30 to 60 s began; absent where there were none.
    pub lateness: Option<WorkerLateness>,
    /// How many jobs of this queue it holds.
    pub running: u64,
    /// For how long its lease still runs; `None` where it was lost, and its jobs are being taken back.
    pub lease_left: Option<Duration>,
}

/// How late runs began, from their due time to their claim, by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerLateness {
    /// On average.
    pub mean: Duration,
    /// At most.
    pub max: Duration,
}

impl Client {
    /// The workers that serve a queue, up to 1,000, the longest there first. What they run is in [`Jobs::list`](super::Jobs::list).
    ///
    /// # Errors
    /// The name is none, or the store doesn't answer.
    pub async fn workers(&self, queue: &str) -> Result<Vec<WorkerInfo>, Error> {
        let shard = self.shard(queue)?;
        let sessions = self.ask(|| self.store().sessions(&shard)).await?;
        let mut sessions: Vec<SessionId> = sessions.iter().map(|session| session.id).collect();
        if sessions.is_empty() {
            return Ok(Vec::new());
        }
        // Their ids begin with the time.
        sessions.sort_unstable();
        let (now_ms, rows) = self.ask(|| self.store().workers(&shard, &sessions)).await?;
        Ok(rows
            .into_iter()
            .map(|row| {
                let (about, lived) = (row.report, (row.expires_ms > 0).then_some(row.expires_ms));
                let about = about.as_ref();
                let text = |text: &String| (!text.is_empty()).then(|| text.clone());
                WorkerInfo {
                    session: session_hex(&row.session),
                    queue: queue.to_owned(),
                    name: about.and_then(|about| text(&about.name)),
                    release: about.and_then(|about| text(&about.release)),
                    pid: about.map(|about| about.pid),
                    started_at: about.map(|about| timestamp(about.started_ms)),
                    concurrency: about.map(|about| about.concurrency),
                    runs_total: about.map(|about| about.runs),
                    lateness: about.and_then(|about| about.late_us).map(|(mean_us, max_us)| WorkerLateness {
                        mean: Duration::from_micros(mean_us),
                        max: Duration::from_micros(max_us),
                    }),
                    running: row.held,
                    lease_left: lived.map(|until_ms| Duration::from_millis(until_ms.saturating_sub(now_ms))),
                }
            })
            .collect())
    }
}

/// How a session's id is shown.
pub(super) fn session_hex(session: &SessionId) -> String {
    session.iter().map(|byte| format!("{byte:02x}")).collect()
}

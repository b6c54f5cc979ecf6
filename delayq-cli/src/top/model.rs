//! What is looked at, what was seen there, and what may be changed: plain data, apart from the store and from the screen.

use std::time::{Duration, Instant};

use delayq::{Forecast, JobCursor, JobId, JobInfo, JobState, QueueStats, WorkerInfo};
use jiff::Timestamp;

use crate::commands::jobs;

/// How far ahead due times are counted, in minutes.
pub(super) const MINUTES: usize = 60;

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// The queues whose names have this in them.
    Queues { containing: String },
    /// A list of a queue, from a place in it on.
    Queue { queue: String, list: List, after: Option<JobCursor> },
    /// One job.
    Job { queue: String, id: JobId },
}

/// The lists of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Workers,
    Running,
    Waiting,
    Dead,
}

impl List {
    pub(super) const ALL: [List; 4] = [List::Workers, List::Running, List::Waiting, List::Dead];

    /// The one so many further on, around the end.
    pub(super) fn next(self, by: usize) -> List {
        let at = List::ALL.iter().position(|list| *list == self).unwrap_or(0);
        List::ALL[(at + by) % List::ALL.len()]
    }
}

/// What the refresh is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) place: Place,
    /// The queue whose hour ahead is drawn.
    pub(super) chart: Option<String>,
    /// Look once, then leave it at that.
    pub(super) is_frozen: bool,
}

/// What a look came to.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) place: Place,
    /// When the look began.
    pub(super) at: Instant,
    /// What was seen, or the error in a line.
    pub(super) seen: Result<Seen, String>,
}

#[derive(Debug)]
pub(super) enum Seen {
    Queues(Overview),
    /// The chart alone, of a queue that was chosen between two looks.
    Ahead(Ahead),
    Queue(Box<QueueSeen>),
    Job(Box<JobSheet>),
}

/// All queues, or as many as one look counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Overview {
    pub(super) queues: Vec<Queue>,
    /// How many queues there are in all.
    pub(super) known: usize,
    /// How many of them were meant.
    pub(super) matching: usize,
    /// The chart that was asked for.
    pub(super) ahead: Option<Ahead>,
}

/// A queue and its counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) counts: Counts,
    /// Why it couldn't be counted.
    pub(super) trouble: Option<String>,
}

/// The counts of a queue.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counts {
    /// When they were taken, by the store's clock.
    pub(super) now: Timestamp,
    pub(super) is_paused: bool,
    pub(super) waiting: u64,
    pub(super) due: u64,
    pub(super) running: u64,
    pub(super) dead: u64,
    pub(super) sessions: u64,
    /// For how long the oldest due job has been due.
    pub(super) oldest_due: Duration,
    /// The store's own rates, over a minute or two.
    pub(super) lately: Option<Rates>,
    pub(super) totals: Totals,
    /// How many fall due within a minute, and within an hour, that minute among it.
    pub(super) next_minute: u64,
    pub(super) next_hour: u64,
}

/// How many jobs of a queue fall due in each of the coming minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) queue: String,
    pub(super) minutes: Vec<u64>,
}

/// What happened each second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) sent: f64,
    pub(super) done: f64,
    pub(super) failed: f64,
}

/// What happened since a queue was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) sent: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
}

impl Counts {
    pub(super) fn of(stats: &QueueStats, minute: &Forecast, hour: &Forecast) -> Counts {
        Counts {
            now: stats.now,
            is_paused: stats.paused,
            waiting: stats.waiting,
            due: stats.due,
            running: stats.running,
            dead: stats.dead,
            sessions: stats.sessions,
            oldest_due: stats.oldest_due,
            lately: stats.rates.map(|rates| Rates {
                sent: rates.enqueued,
                done: rates.done,
                failed: rates.retried + rates.dead,
            }),
            totals: Totals {
                sent: stats.enqueued_total,
                done: stats.done_total,
                failed: stats.retried_total.saturating_add(stats.dead_total),
            },
            next_minute: minute.steps.iter().sum(),
            next_hour: hour.steps.iter().sum(),
        }
    }
}

/// A queue and one of its lists.
#[derive(Debug)]
pub(super) struct QueueSeen {
    pub(super) queue: Queue,
    pub(super) rows: Rows,
    /// Where the page after this one begins, if there is one.
    pub(super) next: Option<JobCursor>,
}

#[derive(Debug)]
pub(super) enum Rows {
    Workers(Vec<WorkerRow>),
    Jobs(Vec<JobRow>),
}

/// A worker's session on a queue.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerRow {
    pub(super) session: String,
    pub(super) name: String,
    pub(super) release: Option<String>,
    pub(super) pid: Option<u32>,
    pub(super) up: Option<Duration>,
    pub(super) running: u64,
    pub(super) concurrency: Option<u64>,
    pub(super) runs_total: Option<u64>,
    /// On average, and at most.
    pub(super) late: Option<(Duration, Duration)>,
    /// `None` where the lease was lost.
    pub(super) lease_left: Option<Duration>,
    /// The names of jobs that it runs, and how many of each.
    pub(super) runs: Vec<(String, usize)>,
}

impl WorkerRow {
    pub(super) fn of(worker: &WorkerInfo, running: &[JobInfo], now: Timestamp) -> WorkerRow {
        let mut runs: Vec<(String, usize)> = Vec::new();
        for job in running.iter().filter(|job| job.session.as_ref() == Some(&worker.session)) {
            let name = job.name.as_deref().unwrap_or("?");
            match runs.iter_mut().find(|(known, _)| known == name) {
                Some((_, count)) => *count += 1,
                None => runs.push((name.to_owned(), 1)),
            }
        }
        runs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        WorkerRow {
            session: worker.session.clone(),
            name: worker.name.clone().unwrap_or_else(|| worker.session.clone()),
            release: worker.release.clone(),
            pid: worker.pid,
            up: worker.started_at.map(|at| between(at, now)),
            running: worker.running,
            concurrency: worker.concurrency,
            runs_total: worker.runs_total,
            late: worker.lateness.map(|late| (late.mean, late.max)),
            lease_left: worker.lease_left,
            runs,
        }
    }
}

/// A job of a list.
#[derive(Debug, Clone)]
pub(super) struct JobRow {
    pub(super) id: JobId,
    pub(super) state: JobState,
    pub(super) name: String,
    pub(super) version: Option<u32>,
    pub(super) priority: Option<u8>,
    /// How it stands with its time, in words.
    pub(super) when: String,
    /// How late its run began.
    pub(super) late: Option<Duration>,
    /// Whether it is due, or was.
    pub(super) is_due: bool,
    pub(super) attempts: String,
    /// Who runs it.
    pub(super) worker: Option<String>,
    /// Why it died: the kind, and the text.
    pub(super) failure: Option<(String, String)>,
    pub(super) died: Option<Timestamp>,
}

impl JobRow {
    pub(super) fn of(job: &JobInfo, worker: Option<&str>, now: Timestamp) -> JobRow {
        JobRow {
            id: job.id,
            state: job.state,
            name: job.name.clone().unwrap_or_else(|| "?".to_owned()),
            version: job.version,
            priority: job.priority,
            when: jobs::when(job, now),
            late: job.due.zip(job.running_since).map(|(due, since)| between(due, since)),
            is_due: job.due.is_some_and(|due| due <= now),
            attempts: jobs::attempts(job),
            worker: worker.map(str::to_owned).or_else(|| job.session.clone()),
            failure: job.failure.as_ref().map(|failure| (failure.code.clone(), failure.text.clone())),
            died: job.dead_since,
        }
    }
}

/// All that is known of a job.
#[derive(Debug, Clone)]
pub(super) struct JobSheet {
    pub(super) id: JobId,
    pub(super) title: String,
    /// `None` where it is there no more: then its ending is in `when`.
    pub(super) state: Option<JobState>,
    pub(super) when: String,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) history: Vec<(Timestamp, String)>,
    pub(super) payload: Vec<String>,
    pub(super) payload_bytes: usize,
    pub(super) died: Option<Timestamp>,
    pub(super) now: Timestamp,
}

/// A change of one thing, exactly that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) queue: String,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Pause,
    Resume,
    Cancel { id: JobId, name: String },
    Retry { id: JobId, name: String, died: Timestamp },
    Delete { id: JobId, name: String, died: Timestamp },
}

impl Change {
    /// What is asked before it is made.
    pub(super) fn question(&self) -> &'static str {
        match self.kind {
            Kind::Pause => "Pause this queue? Nothing more of it starts.",
            Kind::Resume => "Let this queue go on?",
            Kind::Cancel { .. } => "Cancel this job for good?",
            Kind::Retry { .. } => "Send this dead letter to work again, due now?",
            Kind::Delete { .. } => "Delete this dead letter for good?",
        }
    }

    /// What exactly it is about.
    pub(super) fn object(&self) -> Vec<(&'static str, String)> {
        let queue = ("queue", self.queue.clone());
        match &self.kind {
            Kind::Pause | Kind::Resume => vec![queue],
            Kind::Cancel { id, name } | Kind::Retry { id, name, .. } | Kind::Delete { id, name, .. } => {
                vec![("id", id.to_string()), ("name", name.clone()), queue]
            }
        }
    }
}

/// From one instant to another; nothing where that is behind.
fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

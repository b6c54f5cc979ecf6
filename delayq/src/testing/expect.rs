//! What is scheduled, and what ought to be.

use std::fmt::Write;
use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

use super::TestQueue;
use super::report::shown;
use crate::clock::timestamp;
use crate::envelope::{Envelope, Record};
use crate::job::{JobId, JobType};
use crate::store::ops::DuePage;

/// A job that waits.
#[derive(Debug, Clone)]
pub struct Scheduled<J> {
    /// Its id.
    pub id: JobId,
    /// The job itself.
    pub job: J,
    /// When it is due.
    pub due: Timestamp,
    /// How long that is from now, by the moved clock; zero if it is due.
    pub due_in: Duration,
    /// How many attempts it has spent.
    pub attempts: u32,
    /// The queue that it waits in.
    pub queue: String,
    /// Its priority.
    pub priority: u8,
}

/// A job that waits, of whatever type.
pub(super) struct Waiting {
    id: [u8; 16],
    due_ms: u64,
    queue: String,
    record: Record,
}

impl Waiting {
    /// Name, version and payload; `None` where the envelope can't be read.
    fn envelope(&self) -> Option<(&str, u32, &[u8])> {
        let envelope = Envelope::decode(&self.record.envelope).ok()?;
        Some((envelope.name, envelope.version, &self.record.envelope[envelope.payload_at..]))
    }

    fn typed<J: JobType>(&self, now_us: u64) -> Option<Scheduled<J>> {
        let (name, version, payload) = self.envelope()?;
        if name != J::NAME {
            return None;
        }
        Some(Scheduled {
            id: JobId::from_bytes(self.id),
            job: J::decode(version, payload).ok()?,
            due: timestamp(self.due_ms),
            due_in: Duration::from_micros((self.due_ms * 1000).saturating_sub(now_us)),
            attempts: u32::from(self.record.attempts),
            queue: self.queue.clone(),
            priority: self.record.priority,
        })
    }
}

impl TestQueue {
    /// Everything that waits, the soonest first.
    pub(super) async fn waiting(&self) -> Vec<Waiting> {
        let store = self.client.store();
        let mut all = Vec::new();
        for queue in self.client.sent_queues() {
            let shard = store.shard(&queue, 0).unwrap_or_else(|error| panic!("{error}"));
            let mut page = DuePage { limit: 100, ..DuePage::default() };
            loop {
                let rows = store.due_list(&shard, &page).await.unwrap_or_else(|error| panic!("{error}"));
                let Some(last) = rows.last() else { break };
                page.after = Some(last.cursor());
                for row in rows {
                    if let (Ok(id), Ok(record)) = (row.id.try_into(), Record::decode(&row.record)) {
                        all.push(Waiting { id, due_ms: row.due_ms, queue: queue.clone(), record });
                    }
                }
            }
        }
        all.sort_by_key(|waiting| waiting.due_ms);
        all
    }

    /// All jobs of one type that wait, retries too, the soonest first.
    pub async fn scheduled<J: JobType>(&self) -> Vec<Scheduled<J>> {
        let now_us = self.clock.now_us();
        self.waiting().await.iter().filter_map(|waiting| waiting.typed(now_us)).collect()
    }

    /// Fails the test unless such a job waits; gives the first one. Await it, after saying what it must be like:
    ///
    /// ```
    /// # use delayq::{delayed_job, testing::TestQueue};
    /// # use std::time::Duration;
    /// # #[delayed_job(name = "cancel_order", version = 1, handler = external)]
    /// # struct CancelOrder { order_id: u64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), delayq::Error> {
    /// let queue = TestQueue::new();
    /// let half_an_hour = Duration::from_secs(30 * 60);
    /// queue.client().schedule::<CancelOrder>(half_an_hour).send(CancelOrder { order_id: 42 }).await?;
    /// queue.assert_scheduled::<CancelOrder>().with(|job| job.order_id == 42).due_in(half_an_hour).await;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn assert_scheduled<J: JobType>(&self) -> AssertScheduled<'_, J> {
        AssertScheduled(Expectation::new(self, Location::caller()))
    }

    /// Fails the test if such a job waits. Await it.
    #[track_caller]
    pub fn refute_scheduled<J: JobType>(&self) -> RefuteScheduled<'_, J> {
        RefuteScheduled(Expectation::new(self, Location::caller()))
    }
}

/// A question to the payload.
type Check<J> = Box<dyn Fn(&J) -> bool + Send + Sync>;

struct Expectation<'a, J> {
    queue: &'a TestQueue,
    at: &'static Location<'static>,
    checks: Vec<Check<J>>,
    due: Option<Due>,
    on_queue: Option<String>,
    times: Option<usize>,
}

enum Due {
    In(Duration),
    At(Timestamp),
}

impl<'a, J: JobType> Expectation<'a, J> {
    fn new(queue: &'a TestQueue, at: &'static Location<'static>) -> Expectation<'a, J> {
        Expectation { queue, at, checks: Vec::new(), due: None, on_queue: None, times: None }
    }

    /// Whether a job is due as it ought to be. The store rounds up to whole ms, so that no job is early.
    fn is_due(&self, job: &Scheduled<J>) -> bool {
        let wanted_ms = match &self.due {
            None => return true,
            Some(Due::In(delay)) => (self.queue.clock.now_us() as i128 + delay.as_micros() as i128) / 1000,
            Some(Due::At(at)) => i128::from(at.as_millisecond()),
        };
        (i128::from(job.due.as_millisecond()) - wanted_ms).abs() <= 1
    }

    async fn found(&self) -> Vec<Scheduled<J>> {
        let mut all = self.queue.scheduled::<J>().await;
        all.retain(|job| {
            self.is_due(job)
                && self.on_queue.as_ref().is_none_or(|queue| *queue == job.queue)
                && self.checks.iter().all(|check| check(&job.job))
        });
        all
    }

    /// What was looked for, and what there is instead.
    async fn told(&self, what: &str) -> String {
        let mut text = format!("{}: {what} {}", self.at, J::NAME);
        if !self.checks.is_empty() {
            text.push_str(" with such a payload");
        }
        match &self.due {
            Some(Due::In(delay)) => drop(write!(text, " due in {delay:?}")),
            Some(Due::At(at)) => drop(write!(text, " due at {at}")),
            None => {}
        }
        if let Some(queue) = &self.on_queue {
            let _ = write!(text, " in the queue {queue:?}");
        }
        let all = self.queue.waiting().await;
        if all.is_empty() {
            text.push_str("; nothing waits");
        } else {
            text.push_str("; what waits:");
        }
        let now_us = self.queue.clock.now_us();
        for waiting in all {
            let due_in = Duration::from_micros((waiting.due_ms * 1000).saturating_sub(now_us));
            let (name, version, payload) = waiting.envelope().unwrap_or(("?", 0, &[]));
            let (queue, due) = (&waiting.queue, timestamp(waiting.due_ms));
            let _ = write!(text, "\n  {name} {version} {} in {queue:?}, due in {due_in:?} ({due})", shown(payload));
        }
        text
    }
}

macro_rules! narrowed {
    ($name:ident) => {
        impl<J: JobType> $name<'_, J> {
            /// Its payload must pass this.
            pub fn with(mut self, check: impl Fn(&J) -> bool + Send + Sync + 'static) -> Self {
                self.0.checks.push(Box::new(check));
                self
            }

            /// It must be due so long from now, by the moved clock, to the millisecond.
            pub fn due_in(mut self, delay: Duration) -> Self {
                self.0.due = Some(Due::In(delay));
                self
            }

            /// It must be due then, to the millisecond.
            pub fn due_at(mut self, at: Timestamp) -> Self {
                self.0.due = Some(Due::At(at));
                self
            }

            /// It must wait in this queue.
            pub fn on_queue(mut self, queue: impl Into<String>) -> Self {
                self.0.on_queue = Some(queue.into());
                self
            }
        }
    };
}

/// See [`TestQueue::assert_scheduled`].
#[must_use = "nothing is checked before it is awaited"]
pub struct AssertScheduled<'a, J>(Expectation<'a, J>);

/// See [`TestQueue::refute_scheduled`].
#[must_use = "nothing is checked before it is awaited"]
pub struct RefuteScheduled<'a, J>(Expectation<'a, J>);

narrowed!(AssertScheduled);
narrowed!(RefuteScheduled);

impl<J: JobType> AssertScheduled<'_, J> {
    /// There must be exactly so many; without this, one or more.
    pub fn times(mut self, jobs: usize) -> Self {
        self.0.times = Some(jobs);
        self
    }
}

impl<'a, J: JobType> IntoFuture for AssertScheduled<'a, J> {
    type Output = Scheduled<J>;
    type IntoFuture = Pin<Box<dyn Future<Output = Scheduled<J>> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let found = self.0.found().await;
            let count = found.len();
            match (found.into_iter().next(), self.0.times) {
                (Some(first), None) => first,
                (Some(first), Some(times)) if times == count => first,
                (_, None) => panic!("{}", self.0.told("there is no").await),
                (_, Some(times)) => panic!("{}", self.0.told(&format!("{times} wanted, {count} there are of")).await),
            }
        })
    }
}

impl<'a, J: JobType> IntoFuture for RefuteScheduled<'a, J> {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            if !self.0.found().await.is_empty() {
                panic!("{}", self.0.told("there ought to be no").await);
            }
        })
    }
}

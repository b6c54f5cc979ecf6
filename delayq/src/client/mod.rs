//! The client: what schedules jobs, and steers them afterwards.

mod connect;
mod control;
mod dead;
mod diagnose;
mod flush;
mod forecast;
mod handle;
mod info;
mod jobs;
mod raw;
mod schedule;
mod workers;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock::When;
use crate::error::{Error, ErrorKind};
use crate::job::{JobId, JobType};
use crate::limits::SHARDS;
use crate::store::{Shard, Store};

pub use connect::{ClientBuilder, Durability};
pub use control::{QueueRates, QueueStats};
pub use dead::{DeadCursor, DeadLetter, DeadLetters, DeadListing, RedriveReport};
pub(crate) use diagnose::Danger;
pub use diagnose::{Damage, Diagnosis, Finding, Level, RepairReport};
pub use forecast::Forecast;
pub use handle::{CancelOutcome, JobHandle, JobStatus};
pub use info::{JobFailure, JobInfo, JobState};
pub use jobs::{AnyJob, JobCursor, JobPage, JobQuery, Jobs};
pub use raw::RawJob;
pub use schedule::{Schedule, SendAll, SendJob};
pub use workers::{WorkerInfo, WorkerLateness};

use flush::Flushers;

/// A connection to the store, from which jobs are scheduled. Cheap to clone; one for a whole program is enough.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    shown: String,
    flushers: Flushers,
    send_deadline: Duration,
    payload_limit: usize,
}

impl Client {
    /// Connects with the default settings: `redis://[user:password@]host[:port][/db]`, `rediss://` for TLS, or
    /// `redis+unix:///path/to/socket`; `redis-sentinel://[user:password@]host[:port],host../name[/db]` for the primary that Sentinels
    /// name, `redis-cluster://[user:password@]host[:port],host..` for a cluster, both with `rediss` for TLS. With the feature `embedded`
    /// also `sqlite://path/to/file` and `sqlite::memory:`.
    ///
    /// # Errors
    /// The URL is no such URL or leads to something of another kind, nothing answers there within the connect timeout, the user or password is refused, or
    /// what answers is not a Redis of version 6.2 or later. The error names the cause, never the password.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::builder().connect(url).await
    }

    /// Settings to connect with.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Schedules a job to run after `delay`, counted by the store's clock from when it arrives there.
    ///
    /// ```no_run
    /// # use delayq::{Client, delayed_job};
    /// # use std::time::Duration;
    /// # #[delayed_job(name = "cancel_order", version = 1, handler = external)]
    /// # struct CancelOrder { order_id: u64 }
    /// # async fn example(client: Client) -> Result<(), delayq::Error> {
    /// let handle = client.schedule::<CancelOrder>(Duration::from_secs(30 * 60))
    ///     .send(CancelOrder { order_id: 42 }).await?;
    /// handle.cancel().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule<J: JobType>(&self, delay: Duration) -> Schedule<J> {
        Schedule::new(self.clone(), delay.into())
    }

    /// Schedules a job to run at an instant: a [`jiff::Timestamp`] or a `SystemTime`, by the store's clock.
    /// What lies in the past runs now.
    pub fn schedule_at<J: JobType>(&self, at: impl Into<When>) -> Schedule<J> {
        Schedule::new(self.clone(), at.into())
    }

    /// Runs a job as soon as a worker is free.
    pub fn enqueue<J: JobType>(&self) -> Schedule<J> {
        Schedule::new(self.clone(), Duration::ZERO.into())
    }

    /// The handle of a job that was sent before, in its type's queue.
    pub fn handle<J: JobType>(&self, id: JobId) -> JobHandle<J> {
        JobHandle::new(self.clone(), J::QUEUE.into(), id, false)
    }

    /// The handle of a job that was sent before, in another queue than its type's.
    pub fn handle_in<J: JobType>(&self, queue: &str, id: JobId) -> JobHandle<J> {
        JobHandle::new(self.clone(), queue.into(), id, false)
    }

    /// The dead letters of a queue.
    pub fn dead_letters(&self, queue: &str) -> DeadLetters {
        DeadLetters::new(self.clone(), queue.to_owned())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The shard of a queue that a job belongs to.
    fn shard(&self, queue: &str) -> Result<Shard, Error> {
        const { assert!(SHARDS == 1, "an id's shard is not computed yet") };
        self.inner.store.shard(queue, 0)
    }

    /// Asks, and asks again while there is no answer and time is left. Only for what may be repeated.
    async fn ask<T, F, Fut>(&self, mut question: F) -> Result<T, Error>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        let deadline = Instant::now() + self.inner.send_deadline;
        let mut pause = Duration::from_millis(20);
        // What an earlier try may have done stays unknown, whatever became of later ones (rule k).
        let mut unknown = None;
        loop {
            let error = match question().await {
                Err(error) if error.is_temporary() && error.kind() != ErrorKind::Full => error,
                other => return other,
            };
            let is_over = Instant::now() + pause >= deadline;
            let last = if error.is_unknown() { &*unknown.insert(error) } else { &error };
            if is_over {
                let last = last.again();
                return Err(unknown.unwrap_or(last));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("store", &self.inner.shown).finish_non_exhaustive()
    }
}

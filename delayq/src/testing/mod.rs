//! Testing jobs: a queue in memory whose time a test moves.
//!
//! Feature `testing`. [`TestQueue`] is a real store, the same scripts as on Redis, on a database in memory, behind a real
//! [`Client`] and a real worker's stack. Only time is the test's: tokio's clock is stopped, the store's is tied to it, and
//! [`advance`](TestQueue::advance) moves both, running what becomes due in between. Seven days take milliseconds.
//!
//! ```standalone_crate
//! use delayq::testing::TestQueue;
//! use delayq::{Client, Job, JobContext, JobResult, delayed_job};
//! use std::time::Duration;
//!
//! #[delayed_job(name = "cancel_order", version = 1)]
//! struct CancelOrder {
//!     order_id: u64,
//! }
//!
//! impl Job for CancelOrder {
//!     async fn run(self, _cx: JobContext) -> JobResult {
//!         Ok(())
//!     }
//! }
//!
//! async fn place_order(client: &Client, order_id: u64) -> Result<(), delayq::Error> {
//!     client.schedule::<CancelOrder>(Duration::from_secs(30 * 60)).send(CancelOrder { order_id }).await?;
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), delayq::Error> {
//! // In a function with #[tokio::test]:
//! let queue = TestQueue::new();
//! place_order(&queue.client(), 42).await?;
//! queue.assert_scheduled::<CancelOrder>().with(|job| job.order_id == 42).await;
//!
//! assert!(queue.advance(Duration::from_secs(29 * 60)).await.is_empty());
//! let report = queue.advance(Duration::from_secs(60)).await;
//! assert_eq!(report.count::<CancelOrder>(), 1);
//! queue.refute_scheduled::<CancelOrder>().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What a test must know
//!
//! - Tokio's clock is stopped for the whole test. Whatever waits for time alone, such as `tokio::time::sleep`, ends at once
//!   and moves the clock; whatever waits for the network while a timeout runs may meet that timeout at once. Tests of
//!   handlers use fakes for what is outside.
//! - `Timestamp::now()` and `SystemTime::now()` tell the machine's time. The moved one is [`TestQueue::now`].
//! - Jobs run one after the other, inside `advance`, in the order in which they are due.

mod clock;
mod expect;
mod report;

use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Mutex;

use crate::client::Client;
use crate::clock::timestamp;
use crate::error::Error;
use crate::job::{JobType, Outcome};
use crate::worker::{ByHand, Run, Step, Worker};

pub use expect::{AssertScheduled, RefuteScheduled, Scheduled};
pub use report::{Ran, Report};

use clock::TestClock;
use report::shown;

/// How many runs one `advance` or `drain` may come to, unless said otherwise.
const RUNS_DEFAULT: usize = 2000;
/// How often the store may say that something is due and not give it out.
const IDLE_STEPS_MAX: usize = 1000;

/// A queue in memory whose time a test moves. See the [module](self).
///
/// Its methods panic where the test can't go on: that is how a test fails.
pub struct TestQueue {
    client: Client,
    clock: TestClock,
    worker: Mutex<Driven>,
    panics_allowed: AtomicBool,
    loses_next: AtomicBool,
    runs_max: AtomicUsize,
}

/// The worker, made when the first job wants to run: a test that only looks at what is scheduled needs no handlers.
enum Driven {
    Planned(Option<Worker>),
    Made(ByHand),
}

impl Default for TestQueue {
    #[track_caller]
    fn default() -> TestQueue {
        TestQueue::new()
    }
}

impl TestQueue {
    /// An empty one, for every job type that is linked into the test.
    ///
    /// # Panics
    /// There is no current-thread runtime of tokio's around it.
    #[track_caller]
    pub fn new() -> TestQueue {
        TestQueue::with(|worker| worker)
    }

    /// The same, its worker as the test wants it: with data, handlers, layers.
    ///
    /// ```
    /// # use delayq::testing::TestQueue;
    /// # struct FakeMailer;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let queue = TestQueue::with(|worker| worker.data(FakeMailer));
    /// # }
    /// ```
    ///
    /// # Panics
    /// As for [`new`](TestQueue::new).
    #[track_caller]
    pub fn with(configure: impl FnOnce(Worker) -> Worker) -> TestQueue {
        let clock = TestClock::start();
        let store_clock = clock.clone();
        let client = or_fail(Client::in_memory(move || store_clock.now_us()));
        TestQueue {
            worker: Mutex::new(Driven::Planned(Some(configure(Worker::new(client.clone()))))),
            client,
            clock,
            panics_allowed: AtomicBool::new(false),
            loses_next: AtomicBool::new(false),
            runs_max: AtomicUsize::new(RUNS_DEFAULT),
        }
    }

    /// Adds to its worker, for what needs the queue's own [`client`](TestQueue::client): handlers that schedule further jobs.
    ///
    /// ```
    /// # use delayq::testing::TestQueue;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let queue = TestQueue::new();
    /// let client = queue.client();
    /// let queue = queue.configure(|worker| worker.data(client));
    /// # }
    /// ```
    ///
    /// # Panics
    /// A job ran before.
    #[track_caller]
    pub fn configure(mut self, configure: impl FnOnce(Worker) -> Worker) -> TestQueue {
        match self.worker.get_mut() {
            Driven::Planned(worker) => *worker = worker.take().map(configure),
            Driven::Made(_) => panic!("the worker of this TestQueue has run a job: configure it before that"),
        }
        self
    }

    /// The client to give to the code under test.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The moved clock.
    pub fn now(&self) -> Timestamp {
        timestamp(self.clock.now_us() / 1000)
    }

    /// From now on a handler's panic is an error like any other, as in production. Otherwise it fails the test.
    pub fn allow_panics(&self) {
        self.panics_allowed.store(true, Ordering::Relaxed);
    }

    /// How many runs one `advance` or `drain` may come to, instead of 2,000: more fail the test, so that a job that schedules
    /// itself again for ever doesn't hang it.
    pub fn limit_runs(&self, runs: usize) {
        self.runs_max.store(runs, Ordering::Relaxed);
    }

    /// The worker of the next run dies at its end, before it can tell the store: when its lease has run out, the job runs
    /// again. So a test shows that a job's effect is idempotent.
    pub fn lose_worker_in_next_run(&self) {
        self.loses_next.store(true, Ordering::Relaxed);
    }

    /// Moves the clock, and runs everything that is due until then at its own time and in that order: retries after their
    /// backoff too, and jobs of lost workers after their lease.
    ///
    /// # Panics
    /// A handler panicked, or more runs came of it than [`limit_runs`](TestQueue::limit_runs) allows.
    #[track_caller]
    pub fn advance(&self, by: Duration) -> impl Future<Output = Report> + Send + '_ {
        let at = Location::caller();
        async move {
            let until_ms = self.clock.now_us().saturating_add(by.as_micros() as u64) / 1000;
            self.run_until(Some(until_ms), at).await
        }
    }

    /// Moves the clock to the end of all that waits, and runs it.
    ///
    /// # Panics
    /// As for [`advance`](TestQueue::advance): a job that schedules itself again for ever has no end.
    #[track_caller]
    pub fn drain(&self) -> impl Future<Output = Report> + Send + '_ {
        let at = Location::caller();
        async move { self.run_until(None, at).await }
    }

    /// Runs a job once through the worker's stack, as its first attempt, and gives what came of it. It is not put into the
    /// queue; what it schedules itself is.
    ///
    /// # Panics
    /// The handler panicked.
    #[track_caller]
    pub fn run_now<J: JobType>(&self, job: J) -> impl Future<Output = Outcome> + Send + '_ {
        self.run_attempt(job, 1)
    }

    /// The same as a later attempt: with the last one, a failure makes a dead letter.
    ///
    /// # Panics
    /// The handler panicked.
    #[track_caller]
    pub fn run_attempt<J: JobType>(&self, job: J, attempt: u32) -> impl Future<Output = Outcome> + Send + '_ {
        let at = Location::caller();
        let request = or_fail(self.client.request(&job, attempt, self.clock.now_us()));
        async move {
            let started_us = self.clock.now_us();
            let mut worker = self.worker.lock().await;
            let (outcome, panicked) = or_fail(made(&mut worker).run(request.clone()).await);
            let run = Run { request, outcome: Some(outcome.clone()), panicked, started_us };
            self.check_panic(&run, at);
            outcome
        }
    }

    async fn run_until(&self, until_ms: Option<u64>, at: &'static Location<'static>) -> Report {
        let mut report = Report::default();
        let mut idle_steps = 0;
        loop {
            let mut worker = self.worker.lock().await;
            let worker = made(&mut worker);
            or_fail(worker.serve(&self.client.sent_queues()));
            let now_ms = self.clock.now_us() / 1000;
            let others = or_fail(worker.beat_in_time(now_ms).await);
            let head = or_fail(worker.head().await);
            match head {
                Some(head) if head.due_ms <= now_ms => {
                    let lost = self.loses_next.swap(false, Ordering::Relaxed);
                    match or_fail(worker.step(&head, lost).await) {
                        Step::Ran(run) => {
                            self.check_panic(&run, at);
                            report.runs.push(Ran::new(run));
                            idle_steps = 0;
                        }
                        Step::Nothing | Step::Unreadable => {
                            if lost {
                                self.loses_next.store(true, Ordering::Relaxed);
                            }
                            idle_steps += 1;
                        }
                    }
                    let most = self.runs_max.load(Ordering::Relaxed);
                    assert!(
                        report.len() <= most,
                        "{at}: {most} runs and no end: does a job schedule itself again? If not, TestQueue::limit_runs allows more"
                    );
                    assert!(idle_steps < IDLE_STEPS_MAX, "{at}: something is due, and the store doesn't give it out");
                }
                head => {
                    let mut next_ms = match (&head, until_ms) {
                        (Some(head), Some(until)) => head.due_ms.min(until),
                        (Some(head), None) => head.due_ms,
                        (None, Some(until)) => until,
                        (None, None) if others => u64::MAX,
                        (None, None) => return report,
                    };
                    if others {
                        // A lost worker's lease runs out only under the eyes of those that renew theirs: in small steps.
                        next_ms = next_ms.min(now_ms + (worker.lease().as_millis() as u64 / 4).max(1));
                    }
                    if until_ms.is_some_and(|until| now_ms >= until) {
                        return report;
                    }
                    self.clock.move_to(next_ms).await;
                }
            }
        }
    }

    fn check_panic(&self, run: &Run, at: &'static Location<'static>) {
        if !run.panicked || self.panics_allowed.load(Ordering::Relaxed) {
            return;
        }
        let why = match &run.outcome {
            Some(Outcome::Retry { error, .. } | Outcome::Dead { error, .. }) => error.as_str(),
            _ => "see above",
        };
        let (name, payload, attempt) = (run.request.name(), shown(run.request.payload()), run.request.attempt());
        panic!("{at}: the handler of {name} panicked in attempt {attempt} with the payload {payload}: {why}");
    }
}

/// The worker itself, made now if it wasn't yet.
fn made(driven: &mut Driven) -> &mut ByHand {
    if let Driven::Planned(worker) = driven {
        let Some(worker) = worker.take() else { panic!("the worker can't be made, as was said before") };
        *driven = Driven::Made(or_fail(worker.by_hand()));
    }
    match driven {
        Driven::Made(worker) => worker,
        Driven::Planned(_) => panic!("the worker was not made"),
    }
}

fn or_fail<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("the test queue can't go on: {error:?}"))
}

impl std::fmt::Debug for TestQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestQueue").field("now", &self.now()).finish_non_exhaustive()
    }
}

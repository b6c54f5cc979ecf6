//! What a worker is made of, and how it runs as a whole.

use std::future::Future;
use std::ops::RangeInclusive;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tower::{Layer, Service};

use super::about::About;
use super::adaptive::Adaptive;
use super::alarm::Alarms;
use super::lane::Lane;
use super::pump::Pump;
use super::renew::{Renewed, Renewer};
use super::slots::Slots;
use super::{Hub, Solo, baton, check, shutdown};
use crate::client::Client;
use crate::error::{BoxError, Error, ErrorKind};
use crate::job::{Data, JobContext, JobRequest, JobResult, JobType, Outcome};
use crate::layer::{Dispatch, JobService, Stack, Unknown};
use crate::limits;
use crate::registry::{Handlers, JobSet, Registry};
use crate::store::Store;

/// Runs due jobs.
///
/// ```no_run
/// # use delayq::{Client, Worker};
/// # struct Orders;
/// # async fn example(client: Client) -> Result<(), delayq::Error> {
/// Worker::new(client).data(Orders).concurrency(50).run().await
/// # }
/// ```
///
/// It serves every job type that is linked into the program. A crate that nothing in the program mentions is not linked,
/// and its jobs are silently absent: mention it (`use my_jobs as _;` is enough), and let
/// [`requires`](Worker::requires) check.
#[must_use = "a worker does nothing before `run` is called and awaited"]
pub struct Worker {
    client: Client,
    queues: Option<Vec<String>>,
    concurrency: RangeInclusive<usize>,
    batch: usize,
    lease: Duration,
    grace: Duration,
    data: Data,
    handlers: Handlers,
    required: Vec<(&'static str, u32)>,
    stack: Stack,
    unknown: Unknown,
    name: Option<String>,
    strict: bool,
}

impl Worker {
    /// A worker over a client's store.
    pub fn new(client: Client) -> Worker {
        Worker {
            client,
            queues: None,
            concurrency: limits::CONCURRENCY_DEFAULT..=limits::CONCURRENCY_DEFAULT,
            batch: limits::CLAIM_DEFAULT,
            lease: limits::LEASE_DEFAULT,
            grace: limits::GRACE_DEFAULT,
            data: Data::default(),
            handlers: Handlers::default(),
            required: Vec::new(),
            stack: Stack::default(),
            unknown: Unknown::default(),
            name: None,
            strict: false,
        }
    }

    /// The queues to serve, instead of those of all linked job types; at most 64.
    pub fn queues<I>(mut self, queues: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.queues = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// How many jobs run at once, over all queues: 1 to 10,000, 300 unless said otherwise.
    ///
    /// A handler that blocks its thread can't be stopped. Five seconds past its timeout its job is settled as timed out, but its place stays taken
    /// until it returns. The gauge `delayq_stuck_runs`, by queue, counts such runs.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = jobs..=jobs;
        self
    }

    /// Lets the worker find out by itself how many jobs to run at once, between two bounds of 1 to 10,000:
    /// `.adaptive_concurrency(20..=500)`. It replaces [`concurrency`](Worker::concurrency).
    ///
    /// It starts at the lower bound. While all places are used and jobs take no longer than they do at best, the limit doubles each second, after the first
    /// slow one it rises by a tenth. When jobs of a type take more than half as long again as their best of the last five to ten minutes, what they
    /// wait for has no room for more: the limit falls in proportion. A second lasts longer until half of the runs that began in
    /// it are over. Every five minutes the limit is halved for one such second to see what the best is without a crowd.
    ///
    /// Runs under 10 ms are never called slow, and a failed run counts only if it was slow, so that a service that refuses at once makes no room for
    /// more. The present limit is what [`Client::workers`](crate::Client::workers) tells as the worker's concurrency, and each change is logged at level DEBUG.
    pub fn adaptive_concurrency(mut self, bounds: RangeInclusive<usize>) -> Self {
        self.concurrency = bounds;
        self
    }

    /// How many jobs one claim asks for at most: 1 to 1,000, 100 unless said otherwise. Only what can start at once is claimed.
    pub fn claim_batch(mut self, jobs: usize) -> Self {
        self.batch = jobs;
        self
    }

    /// The lease: so long after its last sign of life a worker's jobs go to others. 500 ms to an hour, 30 s unless said otherwise.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long a graceful shutdown waits for running jobs, 25 s unless said otherwise; then they are stopped and handed back.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// What this worker is called where workers are listed, at most 128 bytes without control characters; the host's name and
    /// the process's id unless said otherwise.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Whether to refuse to start on a server that endangers jobs, instead of warning of it: one with another `maxmemory-policy`
    /// than `noeviction`, one that is too old, a replica, or one that doesn't give this user the rights that are needed. What
    /// the server doesn't tell is no danger. [`Client::diagnose`] looks at more.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Gives handlers a value, which they get from [`JobContext::data`] by its type. One value a type; a second one replaces the first.
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.data.insert(value);
        self
    }

    /// Adds a layer between panic catching and the run's timeout. As with axum's `Router::layer`, the layer added last
    /// is the outermost; in a `ServiceBuilder` it is the innermost.
    ///
    /// A layer is applied once a worker: a `ConcurrencyLimitLayer` limits all its runs together. What the stack is not
    /// ready for is not claimed. Two layers of tower's hide that: `LoadShedLayer` is always ready and turns runs away, which then
    /// come back a second later without spending an attempt; `BufferLayer` is ready while its channel has room. Prefer limits.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<JobService> + Send + 'static,
        L::Service: Service<JobRequest, Response = Outcome> + Clone + Send + 'static,
        <L::Service as Service<JobRequest>>::Error: Into<BoxError>,
        <L::Service as Service<JobRequest>>::Future: Send + 'static,
    {
        self.stack.push(layer);
        self
    }

    /// Replaces the whole stack by one made around `dispatch`; only the resolving of names stays, outermost.
    /// An error that leaves it is treated as [`PersistentRetryLayer`](crate::layer::PersistentRetryLayer) would.
    pub fn stack<F, S>(mut self, make: F) -> Self
    where
        F: FnOnce(Dispatch) -> S + Send + 'static,
        S: Service<JobRequest, Response = Outcome> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        self.stack.replace(make);
        self
    }

    /// Gives the handler of a job type that was declared with `handler = external`.
    #[track_caller]
    pub fn handle<J, F, Fut>(mut self, handler: F) -> Self
    where
        J: JobType,
        F: Fn(J, JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = JobResult> + Send + 'static,
    {
        self.handlers.add(Location::caller(), handler);
        self
    }

    /// Refuses to start unless these types are linked and handled: `.requires::<(CancelOrder, SendReminder)>()`.
    pub fn requires<S: JobSet>(mut self) -> Self {
        self.required.extend(S::members());
        self
    }

    /// What becomes of jobs whose name or version this worker doesn't know; they are dead-lettered unless said otherwise.
    pub fn unknown(mut self, unknown: Unknown) -> Self {
        self.unknown = unknown;
        self
    }

    /// Runs until SIGTERM or ctrl-c, then stops claiming, gives running jobs the grace period, hands the rest back
    /// without costing them an attempt, and returns. A second signal exits the process at once.
    ///
    /// Losing the store does not end it: it connects again for ever, with backoff.
    ///
    /// # Errors
    /// It can't start as it was put together ([`Registry`](ErrorKind::Registry), [`Config`](ErrorKind::Config)), the queue is
    /// of another layout ([`Unsupported`](ErrorKind::Unsupported)), a layer failed to become ready, or it is
    /// [`strict`](Worker::strict) and its server endangers jobs ([`Unsupported`](ErrorKind::Unsupported),
    /// [`Denied`](ErrorKind::Denied)).
    pub async fn run(self) -> Result<(), Error> {
        self.run_until(shutdown::signal()).await
    }

    /// Runs like [`run`](Worker::run), until `stop` is ready instead of until a signal.
    ///
    /// # Errors
    /// As for [`run`](Worker::run).
    pub async fn run_until<F: Future<Output = ()>>(self, stop: F) -> Result<(), Error> {
        let (client, strict) = (self.client.clone(), self.strict);
        let Parts { hub, store, service, lanes, about } = self.prepare()?;
        tokio::pin!(stop);
        // Dropped with this future, and what is in it with it.
        let mut looking = JoinSet::new();
        // The rights and the server are the same for all queues.
        if let Some(lane) = lanes.first() {
            if strict {
                tokio::select! {
                    () = &mut stop => return Ok(()),
                    checked = check::refuse(&client, &lane.shard) => checked?,
                }
            } else {
                looking.spawn(check::warn(client, lane.shard.clone()));
            }
        }
        let about = Arc::new(about);
        let alarms = Alarms::start(lanes.len())
            .map_err(|error| Error::new(ErrorKind::Config, "the alarm thread can't be started").caused(error))?;
        let (stopper, stopping) = shutdown::channel();
        // Two calls of a lane may be on their way at once, and want their order kept.
        let calls = store.in_order();
        let mut pumps = JoinSet::new();
        let mut renewed = Vec::with_capacity(lanes.len());
        for (index, lane) in lanes.into_iter().enumerate() {
            let (control, controls) = mpsc::unbounded_channel();
            let (listen, asked) = mpsc::unbounded_channel();
            let baton = tokio::spawn(baton::listen(store.dedicated(), lane.clone(), asked, control.clone()));
            let alarm = alarms.alarm(index);
            renewed.push(Renewed {
                lane: lane.clone(),
                alarm: alarm.clone(),
                pump: control,
                about: about.clone(),
                slots: hub.slots.clone(),
                disagreed_at: None,
            });
            let pump = Pump::new(lane, calls.clone(), hub.clone(), service.clone(), alarm, (listen, baton), controls);
            pumps.spawn(pump.run(stopping.clone()));
        }
        let renewer = Renewer::start(store, hub.lease, renewed)?;
        let mut result = Ok(());
        loop {
            tokio::select! {
                () = &mut stop, if !stopping.is_set() => stopper.stop(),
                ended = pumps.join_next() => match ended {
                    None => break,
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(error))) => {
                        // One lane can't go on: the others finish what they have, and the caller is told.
                        stopper.stop();
                        result = result.and(Err(error));
                    }
                    Some(Err(panicked)) => {
                        stopper.stop();
                        result = result.and(Err(Error::new(ErrorKind::Config, "the worker itself panicked").caused(panicked)));
                    }
                },
            }
        }
        // Joined off the runtime's threads: it may be waiting for an answer.
        let _ = tokio::task::spawn_blocking(move || drop((renewer, alarms))).await;
        result
    }

    pub(super) fn prepare(self) -> Result<Parts, Error> {
        let config = |text: String| Error::new(ErrorKind::Config, text);
        let registry = Registry::collect(self.handlers)?;
        registry.require(&self.required)?;
        let within = |what: &str, n: usize, max: usize| {
            if n == 0 || n > max { Err(config(format!("a {what} of {n} is out of range: 1 to {max}"))) } else { Ok(()) }
        };
        let (least, most) = (*self.concurrency.start(), *self.concurrency.end());
        within("concurrency", least, limits::CONCURRENCY_MAX)?;
        within("concurrency", most, limits::CONCURRENCY_MAX)?;
        if least > most {
            return Err(config(format!("a concurrency of {least} to {most} is empty: the lower bound comes first")));
        }
        within("claim batch", self.batch, limits::CLAIM_MAX)?;
        if self.lease < limits::LEASE_MIN || self.lease > limits::LEASE_MAX {
            return Err(config(format!(
                "a lease of {:?} is out of range: {:?} to {:?}",
                self.lease,
                limits::LEASE_MIN,
                limits::LEASE_MAX
            )));
        }
        let about = About::new(self.name)?;
        if self.stack.is_ambiguous() {
            return Err(config(
                "both Worker::stack and Worker::layer were given: put the layers into the stack".to_owned(),
            ));
        }
        if self.queues.is_none() && registry.is_empty() {
            return Err(Error::new(
                ErrorKind::Registry,
                "no job type is linked into this program: is the crate that has them mentioned anywhere? `use my_jobs as _;` is enough",
            ));
        }
        let mut queues = self.queues.unwrap_or_else(|| registry.queues());
        queues.sort_unstable();
        queues.dedup();
        within("number of queues", queues.len(), limits::QUEUES_MAX)?;
        let store = self.client.store().clone();
        let lanes = queues
            .iter()
            .map(|queue| Ok(Arc::new(Lane::new(store.shard(queue, 0)?))))
            .collect::<Result<Vec<_>, Error>>()?;
        let concurrency = if least == most { least.to_string() } else { format!("{least} to {most}") };
        tracing::info!(queues = ?queues, concurrency, "this worker serves:{}", registry.table());
        let registry = Arc::new(registry);
        let service = self.stack.build(&registry, Arc::new(self.data), self.unknown);
        let hub = Hub {
            registry,
            lease: self.lease,
            grace: self.grace,
            batch: self.batch,
            slots: Arc::new(Slots::new(least)),
            adaptive: (least < most).then(|| Adaptive::new(self.concurrency, Instant::now())),
            solo: Solo::default(),
        };
        Ok(Parts { hub: Arc::new(hub), store, service, lanes, about })
    }
}

/// A worker, checked and put together.
pub(super) struct Parts {
    pub(super) hub: Arc<Hub>,
    pub(super) store: Store,
    pub(super) service: JobService,
    pub(super) lanes: Vec<Arc<Lane>>,
    pub(super) about: About,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("client", &self.client)
            .field("queues", &self.queues)
            .field("concurrency", &self.concurrency)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

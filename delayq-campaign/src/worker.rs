//! The worker process: delayq's worker, with a stack that writes each claim and each outcome into the history.

use std::fmt::{self, Write};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use delayq::layer::{CatchPanicLayer, PersistentRetryLayer, TimeoutLayer};
use delayq::{BoxError, Client, JobRequest, Outcome, Worker};
use tower::{Service, ServiceBuilder};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::history::{Journal, What, checksum, clock_off_ms};
use crate::joining::Member;
use crate::work::{QUEUE, Task};
use crate::world::watch_this_process;

/// What a worker process is told on its command line.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) member: Member,
    #[arg(long)]
    pub(crate) lease_ms: u64,
    #[arg(long)]
    pub(crate) concurrency: usize,
    #[arg(long, default_value_t = 5000)]
    pub(crate) grace_ms: u64,
    /// Start so many workers one after the other, each stopped at once, instead of one that stays.
    #[arg(long)]
    pub(crate) come_and_go: Option<u64>,
}

/// Runs until SIGTERM.
pub(crate) async fn run(args: WorkerArgs) -> Result<(), BoxError> {
    let journal = args.member.journal()?;
    let alarms = Alarms(args.member.journal()?);
    tracing_subscriber::registry().with(alarms).init();
    journal.tell(What::Up { pid: std::process::id(), lease_ms: args.lease_ms, clock_off_ms: clock_off_ms() });
    watch_this_process(args.member.journal()?);
    if let Some(count) = args.come_and_go {
        return come_and_go(&args, count).await;
    }
    let client = args.member.join(args.member.client(), &journal).await?;
    let traced = Arc::new(args.member.journal()?);
    stacked(worker(&args, client), journal, traced).run().await?;
    Ok(())
}

/// The default stack with what writes each run down as its outermost layer.
fn stacked(worker: Worker, journal: Journal, traced: Arc<Journal>) -> Worker {
    worker.data(journal).stack(move |dispatch| {
        ServiceBuilder::new()
            .layer(tower::layer::layer_fn(move |inner| Trace { inner, journal: traced.clone() }))
            .layer(PersistentRetryLayer::new())
            .layer(CatchPanicLayer::new())
            .layer(TimeoutLayer::new())
            .service(dispatch)
    })
}

fn worker(args: &WorkerArgs, client: Client) -> Worker {
    Worker::new(client)
        .queues([QUEUE])
        .concurrency(args.concurrency)
        .lease(Duration::from_millis(args.lease_ms))
        .grace(Duration::from_millis(args.grace_ms))
}

/// Many workers that start and stop, a few at once.
async fn come_and_go(args: &WorkerArgs, count: u64) -> Result<(), BoxError> {
    let client = args.member.client().connect(&args.member.url).await?;
    let journal = Arc::new(args.member.journal()?);
    let mut going = tokio::task::JoinSet::new();
    for _ in 0..count {
        while going.len() >= 8 {
            if let Some(ended) = going.join_next().await {
                ended??;
            }
        }
        let worker = stacked(worker(args, client.clone()), args.member.journal()?, journal.clone());
        going.spawn(worker.run_until(tokio::time::sleep(Duration::from_millis(20))));
    }
    while let Some(ended) = going.join_next().await {
        ended??;
    }
    Ok(())
}

/// Writes what a run began as and what it came to.
#[derive(Clone)]
struct Trace<S> {
    inner: S,
    journal: Arc<Journal>,
}

impl<S> Service<JobRequest> for Trace<S>
where
    S: Service<JobRequest, Response = Outcome, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Outcome;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        // The one that is ready is used; its clone takes its place.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let journal = self.journal.clone();
        let (id, token) = (request.id().as_uuid(), request.run_token());
        let due_ms = request.due().as_millisecond().max(0) as u64;
        let (attempt, now_us) = (request.attempt(), request.claimed_at().as_microsecond().max(0) as u64);
        if is_quick(request.payload()) {
            let bytes = checksum(request.payload());
            return Box::pin(async move {
                let ended = inner.call(request).await;
                if matches!(ended, Ok(Outcome::Done)) {
                    journal.tell(What::Ran { id, token, attempt, due_ms, now_us, bytes });
                }
                ended
            });
        }
        journal.tell(What::Claim { id, token, attempt, due_ms, now_us });
        Box::pin(async move {
            let pause = serde_json::from_slice::<Task>(request.payload()).map_or(0, |task| task.before_start_ms);
            if pause > 0 && request.attempt() == 1 {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            let ended = inner.call(request).await;
            let (how, delay) = match &ended {
                Ok(outcome) => (outcome.name(), wait_of(outcome)),
                Err(_) => ("error", Duration::ZERO),
            };
            journal.tell(What::Outcome { id, token, how: how.to_owned(), delay_ms: delay.as_millis() as u64 });
            ended
        })
    }
}

/// A job of the many, which are written down in one line each.
fn is_quick(payload: &[u8]) -> bool {
    const QUICK: &[u8] = b"\"plan\":\"quick\"";
    payload.len() < 200 && payload.windows(QUICK.len()).any(|part| part == QUICK)
}

fn wait_of(outcome: &Outcome) -> Duration {
    match outcome {
        Outcome::Retry { delay, .. } | Outcome::Snooze { delay } => *delay,
        _ => Duration::ZERO,
    }
}

/// Carries the library's own warnings into the history.
struct Alarms(Journal);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Alarms {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let meta = event.metadata();
        if *meta.level() <= tracing::Level::WARN && meta.target().starts_with("delayq") {
            let mut text = Text(String::new());
            event.record(&mut text);
            self.0.tell(What::Alarm { text: text.0 });
        }
    }
}

/// The message of an event, then its fields.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.insert_str(0, &format!("{value:?} "));
        } else {
            let _ = write!(self.0, "{}={value:?} ", field.name());
        }
    }
}

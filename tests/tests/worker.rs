//! The worker against a real Redis: firing, retries, verdicts, versions, layers, crashes, shutdown, traces, adaptive concurrency.
#![allow(clippy::unwrap_used)] // A test that unwraps fails where it should.

#[path = "worker/adaptive.rs"]
mod adaptive;
#[path = "worker/crash.rs"]
mod crash;
#[path = "worker/fencing.rs"]
mod fencing;
#[path = "worker/firing.rs"]
mod firing;
#[path = "worker/flights.rs"]
mod flights;
#[path = "worker/layers.rs"]
mod layers;
#[path = "worker/panics.rs"]
mod panics;
#[path = "worker/retries.rs"]
mod retries;
#[path = "worker/shutdown.rs"]
mod shutdown;
#[path = "worker/start.rs"]
mod start;
#[path = "worker/traces.rs"]
mod traces;
#[path = "worker/versions.rs"]
mod versions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq::{Job, JobContext, JobError, JobResult, delayed_job};
use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc};

/// One run, as its handler saw it.
#[derive(Debug, Clone)]
struct Ran {
    name: String,
    attempt: u32,
    run_token: u64,
    due: Timestamp,
    lateness: Duration,
    at: Instant,
}

/// Where the runs of a test's jobs are told.
struct Log(mpsc::UnboundedSender<Ran>);

/// The other end.
struct Runs(mpsc::UnboundedReceiver<Ran>);

fn log() -> (Log, Runs) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Log(sender), Runs(receiver))
}

/// Tells of a run that begins.
fn tell(name: &str, cx: &JobContext) -> JobResult {
    let _ = cx.data::<Log>()?.0.send(Ran {
        name: name.to_owned(),
        attempt: cx.attempt(),
        run_token: cx.run_token(),
        due: cx.due(),
        lateness: cx.lateness(),
        at: Instant::now(),
    });
    Ok(())
}

impl Runs {
    async fn next(&mut self) -> Ran {
        delayq_tests::soon("a run", self.0.recv()).await.expect("the worker has the other end")
    }

    async fn take(&mut self, count: usize) -> Vec<Ran> {
        let mut runs = Vec::with_capacity(count);
        while runs.len() < count {
            runs.push(self.next().await);
        }
        runs
    }

    /// What was told and not taken.
    fn rest(&mut self) -> Vec<Ran> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

/// A job that does what it is told to.
#[delayed_job(name = "probe", version = 1, max_retries = 2, backoff = fixed("50ms"), timeout = "1s")]
struct Probe {
    name: String,
    act: Act,
}

#[delayq::payload]
#[derive(Clone, Debug)]
enum Act {
    Succeed,
    Sleep { ms: u64 },
    Block { ms: u64 },
    Fail,
    FailUntil { attempt: u32 },
    RetryIn { ms: u64 },
    Snooze { ms: u64, times: u32 },
    Discard,
    Bury,
    Panic,
    PanicWithNumber,
    PanicInDrop,
}

/// Panics when it is dropped, unless a panic is under way.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in drop");
        }
    }
}

impl Job for Probe {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(&self.name, &cx)?;
        match self.act {
            Act::Succeed => Ok(()),
            Act::Sleep { ms } => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
            Act::Block { ms } => {
                std::thread::sleep(Duration::from_millis(ms));
                Ok(())
            }
            Act::Fail => Err("told to fail")?,
            Act::FailUntil { attempt } if cx.attempt() < attempt => Err("not yet")?,
            Act::FailUntil { .. } => Ok(()),
            Act::RetryIn { ms } if cx.attempt() == 1 => Err(JobError::retry_in(Duration::from_millis(ms), "later")),
            Act::RetryIn { .. } => Ok(()),
            Act::Snooze { ms, times } if cx.request().free_returns() < times => {
                Err(JobError::snooze(Duration::from_millis(ms)))
            }
            Act::Snooze { .. } => Ok(()),
            Act::Discard => Err(JobError::discard("not wanted")),
            Act::Bury => Err(JobError::bury("look at this")),
            Act::Panic => panic!("told to panic"),
            Act::PanicWithNumber => std::panic::panic_any(7_u32),
            Act::PanicInDrop => {
                let _grenade = Grenade;
                Ok(())
            }
        }
    }
}

fn probe(name: &str, act: Act) -> Probe {
    Probe { name: name.to_owned(), act }
}

/// A job that runs until its test lets it end.
#[delayed_job(name = "held", version = 1, max_retries = 2, backoff = fixed("50ms"), timeout = "1m")]
struct Held {
    name: String,
    fails: bool,
}

/// Lets a run of a [`Held`] end for each permit that is added.
type Gate = Arc<Semaphore>;

fn gate() -> Gate {
    Arc::new(Semaphore::new(0))
}

impl Job for Held {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(&self.name, &cx)?;
        cx.data::<Gate>()?.acquire().await?.forget();
        if self.fails { Err("told to fail")? } else { Ok(()) }
    }
}

fn held(name: &str) -> Held {
    Held { name: name.to_owned(), fails: false }
}

/// Panics on purpose need no trace on the screen.
fn quiet_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let said = info.payload().downcast_ref::<&str>().copied();
            let on_purpose =
                matches!(said, Some("told to panic" | "in drop" | "in a layer")) || info.payload().is::<u32>();
            if !on_purpose {
                told(info);
            }
        }));
    });
}

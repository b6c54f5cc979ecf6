//! The jobs of the campaign: a payload says what its run shall do, and to which end it must come.

use std::time::Duration;

use delayq::{Job, JobContext, JobError, JobResult, JobType, delayed_job};
use serde::{Deserialize, Serialize};

use crate::history::{Ending, Journal, What, checksum};

/// The queue of all of them.
pub(crate) const QUEUE: &str = "campaign";

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plan {
    /// Succeeds.
    Well,
    /// Succeeds at once, one of very many.
    Quick,
    /// Fails so many attempts, then succeeds.
    FailFirst(u32),
    /// Fails each attempt.
    FailAlways,
    /// Panics on so many attempts, then succeeds.
    PanicFirst(u32),
    /// Asks to be run later, once, then succeeds.
    SnoozeOnce,
    Discard,
    Bury,
    /// Ends its process on the first attempt.
    AbortFirst,
    /// Overflows its stack on the first attempt.
    OverflowFirst,
    /// Ends its process on each attempt.
    Poison,
    /// Holds a thread of the runtime for so many ms, computing.
    Spin(u64),
    /// Takes memory until there is none, on the first attempt.
    HogFirst,
}

impl Plan {
    pub(crate) fn ending(self) -> Ending {
        match self {
            Plan::FailAlways => Ending::RetriesExhausted,
            Plan::Discard => Ending::Discarded,
            Plan::Bury => Ending::Buried,
            Plan::Poison => Ending::CrashLoop,
            _ => Ending::Done,
        }
    }
}

/// The job.
#[delayed_job(name = "task", version = 1, queue = "campaign", max_retries = 5, backoff = fixed("150ms"), timeout = "60s")]
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// Any number, also above 2^53: it must come as it was sent.
    pub(crate) n: u64,
    pub(crate) plan: Plan,
    /// How long it stays claimed before its handler is called, on its first attempt, ms.
    pub(crate) before_start_ms: u64,
    /// How long its handler takes before its effect, ms.
    pub(crate) before_effect_ms: u64,
    /// And after it.
    pub(crate) after_effect_ms: u64,
    /// Makes it larger.
    pub(crate) pad: String,
}

impl Task {
    pub(crate) fn new(n: u64, plan: Plan) -> Task {
        Task { n, plan, before_start_ms: 0, before_effect_ms: 0, after_effect_ms: 0, pad: String::new() }
    }

    pub(crate) fn before_start(mut self, ms: u64) -> Task {
        self.before_start_ms = ms;
        self
    }

    pub(crate) fn before_effect(mut self, ms: u64) -> Task {
        self.before_effect_ms = ms;
        self
    }

    pub(crate) fn after_effect(mut self, ms: u64) -> Task {
        self.after_effect_ms = ms;
        self
    }
}

/// What is in the text of each panic that a plan asks for.
pub(crate) const PLANNED: &str = "as planned";

impl Job for Task {
    async fn run(self, cx: JobContext) -> JobResult {
        if self.plan == Plan::Quick {
            return Ok(());
        }
        let journal: &Journal = cx.data()?;
        let (id, token, attempt) = (cx.id().as_uuid(), cx.run_token(), cx.attempt());
        journal.tell(What::Start { id, token });
        match self.plan {
            Plan::Poison => std::process::abort(),
            Plan::AbortFirst if attempt == 1 => std::process::abort(),
            Plan::OverflowFirst if attempt == 1 => drop(overflow(attempt.into())),
            Plan::HogFirst if attempt == 1 => hog(),
            Plan::Spin(ms) => spin(Duration::from_millis(ms)),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(self.before_effect_ms)).await;
        match self.plan {
            Plan::FailAlways => return Err("it fails, as planned".into()),
            Plan::FailFirst(times) if attempt <= times => return Err("it fails at first, as planned".into()),
            Plan::PanicFirst(times) if attempt <= times => panic!("it panics, {PLANNED}"),
            Plan::SnoozeOnce if cx.request().free_returns() == 0 => {
                return Err(JobError::snooze(Duration::from_millis(100)));
            }
            Plan::Discard => return Err(JobError::discard("as planned")),
            Plan::Bury => return Err(JobError::bury("as planned")),
            _ => {}
        }
        journal.tell(What::Effect { id, token, bytes: checksum(cx.request().payload()) });
        tokio::time::sleep(Duration::from_millis(self.after_effect_ms)).await;
        Ok(())
    }
}

fn spin(time: Duration) {
    let started = std::time::Instant::now();
    while started.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[allow(unconditional_recursion)] // Deep enough is what it is for.
fn overflow(n: u64) -> [u64; 512] {
    let mut deeper = [n; 512];
    deeper[(n % 512) as usize] = overflow(std::hint::black_box(n + 1))[0];
    deeper
}

fn hog() {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        taken.push(vec![1; 16 << 20]);
        std::hint::black_box(&taken);
    }
}

/// A job of a name that no worker knows.
#[delayq::payload]
pub(crate) struct Stranger {
    pub(crate) n: u64,
}

impl JobType for Stranger {
    const NAME: &'static str = "stranger";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = QUEUE;
}

/// A job of a version that no worker knows.
#[delayq::payload]
pub(crate) struct TaskOfTomorrow {
    pub(crate) n: u64,
}

impl JobType for TaskOfTomorrow {
    const NAME: &'static str = "task";
    const VERSION: u32 = 9;
    const QUEUE: &'static str = QUEUE;
}

/// A job whose bytes are not what its name and version promise.
#[delayq::payload]
pub(crate) struct Garbled {
    pub(crate) nonsense: String,
}

impl JobType for Garbled {
    const NAME: &'static str = "task";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = QUEUE;
}

//! Runs one claimed job: record -> request -> stack -> what it came to.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tower::Service;

use super::adaptive::Ended;
use super::runs::Run;
use crate::clock::delay_ms_clamped;
use crate::envelope::{Envelope, Record};
use crate::job::{DeadReason, JobId, JobRequest, Meta, Outcome, bounded};
use crate::layer::{self, Attempts, JobService, Panicked};
use crate::limits::{DEFAULT_TIMEOUT, TOMBSTONE, WEDGED_GRACE};
use crate::registry::{Lookup, Registry};
use crate::store::Member;
use crate::store::ops::{Taken, Verdict};

/// Beyond any run.
pub(super) const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A claimed job that can be run.
pub(super) struct Claimed {
    pub(super) member: Member,
    pub(super) request: JobRequest,
    pub(super) crashes: u8,
    pub(super) timeout: Duration,
    ending: Ending,
}

/// What the end of a run will want to know.
#[derive(Debug, Clone, Copy)]
struct Ending {
    /// Its end concerns more than its record.
    extended: bool,
    /// Until when its end must leave a tombstone.
    young_until: Option<Instant>,
}

/// Takes a claimed job's bytes apart; it is now both by the store's clock and by ours. What can't be run has its verdict at once.
pub(super) fn read(
    taken: Taken,
    (now_us, now): (u64, Instant),
    queue: &Arc<str>,
    registry: &Registry,
) -> Result<Claimed, (Member, Verdict)> {
    let member = Member::new(&taken.id, taken.run);
    let Ok(record) = Record::decode(&taken.record) else {
        // The claim has looked at the header; this is a record of another release.
        return Err((member, undecodable("the record's header is of an unknown form")));
    };
    let envelope = Envelope::decode(&record.envelope).map_err(|malformed| (member, undecodable(malformed.0)))?;
    let registered = match registry.lookup(envelope.name, envelope.version) {
        Lookup::Found(registered) => Some(registered.clone()),
        _ => None,
    };
    let name = registered.as_ref().map_or_else(|| registry.intern(envelope.name), |known| Cow::Borrowed(known.name));
    let timeout = registered.as_ref().map_or(DEFAULT_TIMEOUT, |known| known.timeout);
    let age = Duration::from_millis((now_us / 1000).saturating_sub(record.enqueued_ms));
    let ending = Ending {
        extended: record.extension.is_some() || record.attempts > 0 || record.crashes > 0,
        // A second more than the store wants: its clock and ours drift apart while the job runs.
        young_until: (TOMBSTONE + Duration::from_secs(1)).checked_sub(age).map(|left| now + left),
    };
    let meta = Meta {
        id: JobId::from_bytes(taken.id),
        name,
        version: envelope.version,
        queue: queue.clone(),
        attempt: u32::from(record.attempts) + 1,
        attempts_max: record.attempts_max,
        free_returns: u32::from(record.free_returns),
        run_token: taken.run,
        due_ms: record.due_ms,
        enqueued_ms: record.enqueued_ms,
        claimed_us: now_us,
        trace_parent: envelope.trace_parent.map(str::to_owned),
        payload: record.envelope.slice(envelope.payload_at..),
    };
    let mut request = JobRequest::new(meta);
    if let Some(registered) = registered {
        // Whatever the stack is made of: what leaves it is decided by the policy of the job's type.
        request.set_resolved(registered);
    }
    Ok(Claimed { member, request, crashes: record.crashes, timeout, ending })
}

fn undecodable(why: &str) -> Verdict {
    Verdict::Bury { reason: DeadReason::Undecodable, error: why.to_owned() }
}

/// A run that is over.
pub(super) struct Finished {
    pub(super) member: Member,
    /// What it came to; `None` if it was stopped.
    pub(super) outcome: Option<Outcome>,
    pub(super) ended: Instant,
    ending: Ending,
}

impl Finished {
    /// What its end says of how many may run at once; nothing if it was stopped.
    pub(super) fn told_of<'a>(&self, run: &'a Run) -> Option<Ended<'a>> {
        let outcome = self.outcome.as_ref()?;
        let succeeded = matches!(outcome, Outcome::Done);
        Some(Ended { name: &run.request.meta().name, began: run.began, ended: self.ended, succeeded })
    }

    /// The verdict for the store; a stopped run is handed back.
    pub(super) fn verdict(self) -> Verdict {
        match self.outcome {
            None => Verdict::HandBack,
            Some(Outcome::Done) if self.ending.extended => Verdict::DoneExtended,
            Some(Outcome::Done) if self.ending.young_until.is_some_and(|until| self.ended < until) => {
                Verdict::DoneYoung
            }
            Some(Outcome::Done) => Verdict::Done,
            Some(other) => verdict(other),
        }
    }
}

/// The verdict for an outcome other than success.
pub(super) fn verdict(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Done => Verdict::DoneExtended,
        Outcome::Retry { delay, error } => Verdict::Retry { delay_ms: delay_ms_clamped(delay), error: bounded(&error) },
        Outcome::Snooze { delay } => Verdict::Snooze { delay_ms: delay_ms_clamped(delay) },
        Outcome::Discard { .. } => Verdict::Discard,
        Outcome::Dead { reason, error } => Verdict::Bury { reason, error: bounded(&error) },
    }
}

/// Sends word of the end of a run, however it ends: also when its task is stopped.
struct Report {
    member: Member,
    ending: Ending,
    outcome: Option<Outcome>,
    finished: mpsc::UnboundedSender<Finished>,
}

impl Report {
    fn finish(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let finished =
            Finished { member: self.member, outcome: self.outcome.take(), ended: Instant::now(), ending: self.ending };
        // A pump that is gone has ended its session: nobody waits for this any more.
        let _ = self.finished.send(finished);
    }
}

/// Starts a run on a service that is ready.
pub(super) fn start(
    mut service: JobService,
    claimed: Claimed,
    finished: &mpsc::UnboundedSender<Finished>,
    now: Instant,
) -> (Member, Run) {
    let Claimed { member, request, timeout, ending, .. } = claimed;
    let report = Report { member, ending, outcome: None, finished: finished.clone() };
    let kept = request.clone();
    let task = tokio::spawn(async move {
        let attempts = Attempts::of(&request);
        // The default stack catches panics itself; a stack of the user's own may not.
        let ended = AssertUnwindSafe(async move { service.call(request).await }).catch_unwind().await;
        report.finish(match ended {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => layer::decide(&error, &attempts, fastrand::f64()),
            Err(payload) => layer::decide(&Panicked::new(payload.as_ref()).into(), &attempts, fastrand::f64()),
        });
    });
    let gives_up = now + timeout.saturating_add(WEDGED_GRACE).min(FOR_EVER);
    (member, Run { began: now, gives_up, abort: task.abort_handle(), request: kept })
}

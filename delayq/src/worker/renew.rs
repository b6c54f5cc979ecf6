//! Signs of life: a thread and connections of their own, so that a handler that blocks the runtime costs no lease.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::about::About;
use super::alarm::Alarm;
use super::execute;
use super::lane::Lane;
use super::pump::Control;
use super::rescue;
use super::shutdown::{Stop, Stopper};
use super::slots::Slots;
use crate::error::{Error, ErrorKind};
use crate::limits::BEAT_MAX;
use crate::store::{Refusal, SessionId, Store};

/// One lane as the renewing thread sees it.
pub(super) struct Renewed {
    pub(super) lane: Arc<Lane>,
    pub(super) alarm: Alarm,
    pub(super) pump: mpsc::UnboundedSender<Control>,
    pub(super) about: Arc<About>,
    pub(super) slots: Arc<Slots>,
    /// The number of calls at which the held counts last disagreed.
    pub(super) disagreed_at: Option<u64>,
}

/// The renewing thread. It goes on while the worker drains, and ends when this is dropped.
pub(super) struct Renewer {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Renewer {
    pub(super) fn start(store: Store, lease: Duration, mut lanes: Vec<Renewed>) -> Result<Renewer, Error> {
        let failed =
            |error: std::io::Error| Error::new(ErrorKind::Config, "the renewing thread can't be started").caused(error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (stopper, stop) = super::shutdown::channel();
        let thread = std::thread::Builder::new()
            .name("delayq-renew".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    // Connections belong to the runtime that opened them: this thread's are its own.
                    let store = store.dedicated();
                    beat_on(&store, lease, &mut lanes, stop).await;
                });
            })
            .map_err(failed)?;
        Ok(Renewer { stopper, thread: Some(thread) })
    }
}

impl Drop for Renewer {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            // It ends within a call's timeout; what it panicked of, the panic hook has told.
            let _ = thread.join();
        }
    }
}

/// How often: several times a lease, and often enough to notice a lost timer.
fn interval(lease: Duration) -> Duration {
    BEAT_MAX.min(lease / 4)
}

async fn beat_on(store: &Store, lease: Duration, lanes: &mut [Renewed], mut stop: Stop) {
    // Each at its own pace: in a cluster, the node of one queue may be silent while those of others are well.
    let lanes = lanes.iter_mut().map(|renewed| keep_alive(store, lease, renewed));
    tokio::select! {
        // A stop needs no answer: whoever stops has settled and closed.
        () = stop.wait() => {}
        _ = futures_util::future::join_all(lanes) => {}
    }
}

/// One sign of life after the other, and what lost sessions of the queue held is taken back meanwhile.
async fn keep_alive(store: &Store, lease: Duration, renewed: &mut Renewed) {
    let interval = interval(lease);
    // Staggered: workers that start together must not beat together.
    let mut wait = interval.mul_f64(fastrand::f64());
    let (lane, mut rescues, mut in_rescue) = (renewed.lane.clone(), FuturesUnordered::new(), HashSet::new());
    loop {
        let pause = wait;
        let beat = async {
            tokio::time::sleep(pause).await;
            beat(store, lease, renewed).await
        };
        tokio::pin!(beat);
        let lost = loop {
            tokio::select! {
                lost = &mut beat => break lost,
                Some(session) = rescues.next() => in_rescue.remove(&session),
            };
        };
        for session in lost.into_iter().filter(|session| in_rescue.insert(*session)) {
            let lane = &lane;
            rescues.push(async move {
                if let Err(error) = rescue::drain(store, &lane.shard, &session).await {
                    tracing::warn!(queue = lane.shard.queue(), %error, "a lost worker's jobs could not be taken back yet");
                }
                session
            });
        }
        wait = interval.mul_f64(0.9 + 0.2 * fastrand::f64());
    }
}

/// One sign of life. Answers which sessions of the queue are lost.
async fn beat(store: &Store, lease: Duration, renewed: &mut Renewed) -> Vec<SessionId> {
    let lane = renewed.lane.clone();
    let Some(session) = lane.session() else { return Vec::new() };
    let pump = renewed.pump.clone();
    let settled = settle_wedged(store, &lane, &session);
    let (is_settled, lost) = join(settled, tell_of_life(store, lease, renewed, session)).await;
    if !is_settled {
        // What is held and no longer known is handed back by whoever asks the store.
        let _ = pump.send(Control::Disagree);
    }
    lost
}

async fn tell_of_life(store: &Store, lease: Duration, renewed: &mut Renewed, session: SessionId) -> Vec<SessionId> {
    let lane = renewed.lane.clone();
    let quiet = lane.quiet();
    let (known, timer_ms) = (lane.runs.len() as u64, lane.timer_ms());
    let report = renewed.about.report(renewed.slots.limit(), &lane.lateness, Instant::now());
    match store.beat(&lane.shard, &session, lease, timer_ms, Some(&report)).await {
        Ok(Ok(beat)) => {
            if let Some(wait) = beat.wait {
                // The store's clock may have been set since the timer was (rule m). An answer that crosses a new timer is of the
                // old one: it must not put that off.
                renewed.alarm.set_if(|| lane.timer_ms() == timer_ms, wait);
            }
            let disagrees = quiet
                .filter(|calls| lane.quiet() == Some(*calls) && lane.runs.len() as u64 == known && beat.held != known);
            if let (Some(calls), Some(before)) = (disagrees, renewed.disagreed_at)
                && calls == before
            {
                tell(renewed, Control::Disagree);
            }
            renewed.disagreed_at = disagrees;
            return beat.lost;
        }
        Ok(Err(Refusal::Lost | Refusal::Stale)) => tell(renewed, Control::Lost(session)),
        Err(error) => tracing::debug!(queue = lane.shard.queue(), %error, "no sign of life could be given"),
    }
    Vec::new()
}

/// Settles runs that block their threads past all patience: holding their jobs for ever would be worse (rule f).
/// Answers whether the store knows of them all.
async fn settle_wedged(store: &Store, lane: &Arc<Lane>, session: &SessionId) -> bool {
    let wedged = lane.runs.take_wedged(Instant::now());
    if wedged.is_empty() {
        return true;
    }
    for (member, outcome) in &wedged {
        let id = crate::job::JobId::from_bytes(member.id());
        let job = if outcome.is_some() { "settled as timed out" } else { "its job is others' now" };
        tracing::error!(job.id = %id, queue = lane.shard.queue(), "a run blocks its thread past its timeout: {job}, its place stays taken");
    }
    let owed = wedged.into_iter().filter_map(|(member, outcome)| Some((member, execute::verdict(outcome?))));
    let verdicts: Vec<_> = owed.collect();
    // Until it is over, what is held may differ from what is known.
    let _calling = lane.calling();
    let mut are_settled = true;
    for chunk in verdicts.chunks(crate::limits::SETTLE_MAX) {
        let mut is_settled = false;
        // A call of the pump's may have come first with a higher number: once more, with one above it.
        for _ in 0..2 {
            match store.settle(&lane.shard, session, lane.next_seq(), chunk).await {
                Ok(Err(Refusal::Stale)) => {}
                Ok(_) => {
                    is_settled = true;
                    break;
                }
                Err(error) => {
                    tracing::warn!(queue = lane.shard.queue(), %error, "wedged runs could not be settled");
                    break;
                }
            }
        }
        are_settled &= is_settled;
    }
    are_settled
}

fn tell(renewed: &Renewed, control: Control) {
    // A pump that is gone needs to know nothing.
    let _ = renewed.pump.send(control);
}

//! One queue's shard as a worker sees it: its session, and what of it other threads need to know.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::about::Lateness;
use super::runs::Runs;
use crate::store::{SessionId, Shard};

/// A shard and the worker's session on it.
pub(super) struct Lane {
    pub(super) shard: Shard,
    pub(super) runs: Runs,
    pub(super) lateness: Lateness,
    session: Mutex<Option<SessionId>>,
    /// Rises with each call that changes what the session holds (rule c).
    seq: AtomicU64,
    /// The due time in ms that this worker has a timer for, 0 for none.
    timer_ms: AtomicU64,
    /// How many such calls were begun, and how many of them are over.
    calls_begun: AtomicU64,
    calls_over: AtomicU64,
}

impl Lane {
    pub(super) fn new(shard: Shard) -> Lane {
        // Asked for once and here: the thread that moves it may have another recorder.
        let stuck = metrics::gauge!("delayq_stuck_runs", "queue" => shard.queue().to_owned());
        Lane {
            shard,
            runs: Runs::new(stuck),
            lateness: Lateness::default(),
            session: Mutex::new(None),
            seq: AtomicU64::new(0),
            timer_ms: AtomicU64::new(0),
            calls_begun: AtomicU64::new(0),
            calls_over: AtomicU64::new(0),
        }
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_session(&self, session: Option<SessionId>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.seq.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn timer_ms(&self) -> u64 {
        self.timer_ms.load(Ordering::Relaxed)
    }

    pub(super) fn set_timer_ms(&self, due_ms: u64) {
        self.timer_ms.store(due_ms, Ordering::Relaxed);
    }

    /// Marks a call that changes what the session holds, for as long as the guard lives.
    pub(super) fn calling(self: &Arc<Self>) -> Calling {
        self.calls_begun.fetch_add(1, Ordering::SeqCst);
        Calling(self.clone())
    }

    /// The number of calls so far, or `None` while one is under way.
    pub(super) fn quiet(&self) -> Option<u64> {
        let over = self.calls_over.load(Ordering::SeqCst);
        (self.calls_begun.load(Ordering::SeqCst) == over).then_some(over)
    }
}

/// A call under way.
pub(super) struct Calling(Arc<Lane>);

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.calls_over.fetch_add(1, Ordering::SeqCst);
    }
}

//! The graceful end of a lane: finish, or hand back, and leave.

use std::time::{Duration, Instant};

use super::execute::FOR_EVER;
use super::pump::{PAUSE_FIRST, Pump};
use crate::store::ops::{Closed, Verdict};

/// How long the last settling is tried.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long a marker that this lane gave away and took itself may be on its way.
const OWN_MARKER: Duration = Duration::from_millis(100);
/// How long stopped runs are waited for.
const STOPPING: Duration = Duration::from_secs(1);

impl Pump {
    /// The graceful end: nothing is claimed any more, what runs has the grace period, the rest is handed back.
    pub(super) async fn drain(&mut self) {
        // From the moment in which it was asked to stop; a grace without end is one that no process outlives.
        let grace = Instant::now() + self.hub.grace.min(FOR_EVER);
        self.probe = None;
        if let Err(error) = self.land_all().await {
            self.doubt(&error);
        }
        self.start_backlog();
        self.hub.slots.free(std::mem::take(&mut self.granted));
        self.stop_listening().await;
        self.settle_until(grace, |pump| pump.lane.runs.len() == 0 && pump.verdicts.is_empty()).await;
        let unfinished = self.lane.runs.len();
        if unfinished > 0 {
            tracing::warn!(queue = %self.queue, unfinished, "the grace period is over: stopped and handed back");
            self.lane.runs.abort_all();
            let last = Instant::now() + STOPPING;
            self.settle_until(last, |pump| pump.lane.runs.len() == 0 && pump.verdicts.is_empty()).await;
            // What blocks its thread can't be stopped; it ends with the process.
            for member in self.lane.runs.members() {
                if self.lane.runs.remove(&member).is_some() {
                    self.verdicts.push((member, Verdict::HandBack));
                }
            }
        }
        self.settle_until(Instant::now() + LAST_WORDS, |pump| pump.verdicts.is_empty()).await;
        self.close().await;
    }

    /// Lets go of the clock while the connection that listens is still alive: the server would hand a marker to it for as
    /// long as it doesn't know that it is gone. Whoever takes this marker watches the clock. If that is this lane, it no longer
    /// listens, and the close passes the clock on; if it is another, it has it already.
    async fn stop_listening(&mut self) {
        if self.listening && self.store.pass(&self.lane.shard).await.is_ok() {
            let deadline = tokio::time::Instant::now() + OWN_MARKER;
            while self.listening {
                match tokio::time::timeout_at(deadline, self.controls.recv()).await {
                    Ok(Some(control)) => self.obey(control),
                    Ok(None) | Err(_) => break,
                }
            }
        }
        self.baton.abort();
        // Stopped on purpose: what it says of that is nothing new.
        let _ = (&mut self.baton).await;
    }

    /// Settles what comes in, until all is done or the time is over.
    async fn settle_until(&mut self, deadline: Instant, done: impl Fn(&Pump) -> bool) {
        loop {
            self.collect();
            if (done(self) && !self.unsure) || Instant::now() >= deadline {
                return;
            }
            let Some(session) = self.lane.session() else { return };
            if self.unsure {
                if let Err(error) = self.reconcile(session).await {
                    tracing::debug!(queue = %self.queue, %error, "not settled yet");
                    tokio::time::sleep(PAUSE_FIRST).await;
                }
                // What was owed may be settled by now, or the session lost: then nothing else comes that would end this.
                continue;
            }
            if !self.verdicts.is_empty() {
                if let Err(error) = self.settle(session).await {
                    tracing::debug!(queue = %self.queue, %error, "not settled yet");
                    self.doubt(&error);
                    tokio::time::sleep(PAUSE_FIRST).await;
                }
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep_until(deadline.into()) => {}
                Some(finished) = self.finished.recv() => self.take_in(finished),
                Some(control) = self.controls.recv() => self.obey(control),
            }
        }
    }

    async fn close(&mut self) {
        let Some(session) = self.lane.session() else { return };
        match self.store.close(&self.lane.shard, &session).await {
            Ok(Closed::Closed | Closed::Lost) => {}
            Ok(Closed::Holds(held)) => {
                tracing::warn!(queue = %self.queue, held, "the session still holds jobs: they come back when its lease runs out");
            }
            Err(error) => {
                tracing::warn!(queue = %self.queue, %error, "the session could not be closed: it ends when its lease runs out");
            }
        }
        self.lane.set_session(None);
    }
}

//! One lane's loop: collect what finished, send the next call, start what the last one brought, rest.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tower::Service;

use super::Hub;
use super::about::Late;
use super::alarm::Alarm;
use super::alone::{Alone, SOLO_AT};
use super::execute::{self, Finished};
use super::flight::Flight;
use super::lane::Lane;
use super::shutdown::Stop;
use super::trouble::Trouble;
use crate::error::{BoxError, Error, ErrorKind};
use crate::layer::JobService;
use crate::store::ops::{Claimed, Settled, Taken, Verdict};
use crate::store::{Member, Refusal, SessionId, Store};

pub(super) const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What other tasks tell a lane.
pub(super) enum Control {
    /// The baton's marker: somebody must watch for this due time.
    Marker { due_ms: u64 },
    /// No marker came within a wait.
    Silence,
    /// The baton can't be listened to.
    Deaf(Error),
    /// This session was lost.
    Lost(SessionId),
    /// Store and worker disagree on how much is held.
    Disagree,
}

/// Claimed jobs, and the services that are ready for them, a place taken for each.
pub(super) struct Backlog {
    jobs: Vec<Taken>,
    now_us: u64,
    services: Vec<JobService>,
    /// Whether this worker runs nothing else, for any queue.
    is_alone: bool,
}

pub(super) struct Pump {
    pub(super) lane: Arc<Lane>,
    pub(super) queue: Arc<str>,
    pub(super) store: Store,
    pub(super) hub: Arc<Hub>,
    /// Never called or polled itself: each run has a clone.
    pub(super) pristine: JobService,
    /// A clone that was not ready, whose waker will tell.
    pub(super) probe: Option<JobService>,
    pub(super) alarm: Alarm,
    pub(super) listen: mpsc::UnboundedSender<()>,
    pub(super) baton: JoinHandle<()>,
    pub(super) listening: bool,
    pub(super) controls: mpsc::UnboundedReceiver<Control>,
    pub(super) finished_sender: mpsc::UnboundedSender<Finished>,
    pub(super) finished: mpsc::UnboundedReceiver<Finished>,
    /// What the store must still be told.
    pub(super) verdicts: Vec<(Member, Verdict)>,
    /// Runs of this lane whose end was not heard of, stopped and given-up ones included.
    pub(super) holding: usize,
    /// Jobs may be due that nobody was asked for yet.
    pub(super) hungry: bool,
    /// The due time whose marker or alarm this lane has, and must pass on if it can't claim.
    pub(super) duty: Option<u64>,
    /// A call may have had an effect that is not known.
    pub(super) unsure: bool,
    /// The calls that are on their way, at most [`FLIGHTS_MAX`](super::flight::FLIGHTS_MAX), in the order they were sent.
    pub(super) flights: VecDeque<Flight>,
    /// The last claim said that more jobs may be due.
    pub(super) more: bool,
    /// What was claimed and is not started yet.
    pub(super) backlog: Option<Backlog>,
    /// Places that were waited for and are not used yet.
    pub(super) granted: usize,
    pub(super) alone: Alone,
    /// From when on the lane may empty itself again for a job that wants to run alone.
    pub(super) solo_after: Option<Instant>,
    pub(super) trouble: Trouble,
}

impl Pump {
    pub(super) fn new(
        lane: Arc<Lane>,
        store: Store,
        hub: Arc<Hub>,
        pristine: JobService,
        alarm: Alarm,
        (listen, baton): (mpsc::UnboundedSender<()>, JoinHandle<()>),
        controls: mpsc::UnboundedReceiver<Control>,
    ) -> Pump {
        let (finished_sender, finished) = mpsc::unbounded_channel();
        Pump {
            queue: Arc::from(lane.shard.queue()),
            lane,
            store,
            hub,
            pristine,
            probe: None,
            alarm,
            listen,
            baton,
            listening: false,
            controls,
            finished_sender,
            finished,
            verdicts: Vec::new(),
            holding: 0,
            hungry: true,
            duty: None,
            unsure: false,
            flights: VecDeque::new(),
            more: false,
            backlog: None,
            granted: 0,
            alone: Alone::No,
            solo_after: None,
            trouble: Trouble::default(),
        }
    }

    /// Until it is asked to stop. A store that can't be reached is tried for ever.
    pub(super) async fn run(mut self, mut stop: Stop) -> Result<(), Error> {
        let mut pause = PAUSE_FIRST;
        while !stop.is_set() {
            match self.turn(&mut stop).await {
                Ok(()) => pause = PAUSE_FIRST,
                Err(error) if is_fatal(&error) => {
                    self.drain().await;
                    return Err(error);
                }
                Err(error) => {
                    self.trouble.failed(&self.queue, &error, pause);
                    self.doubt(&error);
                    // The worker's other queues, on servers that are well, don't stand still for a job that can't be begun now.
                    if matches!(self.alone, Alone::Wanted { .. }) {
                        self.end_alone();
                    }
                    self.wait_out(pause.mul_f64(0.5 + fastrand::f64()), &mut stop).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
        self.drain().await;
        Ok(())
    }

    /// One round. It ends at the latest when there is something to do again.
    async fn turn(&mut self, stop: &mut Stop) -> Result<(), Error> {
        if self.unsure || self.lane.session().is_none() {
            self.land_all().await?;
        }
        let session = self.session().await?;
        if self.unsure {
            // What was claimed counts as known once it runs.
            self.start_backlog();
            self.reconcile(session).await?;
        }
        self.collect();
        if self.lane.session() != Some(session) {
            // Lost meanwhile: the next turn opens another.
            return Ok(());
        }
        // The next call is sent before what the last one brought is started: store and worker are busy at once.
        self.launch(session).await?;
        if self.start_backlog() > 0 && self.flights.len() == 1 && self.more {
            // What ends at once is let end, and goes with a second call: the store finds it when it is done with the first.
            tokio::task::yield_now().await;
            self.collect();
            if self.lane.session() == Some(session) {
                self.launch(session).await?;
            }
        }
        if !self.flights.is_empty() {
            return self.land().await;
        }
        if let Some(id) = self.its_turn_alone() {
            return self.call_alone(session, id).await;
        }
        if self.duty.is_some() {
            // Whoever can't claim passes the baton on (rule m).
            self.store.pass(&self.lane.shard).await?;
            self.duty = None;
            self.watch(None);
        }
        self.rest(stop).await
    }

    /// The session, a new one if there is none.
    async fn session(&mut self) -> Result<SessionId, Error> {
        if let Some(session) = self.lane.session() {
            return Ok(session);
        }
        let session: SessionId = uuid::Uuid::now_v7().into_bytes();
        self.store.open(&self.lane.shard, &session, self.hub.lease).await?;
        // From here on its lease is renewed.
        self.lane.set_session(Some(session));
        if let Err(error) = self.store.register(&self.lane.shard).await {
            // For operators alone: it is tried again with the next session.
            tracing::debug!(queue = %self.queue, %error, "the queue could not be put on the list");
        }
        self.unsure = false;
        self.hungry = true;
        tracing::debug!(queue = %self.queue, "a session was opened");
        Ok(session)
    }

    /// Its jobs are others' now: what still runs is stopped, and what it came to can't be told any more.
    pub(super) fn lose_session(&mut self) {
        let (running, unsettled) = (self.lane.runs.len(), self.verdicts.len());
        tracing::warn!(queue = %self.queue, running, unsettled, "the session was lost: its jobs will be run by others");
        self.lane.runs.abort_all();
        self.lane.runs.clear();
        if let Some(backlog) = self.backlog.take() {
            self.hub.slots.free(backlog.services.len());
        }
        self.verdicts.clear();
        self.lane.set_session(None);
        self.watch(None);
        self.duty = None;
        self.unsure = false;
        self.hungry = true;
    }

    /// After a failed call: what is not known must be asked for before anything else changes.
    pub(super) fn doubt(&mut self, error: &Error) {
        self.unsure |= !matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Unavailable);
        self.more = false;
        // Whatever the answer would have said about timers is lost as well.
        self.hungry = true;
    }

    /// Store and worker agree again on what is held (rule c). No other call may be on its way.
    pub(super) async fn reconcile(&mut self, session: SessionId) -> Result<(), Error> {
        self.collect();
        let mut known = self.lane.runs.members();
        known.extend(self.verdicts.iter().map(|(member, _)| *member));
        loop {
            let calling = self.lane.calling();
            let answer = self.store.reconcile(&self.lane.shard, &session, self.lane.next_seq(), &known).await?;
            drop(calling);
            match answer {
                Ok(agreed) => {
                    // A verdict for what is not held was settled by the call whose answer was lost.
                    self.verdicts.retain(|(member, _)| !agreed.missing.contains(member));
                    let lost = agreed.missing.iter().filter(|member| self.lane.runs.remove(member).is_some()).count();
                    if lost > 0 {
                        tracing::warn!(queue = %self.queue, lost, "the store no longer has jobs that run here: was it rolled back?");
                    }
                    if !agreed.more {
                        // The lost answer may have made this lane the watcher of an instant that it never heard of: whoever is idle
                        // takes the clock anew (rule m).
                        self.store.pass(&self.lane.shard).await?;
                        self.duty = None;
                        self.watch(None);
                        self.unsure = false;
                        return Ok(());
                    }
                }
                Err(Refusal::Lost) => {
                    self.lose_session();
                    return Ok(());
                }
                // A settle of the renewing thread overtook this call: ask again with a higher number.
                Err(Refusal::Stale) => {}
            }
        }
    }

    /// Takes in what finished meanwhile.
    pub(super) fn collect(&mut self) {
        let mut freed = 0;
        while let Ok(finished) = self.finished.try_recv() {
            freed += 1;
            self.note(finished);
        }
        self.hub.slots.free(freed);
        while let Ok(control) = self.controls.try_recv() {
            self.obey(control);
        }
    }

    pub(super) fn take_in(&mut self, finished: Finished) {
        self.note(finished);
        self.hub.slots.free(1);
    }

    /// A run is over; its place is still to be freed.
    fn note(&mut self, finished: Finished) {
        self.holding -= 1;
        let run = self.lane.runs.end(&finished.member);
        if let Some(adaptive) = &self.hub.adaptive {
            let ended = run.as_ref().and_then(|run| finished.told_of(run));
            if let Some(limit) = adaptive.ended(ended.as_ref(), finished.ended) {
                tracing::debug!(limit, "the number of jobs that may run at once changes");
                self.hub.slots.set_limit(limit);
            }
        }
        // A run that was given up, or whose session was lost, is owed no verdict any more.
        if run.is_some() {
            self.verdicts.push((finished.member, finished.verdict()));
        }
        if self.holding == 0 && matches!(self.alone, Alone::Running) {
            self.end_alone();
        }
    }

    pub(super) fn obey(&mut self, control: Control) {
        match control {
            Control::Marker { due_ms } => {
                self.listening = false;
                self.hungry = true;
                self.duty = Some(due_ms);
            }
            Control::Silence => {
                self.listening = false;
                // A marker may have gone to a dead connection: look before listening again (rule m).
                self.hungry = true;
            }
            Control::Deaf(error) => {
                self.listening = false;
                self.hungry = true;
                tracing::debug!(queue = %self.queue, %error, "the baton can't be listened to");
            }
            Control::Lost(session) => {
                if self.lane.session() == Some(session) {
                    self.lose_session();
                }
            }
            Control::Disagree => self.unsure = true,
        }
    }

    /// Clones of the stack that are ready, a place taken for each. Nothing is claimed beyond them.
    pub(super) async fn reserve(&mut self) -> Result<Vec<JobService>, Error> {
        let granted = std::mem::take(&mut self.granted);
        // A call to a store that is silent takes its places along until it is given up: other queues, of another node, need them.
        let batch = if self.trouble.lasts() { 1 } else { self.hub.batch };
        let more = batch.saturating_sub(granted).min(self.hub.slots.available());
        let want = if self.hub.slots.take(more) { granted + more } else { granted };
        if !self.may_claim() {
            // Another lane asked for the process between the first look and the taking of places: one of the two must see the other.
            self.hub.slots.free(want);
            return Ok(Vec::new());
        }
        let mut ready = Vec::with_capacity(want);
        let polled = poll_fn(|cx| Poll::Ready(self.poll_reserve(cx, want, &mut ready))).await;
        self.hub.slots.free(want - ready.len());
        polled.map_err(not_ready)?;
        // They are taken from the end: what was ready first is used first. Behind a load-shedding layer only the first
        // may have a real reservation.
        ready.reverse();
        Ok(ready)
    }

    pub(super) fn poll_reserve(
        &mut self,
        cx: &mut Context<'_>,
        want: usize,
        ready: &mut Vec<JobService>,
    ) -> Result<(), BoxError> {
        while ready.len() < want {
            let mut service = self.probe.take().unwrap_or_else(|| self.pristine.clone());
            match service.poll_ready(cx) {
                Poll::Ready(answer) => answer?,
                Poll::Pending => {
                    self.probe = Some(service);
                    break;
                }
            }
            ready.push(service);
        }
        Ok(())
    }

    /// What could not be settled is owed still, before what came in meanwhile.
    pub(super) fn owe_again(&mut self, mut owed: Vec<(Member, Verdict)>) {
        owed.append(&mut self.verdicts);
        self.verdicts = owed;
    }

    pub(super) fn refused(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::Lost => self.lose_session(),
            Refusal::Stale => self.unsure = true,
        }
    }

    /// Takes over what was claimed, and the clock if that was said. `timer_ms` is what the call said of the lane's timer.
    pub(super) fn claimed(&mut self, claimed: Claimed, timer_ms: u64, ready: &mut Vec<JobService>) {
        self.more = claimed.more;
        // Something may have made it so while the call was on its way.
        self.hungry |= claimed.more;
        if claimed.timer.is_some() || timer_ms == self.lane.timer_ms() {
            // A call that was sent before the lane got its present timer knows nothing of that.
            self.watch(claimed.timer);
        }
        if let Some(id) = claimed.solo {
            self.want_alone(id);
        }
        if claimed.paused {
            tracing::debug!(queue = %self.queue, "the queue is paused");
        }
        let services = ready.split_off(ready.len().saturating_sub(claimed.jobs.len()));
        let several = claimed.jobs.len() > 1;
        self.start_backlog();
        let is_alone = self.hub.slots.taken() <= services.len() + ready.len();
        self.backlog = Some(Backlog { jobs: claimed.jobs, now_us: claimed.now_us, services, is_alone });
        if !(several && self.hungry) {
            // No further claim to send before; or a single job, which may be one that wants to run alone.
            self.start_backlog();
        }
    }

    /// Starts what was claimed; answers how many runs that are.
    pub(super) fn start_backlog(&mut self) -> usize {
        let Some(Backlog { jobs, now_us, mut services, is_alone }) = self.backlog.take() else { return 0 };
        let mut runs = Vec::with_capacity(jobs.len());
        let now = Instant::now();
        let mut late = Late::default();
        for taken in jobs {
            let job = match execute::read(taken, (now_us, now), &self.queue, &self.hub.registry) {
                Ok(job) => job,
                Err(undecodable) => {
                    tracing::error!(job.id = %job_id(&undecodable.0), queue = %self.queue, "a job's bytes can't be read: dead");
                    self.verdicts.push(undecodable);
                    continue;
                }
            };
            let Some(service) = services.pop() else {
                // More than was asked for: not ours to run.
                self.verdicts.push((job.member, Verdict::HandBack));
                continue;
            };
            if job.crashes >= SOLO_AT
                && !matches!(self.alone, Alone::Running)
                && !self.begins_alone(job.member.id(), is_alone)
            {
                self.verdicts.push((job.member, Verdict::HandBack));
                services.push(service);
                continue;
            }
            self.holding += 1;
            late.add(job.request.lateness());
            runs.push(execute::start(service, job, &self.finished_sender, now));
        }
        self.hub.slots.free(services.len());
        let started = runs.len();
        if let Some(adaptive) = &self.hub.adaptive {
            adaptive.began(started);
        }
        self.lane.lateness.note(&late, now);
        // A run may be over before it stands here: its end is taken in after this, by this same task.
        self.lane.runs.insert(runs);
        started
    }

    pub(super) fn watch(&mut self, timer: Option<(Duration, u64)>) {
        self.lane.set_timer_ms(timer.map_or(0, |(_, due_ms)| due_ms));
        self.alarm.set(timer.map(|(wait, _)| wait));
    }

    /// Waits for something to do. An idle lane holds no reservation, and listens only while it could claim.
    async fn rest(&mut self, stop: &mut Stop) -> Result<(), Error> {
        let claims = self.may_claim();
        let free = self.granted > 0 || self.hub.slots.available() > 0;
        if !(claims && free) {
            self.probe = None;
        } else if self.probe.is_none() && self.hungry {
            // A place became free since it was asked for: there is nothing to wait for.
            return Ok(());
        } else if self.probe.is_none() && !self.listening {
            // Ready for one at least? The answer is dropped, only the knowledge is kept.
            let mut ready = Vec::with_capacity(1);
            poll_fn(|cx| Poll::Ready(self.poll_reserve(cx, 1, &mut ready))).await.map_err(not_ready)?;
            self.listening = !ready.is_empty() && self.listen.send(()).is_ok();
        }
        if !(self.hungry && claims) {
            self.hub.slots.free(std::mem::take(&mut self.granted));
        }
        // To claim, or to listen: an idle lane must not miss that a place became free.
        let wants_slot = claims && !free && (self.hungry || !self.listening);
        let wants_process = !matches!(self.alone, Alone::No) || (self.hungry && !claims);
        let hub = self.hub.clone();
        tokio::select! {
            () = stop.wait() => {}
            Some(finished) = self.finished.recv() => self.take_in(finished),
            Some(control) = self.controls.recv() => self.obey(control),
            () = self.alarm.rings() => {
                self.hungry = true;
                self.duty = Some(self.lane.timer_ms());
            }
            // Kept, not looked at and given back: lanes that wait would pass it round among themselves for ever.
            () = hub.slots.take_next(), if wants_slot => self.granted = 1,
            answer = poll_fn(|cx| poll_probe(&mut self.probe, cx)), if self.probe.is_some() => {
                answer.map_err(not_ready)?;
                if !self.hungry {
                    // Idle: it was only asked whether it is ready.
                    self.probe = None;
                    self.listening = self.listening || self.listen.send(()).is_ok();
                }
            }
            () = hub.solo.over.notified(), if wants_process => {}
            () = tokio::time::sleep(Duration::from_millis(100)), if wants_process => {}
        }
        Ok(())
    }

    /// Waits while the store can't be worked with; what finishes meanwhile is kept.
    async fn wait_out(&mut self, pause: Duration, stop: &mut Stop) {
        let sleep = tokio::time::sleep(pause);
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                () = &mut sleep => return,
                () = stop.wait() => return,
                Some(finished) = self.finished.recv() => self.take_in(finished),
            }
        }
    }
}

impl Drop for Pump {
    // A worker that is dropped in the middle takes its runs with it; their jobs come back when the lease runs out.
    fn drop(&mut self) {
        self.baton.abort();
        self.lane.runs.abort_all();
    }
}

fn poll_probe(probe: &mut Option<JobService>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
    probe.as_mut().map_or(Poll::Pending, |service| service.poll_ready(cx))
}

pub(super) fn settle_told(owed: Vec<(Member, Verdict)>, settled: &[Settled]) {
    for ((member, verdict), settled) in owed.into_iter().zip(settled) {
        match settled {
            Settled::Accepted => {}
            Settled::Cancelled => tracing::debug!(job.id = %job_id(&member), "cancelled while it ran"),
            Settled::NotHeld | Settled::Missing => {
                tracing::warn!(job.id = %job_id(&member), ?settled, ?verdict, "a verdict came too late or for nothing");
            }
        }
    }
}

pub(super) fn not_ready(error: BoxError) -> Error {
    Error::new(
        ErrorKind::Config,
        "a layer of the stack failed to become ready, so no job can be run any more; a panic inside a BufferLayer does that",
    )
    .caused(error)
}

/// Errors that trying again can't cure.
fn is_fatal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Config)
}

fn job_id(member: &Member) -> crate::job::JobId {
    crate::job::JobId::from_bytes(member.id())
}

//! One lane's loop: collect what finished, reserve what is ready, settle and claim in one call, start, rest.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tower::Service;

use super::Hub;
use super::alarm::Alarm;
use super::execute::{self, Finished};
use super::lane::Lane;
use super::shutdown::Stop;
use crate::error::{BoxError, Error, ErrorKind};
use crate::layer::JobService;
use crate::limits::{CLAIM_BYTES_MAX, SETTLE_MAX};
use crate::store::ops::{Claim, Claimed, Closed, Settled, Verdict};
use crate::store::{Member, Refusal, SessionId, Store};

const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// From this many crashes on a job runs alone; `lua/lib/record.lua` has the same number.
const SOLO_AT: u8 = 2;
/// How long a lane empties itself for a job that wants to run alone, before it goes on with others.
const DRAIN_FOR_SOLO: Duration = Duration::from_secs(10);
/// How long stopped runs are waited for, and how long the last settling is tried.
const LAST_WORDS: Duration = Duration::from_secs(5);

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

/// The process's running for one job alone.
enum Alone {
    No,
    /// This job wants it: nothing is claimed until nothing runs.
    Wanted {
        id: [u8; 16],
        since: Instant,
    },
    /// It runs.
    Running,
}

pub(super) struct Pump {
    lane: Arc<Lane>,
    queue: Arc<str>,
    store: Store,
    hub: Arc<Hub>,
    /// Never called or polled itself: each run has a clone.
    pristine: JobService,
    /// A clone that was not ready, whose waker will tell.
    probe: Option<JobService>,
    alarm: Alarm,
    listen: mpsc::UnboundedSender<()>,
    listening: bool,
    controls: mpsc::UnboundedReceiver<Control>,
    finished_sender: mpsc::UnboundedSender<Finished>,
    finished: mpsc::UnboundedReceiver<Finished>,
    /// What the store must still be told.
    verdicts: Vec<(Member, Verdict)>,
    /// Runs of this lane whose end was not heard of, stopped and given-up ones included.
    holding: usize,
    /// Jobs may be due that nobody was asked for yet.
    hungry: bool,
    /// The due time whose marker or alarm this lane has, and must pass on if it can't claim.
    duty: Option<u64>,
    /// A call may have had an effect that is not known.
    unsure: bool,
    alone: Alone,
}

impl Pump {
    pub(super) fn new(
        lane: Arc<Lane>,
        store: Store,
        hub: Arc<Hub>,
        pristine: JobService,
        alarm: Alarm,
        listen: mpsc::UnboundedSender<()>,
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
            listening: false,
            controls,
            finished_sender,
            finished,
            verdicts: Vec::new(),
            holding: 0,
            hungry: true,
            duty: None,
            unsure: false,
            alone: Alone::No,
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
                    tracing::warn!(queue = %self.queue, %error, again_in = ?pause, "the store can't be worked with");
                    self.doubt(&error);
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
        let session = self.session().await?;
        if self.unsure {
            self.reconcile(session).await?;
        }
        self.collect();
        let ready = self.reserve().await?;
        if !ready.is_empty() || !self.verdicts.is_empty() {
            return self.call(session, ready).await;
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
        let session: SessionId = std::array::from_fn(|_| fastrand::u8(..));
        self.store.open(&self.lane.shard, &session, self.hub.lease).await?;
        self.lane.set_session(Some(session));
        self.unsure = false;
        self.hungry = true;
        tracing::debug!(queue = %self.queue, "a session was opened");
        Ok(session)
    }

    /// Its jobs are others' now: what still runs is stopped, and what it came to can't be told any more.
    fn lose_session(&mut self) {
        let (running, unsettled) = (self.lane.runs.len(), self.verdicts.len());
        tracing::warn!(queue = %self.queue, running, unsettled, "the session was lost: its jobs will be run by others");
        self.lane.runs.abort_all();
        self.lane.runs.clear();
        self.verdicts.clear();
        self.lane.set_session(None);
        self.watch(None);
        self.duty = None;
        self.unsure = false;
        self.hungry = true;
    }

    /// After a failed call: what is not known must be asked for before anything else changes.
    fn doubt(&mut self, error: &Error) {
        self.unsure |= !matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Unavailable);
        // Whatever the answer would have said about timers is lost as well.
        self.hungry = true;
    }

    /// Store and worker agree again on what is held (rule c).
    async fn reconcile(&mut self, session: SessionId) -> Result<(), Error> {
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
    fn collect(&mut self) {
        while let Ok(finished) = self.finished.try_recv() {
            self.take_in(finished);
        }
        while let Ok(control) = self.controls.try_recv() {
            self.obey(control);
        }
    }

    fn take_in(&mut self, finished: Finished) {
        self.holding -= 1;
        self.hub.running.fetch_sub(1, Ordering::AcqRel);
        self.hub.slots.add_permits(1);
        // A run that was given up, or whose session was lost, is owed no verdict any more.
        if self.lane.runs.remove(&finished.member).is_some() {
            self.verdicts.push((finished.member, finished.verdict()));
        }
        if self.holding == 0 && matches!(self.alone, Alone::Running) {
            self.end_alone();
        }
    }

    fn obey(&mut self, control: Control) {
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
    async fn reserve(&mut self) -> Result<Vec<JobService>, Error> {
        if !self.hungry || !self.may_claim() {
            return Ok(Vec::new());
        }
        let want = self.hub.batch.min(self.hub.slots.available_permits());
        let Ok(permits) = self.hub.slots.try_acquire_many(want as u32) else { return Ok(Vec::new()) };
        permits.forget();
        let mut ready = Vec::with_capacity(want);
        let polled = poll_fn(|cx| Poll::Ready(self.poll_reserve(cx, want, &mut ready))).await;
        self.hub.slots.add_permits(want - ready.len());
        polled.map_err(not_ready)?;
        Ok(ready)
    }

    fn poll_reserve(&mut self, cx: &mut Context<'_>, want: usize, ready: &mut Vec<JobService>) -> Result<(), BoxError> {
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

    fn may_claim(&mut self) -> bool {
        match &self.alone {
            Alone::No => !self.hub.solo.is_taken(),
            Alone::Running => false,
            Alone::Wanted { since, .. } => {
                if since.elapsed() < DRAIN_FOR_SOLO {
                    return false;
                }
                self.end_alone();
                true
            }
        }
    }

    fn end_alone(&mut self) {
        self.alone = Alone::No;
        self.hub.solo.release();
        self.hungry = true;
    }

    /// The job that wants to run alone, once nothing else runs.
    fn its_turn_alone(&self) -> Option<[u8; 16]> {
        match self.alone {
            Alone::Wanted { id, .. } if self.hub.running.load(Ordering::Acquire) == 0 => Some(id),
            _ => None,
        }
    }

    /// Settles what is owed, and claims for the services that are ready.
    async fn call(&mut self, session: SessionId, mut ready: Vec<JobService>) -> Result<(), Error> {
        self.gather().await;
        let owed = self.verdicts.len().min(SETTLE_MAX);
        let answer = if ready.is_empty() {
            let calling = self.lane.calling();
            let answer =
                self.store.settle(&self.lane.shard, &session, self.lane.next_seq(), &self.verdicts[..owed]).await;
            drop(calling);
            answer.map(|answer| answer.map(|settled| (settled, None)))
        } else {
            let claim = Claim {
                count: ready.len(),
                bytes: CLAIM_BYTES_MAX,
                timer_ms: self.duty.unwrap_or_else(|| self.lane.timer_ms()),
                alone: None,
                verdicts: &self.verdicts[..owed],
            };
            let calling = self.lane.calling();
            let answer = self.store.claim(&self.lane.shard, &session, self.lane.next_seq(), claim).await;
            drop(calling);
            answer.map(|answer| answer.map(|mut claimed| (std::mem::take(&mut claimed.settled), Some(claimed))))
        };
        match answer {
            Ok(Ok((settled, claimed))) => {
                self.settled(owed, &settled);
                if let Some(claimed) = claimed {
                    self.claimed(claimed, &mut ready);
                }
                self.hub.slots.add_permits(ready.len());
                Ok(())
            }
            Ok(Err(refusal)) => {
                self.hub.slots.add_permits(ready.len());
                self.refused(refusal);
                Ok(())
            }
            Err(error) => {
                self.hub.slots.add_permits(ready.len());
                Err(error)
            }
        }
    }

    fn refused(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::Lost => self.lose_session(),
            Refusal::Stale => self.unsure = true,
        }
    }

    /// Runs that are about to finish go into the same call: they are let run first.
    async fn gather(&mut self) {
        for _ in 0..3 {
            let before = self.verdicts.len();
            if before == 0 || before >= self.hub.batch || self.holding == 0 {
                return;
            }
            tokio::task::yield_now().await;
            self.collect();
            if self.verdicts.len() == before {
                return;
            }
        }
    }

    fn settled(&mut self, owed: usize, settled: &[Settled]) {
        for ((member, verdict), settled) in self.verdicts.drain(..owed).zip(settled) {
            match settled {
                Settled::Accepted => {}
                Settled::Cancelled => tracing::debug!(job.id = %job_id(&member), "cancelled while it ran"),
                Settled::NotHeld | Settled::Missing => {
                    tracing::warn!(job.id = %job_id(&member), ?settled, ?verdict, "a verdict came too late or for nothing");
                }
            }
        }
    }

    /// Starts what was claimed, and takes over the clock if that was said.
    fn claimed(&mut self, claimed: Claimed, ready: &mut Vec<JobService>) {
        self.duty = None;
        self.hungry = claimed.more;
        self.watch(claimed.timer);
        if let Some(id) = claimed.solo {
            if matches!(self.alone, Alone::No) && self.hub.solo.take() {
                self.alone = Alone::Wanted { id, since: Instant::now() };
            }
        }
        if claimed.paused {
            tracing::debug!(queue = %self.queue, "the queue is paused");
        }
        let mut runs = Vec::with_capacity(claimed.jobs.len());
        for taken in claimed.jobs {
            let job = match execute::read(taken, claimed.now_us, &self.queue, &self.hub.registry) {
                Ok(job) => job,
                Err(undecodable) => {
                    tracing::error!(job.id = %job_id(&undecodable.0), queue = %self.queue, "a job's bytes can't be read: dead");
                    self.verdicts.push(undecodable);
                    continue;
                }
            };
            let Some(service) = ready.pop() else {
                // More than was asked for: not ours to run.
                self.verdicts.push((job.member, Verdict::HandBack));
                continue;
            };
            if job.crashes >= SOLO_AT && !matches!(self.alone, Alone::Running) {
                if matches!(self.alone, Alone::Wanted { .. }) || self.hub.solo.take() {
                    self.alone = Alone::Running;
                }
            }
            self.holding += 1;
            self.hub.running.fetch_add(1, Ordering::AcqRel);
            runs.push(execute::start(service, job, &self.finished_sender));
        }
        // A run may be over before it stands here: its end is taken in after this, by this same task.
        self.lane.runs.insert(runs);
    }

    async fn call_alone(&mut self, session: SessionId, id: [u8; 16]) -> Result<(), Error> {
        let Ok(permit) = self.hub.slots.try_acquire() else { return Ok(()) };
        permit.forget();
        let mut ready = Vec::with_capacity(1);
        let polled = poll_fn(|cx| Poll::Ready(self.poll_reserve(cx, 1, &mut ready))).await;
        if ready.is_empty() {
            self.hub.slots.add_permits(1);
            self.end_alone();
            return polled.map_err(not_ready);
        }
        let claim = Claim {
            count: 1,
            bytes: CLAIM_BYTES_MAX,
            timer_ms: self.duty.unwrap_or_else(|| self.lane.timer_ms()),
            alone: Some(id),
            verdicts: &[],
        };
        let calling = self.lane.calling();
        let answer = self.store.claim(&self.lane.shard, &session, self.lane.next_seq(), claim).await;
        drop(calling);
        match answer {
            Ok(Ok(claimed)) => {
                self.claimed(claimed, &mut ready);
                self.hungry = true;
                if !matches!(self.alone, Alone::Running) {
                    // Somebody else has it by now.
                    self.end_alone();
                }
                self.hub.slots.add_permits(ready.len());
                Ok(())
            }
            Ok(Err(refusal)) => {
                self.hub.slots.add_permits(1);
                self.end_alone();
                self.refused(refusal);
                Ok(())
            }
            Err(error) => {
                self.hub.slots.add_permits(1);
                self.end_alone();
                Err(error)
            }
        }
    }

    fn watch(&mut self, timer: Option<(Duration, u64)>) {
        self.lane.set_timer_ms(timer.map_or(0, |(_, due_ms)| due_ms));
        self.alarm.set(timer.map(|(wait, _)| wait));
    }

    /// Waits for something to do. An idle lane holds no reservation, and listens only while it could claim.
    async fn rest(&mut self, stop: &mut Stop) -> Result<(), Error> {
        let free = self.hub.slots.available_permits() > 0;
        let claims = self.may_claim();
        if claims && free && !self.listening && self.probe.is_none() {
            // Ready for one at least? The answer is dropped, only the knowledge is kept.
            let mut ready = Vec::with_capacity(1);
            poll_fn(|cx| Poll::Ready(self.poll_reserve(cx, 1, &mut ready))).await.map_err(not_ready)?;
        }
        let able = claims && free && self.probe.is_none();
        if able && !self.hungry && !self.listening {
            self.listening = self.listen.send(()).is_ok();
        }
        let wants_slot = self.hungry && claims && !free;
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
            // Another lane may free a place; this one's own come with what finished.
            Ok(permit) = hub.slots.acquire(), if wants_slot => drop(permit),
            answer = poll_fn(|cx| poll_probe(&mut self.probe, cx)), if self.probe.is_some() => answer.map_err(not_ready)?,
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

    /// The graceful end: nothing is claimed any more, what runs has the grace period, the rest is handed back.
    async fn drain(&mut self) {
        self.probe = None;
        let grace = Instant::now() + self.hub.grace;
        self.settle_until(grace, |pump| pump.lane.runs.len() == 0 && pump.verdicts.is_empty()).await;
        let unfinished = self.lane.runs.len();
        if unfinished > 0 {
            tracing::warn!(queue = %self.queue, unfinished, "the grace period is over: stopped and handed back");
            self.lane.runs.abort_all();
            let last = Instant::now() + LAST_WORDS.min(Duration::from_secs(1));
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

    /// Settles what comes in, until all is done or the time is over.
    async fn settle_until(&mut self, deadline: Instant, done: impl Fn(&Pump) -> bool) {
        loop {
            self.collect();
            if done(self) || Instant::now() >= deadline {
                return;
            }
            let Some(session) = self.lane.session() else { return };
            if self.unsure {
                if let Err(error) = self.reconcile(session).await {
                    tracing::debug!(queue = %self.queue, %error, "not settled yet");
                    tokio::time::sleep(PAUSE_FIRST).await;
                    continue;
                }
            }
            if !self.verdicts.is_empty() {
                if let Err(error) = self.call(session, Vec::new()).await {
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

fn poll_probe(probe: &mut Option<JobService>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
    match probe {
        None => Poll::Pending,
        Some(service) => service.poll_ready(cx).map(|answer| {
            // Ready: let go at once, so that the place it holds is free for the turn that follows.
            *probe = None;
            answer
        }),
    }
}

fn not_ready(error: BoxError) -> Error {
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

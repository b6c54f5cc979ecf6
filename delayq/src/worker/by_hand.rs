//! A worker that is driven step by step: it runs one job when it is told to, over the same store and stack as any other.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tower::{Service, ServiceExt};

use super::builder::{Parts, Worker};
use super::{Hub, execute, rescue};
use crate::error::{Error, ErrorKind};
use crate::job::{JobRequest, Outcome};
use crate::layer::{self, Attempts, JobService, PanicWatch, Panicked};
use crate::limits::CLAIM_BYTES_MAX;
use crate::registry::Lookup;
use crate::store::ops::Claim;
use crate::store::{Refusal, SessionId, Shard, Store};

/// A worker in the hands of a test.
pub(crate) struct ByHand {
    store: Store,
    hub: Arc<Hub>,
    service: JobService,
    hands: Vec<Hand>,
    /// When the sessions were renewed last, and how many of them.
    beaten_ms: u64,
    beaten: usize,
    /// Whether there were sessions then that could be lost.
    others: bool,
}

/// Its session on one queue.
struct Hand {
    shard: Shard,
    queue: Arc<str>,
    session: SessionId,
    seq: u64,
}

/// What one step came to.
pub(crate) enum Step {
    /// Nothing was given: what seemed due had expired, or was put off.
    Nothing,
    /// A job's bytes could not be read; it is a dead letter.
    Unreadable,
    /// A job ran.
    Ran(Run),
}

/// A run that is over.
pub(crate) struct Run {
    pub(crate) request: JobRequest,
    /// `None` where the store was not told: its worker was lost.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) panicked: bool,
    /// By the store's clock.
    pub(crate) started_us: u64,
}

/// A queue with something to do.
pub(crate) struct Head {
    pub(crate) due_ms: u64,
    hand: usize,
}

impl Worker {
    /// Checks and puts it together as [`run`](Worker::run) would, without starting anything.
    pub(crate) fn by_hand(self) -> Result<ByHand, Error> {
        let Parts { hub, store, service, lanes, .. } = self.prepare()?;
        let hands = lanes.iter().map(|lane| Hand::new(lane.shard.clone())).collect();
        Ok(ByHand { store, hub, service, hands, beaten_ms: 0, beaten: 0, others: false })
    }
}

impl Hand {
    fn new(shard: Shard) -> Hand {
        Hand { queue: Arc::from(shard.queue()), shard, session: new_session(), seq: 0 }
    }

    async fn open(&mut self, store: &Store, lease: Duration) -> Result<(), Error> {
        (self.session, self.seq) = (new_session(), 0);
        store.open(&self.shard, &self.session, lease).await
    }
}

fn new_session() -> SessionId {
    uuid::Uuid::now_v7().into_bytes()
}

impl ByHand {
    /// How long a lost worker's jobs are kept for it.
    pub(crate) fn lease(&self) -> Duration {
        self.hub.lease
    }

    /// Serves these queues too.
    pub(crate) fn serve(&mut self, queues: &[String]) -> Result<(), Error> {
        for queue in queues {
            if !self.hands.iter().any(|hand| *hand.queue == **queue) {
                self.hands.push(Hand::new(self.store.shard(queue, 0)?));
            }
        }
        self.hands.sort_by(|a, b| a.queue.cmp(&b.queue));
        Ok(())
    }

    /// As [`beat`](ByHand::beat), if the clock has moved enough since to make a difference.
    pub(crate) async fn beat_in_time(&mut self, now_ms: u64) -> Result<bool, Error> {
        let moved = now_ms.saturating_sub(self.beaten_ms);
        if moved >= self.hub.lease.as_millis() as u64 / 8 || self.beaten != self.hands.len() {
            self.others = self.beat().await?;
            (self.beaten_ms, self.beaten) = (now_ms, self.hands.len());
        }
        Ok(self.others)
    }

    /// Renews its sessions, takes back the jobs of lost ones, and answers whether other sessions are left that could be lost.
    async fn beat(&mut self) -> Result<bool, Error> {
        let mut others = false;
        for hand in &mut self.hands {
            let lost = match self.store.beat(&hand.shard, &hand.session, self.hub.lease, 0, None).await? {
                Ok(beat) => beat.lost,
                Err(_) => {
                    // Not open yet, or the clock has left its lease behind.
                    hand.open(&self.store, self.hub.lease).await?;
                    match self.store.beat(&hand.shard, &hand.session, self.hub.lease, 0, None).await? {
                        Ok(beat) => beat.lost,
                        Err(_) => return Err(Error::new(ErrorKind::WrongState, "a session was lost as it was opened")),
                    }
                }
            };
            for session in lost {
                rescue::drain(&self.store, &hand.shard, &session).await?;
            }
            others |= self.store.sessions(&hand.shard).await?.len() > 1;
        }
        Ok(others)
    }

    /// The queue whose next job is due first, whenever that is.
    pub(crate) async fn head(&mut self) -> Result<Option<Head>, Error> {
        let mut first: Option<Head> = None;
        for (hand, Hand { shard, .. }) in self.hands.iter().enumerate() {
            let stats = self.store.stats(shard).await?;
            let Some(due_ms) = stats.head_ms.filter(|_| !stats.paused) else { continue };
            if first.as_ref().is_none_or(|first| due_ms < first.due_ms) {
                first = Some(Head { due_ms, hand });
            }
        }
        Ok(first)
    }

    /// Runs the next due job of a queue. With `lost`, the worker dies before it can tell what came of it.
    pub(crate) async fn step(&mut self, head: &Head, lost: bool) -> Result<Step, Error> {
        let hand = &mut self.hands[head.hand];
        if lost {
            // The dying worker is another one: this one looks after what it leaves.
            let mut dying = Hand::new(hand.shard.clone());
            dying.open(&self.store, self.hub.lease).await?;
            self.others = true;
            return step(&self.store, &self.hub, self.service.clone(), &mut dying, true).await;
        }
        step(&self.store, &self.hub, self.service.clone(), hand, false).await
    }

    /// Runs a request through the stack; the store is not told.
    pub(crate) fn run(
        &self,
        mut request: JobRequest,
    ) -> impl Future<Output = Result<(Outcome, bool), Error>> + Send + use<> {
        if let Lookup::Found(registered) = self.hub.registry.lookup(request.name(), request.version()) {
            request.set_resolved(registered.clone());
        }
        run(self.service.clone(), request)
    }
}

async fn step(store: &Store, hub: &Hub, service: JobService, hand: &mut Hand, lost: bool) -> Result<Step, Error> {
    hand.seq += 1;
    let claim = Claim { count: 1, bytes: CLAIM_BYTES_MAX, timer_ms: 0, alone: None, in_company: false, verdicts: &[] };
    let claimed = store.claim(&hand.shard, &hand.session, hand.seq, claim).await?.map_err(refused)?;
    let Some(taken) = claimed.jobs.into_iter().next() else { return Ok(Step::Nothing) };
    let settle = async |hand: &mut Hand, verdict| {
        hand.seq += 1;
        store.settle(&hand.shard, &hand.session, hand.seq, &[verdict]).await?.map_err(refused)
    };
    let job = match execute::read(taken, (claimed.now_us, Instant::now()), &hand.queue, &hub.registry) {
        Ok(job) => job,
        Err(verdict) => {
            settle(hand, verdict).await?;
            return Ok(Step::Unreadable);
        }
    };
    let request = job.request.clone();
    let (outcome, panicked) = run(service, job.request).await?;
    let mut run = Run { request, outcome: None, panicked, started_us: claimed.now_us };
    if !lost {
        // However long it ran by the moved clock: it was alive all that time.
        store.beat(&hand.shard, &hand.session, hub.lease, 0, None).await?.map_err(refused)?;
        settle(hand, (job.member, execute::verdict(outcome.clone()))).await?;
        run.outcome = Some(outcome);
    }
    Ok(Step::Ran(run))
}

fn refused(refusal: Refusal) -> Error {
    Error::new(ErrorKind::WrongState, format!("the store refused the worker's call: {refusal:?}"))
}

async fn run(mut service: JobService, mut request: JobRequest) -> Result<(Outcome, bool), Error> {
    let attempts = Attempts::of(&request);
    let watch = PanicWatch::default();
    request.extensions_mut().insert(watch.clone());
    service.ready().await.map_err(super::pump::not_ready)?;
    // The default stack catches panics itself; a stack of the user's own may not.
    let ended = AssertUnwindSafe(async move { service.call(request).await }).catch_unwind().await;
    let outcome = match ended {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => layer::decide(&error, &attempts, fastrand::f64()),
        Err(payload) => layer::decide(&Panicked::new(payload.as_ref()).into(), &attempts, fastrand::f64()),
    };
    Ok((outcome, watch.saw_one()))
}

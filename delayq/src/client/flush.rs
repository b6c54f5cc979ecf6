//! Sends that are in flight at once share calls: one task a queue collects them, sends them, and tries again. Two calls may be under way.
//!
//! A batch belongs to that task, never to a caller's future: a caller that goes away takes nothing with it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, ErrorKind};
use crate::limits::{SEND_BACKLOG_MAX, SEND_BATCH_BYTES_MAX, SEND_BATCH_MAX, TOMBSTONE};
use crate::store::ops::{NewJob, Sent};
use crate::store::{Shard, Store};

const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How many calls of a queue may be under way: the store works on one while the other is on its way.
pub(super) const CALLS_MAX: usize = 2;
/// So long a queue's task is kept without a send, once there are more than so many.
const IDLE: Duration = Duration::from_secs(60);
const KEPT: usize = 64;
/// How many jobs make a second call worth its cost; fewer wait for the first to be answered, and for company.
const WORTH_A_CALL: usize = 16;

/// What became of each job of a parcel.
pub(super) type Results = Vec<Result<Sent, Error>>;

/// Jobs of one caller that go together: at most one call's worth.
struct Parcel {
    jobs: Vec<NewJob>,
    deadline: Instant,
    results: oneshot::Sender<Results>,
}

impl Parcel {
    fn bytes(&self) -> usize {
        self.jobs.iter().map(NewJob::bytes).sum()
    }

    /// The caller may be gone: then nobody waits for the answer.
    fn answer(self, results: Results) {
        let _ = self.results.send(results);
    }
}

/// A queue's task, which ends once it has no sender any more, and when it was last given something.
struct Task {
    parcels: mpsc::Sender<Parcel>,
    used: Instant,
}

/// The tasks by queue.
struct Tasks {
    by_queue: HashMap<String, Task>,
    /// With so many, idle ones are looked for: an application may name queues without end.
    crowd: usize,
}

impl Tasks {
    fn new() -> Tasks {
        Tasks { by_queue: HashMap::new(), crowd: KEPT }
    }

    fn find(&mut self, queue: &str, now: Instant) -> Option<mpsc::Sender<Parcel>> {
        let task = self.by_queue.get_mut(queue).filter(|task| !task.parcels.is_closed())?;
        task.used = now;
        Some(task.parcels.clone())
    }

    fn insert(&mut self, queue: &str, parcels: mpsc::Sender<Parcel>, now: Instant) {
        if self.by_queue.len() >= self.crowd {
            self.by_queue.retain(|_, task| !task.parcels.is_closed() && now.duration_since(task.used) < IDLE);
            self.crowd = KEPT.max(2 * self.by_queue.len());
        }
        self.by_queue.insert(queue.to_owned(), Task { parcels, used: now });
    }
}

/// The flushing tasks of a client, by queue.
pub(super) struct Flushers {
    store: Store,
    tasks: Mutex<Tasks>,
}

impl Flushers {
    pub(super) fn new(store: Store) -> Flushers {
        Flushers { store, tasks: Mutex::new(Tasks::new()) }
    }

    /// Sends jobs, at most one call's worth, and answers for each of them.
    pub(super) async fn send(&self, shard: &Shard, jobs: Vec<NewJob>, deadline: Instant) -> Results {
        let count = jobs.len();
        let (results, answered) = oneshot::channel();
        let mut parcel = Parcel { jobs, deadline, results };
        // A task ends with the runtime that it was started on; the next runtime gets a new one.
        for _ in 0..2 {
            match self.task(shard).send(parcel).await {
                Ok(()) => {
                    return answered.await.unwrap_or_else(|_| {
                        let lost =
                            || Error::new(ErrorKind::Unknown, "the runtime of the send ended: the job may be in the store, so send it again with the same id");
                        (0..count).map(|_| Err(lost())).collect()
                    });
                }
                Err(mpsc::error::SendError(unsent)) => parcel = unsent,
            }
        }
        (0..count)
            .map(|_| {
                Err(Error::new(
                    ErrorKind::Unreachable,
                    "the runtime is shutting down: nothing was sent; send from one that lives on",
                ))
            })
            .collect()
    }

    /// The queues that something was sent to.
    #[cfg(feature = "testing")]
    pub(super) fn queues(&self) -> Vec<String> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queues: Vec<String> = tasks.by_queue.keys().cloned().collect();
        queues.sort_unstable();
        queues
    }

    fn task(&self, shard: &Shard) -> mpsc::Sender<Parcel> {
        let (mut tasks, now) = (self.tasks.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if let Some(task) = tasks.find(shard.queue(), now) {
            return task;
        }
        let (task, parcels) = mpsc::channel(SEND_BACKLOG_MAX);
        tasks.insert(shard.queue(), task.clone(), now);
        let (store, shard) = (self.store.clone(), shard.clone());
        tokio::spawn(Flusher { store, shard, parcels, batch: Vec::new(), left_over: None, listed: false }.run());
        task
    }
}

/// Puts the queue on the list of those in use, so that operators find it. Nothing depends on it: a store that can't be reached, or is
/// full, is asked a few times more and then left alone.
async fn register(store: Store, shard: Shard) {
    for pause_s in [1, 10, 60, 600] {
        match store.register(&shard).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(queue = shard.queue(), %error, "the queue could not be put on the list yet"),
        }
        tokio::time::sleep(Duration::from_secs(pause_s)).await;
    }
}

struct Flusher {
    store: Store,
    shard: Shard,
    parcels: mpsc::Receiver<Parcel>,
    /// What goes into the next call.
    batch: Vec<Parcel>,
    /// What no longer fitted into it.
    left_over: Option<Parcel>,
    /// The queue is on the list of those in use, or being put there.
    listed: bool,
}

impl Flusher {
    /// Until the client is gone: what came in while calls were under way makes up the next.
    async fn run(mut self) {
        let (store, shard) = (self.store.clone(), self.shard.clone());
        let mut calls = FuturesUnordered::new();
        // Many send at once: it pays to let them run between two calls.
        let mut crowded = false;
        loop {
            self.fill();
            let jobs: usize = self.batch.iter().map(|parcel| parcel.jobs.len()).sum();
            if jobs > 0 && (calls.is_empty() || (calls.len() < CALLS_MAX && jobs >= WORTH_A_CALL)) {
                crowded = jobs >= WORTH_A_CALL;
                calls.push(send_batch(&store, &shard, std::mem::take(&mut self.batch)));
                // It is sent by being polled.
                let polled = std::future::poll_fn(|cx| Poll::Ready(calls.poll_next_unpin(cx))).await;
                debug_assert!(!matches!(polled, Poll::Ready(None)), "a call was put in");
                self.list(matches!(polled, Poll::Ready(Some(true))));
            } else if let Some(taken) = calls.next().await {
                self.list(taken);
            } else {
                match self.parcels.recv().await {
                    Some(parcel) => self.left_over = Some(parcel),
                    None => return,
                }
            }
            if crowded {
                // Those who were answered run first: what they send next goes into the next call.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Once the store has taken something, and not before: what is refused leaves no trace.
    fn list(&mut self, taken: bool) {
        if taken && !self.listed {
            self.listed = true;
            tokio::spawn(register(self.store.clone(), self.shard.clone()));
        }
    }

    /// Takes what is there, up to what fits into one call.
    fn fill(&mut self) {
        let (mut count, mut bytes) = self
            .batch
            .iter()
            .fold((0, 0), |(count, bytes), parcel| (count + parcel.jobs.len(), bytes + parcel.bytes()));
        while count < SEND_BATCH_MAX {
            let Some(parcel) = self.left_over.take().or_else(|| self.parcels.try_recv().ok()) else { return };
            let (more, longer) = (parcel.jobs.len(), parcel.bytes());
            if count > 0 && (count + more > SEND_BATCH_MAX || bytes + longer > SEND_BATCH_BYTES_MAX) {
                self.left_over = Some(parcel);
                return;
            }
            count += more;
            bytes += longer;
            self.batch.push(parcel);
        }
    }
}

/// Sends a batch until every parcel of it is answered; answers whether the store took something.
async fn send_batch(store: &Store, shard: &Shard, batch: Vec<Parcel>) -> bool {
    let now = Instant::now();
    let (mut batch, late): (Vec<Parcel>, Vec<Parcel>) = batch.into_iter().partition(|parcel| parcel.deadline > now);
    if !late.is_empty() {
        // They waited behind others that got no answer: each caller waits once, not once for every call before its own.
        let error = Error::new(
            ErrorKind::Unreachable,
            "the sends before this one took all of its time: it was not sent itself, so nothing of it is in the store; send it again",
        );
        late.into_iter().for_each(|parcel| fail(parcel, &error));
    }
    if batch.is_empty() {
        return false;
    }
    let mut pause = PAUSE_FIRST;
    // Whether an earlier try may have reached the store: then a later refusal doesn't mean that nothing is there.
    let mut maybe_sent = false;
    let first = tokio::time::Instant::now();
    loop {
        let jobs: Vec<&NewJob> = batch.iter().flat_map(|parcel| &parcel.jobs).collect();
        let sending = store.enqueue(shard, &jobs);
        let sent = if maybe_sent {
            // Beyond that a job that was sent first may have ended and be forgotten: this one would be another.
            tokio::time::timeout_at(first + REPEATED_WITHIN, sending).await.unwrap_or_else(|_| Err(gave_up()))
        } else {
            sending.await
        };
        let error = match sent {
            Ok(sent) => {
                let mut sent = sent.into_iter();
                for parcel in batch {
                    let results = sent.by_ref().take(parcel.jobs.len()).map(Ok).collect();
                    parcel.answer(results);
                }
                return true;
            }
            Err(error) => error,
        };
        maybe_sent |= error.is_unknown();
        let error = if maybe_sent && !error.is_unknown() {
            let text = "the job may be in the store: send it again with the same id; one try got no answer, and the last failed";
            Error::new(ErrorKind::Unknown, text).caused(error)
        } else {
            error
        };
        if error.kind() == ErrorKind::InvalidArgument && jobs.len() > 1 {
            // One of them is at fault: it shall fail alone.
            return Box::pin(send_apart(store, shard, batch)).await;
        }
        if !error.is_temporary() || error.kind() == ErrorKind::Full {
            batch.into_iter().for_each(|parcel| fail(parcel, &error));
            return false;
        }
        let resumes = Instant::now() + pause;
        let (waiting, expired): (Vec<Parcel>, Vec<Parcel>) =
            batch.into_iter().partition(|parcel| parcel.deadline > resumes);
        expired.into_iter().for_each(|parcel| fail(parcel, &error));
        if waiting.is_empty() {
            return false;
        }
        batch = waiting;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// How long after the first try of a send a later one may still reach the store: less than an ended job's id is remembered.
const REPEATED_WITHIN: Duration = Duration::from_secs(14);
const _: () = assert!(REPEATED_WITHIN.as_millis() < TOMBSTONE.as_millis());

fn gave_up() -> Error {
    let text = "no connection and no answer came while the send could be repeated safely: it may have happened, and is safe to send again with the same id";
    Error::new(ErrorKind::Unknown, text)
}

async fn send_apart(store: &Store, shard: &Shard, batch: Vec<Parcel>) -> bool {
    let mut taken = false;
    for parcel in batch {
        let mut results = Vec::with_capacity(parcel.jobs.len());
        for job in &parcel.jobs {
            let (single, answered) = oneshot::channel();
            let alone = Parcel { jobs: vec![job.clone()], deadline: parcel.deadline, results: single };
            taken |= send_batch(store, shard, vec![alone]).await;
            results.extend(answered.await.into_iter().flatten());
        }
        parcel.answer(results);
    }
    taken
}

fn fail(parcel: Parcel, error: &Error) {
    let results = parcel.jobs.iter().map(|_| Err(error.again())).collect();
    parcel.answer(results);
}

/// What a call's worth of jobs is, for callers that have more.
pub(super) fn parcels(jobs: Vec<NewJob>) -> Vec<Vec<NewJob>> {
    let mut parcels = Vec::new();
    let (mut parcel, mut bytes) = (Vec::new(), 0);
    for job in jobs {
        if !parcel.is_empty() && (parcel.len() == SEND_BATCH_MAX || bytes + job.bytes() > SEND_BATCH_BYTES_MAX) {
            parcels.push(std::mem::take(&mut parcel));
            bytes = 0;
        }
        bytes += job.bytes();
        parcel.push(job);
    }
    if !parcel.is_empty() {
        parcels.push(parcel);
    }
    parcels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_queues_without_sends_end_once_there_are_many() {
        let (mut tasks, start) = (Tasks::new(), Instant::now());
        let (mut ends, mut added) = (Vec::new(), 0);
        let mut add = |tasks: &mut Tasks, count: usize, now: Instant| {
            for _ in 0..count {
                let (task, end) = mpsc::channel(1);
                tasks.insert(&format!("q{added}"), task, now);
                ends.push(end);
                added += 1;
            }
            // A task ends when its queue is empty and nobody can send to it any more.
            let is_over = |end: &mut mpsc::Receiver<Parcel>| {
                matches!(end.try_recv(), Err(mpsc::error::TryRecvError::Disconnected))
            };
            ends.iter_mut().map(is_over).filter(|over| *over).count()
        };
        assert_eq!(add(&mut tasks, KEPT, start), 0);
        assert_eq!(add(&mut tasks, KEPT, start + IDLE / 2), 0, "they were used just now");
        let kept = tasks.find("q0", start + IDLE).is_some();
        assert!(kept && tasks.by_queue.len() == 2 * KEPT);
        let ended = add(&mut tasks, 1, start + IDLE);
        assert_eq!(ended, KEPT - 1, "all but the one that was used again");
        assert!(tasks.find("q0", start + IDLE).is_some() && tasks.find("q1", start + IDLE).is_none());
    }
}

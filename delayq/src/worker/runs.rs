//! The runs of one session that have no verdict yet: what the worker knows that it holds. And those that take a place all the same.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use foldhash::fast::RandomState;
use metrics::Gauge;
use tokio::task::AbortHandle;

use crate::job::{JobRequest, Outcome};
use crate::layer;
use crate::limits::WEDGED_GRACE;
use crate::store::Member;

/// A run under way.
pub(super) struct Run {
    pub(super) began: Instant,
    /// When it is past its timeout and the grace after it.
    pub(super) gives_up: Instant,
    pub(super) abort: AbortHandle,
    pub(super) request: JobRequest,
}

/// A run that was judged before its end, or whose job is others' now: its place is taken until its task ends.
struct Left {
    gives_up: Instant,
    /// From when it is past all patience.
    stuck: Option<Stuck>,
}

/// Counts as a run that blocks its thread, for as long as it is there.
struct Stuck(Gauge);

impl Stuck {
    fn new(gauge: &Gauge) -> Stuck {
        gauge.increment(1.0);
        Stuck(gauge.clone())
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

type ByMember<T> = HashMap<Member, T, RandomState>;

#[derive(Default)]
struct Held {
    /// What the session is known to hold.
    runs: ByMember<Run>,
    left: ByMember<Left>,
}

/// The runs of a session. Locked for moments only: the renewing thread reads it while the runtime may be wedged.
pub(super) struct Runs {
    held: Mutex<Held>,
    /// Moved by differences alone: other workers of the process may serve the queue too.
    stuck: Gauge,
}

impl Runs {
    /// None yet. The gauge counts those that block their threads past all patience.
    pub(super) fn new(stuck: Gauge) -> Runs {
        Runs { held: Mutex::default(), stuck }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, runs: impl IntoIterator<Item = (Member, Run)>) {
        self.lock().runs.extend(runs);
    }

    /// Takes a run out: from here on somebody owes it a verdict. `None` if somebody has given it one.
    pub(super) fn remove(&self, member: &Member) -> Option<Run> {
        self.lock().runs.remove(member)
    }

    /// As [`remove`](Runs::remove), for a run whose task has ended: it takes no place any more, whatever was said of it before.
    pub(super) fn end(&self, member: &Member) -> Option<Run> {
        let mut held = self.lock();
        let run = held.runs.remove(member);
        if run.is_none() {
            held.left.remove(member);
        }
        run
    }

    pub(super) fn members(&self) -> Vec<Member> {
        self.lock().runs.keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().runs.len()
    }

    /// Nothing is left of them but what blocks its thread past all patience.
    pub(super) fn are_stuck(&self) -> bool {
        let held = self.lock();
        held.runs.is_empty() && !held.left.is_empty() && held.left.values().all(|run| run.stuck.is_some())
    }

    pub(super) fn abort_all(&self) {
        for run in self.lock().runs.values() {
            run.abort.abort();
        }
    }

    /// The session is lost: their jobs are others' now, and what was stopped takes its place until it ends.
    pub(super) fn clear(&self) {
        let Held { runs, left } = &mut *self.lock();
        left.extend(runs.drain().map(|(member, run)| (member, Left { gives_up: run.gives_up, stuck: None })));
    }

    /// Takes out the runs that blocked their thread past their timeout and the grace after it, with what becomes of them: nothing of
    /// those whose jobs are others' by now. One that waits somewhere instead is stopped: it would begin beside its retry.
    pub(super) fn take_wedged(&self, now: Instant) -> Vec<(Member, Option<Outcome>)> {
        let Held { runs, left } = &mut *self.lock();
        let mut wedged = Vec::new();
        for (member, run) in left.iter_mut().filter(|(_, run)| run.stuck.is_none() && run.gives_up <= now) {
            run.stuck = Some(Stuck::new(&self.stuck));
            wedged.push((*member, None));
        }
        // What has ended has its own outcome, which a pump that stands still has yet to take in.
        for (member, run) in runs.extract_if(|_, run| run.gives_up <= now && !run.abort.is_finished()) {
            run.abort.abort();
            left.insert(member, Left { gives_up: run.gives_up, stuck: Some(Stuck::new(&self.stuck)) });
            wedged.push((member, Some(wedged_outcome(&run.request))));
        }
        wedged
    }
}

fn wedged_outcome(request: &JobRequest) -> Outcome {
    let error = format!(
        "the run is {WEDGED_GRACE:?} past its timeout and can't be stopped: it blocks its thread; use spawn_blocking for such work"
    );
    layer::decide(&error.into(), &layer::Attempts::of(request), fastrand::f64())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::job::{JobId, Meta};

    /// A run that is past all patience then, and whose task goes on.
    fn run(n: u8, gives_up: Instant) -> (Member, Run) {
        let request = JobRequest::new(Meta {
            id: JobId::from_bytes([n; 16]),
            name: Cow::Borrowed("wedged"),
            version: 1,
            queue: Arc::from("wedged"),
            attempt: 1,
            attempts_max: None,
            free_returns: 0,
            run_token: 1,
            due_ms: 0,
            enqueued_ms: 0,
            claimed_us: 0,
            trace_parent: None,
            payload: Default::default(),
        });
        let abort = tokio::spawn(std::future::pending::<()>()).abort_handle();
        (Member::new(&[n; 16], 1), Run { began: gives_up, gives_up, abort, request })
    }

    #[tokio::test]
    async fn a_run_counts_as_stuck_from_its_last_patience_to_its_end() {
        let told = Arc::new(AtomicU64::new(0));
        let stuck = || f64::from_bits(told.load(Ordering::Relaxed));
        let runs = Runs::new(Gauge::from_arc(told.clone()));
        let (now, late) = (Instant::now(), Duration::from_secs(1));
        let all = [run(1, now), run(2, now + late), run(3, now + late)];
        let members = [1, 2, 3].map(|n| Member::new(&[n; 16], 1));
        runs.insert(all);
        assert!(matches!(runs.take_wedged(now).as_slice(), [(one, Some(_))] if *one == members[0]));
        assert_eq!((stuck(), runs.len()), (1.0, 2), "what is settled is not known as held");
        assert!(runs.take_wedged(now).is_empty(), "it is taken once");
        // A lost session stops its runs: what ends then was never stuck, what goes on past its time is.
        runs.clear();
        assert!(runs.end(&members[1]).is_none());
        assert_eq!((stuck(), runs.len()), (1.0, 0));
        assert!(matches!(runs.take_wedged(now + late).as_slice(), [(three, None)] if *three == members[2]));
        assert_eq!(stuck(), 2.0);
        assert!(runs.end(&members[0]).is_none(), "it has its verdict");
        assert_eq!(stuck(), 1.0);
        drop(runs);
        assert_eq!(stuck(), 0.0, "a worker that is gone has no places");
    }

    #[tokio::test]
    async fn a_run_that_has_ended_is_not_taken_for_wedged() {
        let runs = Runs::new(Gauge::noop());
        let (now, (member, mut ended)) = (Instant::now(), run(1, Instant::now()));
        let task = tokio::spawn(async {});
        ended.abort = task.abort_handle();
        task.await.expect("it ends");
        runs.insert([(member, ended)]);
        assert!(runs.take_wedged(now + Duration::from_secs(60)).is_empty());
        assert!(!runs.are_stuck());
        assert!(runs.end(&member).is_some(), "what it came to is still owed");
    }

    #[tokio::test]
    async fn only_what_blocks_its_thread_is_left() {
        let runs = Runs::new(Gauge::noop());
        let now = Instant::now();
        assert!(!runs.are_stuck());
        runs.insert([run(1, now), run(2, now + Duration::from_secs(1))]);
        assert_eq!(runs.take_wedged(now).len(), 1);
        assert!(!runs.are_stuck(), "the other one runs");
        assert_eq!(runs.take_wedged(now + Duration::from_secs(1)).len(), 1);
        assert!(runs.are_stuck());
    }
}

//! The runs of one session that have no verdict yet: what the worker knows that it holds.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use foldhash::fast::RandomState;
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

/// The runs of a session. Locked for moments only: the renewing thread reads it while the runtime may be wedged.
#[derive(Default)]
pub(super) struct Runs(Mutex<HashMap<Member, Run, RandomState>>);

impl Runs {
    fn lock(&self) -> MutexGuard<'_, HashMap<Member, Run, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, runs: impl IntoIterator<Item = (Member, Run)>) {
        self.lock().extend(runs);
    }

    /// Takes a run out: from here on somebody owes it a verdict. `None` if somebody has given it one.
    pub(super) fn remove(&self, member: &Member) -> Option<Run> {
        self.lock().remove(member)
    }

    pub(super) fn members(&self) -> Vec<Member> {
        self.lock().keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn abort_all(&self) {
        for run in self.lock().values() {
            run.abort.abort();
        }
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Takes out the runs that blocked their thread past their timeout and the grace after it, with what becomes of them. One that
    /// waits somewhere instead is stopped: it would begin beside its retry.
    pub(super) fn take_wedged(&self, now: Instant) -> Vec<(Member, Outcome)> {
        let mut runs = self.lock();
        let wedged: Vec<Member> =
            runs.iter().filter(|(_, run)| run.gives_up <= now).map(|(member, _)| *member).collect();
        wedged
            .into_iter()
            .filter_map(|member| {
                let run = runs.remove(&member)?;
                run.abort.abort();
                Some((member, wedged_outcome(&run.request)))
            })
            .collect()
    }
}

fn wedged_outcome(request: &JobRequest) -> Outcome {
    let error = format!(
        "the run is {WEDGED_GRACE:?} past its timeout and can't be stopped: it blocks its thread; use spawn_blocking for such work"
    );
    layer::decide(&error.into(), &layer::Attempts::of(request), fastrand::f64())
}

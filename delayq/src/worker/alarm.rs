//! Timers that fire within tens of microseconds: tokio's own tick in whole milliseconds.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// One alarm a lane, all kept by one thread.
pub(super) struct Alarms {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    rings: Vec<Arc<Notify>>,
}

struct State {
    at: Vec<Option<Instant>>,
    stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Alarms {
    pub(super) fn start(lanes: usize) -> std::io::Result<Alarms> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { at: vec![None; lanes], stopped: false }),
            changed: Condvar::new(),
            rings: (0..lanes).map(|_| Arc::new(Notify::new())).collect(),
        });
        let thread = std::thread::Builder::new().name("delayq-alarm".to_owned()).spawn({
            let shared = shared.clone();
            move || keep(&shared)
        })?;
        Ok(Alarms { shared, thread: Some(thread) })
    }

    /// A lane's alarm.
    pub(super) fn alarm(&self, lane: usize) -> Alarm {
        Alarm { shared: self.shared.clone(), ring: self.shared.rings[lane].clone(), lane }
    }
}

impl Drop for Alarms {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It has nothing to panic about, and there is nobody to tell.
            let _ = thread.join();
        }
    }
}

/// One lane's alarm.
#[derive(Clone)]
pub(super) struct Alarm {
    shared: Arc<Shared>,
    ring: Arc<Notify>,
    lane: usize,
}

impl Alarm {
    /// Rings once after `wait`, instead of whatever it was set to before; `None` means never.
    pub(super) fn set(&self, wait: Option<Duration>) {
        let at = wait.and_then(|wait| Instant::now().checked_add(wait));
        self.shared.lock().at[self.lane] = at;
        self.shared.changed.notify_one();
    }

    /// The same, if `still` holds: it is asked while nobody else can set the alarm.
    pub(super) fn set_if(&self, still: impl FnOnce() -> bool, wait: Duration) {
        let at = Instant::now().checked_add(wait);
        let mut state = self.shared.lock();
        if still() {
            state.at[self.lane] = at;
            self.shared.changed.notify_one();
        }
    }

    pub(super) async fn rings(&self) {
        self.ring.notified().await;
    }
}

fn keep(shared: &Shared) {
    let mut state = shared.lock();
    while !state.stopped {
        let now = Instant::now();
        for (at, ring) in state.at.iter_mut().zip(&shared.rings) {
            if at.is_some_and(|at| at <= now) {
                *at = None;
                ring.notify_one();
            }
        }
        let next = state.at.iter().flatten().min().copied();
        state = match next {
            None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(next) => {
                let wait = next.saturating_duration_since(Instant::now());
                shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_alarm_rings_after_its_time_and_can_be_moved() {
        let alarms = Alarms::start(2).expect("a thread");
        let (far, near) = (alarms.alarm(0), alarms.alarm(1));
        let started = Instant::now();
        far.set(Some(Duration::from_secs(3600)));
        near.set(Some(Duration::from_millis(20)));
        near.rings().await;
        assert!(started.elapsed() >= Duration::from_millis(20));
        far.set(Some(Duration::from_millis(5)));
        far.rings().await;
        far.set(Some(Duration::MAX));
        far.set(None);
        near.set(Some(Duration::from_millis(20)));
        near.set_if(|| false, Duration::from_secs(3600));
        near.rings().await;
        near.set(Some(Duration::from_secs(3600)));
        near.set_if(|| true, Duration::from_millis(5));
        near.rings().await;
    }
}

//! How late this machine is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How far apart the looks at the clock are.
const STEP: Duration = Duration::from_millis(10);

/// A sleep of tokio's ends at a whole millisecond, and a kernel's a little later than asked.
const USUAL: Duration = Duration::from_millis(12);

/// What a thread and a task of the test's runtime are late by, added up for as long as this is held.
///
/// A bound on time is what delayq promises and some slack. A machine that has too much to do keeps neither: what it was late by in the same time
/// is added to the bound, so that only what delayq did late breaks it.
#[derive(Debug)]
pub struct Lag {
    thread: Arc<Watcher>,
    task: Arc<Watcher>,
}

impl Lag {
    /// Begins to watch: at the moment from which the test counts.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    pub fn watch() -> Lag {
        let lag = Lag { thread: Watcher::new(), task: Watcher::new() };
        // Each ends once nobody holds its watcher any more.
        let watcher = Arc::downgrade(&lag.thread);
        thread::spawn(move || {
            while looked(&watcher) {
                thread::sleep(STEP);
            }
        });
        let watcher = Arc::downgrade(&lag.task);
        tokio::spawn(async move {
            while looked(&watcher) {
                tokio::time::sleep(STEP).await;
            }
        });
        lag
    }

    /// What it was late by until now, a lateness that goes on included.
    #[must_use]
    pub fn so_far(&self) -> Duration {
        self.thread.so_far() + self.task.so_far()
    }
}

#[derive(Debug)]
struct Watcher {
    since: Instant,
    looked_us: AtomicU64,
    late_us: AtomicU64,
}

fn looked(watcher: &Weak<Watcher>) -> bool {
    watcher.upgrade().map(|watcher| watcher.look()).is_some()
}

impl Watcher {
    fn new() -> Arc<Watcher> {
        Arc::new(Watcher { since: Instant::now(), looked_us: AtomicU64::new(0), late_us: AtomicU64::new(0) })
    }

    fn now_us(&self) -> u64 {
        self.since.elapsed().as_micros() as u64
    }

    /// What the look that is due is late by.
    fn late_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.looked_us.load(Ordering::Relaxed)).saturating_sub(USUAL.as_micros() as u64)
    }

    fn look(&self) {
        let now_us = self.now_us();
        self.late_us.fetch_add(self.late_us(now_us), Ordering::Relaxed);
        self.looked_us.store(now_us, Ordering::Relaxed);
    }

    fn so_far(&self) -> Duration {
        Duration::from_micros(self.late_us.load(Ordering::Relaxed) + self.late_us(self.now_us()))
    }
}

//! The worker: claims due jobs, runs them through the service stack, settles what they came to.

mod about;
mod adaptive;
mod alarm;
mod alone;
mod baton;
mod builder;
#[cfg(feature = "testing")]
mod by_hand;
mod check;
mod drain;
mod execute;
mod flight;
mod lane;
mod pump;
mod renew;
mod rescue;
mod runs;
mod shutdown;
mod slots;
mod trouble;

pub use builder::Worker;
#[cfg(feature = "testing")]
pub(crate) use by_hand::{ByHand, Run, Step};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use self::adaptive::Adaptive;
use self::slots::Slots;
use crate::registry::Registry;

/// What all parts of a worker share.
struct Hub {
    registry: Arc<Registry>,
    lease: Duration,
    grace: Duration,
    /// How many jobs one claim asks for at most.
    batch: usize,
    slots: Arc<Slots>,
    /// What moves the number of places, if that isn't fixed.
    adaptive: Option<Adaptive>,
    solo: Solo,
}

/// While a job that was there in two crashes runs, nothing else does in this process (rule p).
#[derive(Default)]
struct Solo {
    taken: AtomicBool,
    over: Notify,
}

impl Solo {
    /// Takes the process for one lane; false if another lane has it.
    fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::SeqCst)
    }

    fn release(&self) {
        self.taken.store(false, Ordering::Release);
        self.over.notify_waiters();
    }

    fn is_taken(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }
}

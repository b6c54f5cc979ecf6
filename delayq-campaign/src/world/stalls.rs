//! Stalls of the machine itself: what nobody fired, and what delays everything all the same.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delayq::BoxError;
use delayq::store::Store;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::home::PROBED;
use crate::history::{Journal, What, now_us};

/// A process that gets no processor, or a store that does not answer, for longer than this has stalled.
const STALL: Duration = Duration::from_millis(350);
const WATCH: Duration = Duration::from_millis(40);
const PROBE: Duration = Duration::from_millis(200);

/// Notes from a thread of its own when this process was not run for a while.
pub(crate) fn watch_this_process(journal: Journal) {
    std::thread::spawn(move || {
        let mut last = now_us();
        loop {
            std::thread::sleep(WATCH);
            let now = now_us();
            if now - last > STALL.as_micros() as u64 {
                journal.tell(What::Stalled { since: last, everyone: false });
            }
            last = now;
        }
    });
}

/// Writes to the store beside the queue, past all proxies, and notes when that takes long.
#[derive(Debug)]
pub(crate) struct Probe {
    task: JoinHandle<()>,
    hushed: Arc<AtomicBool>,
}

impl Probe {
    pub(super) fn start(store: Store, shard: u32, history: &Path) -> Result<Probe, BoxError> {
        let journal = Journal::open(history, "probe")?;
        let shard = store.shard(PROBED, shard)?;
        let hushed = Arc::new(AtomicBool::new(false));
        let is_hushed = hushed.clone();
        let task = tokio::spawn(async move {
            loop {
                let (since, was_hushed) = (now_us(), is_hushed.load(Ordering::SeqCst));
                let session = Uuid::now_v7().into_bytes();
                // Whether it was done doesn't matter, only how long it took.
                if store.open(&shard, &session, Duration::from_secs(1)).await.is_ok() {
                    let _ = store.close(&shard, &session).await;
                }
                let took = now_us() - since;
                if took > STALL.as_micros() as u64 && !was_hushed && !is_hushed.load(Ordering::SeqCst) {
                    journal.tell(What::Stalled { since, everyone: true });
                }
                tokio::time::sleep(PROBE).await;
            }
        });
        Ok(Probe { task, hushed })
    }

    /// While a fault holds the store up, a wait for it is no stall of the machine, and excuses nothing.
    pub(crate) fn hush(&self, hushed: bool) {
        self.hushed.store(hushed, Ordering::SeqCst);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

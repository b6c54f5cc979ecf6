//! Stalls of the machine itself: what nobody fired, and what delays everything all the same.

use std::path::Path;
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
pub(super) struct Probe(JoinHandle<()>);

impl Probe {
    pub(super) fn start(store: Store, shard: u32, history: &Path) -> Result<Probe, BoxError> {
        let journal = Journal::open(history, "probe")?;
        let shard = store.shard(PROBED, shard)?;
        Ok(Probe(tokio::spawn(async move {
            loop {
                let since = now_us();
                let session = Uuid::now_v7().into_bytes();
                // Whether it was done doesn't matter, only how long it took.
                if store.open(&shard, &session, Duration::from_secs(1)).await.is_ok() {
                    let _ = store.close(&shard, &session).await;
                }
                if now_us() - since > STALL.as_micros() as u64 {
                    journal.tell(What::Stalled { since, everyone: true });
                }
                tokio::time::sleep(PROBE).await;
            }
        })))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.abort();
    }
}

//! The jobs of all figures, 120 bytes of JSON each, and what counts their runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use delayq::{Job, JobContext, JobResult, delayed_job};
use tokio::sync::Notify;

/// The queue of figures that need only one.
pub(crate) const QUEUE: &str = "bench";

/// 120 bytes of JSON.
#[delayed_job(name = "bench_order", version = 1, queue = "bench")]
pub(crate) struct BenchOrder {
    order_id: u64,
    customer: String,
    note: String,
}

/// The same, each with a unique key.
#[delayed_job(name = "unique_order", version = 1, queue = "bench", unique = order_id)]
pub(crate) struct UniqueOrder {
    order_id: u64,
    customer: String,
    note: String,
}

const FIRST_ID: u64 = 1_000_000_000;
const CUSTOMER: &str = "customer-0000042";
const NOTE_BYTES: usize = 57;

impl BenchOrder {
    pub(crate) fn numbered(n: u64) -> BenchOrder {
        BenchOrder { order_id: FIRST_ID + n, customer: CUSTOMER.to_owned(), note: "x".repeat(NOTE_BYTES) }
    }
}

impl UniqueOrder {
    pub(crate) fn numbered(n: u64) -> UniqueOrder {
        UniqueOrder { order_id: FIRST_ID + n, customer: CUSTOMER.to_owned(), note: "x".repeat(NOTE_BYTES) }
    }
}

impl Job for BenchOrder {
    async fn run(self, cx: JobContext) -> JobResult {
        cx.data::<Arc<Tally>>()?.ran(&cx);
        Ok(())
    }
}

impl Job for UniqueOrder {
    async fn run(self, cx: JobContext) -> JobResult {
        cx.data::<Arc<Tally>>()?.ran(&cx);
        Ok(())
    }
}

/// How late a run was, in us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Late {
    /// When it was claimed, by the store's clock.
    pub(crate) claim_us: u32,
    /// When its handler started, by this machine's clock: below zero if that was early.
    pub(crate) start_us: i64,
}

/// Counts runs, tells when all are done, and keeps how late they were if there is room made for it.
pub(crate) struct Tally {
    runs: AtomicUsize,
    wanted: usize,
    pub(crate) all: Notify,
    lates: Vec<(AtomicU32, AtomicI64)>,
}

impl Tally {
    pub(crate) fn new(wanted: usize, lates: usize) -> Arc<Tally> {
        let lates = (0..lates).map(|_| (AtomicU32::new(0), AtomicI64::new(0))).collect();
        Arc::new(Tally { runs: AtomicUsize::new(0), wanted, all: Notify::new(), lates })
    }

    fn ran(&self, cx: &JobContext) {
        let nth = self.runs.fetch_add(1, Ordering::Relaxed);
        if let Some((claim, start)) = self.lates.get(nth) {
            let now_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
            claim.store(u32::try_from(cx.lateness().as_micros()).unwrap_or(u32::MAX), Ordering::Relaxed);
            start.store(now_us - cx.due().as_microsecond(), Ordering::Relaxed);
        }
        if nth + 1 == self.wanted {
            self.all.notify_one();
        }
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    /// How late the runs were, in the order in which they started.
    pub(crate) fn lates(&self) -> impl Iterator<Item = Late> + '_ {
        self.lates.iter().take(self.runs()).map(|(claim, start)| Late {
            claim_us: claim.load(Ordering::Relaxed),
            start_us: start.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_has_120_bytes() {
        for n in [0, 9_999_999] {
            assert_eq!(serde_json::to_vec(&BenchOrder::numbered(n)).expect("JSON").len(), 120);
            assert_eq!(serde_json::to_vec(&UniqueOrder::numbered(n)).expect("JSON").len(), 120);
        }
    }
}

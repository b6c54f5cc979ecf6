//! The clock of a test: the store's, tied to tokio's paused one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

/// Tokio's clock, as the store reads it.
#[derive(Clone)]
pub(super) struct TestClock {
    base_us: u64,
    origin: Instant,
    runtime: Handle,
}

impl TestClock {
    /// Stops tokio's clock, unless that was done; from then on it moves only when a test moves it, or waits.
    ///
    /// # Panics
    /// There is no runtime around, or one of several threads, whose clock can't be stopped.
    #[track_caller]
    pub(super) fn start() -> TestClock {
        let Ok(runtime) = Handle::try_current() else {
            panic!("TestQueue moves tokio's clock, so it needs a runtime around it: is the test #[tokio::test]?");
        };
        assert!(
            runtime.runtime_flavor() == RuntimeFlavor::CurrentThread,
            "TestQueue moves tokio's clock, which only a current-thread runtime allows: write #[tokio::test] without a flavor"
        );
        if !is_stopped() {
            tokio::time::pause();
        }
        // In whole ms, as due times are: what is sent now for in 30 minutes is due when the clock was moved by just that.
        let base_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64 * 1000);
        TestClock { base_us, origin: Instant::now(), runtime }
    }

    /// µs since 1970.
    pub(super) fn now_us(&self) -> u64 {
        // Asked from a thread of the engine's: without the runtime it would be told the machine's time.
        let _inside = self.runtime.enter();
        self.base_us + self.origin.elapsed().as_micros() as u64
    }

    /// Moves on to an instant; what lies behind is left alone.
    pub(super) async fn move_to(&self, ms: u64) {
        let ahead = (ms * 1000).saturating_sub(self.now_us());
        if ahead > 0 {
            tokio::time::advance(Duration::from_micros(ahead)).await;
        }
    }
}

/// Whether tokio's clock stands still. It doesn't say so by itself, and stopping it twice is a panic.
fn is_stopped() -> bool {
    let before = Instant::now();
    std::thread::sleep(Duration::from_millis(1));
    Instant::now() == before
}

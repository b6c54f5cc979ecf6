//! An answer that is good for a moment: however many ask for it, the store is asked once.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// The last answer, and since when it is there.
pub(super) struct Cached<T> {
    held: Mutex<Option<(Instant, T)>>,
    fresh: Duration,
}

impl<T: Clone> Cached<T> {
    pub(super) fn new(fresh: Duration) -> Cached<T> {
        Cached { held: Mutex::new(None), fresh }
    }

    /// The answer, made anew where it is too old. Those who come meanwhile wait for it.
    pub(super) async fn get(&self, make: impl Future<Output = T>) -> T {
        let mut held = self.held.lock().await;
        if let Some((since, value)) = &*held
            && since.elapsed() < self.fresh
        {
            return value.clone();
        }
        let value = make.await;
        *held = Some((Instant::now(), value.clone()));
        value
    }
}

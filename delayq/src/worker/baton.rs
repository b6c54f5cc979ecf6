//! Waits for the shard's marker on a connection of its own, whenever the lane has nothing else to do.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::lane::Lane;
use super::pump::Control;
use crate::store::Store;

/// Blocked pops end after this: a dead connection is served markers first, so none may be blocked for long (rule m).
const WAIT: Duration = Duration::from_secs(5);

/// Answers each message that asks it to listen with exactly one [`Control`].
pub(super) async fn listen(
    store: Store,
    lane: Arc<Lane>,
    mut asked: mpsc::UnboundedReceiver<()>,
    pump: mpsc::UnboundedSender<Control>,
) {
    while asked.recv().await.is_some() {
        let heard = match store.wait(&[&lane.shard], WAIT).await {
            Ok(Some((_, due_ms))) => Control::Marker { due_ms },
            Ok(None) => Control::Silence,
            Err(error) => Control::Deaf(error),
        };
        if pump.send(heard).is_err() {
            return;
        }
    }
}

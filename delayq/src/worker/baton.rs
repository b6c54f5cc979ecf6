//! Waits for the shard's marker on a connection of its own, whenever the lane has nothing else to do.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::lane::Lane;
use super::pump::Control;
use crate::store::Store;

/// Blocked pops end after this: a dead connection is served markers first, so none may be blocked for long (rule m).
const WAIT: Duration = Duration::from_secs(5);

/// What comes after one that failed, doubled up to the second; the first of a row is told at once.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Answers each message that asks it to listen with exactly one [`Control`].
pub(super) async fn listen(
    store: Store,
    lane: Arc<Lane>,
    mut asked: mpsc::UnboundedReceiver<()>,
    pump: mpsc::UnboundedSender<Control>,
) {
    let mut pause = None;
    while asked.recv().await.is_some() {
        let heard = match store.wait(&[&lane.shard], WAIT).await {
            Ok(heard) => {
                pause = None;
                heard.map_or(Control::Silence, |(_, due_ms)| Control::Marker { due_ms })
            }
            Err(error) => {
                // Whoever is told looks for due jobs and asks again: without a pause it would do nothing else.
                if let Some(pause) = pause {
                    tokio::time::sleep(pause).await;
                    if pause == PAUSE_MAX {
                        tracing::warn!(%error, "the connection that waits for due jobs can't be had: they are looked for each second");
                    }
                }
                pause = Some(pause.map_or(PAUSE_FIRST, |pause: Duration| (pause * 2).min(PAUSE_MAX)));
                Control::Deaf(error)
            }
        };
        if pump.send(heard).is_err() {
            return;
        }
    }
}

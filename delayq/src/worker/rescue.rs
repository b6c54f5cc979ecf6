//! Takes back the jobs of sessions that are lost.

use crate::error::Error;
use crate::limits::RESCUE_STEP;
use crate::store::ops::Rescue;
use crate::store::{SessionId, Shard, Store};

/// Drains one lost session. A worker that dies in the middle leaves it listed, and any other goes on.
pub(super) async fn drain(store: &Store, shard: &Shard, session: &SessionId) -> Result<(), Error> {
    let (mut back, mut dead) = (0, 0);
    loop {
        match store.rescue(shard, session, RESCUE_STEP).await? {
            Rescue::Took { more, given_back, buried, quarantined, .. } => {
                back += given_back;
                dead += buried;
                if quarantined > 0 {
                    tracing::warn!(queue = shard.queue(), quarantined, "a lost session held entries that are no jobs");
                }
                if !more {
                    tracing::warn!(
                        queue = shard.queue(),
                        given_back = back,
                        buried = dead,
                        "a worker was lost: its jobs were taken back"
                    );
                    return Ok(());
                }
            }
            Rescue::Alive | Rescue::OnHold | Rescue::Gone => return Ok(()),
        }
    }
}

//! What a worker looks at when it starts: whether its server endangers jobs.

use std::time::Duration;

use crate::client::{Client, Danger};
use crate::error::Error;
use crate::store::Shard;

/// How long it waits before it asks a store again that doesn't answer, at first and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Warns of each danger once, beside the worker's work: asking doesn't delay its start, and an answer is waited for for ever.
pub(super) async fn warn(client: Client, shard: Shard) {
    for danger in look(&client, &shard).await {
        if !danger.was_told {
            let (what, advice) = (&danger.finding.what, danger.finding.advice.as_deref().unwrap_or_default());
            tracing::warn!(check = danger.finding.check, advice, "this server endangers jobs: {what}");
        }
    }
}

/// Refuses to go on where there is one. A store that doesn't answer is asked for ever, as by a worker at work.
pub(super) async fn refuse(client: &Client, shard: &Shard) -> Result<(), Error> {
    let dangers = look(client, shard).await;
    let Some(first) = dangers.first() else { return Ok(()) };
    let all: Vec<String> = dangers.iter().map(|danger| danger.finding.to_string()).collect();
    Err(Error::new(first.kind, format!("a strict worker doesn't start on this server: {}", all.join("; "))))
}

async fn look(client: &Client, shard: &Shard) -> Vec<Danger> {
    let mut pause = PAUSE_FIRST;
    loop {
        match client.dangers(shard).await {
            Ok(dangers) => return dangers,
            Err(error) => tracing::debug!(%error, again_in = ?pause, "the server can't be looked at yet"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

//! Changes: one thing at a time, written down before and after as by the other commands.

use delayq::{Client, RedriveReport};

use super::model::{Change, Kind};
use crate::audit::Audit;
use crate::commands::{cancel, pause};
use crate::failure::{Failure, Outcome};

/// Makes a change. Answers what came of it.
pub(super) async fn make(client: &Client, audit: &mut Audit, change: &Change) -> Outcome<String> {
    let queue = change.queue.as_str();
    audit.name(match change.kind {
        Kind::Pause => "top: pause",
        Kind::Resume => "top: resume",
        Kind::Cancel { .. } => "top: cancel",
        Kind::Retry { .. } => "top: dead retry",
        Kind::Delete { .. } => "top: dead delete",
    });
    match &change.kind {
        Kind::Pause | Kind::Resume => {
            let pauses = change.kind == Kind::Pause;
            audit.begins(Some(queue), "")?;
            let changed = if pauses { client.pause(queue).await? } else { client.resume(queue).await? };
            let told = pause::told(pauses, changed);
            audit.ends(Some(queue), told)?;
            Ok(format!("{queue}: {told}"))
        }
        Kind::Cancel { id, .. } => {
            audit.begins(Some(queue), &id.to_string())?;
            let (outcome, told, _) = cancel::told(client.job(queue, *id).cancel().await?);
            audit.ends(Some(queue), &format!("{id} {outcome}"))?;
            Ok(format!("{id} of {queue}: {told}"))
        }
        Kind::Retry { id, died, .. } => {
            audit.begins(Some(queue), &id.to_string())?;
            // What was looked at, and not what died of the same id since.
            let report = client.dead_letters(queue).redrive_listed(&[(*id, *died)]).await?;
            let told = retried(&report);
            audit.ends(Some(queue), &format!("{id} {}", told.unwrap_or_else(|why| why)))?;
            match told {
                Ok(_) => Ok(format!("{id} of {queue} waits again, due now")),
                Err(why) => Err(Failure::Refused(format!("{id} of {queue} {why}"))),
            }
        }
        Kind::Delete { id, died, .. } => {
            audit.begins(Some(queue), &id.to_string())?;
            let deleted = client.dead_letters(queue).delete_listed(&[(*id, *died)]).await?;
            let told = if deleted == 1 { "deleted" } else { GONE };
            audit.ends(Some(queue), &format!("{id} {told}"))?;
            if deleted == 1 {
                Ok(format!("{id} of {queue}: {told}"))
            } else {
                Err(Failure::Refused(format!("{id} of {queue} {told}")))
            }
        }
    }
}

const GONE: &str = "was gone by then";

/// What became of the one letter.
fn retried(report: &RedriveReport) -> Result<&'static str, &'static str> {
    match report {
        RedriveReport { redriven: 1, .. } => Ok("retried"),
        RedriveReport { conflicts: 1, .. } => Err("stays, since another job has its unique key"),
        RedriveReport { unreadable: 1, .. } => {
            Err("stays, since its record is gone or unreadable: it can only be deleted")
        }
        _ => Err(GONE),
    }
}

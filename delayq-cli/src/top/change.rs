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
            let changed = if pauses { client.pause(queue).await } else { client.resume(queue).await };
            let told = changed.map(|changed| pause::told(pauses, changed));
            let told = audit.ended(Some(queue), "", told, |told| (*told).to_owned())?;
            Ok(format!("{queue}: {told}"))
        }
        Kind::Cancel { id, .. } => {
            audit.begins(Some(queue), &id.to_string())?;
            let cancelled = client.job(queue, *id).cancel().await.map(cancel::told);
            let ended = audit.ended(Some(queue), &id.to_string(), cancelled, |(outcome, ..)| format!("{id} {outcome}"));
            let (_, told, _) = ended?;
            Ok(format!("{id} of {queue}: {told}"))
        }
        Kind::Retry { id, died, .. } => {
            audit.begins(Some(queue), &id.to_string())?;
            // What was looked at, and not what died of the same id since.
            let told = client.dead_letters(queue).redrive_listed(&[(*id, *died)]).await.map(|report| retried(&report));
            let came_of_it = |told: &Result<&str, &str>| format!("{id} {}", told.unwrap_or_else(|why| why));
            match audit.ended(Some(queue), &id.to_string(), told, came_of_it)? {
                Ok(_) => Ok(format!("{id} of {queue} waits again, due now")),
                Err(why) => Err(Failure::Refused(format!("{id} of {queue} {why}"))),
            }
        }
        Kind::Delete { id, died, .. } => {
            audit.begins(Some(queue), &id.to_string())?;
            let deleted = client.dead_letters(queue).delete_listed(&[(*id, *died)]).await;
            let told = |deleted: &u64| if *deleted == 1 { "deleted" } else { GONE };
            let ended = |deleted: &u64| format!("{id} {}", told(deleted));
            match audit.ended(Some(queue), &id.to_string(), deleted, ended)? {
                1 => Ok(format!("{id} of {queue}: deleted")),
                _ => Err(Failure::Refused(format!("{id} of {queue} {GONE}"))),
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

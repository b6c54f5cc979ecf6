//! `dead delete`: letters by id, or exactly those that a filter means, go for good.

use clap::Args;
use delayq::JobId;
use serde::Serialize;

use super::{AT_ONCE, Choice, One, letter};
use crate::commands::Session;
use crate::confirm::confirm;
use crate::failure::{OneByOne, Outcome};
use crate::filter::Narrow;
use crate::output::colour;
use crate::progress::Progress;

/// Which letters.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq dead export --queue orders --name charge_card > letters.jsonl
  delayq dead delete --queue orders --name charge_card          counts
  delayq dead delete --queue orders --name charge_card --yes    deletes exactly those")]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,
}

#[derive(Debug, Serialize)]
struct Many<'a> {
    queue: &'a str,
    matched: usize,
    deleted: u64,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    let choice = options.choice;
    let queues = choice.queues(&session.client).await?;
    let mut each = OneByOne::default();
    for id in &choice.ids {
        each.take(one(session, &queues, *id).await)?;
    }
    if choice.ids.is_empty() {
        for queue in &queues {
            each.take(by_filter(session, &choice, queue).await)?;
        }
    }
    each.end()
}

async fn one(session: &mut Session, queues: &[String], id: JobId) -> Outcome {
    let queue = letter(&session.client, queues, id).await?.queue;
    session.audit.begins(Some(&queue), &id.to_string())?;
    session.client.dead_letters(&queue).delete(id).await?;
    session.audit.ends(Some(&queue), &format!("{id} deleted"))?;
    if session.out.json {
        session.out.json_line(&One { id: id.to_string(), queue: &queue, outcome: "deleted" })?;
    } else {
        let what = session.out.styled(colour::WARN, "deleted");
        session.out.line(format!("{id} {what}"))?;
    }
    Ok(())
}

async fn by_filter(session: &mut Session, choice: &Choice, queue: &str) -> Outcome {
    let letters = choice.letters(&session.client, queue).await?;
    let matched = letters.len();
    let asked = confirm(matched, "dead letter", queue, "delete", choice.yes);
    if session.out.json && !matches!(asked, Ok(true)) {
        session.out.json_line(&Many { queue, matched, deleted: 0 })?;
    }
    if !asked? {
        return Ok(());
    }
    session.audit.begins(Some(queue), &format!("{matched} dead letters: {}", choice.filter.told().join(", ")))?;
    let dead = session.client.dead_letters(queue);
    let mut deleted = 0;
    let progress = Progress::of(matched, format!("{queue}: deleting"));
    for some in letters.chunks(AT_ONCE) {
        deleted += dead.delete_listed(some).await?;
        progress.more(some.len());
    }
    drop(progress);
    let gone = (matched as u64).saturating_sub(deleted);
    let text =
        if gone == 0 { format!("{deleted} deleted") } else { format!("{deleted} deleted; {gone} were gone by then") };
    session.audit.ends(Some(queue), &text)?;
    if session.out.json {
        session.out.json_line(&Many { queue, matched, deleted })?;
    } else {
        session.out.line(format!("{queue}: {text}"))?;
    }
    Ok(())
}

//! `dead retry`: letters by id, or exactly those that a filter means, go to work again.

use std::fmt::Write;

use clap::Args;
use delayq::{JobId, RedriveReport};
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
  delayq dead retry 0197a3c2-5e1f-7d3a-9c4b-2f6e8d1a0b5c
  delayq dead retry --queue orders --error 'connection refused'          counts
  delayq dead retry --queue orders --error 'connection refused' --yes    does it

What dies while this runs is left for the next time.")]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,
}

#[derive(Debug, Serialize)]
struct Many<'a> {
    queue: &'a str,
    matched: usize,
    retried: u64,
    conflicts: u64,
    unreadable: u64,
    gone: u64,
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
    session.client.dead_letters(&queue).redrive(id).await?;
    session.audit.ends(Some(&queue), &format!("{id} retried"))?;
    if session.out.json {
        session.out.json_line(&One { id: id.to_string(), queue: &queue, outcome: "retried" })?;
    } else {
        let what = session.out.styled(colour::GOOD, "waits again, due now");
        session.out.line(format!("{id} {what}"))?;
    }
    Ok(())
}

async fn by_filter(session: &mut Session, choice: &Choice, queue: &str) -> Outcome {
    let letters = choice.letters(&session.client, queue).await?;
    let matched = letters.len();
    let view = |report: RedriveReport| Many {
        queue,
        matched,
        retried: report.redriven,
        conflicts: report.conflicts,
        unreadable: report.unreadable,
        gone: report.gone,
    };
    let asked = confirm(matched, "dead letter", queue, "retry", choice.yes);
    if session.out.json && !matches!(asked, Ok(true)) {
        session.out.json_line(&view(RedriveReport::default()))?;
    }
    if !asked? {
        return Ok(());
    }
    session.audit.begins(Some(queue), &format!("{matched} dead letters: {}", choice.filter.told().join(", ")))?;
    let dead = session.client.dead_letters(queue);
    let mut total = RedriveReport::default();
    let progress = Progress::of(matched, format!("{queue}: retrying"));
    for some in letters.chunks(AT_ONCE) {
        let report = dead.redrive_listed(some).await?;
        total.redriven += report.redriven;
        total.conflicts += report.conflicts;
        total.unreadable += report.unreadable;
        total.gone += report.gone;
        progress.more(some.len());
    }
    drop(progress);
    let text = told(&total);
    session.audit.ends(Some(queue), &text)?;
    if session.out.json {
        session.out.json_line(&view(total))?;
    } else {
        session.out.line(format!("{queue}: {text}"))?;
    }
    Ok(())
}

fn told(report: &RedriveReport) -> String {
    let mut text = format!("{} wait again, due now", report.redriven);
    for (count, what) in [
        (report.conflicts, "stay, since another job has their unique key"),
        (report.unreadable, "stay, since their records are gone or unreadable: they can only be deleted"),
        (report.gone, "were gone by then"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {count} {what}");
        }
    }
    text
}

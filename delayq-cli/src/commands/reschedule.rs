//! `reschedule`: waiting jobs to another time, by id, or exactly those that a filter means.

use std::time::Duration;

use clap::Args;
use delayq::{JobId, JobState, When};
use jiff::Timestamp;
use serde::Serialize;

use super::Session;
use crate::bulk::{self, Change, Tally};
use crate::confirm::{Yes, confirm};
use crate::failure::{OneByOne, Outcome};
use crate::filter::{Filter, Narrow};
use crate::find;
use crate::output::json::in_ms;
use crate::time;

/// Which jobs, and to when.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq reschedule 0197a3c2-5e1f-7d3a-9c4b-2f6e8d1a0b5c --in 2h
  delayq reschedule --queue mail --name newsletter --at 2026-12-24T18:00:00Z --yes

A filter counts at the moment of the look. A job that was found is then moved by its id, also if it was moved to another time
meanwhile; one that has begun to run stays.")]
pub(crate) struct Options {
    /// Their ids; all queues are looked through for them unless --queue is given
    #[arg(value_name = "ID")]
    ids: Vec<JobId>,
    #[command(flatten)]
    when: NewTime,
    /// The queue; with a filter it may be given several times
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// Every waiting job of the queue, in place of a filter
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    yes: Yes,
}

/// When it is to be.
#[derive(Debug, Clone, Copy, Args)]
#[group(required = true, multiple = false)]
struct NewTime {
    /// So long from now
    #[arg(long = "in", value_name = "DURATION", value_parser = time::duration)]
    delay: Option<Duration>,
    /// At this instant: 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::instant)]
    at: Option<Timestamp>,
}

impl NewTime {
    fn when(self) -> When {
        match (self.at, self.delay) {
            (Some(at), _) => at.into(),
            (None, delay) => delay.unwrap_or_default().into(),
        }
    }

    fn told(self) -> String {
        match (self.at, self.delay) {
            (Some(at), _) => format!("at {at}"),
            (None, delay) => format!("in {}", time::exact(delay.unwrap_or_default())),
        }
    }
}

#[derive(Debug, Serialize)]
struct One<'a> {
    id: String,
    queue: &'a str,
    due: String,
}

#[derive(Debug, Serialize)]
struct Many<'a> {
    queue: &'a str,
    matched: usize,
    rescheduled: u64,
    not_waiting: u64,
    unsure: u64,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    bulk::check(&options.ids, &options.filter, options.all, &options.queues)?;
    let queues = find::queues(&session.client, &options.queues).await?;
    let mut each = OneByOne::default();
    for id in &options.ids {
        let moved = one(session, &options, &queues, *id, &mut each).await;
        each.take(moved)?;
    }
    if options.ids.is_empty() {
        for queue in &queues {
            let moved = by_filter(session, &options, queue).await;
            each.take(moved.map_err(|failure| find::of_queue(queue, failure)))?;
        }
    }
    each.end()
}

async fn one(session: &mut Session, options: &Options, queues: &[String], id: JobId, each: &mut OneByOne) -> Outcome {
    let handle = find::handle(&session.client, &options.queues, queues, id, each).await?;
    let (queue, asked_for) = (Some(handle.queue()), format!("{id} {}", options.when.told()));
    session.audit.begins(queue, &asked_for)?;
    let moved = handle.reschedule_at(options.when.when()).await.map(in_ms);
    let due = session.audit.ended(queue, &asked_for, moved, |due| format!("{id} due {due}"))?;
    if session.out.json {
        session.out.json_line(&One { id: id.to_string(), queue: handle.queue(), due })?;
    } else {
        session.out.line(format!("{id} due {due}"))?;
    }
    Ok(())
}

async fn by_filter(session: &mut Session, options: &Options, queue: &str) -> Outcome {
    // All are found before the first is moved: what moves ahead in the list would be met again.
    let mut ids = Vec::new();
    bulk::matching(&session.client, queue, &options.filter, &[JobState::Waiting], |job| ids.push(job.id)).await?;
    let matched = ids.len();
    let view = |tally: Tally| Many {
        queue,
        matched,
        rescheduled: tally.done,
        not_waiting: tally.passed,
        unsure: tally.unsure,
    };
    let asked = confirm(matched, "waiting job", queue, "move", options.yes);
    if session.out.json && !matches!(asked, Ok(true)) {
        session.out.json_line(&view(Tally::default()))?;
    }
    if !asked? {
        return Ok(());
    }
    let mut told = options.filter.told();
    told.extend(options.all.then(|| "all".to_owned()));
    session.audit.begins(Some(queue), &format!("{matched} jobs {}: {}", options.when.told(), told.join(", ")))?;
    let (client, when) = (&session.client, options.when.when());
    let (tally, result) = bulk::each(ids, format!("{queue}: moving"), |id| {
        let handle = client.job(queue, id);
        async move { handle.reschedule_at(when).await.map(|_| Change::Done) }
    })
    .await;
    let text = format!("{} moved, {} no longer waited{}", tally.done, tally.passed, tally.told_of_rest());
    let ended = session.audit.ended(Some(queue), &text, result, |()| text.clone());
    if session.out.json {
        session.out.json_line(&view(tally))?;
    } else {
        session.out.line(format!("{queue}: {text}"))?;
    }
    ended
}

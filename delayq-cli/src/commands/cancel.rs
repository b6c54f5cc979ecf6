//! `cancel`: jobs by id, or exactly those that a filter means.

use anstyle::Style;
use clap::{Args, ValueEnum};
use delayq::{CancelOutcome, JobId, JobState};
use serde::Serialize;

use super::Session;
use crate::bulk::{self, Change, Tally};
use crate::confirm::{Yes, confirm};
use crate::failure::{OneByOne, Outcome};
use crate::filter::{Filter, Narrow};
use crate::find;
use crate::output::colour;

/// Which jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq cancel 0197a3c2-5e1f-7d3a-9c4b-2f6e8d1a0b5c
  delayq cancel --queue mail --name newsletter              counts
  delayq cancel --queue mail --name newsletter --yes        cancels exactly those

A filter counts at the moment of the look. A job that was found is then cancelled by its id, whatever has become of it: also
one that was moved to another time meanwhile, and one that has begun to run, which will not run again.")]
pub(crate) struct Options {
    /// Their ids; all queues are looked through for them unless --queue is given
    #[arg(value_name = "ID")]
    ids: Vec<JobId>,
    /// The queue; with a filter it may be given several times
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// Which ones a filter means: those that wait, or also those that run, which then end with this run
    #[arg(long = "state", value_name = "STATE", default_value = "waiting")]
    states: Vec<State>,
    /// Every job of the queue, in place of a filter
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    yes: Yes,
}

/// The states that a job can be cancelled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    Waiting,
    Running,
}

#[derive(Debug, Serialize)]
struct One<'a> {
    id: String,
    queue: &'a str,
    outcome: &'a str,
}

#[derive(Debug, Serialize)]
struct Many<'a> {
    queue: &'a str,
    matched: usize,
    cancelled: u64,
    running: u64,
    ended_before: u64,
    unsure: u64,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    bulk::check(&options.ids, &options.filter, options.all, &options.queues)?;
    let queues = find::queues(&session.client, &options.queues).await?;
    let mut each = OneByOne::default();
    for id in &options.ids {
        let cancelled = one(session, &options.queues, &queues, *id, &mut each).await;
        each.take(cancelled)?;
    }
    if options.ids.is_empty() {
        for queue in &queues {
            let cancelled = by_filter(session, &options, queue).await;
            each.take(cancelled.map_err(|failure| find::of_queue(queue, failure)))?;
        }
    }
    each.end()
}

async fn one(session: &mut Session, named: &[String], queues: &[String], id: JobId, each: &mut OneByOne) -> Outcome {
    let handle = find::handle(&session.client, named, queues, id, each).await?;
    let (queue, asked_for) = (Some(handle.queue()), id.to_string());
    session.audit.begins(queue, &asked_for)?;
    let cancelled = handle.cancel().await.map(told);
    let ended = session.audit.ended(queue, &asked_for, cancelled, |(outcome, ..)| format!("{id} {outcome}"));
    let (outcome, what, style) = ended?;
    if session.out.json {
        session.out.json_line(&One { id: id.to_string(), queue: handle.queue(), outcome })?;
    } else {
        let what = session.out.styled(style, what);
        session.out.line(format!("{id} {what}"))?;
    }
    Ok(())
}

/// What came of it: in a word, in a sentence, and how that is shown.
pub(crate) fn told(outcome: CancelOutcome) -> (&'static str, &'static str, Style) {
    match outcome {
        CancelOutcome::Running => ("running", "runs now: it will not run again", colour::WARN),
        _ => ("cancelled", "cancelled", colour::GOOD),
    }
}

async fn by_filter(session: &mut Session, options: &Options, queue: &str) -> Outcome {
    let states: Vec<JobState> = [(State::Waiting, JobState::Waiting), (State::Running, JobState::Running)]
        .into_iter()
        .filter(|(state, _)| options.states.contains(state))
        .map(|(_, state)| state)
        .collect();
    let mut ids = Vec::new();
    bulk::matching(&session.client, queue, &options.filter, &states, |job| ids.push(job.id)).await?;
    let matched = ids.len();
    let view = |tally: Tally| Many {
        queue,
        matched,
        cancelled: tally.done,
        running: tally.running,
        ended_before: tally.passed,
        unsure: tally.unsure,
    };
    let asked = confirm(matched, "job", queue, "cancel", options.yes);
    if session.out.json && !matches!(asked, Ok(true)) {
        session.out.json_line(&view(Tally::default()))?;
    }
    if !asked? {
        return Ok(());
    }
    let mut told = options.filter.told();
    told.extend(options.all.then(|| "all".to_owned()));
    told.extend(states.iter().map(|state| format!("state={state}")));
    session.audit.begins(Some(queue), &format!("{matched} jobs: {}", told.join(", ")))?;
    let client = &session.client;
    let (tally, result) = bulk::each(ids, format!("{queue}: cancelling"), |id| {
        let handle = client.job(queue, id);
        async move {
            Ok(match handle.cancel().await? {
                CancelOutcome::Running => Change::Running,
                _ => Change::Done,
            })
        }
    })
    .await;
    let text = format!(
        "{} cancelled, {} run now and will not run again, {} had ended before{}",
        tally.done,
        tally.running,
        tally.passed,
        tally.told_of_rest()
    );
    let ended = session.audit.ended(Some(queue), &text, result, |()| text.clone());
    if session.out.json {
        session.out.json_line(&view(tally))?;
    } else {
        session.out.line(format!("{queue}: {text}"))?;
    }
    ended
}

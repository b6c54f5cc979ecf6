//! `job`: all that is known of a job, and what became of it as far as the store knows.

use std::str;

use clap::Args;
use delayq::{Client, JobId, JobInfo, JobQuery, JobState, JobStatus};
use jiff::Timestamp;
use serde::Serialize;

use super::Session;
use super::jobs::when;
use crate::bulk::PAGE;
use crate::failure::{Failure, OneByOne, Outcome};
use crate::find;
use crate::output::json::JobView;
use crate::output::{Out, colour, escaped};
use crate::time;

/// How many running jobs are looked at to find who runs this one.
const LOOKED_AT_MAX: usize = 10_000;
/// How much of a payload is shown, in bytes; `--json` has it whole.
const PAYLOAD_SHOWN_MAX: usize = 8 * 1024;

/// Which job.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq job 01a22bef-18b5-7342-b68f-8f4ab4e56ab5
  delayq job 01a22bef-18b5-7342-b68f-8f4ab4e56ab5 --queue orders --json | jq .payload")]
pub(crate) struct Options {
    /// Its id
    id: JobId,
    /// The queue it is in; all are looked through unless this is given
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
}

/// A job that ended moments ago.
#[derive(Debug, Serialize)]
struct Ended<'a> {
    id: String,
    queue: &'a str,
    state: &'a str,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    let named: Vec<String> = options.queue.into_iter().collect();
    let queues = find::queues(&session.client, &named).await?;
    let mut each = OneByOne::default();
    let found = find::look(&session.client, &queues, options.id, &mut each).await?;
    if found.there.is_empty() {
        ended(session, &queues, options.id, &mut each).await?;
    }
    for (queue, job) in found.there {
        let shown = print(session, job).await;
        find::spare(&mut each, &queue, shown)?;
    }
    each.end()
}

/// Prints a job with all that is known of it.
pub(crate) async fn print(session: &mut Session, mut job: JobInfo) -> Outcome {
    let now = session.client.stats(&job.queue).await?.now;
    let mut worker = None;
    if job.state == JobState::Running
        && let Some(held) = running(&session.client, &job, LOOKED_AT_MAX).await?
    {
        job.running_since = held.running_since;
        worker = worker_name(&session.client, &job.queue, held.session.as_deref()).await?;
        job.session = held.session;
    }
    if session.out.json {
        return Ok(session.out.json_line(&JobView::of(&job))?);
    }
    show(&mut session.out, &job, worker.as_deref(), now)
}

/// A job that has left its queue.
async fn ended(session: &mut Session, queues: &[String], id: JobId, each: &mut OneByOne) -> Outcome {
    let found = find::look_for_end(&session.client, queues, id, each).await?;
    let Some((queue, status)) = found.there.first() else {
        return Err(Failure::Refused(format!(
            "there is no job {id} in {}: it ended more than 15 s ago, or never was",
            found.place
        )));
    };
    let how = ending(status);
    if session.out.json {
        session.out.json_line(&Ended { id: id.to_string(), queue, state: how })?;
    } else {
        session.out.line(format!("{id} of the queue {queue} is {how}, within the last 15 s"))?;
    }
    Ok(())
}

/// How a job ended, of those that ended moments ago.
pub(crate) fn ending(status: &JobStatus) -> &'static str {
    match status {
        JobStatus::Done => "done",
        JobStatus::Cancelled => "cancelled",
        JobStatus::Expired => "expired",
        JobStatus::Discarded => "discarded",
        JobStatus::Deleted => "deleted",
        // It was made between two looks.
        _ => "there now: look again",
    }
}

/// The job as the list of running ones has it: with its worker, and since when. Looks at about so many.
pub(crate) async fn running(client: &Client, job: &JobInfo, looked_at_max: usize) -> Outcome<Option<JobInfo>> {
    let mut query = JobQuery::new(JobState::Running).limit(PAGE);
    let mut looked_at = 0;
    loop {
        let page = client.jobs(&job.queue).list(&query).await?;
        looked_at += page.scanned;
        if let Some(held) = page.jobs.into_iter().find(|held| held.id == job.id) {
            return Ok(Some(held));
        }
        match page.next {
            Some(next) if looked_at < looked_at_max => query = query.after(next),
            _ => return Ok(None),
        }
    }
}

pub(crate) async fn worker_name(client: &Client, queue: &str, session: Option<&str>) -> Outcome<Option<String>> {
    let workers = client.workers(queue).await?;
    let its = workers.into_iter().find(|worker| Some(worker.session.as_str()) == session);
    Ok(its.map(|worker| worker.name.unwrap_or(worker.session)))
}

fn show(out: &mut Out, job: &JobInfo, worker: Option<&str>, now: Timestamp) -> Outcome {
    let state = out.styled(colour::of_state(job.state), format!("{} {}", job.state, when(job, now)).trim_end());
    out.line(format!("{} {}", out.styled(colour::HEAD, job.id), escaped(&title(job))))?;
    field(out, "queue", &job.queue)?;
    // Made of our own words: nothing in it is foreign.
    out.line(format!("  {:<11} {state}", "state"))?;
    for (name, value) in fields(job) {
        field(out, name, &value)?;
    }
    out.line(out.styled(colour::FAINT, "  history"))?;
    for (at, what) in history(job, worker) {
        let distance = format!("({})", time::from_now(at, now));
        out.line(format!("    {:<24} {distance:<14} {}", format!("{at:.3}"), escaped(&what)))?;
    }
    out.line(out.styled(colour::FAINT, format!("  payload, {} bytes", job.payload.len())))?;
    for line in payload(&job.payload) {
        out.line(format!("    {}", escaped(&line)))?;
    }
    Ok(())
}

/// What it is called.
pub(crate) fn title(job: &JobInfo) -> String {
    match (&job.name, job.version) {
        (Some(name), Some(version)) => format!("{name} version {version}"),
        _ => "? (its bytes can't be read)".to_owned(),
    }
}

/// What there is to say of it beside its queue and state.
pub(crate) fn fields(job: &JobInfo) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    fields.extend(job.priority.map(|priority| ("priority", priority.to_string())));
    fields.extend(job.unique_key.clone().map(|key| ("unique", key)));
    let attempts = match job.attempts_max {
        Some(most) => format!("{} of {most}", job.attempts),
        None => format!("{}, without limit", job.attempts),
    };
    fields.push(("attempts", attempts));
    if job.crashes > 0 {
        fields.push(("crashes", format!("{} workers were lost while they held it", job.crashes)));
    }
    if job.free_returns > 0 {
        fields.push(("came back", format!("{} times without spending an attempt", job.free_returns)));
    }
    fields.extend(job.retain_for.map(|retain| ("kept for", format!("{} once it is done", time::short(retain)))));
    fields.extend(job.trace_parent.clone().map(|parent| ("trace", parent)));
    if job.cancelling {
        fields.push(("cancelled", "while it runs: it will not run again".to_owned()));
    }
    fields
}

/// What happened and will happen, in order of time.
pub(crate) fn history(job: &JobInfo, worker: Option<&str>) -> Vec<(Timestamp, String)> {
    let mut events: Vec<(Timestamp, String)> = Vec::new();
    events.extend(job.enqueued_at.map(|at| (at, "sent".to_owned())));
    let due = if job.state == JobState::Waiting { "due" } else { "was due" };
    events.extend(job.due.map(|at| (at, due.to_owned())));
    if let Some(failure) = &job.failure
        && let Some(at) = failure.at
        && job.state != JobState::Dead
    {
        events.push((at, format!("failed, attempt {}: {}: {}", failure.attempts, failure.code, failure.text)));
    }
    events.extend(job.running_since.map(|at| {
        let attempt = job.attempts + 1;
        (at, worker.map_or(format!("runs, attempt {attempt}"), |name| format!("runs, attempt {attempt}, on {name}")))
    }));
    if let Some(at) = job.dead_since {
        let why = job.failure.as_ref().map_or("the reason was lost".to_owned(), |failure| {
            format!("{} after attempt {}: {}", failure.code, failure.attempts, failure.text)
        });
        events.push((at, format!("died: {why}")));
    }
    events.extend(job.expires_at.map(|at| (at, "no longer worth starting".to_owned())));
    events.extend(job.retained_until.map(|at| (at, "its record goes".to_owned())));
    events.sort_by_key(|(at, _)| *at);
    events
}

/// A payload's lines, as far as they are shown; still as foreign as they came.
pub(crate) fn payload(payload: &[u8]) -> Vec<String> {
    match str::from_utf8(payload) {
        // Lines stay lines.
        Ok(text) if payload.len() <= PAYLOAD_SHOWN_MAX => text.lines().map(str::to_owned).collect(),
        Ok(_) => vec![format!("more than {PAYLOAD_SHOWN_MAX} bytes: --json has it whole")],
        Err(_) => vec!["not a text: --json has it in base64".to_owned()],
    }
}

fn field(out: &mut Out, name: &str, value: &str) -> Outcome {
    Ok(out.line(format!("  {name:<11} {}", escaped(value)))?)
}

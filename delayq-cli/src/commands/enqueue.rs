//! `enqueue`: one job, or one a line; for any language.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use delayq::{Client, JobId, RawJob};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Session, lines};
use crate::failure::{Failure, Outcome, UNREACHABLE, told};
use crate::output::remark;
use crate::time;

/// How long the list of queues is waited for.
const NOTED_WITHIN: Duration = Duration::from_secs(10);

/// Which job, when and how.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq enqueue cancel_order '{\"order_id\":42}' --queue orders --in 30m
  echo '{\"guest\":\"Ada\"}' | delayq enqueue remind_guest - --at 2026-12-24T18:00:00Z
  delayq enqueue --lines jobs.jsonl
  delayq dead export --queue orders | delayq enqueue --lines --url redis://other/

A line is a JSON object: {\"name\":\"cancel_order\",\"version\":1,\"payload\":{\"order_id\":42}}, and as it needs them \"queue\",
\"in\" or \"at\", \"id\", \"priority\", \"max_retries\", \"unique\", \"expires_in\", \"retain_for\", \"trace_parent\". In place of \"payload\"
\"payload_base64\" has bytes that are no JSON. With ids the same lines may be sent again after a crash: there is one job of an id.")]
pub(crate) struct Options {
    /// The job's name, as its type has it
    #[arg(required_unless_present = "lines", conflicts_with = "lines")]
    name: Option<String>,
    /// Its payload: JSON, kept byte for byte; {} unless given, - to read it from standard input
    #[arg(value_name = "PAYLOAD|-", conflicts_with = "lines")]
    payload: Option<String>,
    /// Read jobs as JSON lines, from this file or from standard input
    #[arg(long, value_name = "FILE|-", num_args = 0..=1, default_missing_value = "-")]
    lines: Option<PathBuf>,
    /// With --lines: print the id of each job, in the order of the lines
    #[arg(long, requires = "lines")]
    print_ids: bool,
    /// The queue; of lines, that of those that name none
    #[arg(long, default_value = "default", value_name = "QUEUE")]
    queue: String,
    #[command(flatten)]
    terms: Terms,
}

/// How a single job is run; a line has its own.
#[derive(Debug, Args)]
#[command(next_help_heading = "The job")]
struct Terms {
    /// The payload's version
    #[arg(long, value_name = "N", conflicts_with = "lines")]
    version: Option<u32>,
    /// When it is due: so long from now
    #[arg(long = "in", value_name = "DURATION", value_parser = time::duration, conflicts_with_all = ["at", "lines"])]
    delay: Option<Duration>,
    /// When it is due: 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::instant, conflicts_with = "lines")]
    at: Option<Timestamp>,
    /// Among the jobs that are due 0 runs first, 9 last; 5 unless given
    #[arg(long, value_name = "0-9", conflicts_with = "lines")]
    priority: Option<u8>,
    /// How often it is run again if it fails; 3 unless given
    #[arg(long, value_name = "N", conflicts_with = "lines")]
    max_retries: Option<u32>,
    /// While a job of this key hasn't ended, another one is refused
    #[arg(long, value_name = "KEY", conflicts_with = "lines")]
    unique: Option<String>,
    /// How long after its due time it is still worth starting
    #[arg(long, value_name = "DURATION", value_parser = time::duration, conflicts_with = "lines")]
    expires_in: Option<Duration>,
    /// How long its record is kept once it is done
    #[arg(long, value_name = "DURATION", value_parser = time::duration, conflicts_with = "lines")]
    retain: Option<Duration>,
    /// Its id, instead of a new one: however often it is sent, there is one job of it
    #[arg(long, conflicts_with = "lines")]
    id: Option<JobId>,
}

#[derive(Debug, Serialize)]
struct View<'a> {
    id: String,
    queue: &'a str,
    new: bool,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    if let Some(file) = &options.lines {
        return lines::run(session, file, &options.queue, options.print_ids).await;
    }
    let name = options.name.unwrap_or_default();
    let payload = match options.payload.as_deref() {
        None => "{}".to_owned(),
        Some("-") => from_stdin()?,
        Some(text) => text.to_owned(),
    };
    // The id is there before anything is sent, so that an answer that isn't sure can name it.
    let id = options.terms.id.unwrap_or_else(JobId::new);
    let job = options.terms.job(&name, json(&payload)?).id(id);
    let (queue, id) = (options.queue, id.to_string());
    session.audit.begins(Some(&queue), &format!("{name} {id}"))?;
    let sent = session.client.send_raw(&queue, vec![job]).await.into_iter().next();
    let sent = match sent {
        Some(sent) => sent.map_err(Failure::from),
        None => Err(Failure::Refused("the store gave no answer for the job".to_owned())),
    };
    let handle = match session.audit.ended(Some(&queue), &id, sent, |_| id.clone()) {
        Err(Failure::Store(error)) if error.is_unknown() => {
            // Sent again without its id it might be a second job.
            remark(format!("delayq: {}; it may be there: to send it again, add --id {id}", told(&error)));
            return Err(Failure::Told(UNREACHABLE));
        }
        sent => sent?,
    };
    noted(&session.client, &BTreeSet::from([queue.clone()])).await;
    if session.out.json {
        session.out.json_line(&View { id, queue: &queue, new: handle.is_new() })?;
    } else {
        session.out.line(id)?;
        if !handle.is_new() {
            remark("a job of this id was there already, or had ended moments ago: nothing new was made");
        }
    }
    Ok(())
}

impl Terms {
    fn job(self, name: &str, payload: &str) -> RawJob {
        let version = self.version.unwrap_or(1);
        let mut job = RawJob::new(name.to_owned(), version, payload.to_owned());
        if let Some(at) = self.at {
            job = job.at(at);
        }
        if let Some(delay) = self.delay {
            job = job.at(delay);
        }
        if let Some(priority) = self.priority {
            job = job.priority(priority);
        }
        if let Some(retries) = self.max_retries {
            job = job.max_retries(retries);
        }
        if let Some(key) = self.unique {
            job = job.unique(key);
        }
        if let Some(after_due) = self.expires_in {
            job = job.expires_in(after_due);
        }
        if let Some(after_done) = self.retain {
            job = job.retain_for(after_done);
        }
        job
    }
}

fn from_stdin() -> Outcome<String> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::Usage(format!("the payload can't be read from standard input: {error}")))?;
    Ok(text)
}

/// The one JSON value of a text, as it stands there.
fn json(text: &str) -> Outcome<&str> {
    let value: &RawValue = serde_json::from_str(text)
        .map_err(|error| Failure::Usage(format!("the payload is no JSON: {}", lines::at_column(&error))))?;
    Ok(value.get())
}

/// Waits until queues are on the list of those in use. The library notes them beside the first send, and this process is
/// about to end. The jobs are safe either way.
pub(super) async fn noted(client: &Client, queues: &BTreeSet<String>) {
    let deadline = Instant::now() + NOTED_WITHIN;
    while Instant::now() < deadline {
        match client.queues().await {
            Ok(known) if queues.iter().all(|queue| known.contains(queue)) => return,
            Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(_) => return,
        }
    }
}

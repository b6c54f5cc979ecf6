//! `dead`: the dead letters, listed, shown, retried, deleted, exported.

mod change;
pub(crate) mod delete;
pub(crate) mod export;
pub(crate) mod list;
pub(crate) mod retry;
pub(crate) mod show;

use clap::{Args, Subcommand};
use delayq::{Client, JobId, JobInfo, JobState};
use jiff::Timestamp;

use super::Session;
use crate::bulk;
use crate::confirm::Yes;
use crate::failure::{Failure, OneByOne, Outcome};
use crate::filter::DeadFilter;
use crate::find::{self, Found};

/// How many letters one call of the library redrives or deletes: progress is seen after each.
const AT_ONCE: usize = 500;

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List and search dead letters, the newest first
    List(list::Options),
    /// Show a dead letter with its payload
    Show(show::Options),
    /// Send dead letters to work again, with all their attempts
    Retry(retry::Options),
    /// Delete dead letters for good
    Delete(delete::Options),
    /// Write dead letters as JSON lines, which `enqueue --lines` reads
    Export(export::Options),
}

/// Which letters a change is about.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// Their ids; all queues are looked through for them unless --queue is given
    #[arg(value_name = "ID")]
    ids: Vec<JobId>,
    /// The queue; with a filter it may be given several times
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    #[command(flatten)]
    filter: DeadFilter,
    /// Every dead letter of the queue, in place of a filter
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    yes: Yes,
}

impl Command {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Command::List(_) => "dead list",
            Command::Show(_) => "dead show",
            Command::Retry(_) => "dead retry",
            Command::Delete(_) => "dead delete",
            Command::Export(_) => "dead export",
        }
    }
}

impl Choice {
    /// The queues to look into, once it is clear what is meant.
    async fn queues(&self, client: &Client) -> Outcome<Vec<String>> {
        bulk::check(&self.ids, &self.filter, self.all, &self.queues)?;
        find::queues(client, &self.queues).await
    }

    /// The letters of a queue that the filter means, as they are listed: id and time of death.
    async fn letters(&self, client: &Client, queue: &str) -> Outcome<Vec<(JobId, Timestamp)>> {
        let mut letters = Vec::new();
        bulk::matching(client, queue, &self.filter, &[JobState::Dead], |job| {
            letters.extend(job.dead_since.map(|since| (job.id, since)));
        })
        .await?;
        Ok(letters)
    }
}

pub(crate) async fn run(session: &mut Session, command: Command) -> Outcome {
    match command {
        Command::List(options) => list::run(session, options).await,
        Command::Show(options) => show::run(session, options).await,
        Command::Retry(options) => retry::run(session, options).await,
        Command::Delete(options) => delete::run(session, options).await,
        Command::Export(options) => export::run(session, options).await,
    }
}

/// A letter, in the one queue that has it.
async fn letter(client: &Client, queues: &[String], id: JobId, each: &mut OneByOne) -> Outcome<JobInfo> {
    let Found { there, place } = find::look(client, queues, id, each).await?;
    let state = there.first().map(|(_, job)| job.state);
    let mut found: Vec<JobInfo> = there.into_iter().map(|(_, job)| job).collect();
    found.retain(|job| job.state == JobState::Dead);
    match (found.len(), state) {
        (1, _) => Ok(found.remove(0)),
        (0, Some(state)) => Err(Failure::Refused(format!("the job {id} is no dead letter: it is {state}"))),
        (0, None) => Err(Failure::Refused(format!("there is no dead letter {id} in {place}"))),
        _ => Err(Failure::Refused(format!("{id} is a dead letter of several queues: say which by --queue"))),
    }
}

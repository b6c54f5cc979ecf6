//! `dead list`: pages of dead letters, the newest first.

use clap::Args;
use delayq::JobState;

use crate::commands::Session;
use crate::commands::jobs::{self, Paging};
use crate::failure::{Failure, Outcome};
use crate::filter::DeadFilter;

/// Which letters, and how many.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq dead list --reason retries_exhausted --error 'connection refused'
  delayq dead list --queue orders --name charge_card --json | jq .failure.text")]
pub(crate) struct Options {
    /// Only this queue; may be given several times
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    #[command(flatten)]
    filter: DeadFilter,
    /// The oldest first
    #[arg(long)]
    oldest_first: bool,
    #[command(flatten)]
    page: Paging,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    if options.page.goes_on() && options.queues.len() != 1 {
        return Err(Failure::Usage("--after goes on in one list: give the one --queue that it ended in".to_owned()));
    }
    let command = if options.oldest_first { "dead list --oldest-first" } else { "dead list" };
    let newest_first = !options.oldest_first;
    let states = [JobState::Dead];
    jobs::list(session, &options.queues, &states, &options.filter, &options.page, command, newest_first).await
}

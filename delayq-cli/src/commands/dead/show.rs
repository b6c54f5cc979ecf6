//! `dead show`: a dead letter with all that is known of it.

use clap::Args;
use delayq::JobId;

use super::letter;
use crate::commands::{Session, job};
use crate::failure::{OneByOne, Outcome};
use crate::find;

/// Which letter.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq dead show 01a22bef-18b5-7342-b68f-8f4ab4e56ab5
  delayq dead show 01a22bef-18b5-7342-b68f-8f4ab4e56ab5 --json | jq .payload")]
pub(crate) struct Options {
    /// Its id
    id: JobId,
    /// The queue it is in; all are looked through unless this is given
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    let named: Vec<String> = options.queue.into_iter().collect();
    let queues = find::queues(&session.client, &named).await?;
    let mut each = OneByOne::default();
    let letter = letter(&session.client, &queues, options.id, &mut each).await?;
    job::print(session, letter).await?;
    each.end()
}

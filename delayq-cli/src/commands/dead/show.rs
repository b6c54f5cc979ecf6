//! `dead show`: a dead letter with all that is known of it.

use clap::Args;
use delayq::JobId;

use super::letter;
use crate::commands::{Session, job};
use crate::failure::{OneByOne, Outcome};
use crate::find;

/// Which letter.
#[derive(Debug, Args)]
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

//! `dead delete`: letters by id, or exactly those that a filter means, go for good.

use anstyle::Style;
use clap::Args;
use delayq::{DeadLetters, Error, JobId};
use jiff::Timestamp;
use serde::Serialize;

use super::Choice;
use super::change::{self, Change};
use crate::commands::Session;
use crate::failure::Outcome;
use crate::output::colour;

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

#[derive(Debug, Default, Serialize)]
struct Deleted {
    deleted: u64,
}

impl Change for Deleted {
    const VERB: &'static str = "delete";
    const DOING: &'static str = "deleting";
    const OUTCOME: &'static str = "deleted";
    const SHOWN: (&'static str, Style) = ("deleted", colour::WARN);

    async fn one(letters: &DeadLetters, id: JobId) -> Result<(), Error> {
        letters.delete(id).await
    }

    async fn listed(&mut self, letters: &DeadLetters, some: &[(JobId, Timestamp)]) -> Result<(), Error> {
        self.deleted += letters.delete_listed(some).await?;
        Ok(())
    }

    fn told(&self, asked_for: usize) -> String {
        let gone = (asked_for as u64).saturating_sub(self.deleted);
        let mut text = format!("{} deleted", self.deleted);
        if gone > 0 {
            text.push_str(&format!("; {gone} were gone by then"));
        }
        text
    }
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    change::run::<Deleted>(session, options.choice).await
}

//! `dead retry`: letters by id, or exactly those that a filter means, go to work again.

use std::fmt::Write;

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
  delayq dead retry 0197a3c2-5e1f-7d3a-9c4b-2f6e8d1a0b5c
  delayq dead retry --queue orders --error 'connection refused'          counts
  delayq dead retry --queue orders --error 'connection refused' --yes    does it

What dies while this runs is left for the next time.")]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,
}

#[derive(Debug, Default, Serialize)]
struct Retried {
    retried: u64,
    conflicts: u64,
    unreadable: u64,
    gone: u64,
}

impl Change for Retried {
    const VERB: &'static str = "retry";
    const DOING: &'static str = "retrying";
    const OUTCOME: &'static str = "retried";
    const SHOWN: (&'static str, Style) = ("waits again, due now", colour::GOOD);

    async fn one(letters: &DeadLetters, id: JobId) -> Result<(), Error> {
        letters.redrive(id).await
    }

    async fn listed(&mut self, letters: &DeadLetters, some: &[(JobId, Timestamp)]) -> Result<(), Error> {
        let report = letters.redrive_listed(some).await?;
        self.retried += report.redriven;
        self.conflicts += report.conflicts;
        self.unreadable += report.unreadable;
        self.gone += report.gone;
        Ok(())
    }

    fn told(&self, _: usize) -> String {
        let mut text = format!("{} wait again, due now", self.retried);
        for (count, what) in [
            (self.conflicts, "stay, since another job has their unique key"),
            (self.unreadable, "stay, since their records are gone or unreadable: they can only be deleted"),
            (self.gone, "were gone by then"),
        ] {
            if count > 0 {
                let _ = write!(text, "; {count} {what}");
            }
        }
        text
    }
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    change::run::<Retried>(session, options.choice).await
}

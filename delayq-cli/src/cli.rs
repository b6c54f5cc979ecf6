//! What the command line says: the options of all commands, and the list of them.

use std::path::PathBuf;
use std::time::Duration;

use anstream::ColorChoice;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    cancel, completions, dead, doctor, enqueue, forecast, job, jobs, pause, queues, reschedule, workers,
};
use crate::{serve, time, top};

const EXAMPLES: &str = "\
Examples:
  export DELAYQ_URL=redis://:password@redis.internal/       or sqlite://jobs.db
  delayq enqueue cancel_order '{\"order_id\":42}' --queue orders --in 30m
  delayq enqueue --lines jobs.jsonl                         100,000 in seconds
  delayq queues --watch                                     what waits, runs and died, each 2 s
  delayq top                                                the same to walk through, with keys
  delayq jobs --queue orders --name cancel_order --due-before +1h
  delayq dead list --reason retries_exhausted --error timeout
  delayq dead retry --queue orders --error timeout          counts; --yes does it
  delayq cancel --queue mail --name newsletter --yes
  delayq doctor                                             what is wrong, and what to do

Exit codes: 0 ok, 1 refused or not found, 2 wrong usage, 3 the store can't be reached.";

/// See and steer a delay queue, and use it from any language.
#[derive(Debug, Parser)]
#[command(name = "delayq", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The store: redis://host/, rediss://host/ (TLS), redis+unix:///path/to/socket, redis-sentinel://host,host/name,
    /// redis-cluster://host,host or sqlite://jobs.db. Other users of this machine can read arguments: a URL with a password
    /// belongs in DELAYQ_URL or a file [env: DELAYQ_URL]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "url_file")]
    pub(crate) url: Option<String>,
    /// A file whose first line is the URL [env: DELAYQ_URL_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) url_file: Option<PathBuf>,
    /// What all keys of the application begin with
    #[arg(long, global = true, env = "DELAYQ_PREFIX", default_value = "delayq", value_name = "PREFIX")]
    pub(crate) prefix: String,
    /// Print JSON: one document, or a line for each entry of a list
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How long the store may take to answer
    #[arg(long, global = true, default_value = "3s", value_name = "DURATION", value_parser = time::duration)]
    pub(crate) timeout: Duration,
    /// A send, a cancel and a new due time count only when so many replicas have them too
    #[arg(long, global = true, env = "DELAYQ_WAIT_REPLICAS", default_value_t = 0, value_name = "N")]
    pub(crate) wait_replicas: u32,
    /// When to use colours; NO_COLOR counts as well
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN")]
    pub(crate) color: Color,
    /// A file that gets a line before and after each change that is made: who, when, what
    #[arg(long, global = true, env = "DELAYQ_AUDIT_LOG", value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    // On a terminal. As a doc comment it would spread the help over twice as many lines.
    Auto,
    Always,
    Never,
}

impl Color {
    /// Makes it the choice of all that is printed.
    pub(crate) fn choose(self) {
        match self {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send a job, or a job a line of a file
    Enqueue(enqueue::Options),
    /// Show a job with all that is known of it
    Job(job::Options),
    /// List and search jobs
    Jobs(jobs::Options),
    /// Cancel jobs, by id or by filter
    Cancel(cancel::Options),
    /// Move waiting jobs to another time, by id or by filter
    Reschedule(reschedule::Options),
    /// Look at, retry, delete and export dead letters
    #[command(subcommand)]
    Dead(dead::Command),
    /// Count what waits, runs and died in each queue
    Queues(queues::Options),
    /// Start nothing more of a queue; what runs goes on, sends are taken
    #[command(after_help = "Examples:\n  delayq pause orders mail\n  delayq pause orders --new")]
    Pause(pause::Options),
    /// Let a paused queue go on
    #[command(after_help = "Example: delayq resume orders mail")]
    Resume(pause::Options),
    /// Show how many jobs fall due when
    Forecast(forecast::Options),
    /// Show who serves a queue, what they run and how late
    Workers(workers::Options),
    /// Check the server and the queues, say what to do, and mend what lies in the queues
    Doctor(doctor::Options),
    /// Serve the HTTP API, metrics and probes
    Serve(serve::Options),
    /// Watch and steer queues, workers and jobs live
    Top(top::Options),
    /// Print completions for a shell
    Completions(completions::Options),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn has_examples(path: &str, command: &clap::Command) {
        for under in command.get_subcommands() {
            has_examples(&format!("{path} {}", under.get_name()), under);
        }
        if !command.has_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(path), "--help of `{path}` has no example: {help:?}");
        }
    }

    #[test]
    fn the_help_of_each_command_has_examples() {
        has_examples("delayq", &Cli::command());
    }
}

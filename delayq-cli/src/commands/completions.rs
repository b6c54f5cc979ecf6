//! `completions`: what a shell needs to complete `delayq`.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Outcome;

/// Which shell.
#[derive(Debug, Args)]
#[command(after_help = "Example: delayq completions bash > /etc/bash_completion.d/delayq")]
pub(crate) struct Options {
    shell: Shell,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "delayq", &mut text);
    std::io::stdout().write_all(&text)?;
    Ok(())
}

//! `delayq`: the command line of a delay queue, for operators and for any language.

mod audit;
mod bulk;
mod cli;
mod commands;
mod confirm;
mod connect;
mod failure;
mod filter;
mod find;
mod new_job;
mod output;
mod progress;
mod serve;
mod time;
mod top;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
use failure::Failure;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            // It repeats arguments: whoever calls may have them from anywhere.
            error.render().to_string().lines().for_each(output::remark);
            return ExitCode::from(failure::USAGE);
        }
        // Help or version.
        Err(error) => error.exit(),
    };
    cli.global.color.choose();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return ended(Err(Failure::io("no runtime can be started", error))),
    };
    let result = runtime.block_on(commands::run(cli));
    // A read of standard input may be pending for ever.
    runtime.shutdown_background();
    ended(result)
}

fn ended(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(text) = failure.text() {
                output::remark(format_args!("delayq: {text}"));
            }
            failure.code().into()
        }
    }
}

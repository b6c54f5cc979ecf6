//! The published figures, each by one command: `cargo run --release -p delayq-bench -- drain`.
#![allow(clippy::print_stdout)] // A program that prints figures.

mod bare;
mod drain;
mod machine;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo run --release -p delayq-bench -- FIGURE [--jobs N] [--runs N] [--young] [--commandstats]

Figures:
  drain    N due jobs (100,000) through a real worker to the last settle: jobs/s, Redis CPU and worker CPU
           a job, calls a job; the median of 3 runs after one that warms up. Beside it, in the same run, what the
           scripts alone do: one session that claims and settles without running anything. Machines differ and have
           good and bad minutes; the ratio of the two does not

Each starts a private redis-server without persistence on this machine.";

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag: &str, default: usize| -> Result<usize, String> {
        match args.iter().position(|arg| arg == flag) {
            None => Ok(default),
            Some(at) => args
                .get(at + 1)
                .and_then(|value| value.parse().ok())
                .filter(|n| *n > 0)
                .ok_or_else(|| format!("{flag} wants a whole number above zero")),
        }
    };
    let given = |flag: &str| args.iter().any(|arg| arg == flag);
    let figure = args.first().map(String::as_str);
    if matches!(figure, Some("--help" | "-h")) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let result = match (figure, number("--jobs", 100_000), number("--runs", 3)) {
        (Some("drain"), Ok(jobs), Ok(runs)) => drain::run(jobs, runs, given("--young"), given("--commandstats")).await,
        (_, Err(wrong), _) | (_, _, Err(wrong)) => Err(wrong.into()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the figure could not be taken: {error}");
            ExitCode::FAILURE
        }
    }
}

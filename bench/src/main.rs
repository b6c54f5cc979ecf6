//! The published figures, each by one command: `cargo run --release -p delayq-bench -- drain`.
#![allow(clippy::print_stdout)] // A program that prints figures.

mod bare;
mod drain;
mod embedded;
mod machine;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo run --release -p delayq-bench -- FIGURE [--jobs N] [--runs N] [--young] [--commandstats]
                                                           [--behind N]

Figures:
  drain    N due jobs (100,000) through a real worker to the last settle: jobs/s, Redis CPU and worker CPU
           a job, calls a job; the median of 3 runs after one that warms up. Beside it, in the same run, what the
           scripts alone do: one session that claims and settles without running anything. Machines differ and have
           good and bad minutes; the ratio of the two does not
  embedded N jobs (100,000) sent, claimed and settled by the scripts alone on the embedded engine, in a file and in
           memory, beside the same on Redis: jobs/s and CPU a job, the median and the least and most of 3 runs. Sends
           one by one by 64 tasks; what a backlog of jobs that are not due (--behind, 1,000,000) adds to the cost; and
           how long SQLite's log gets under 3 writers. Files are made in the folder for temporary files (TMPDIR)

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
    let numbers = (number("--jobs", 100_000), number("--runs", 3), number("--behind", 1_000_000));
    let young = given("--young");
    let result = match (figure, numbers) {
        (_, (Err(wrong), ..) | (_, Err(wrong), _) | (_, _, Err(wrong))) => Err(wrong.into()),
        (Some("drain"), (Ok(jobs), Ok(runs), _)) => drain::run(jobs, runs, young, given("--commandstats")).await,
        (Some("embedded"), (Ok(jobs), Ok(runs), Ok(behind))) => embedded::run(jobs, runs, behind, young).await,
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

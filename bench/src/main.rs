//! The published figures, each by one command: `cargo run --release -p delayq-bench -- drain`.
#![allow(clippy::print_stdout)] // A program that prints figures.

mod all;
mod bare;
mod drains;
mod figures;
mod fill;
mod job;
mod lates;
mod machine;
mod meter;
mod plot;
mod process;
mod regress;
mod report;
mod server;
mod stats;
mod table;
mod worker;

use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, Parser, Subcommand};

use figures::Sizes;
use report::Report;

/// Any error. What goes wrong while a figure is taken ends it.
type Res<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The published figures, each by one command.
///
/// Each starts private redis-servers on this machine. Where things are compared, they are taken in turns, and ratios are of
/// runs side by side: machines differ and have good and bad minutes, the ratios do not.
#[derive(Debug, Parser)]
#[command(name = "delayq-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Prints JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Figure(Figure),
    /// All figures, one after the other; about 25 minutes on two cores
    All(all::Options),
    /// Compares ratios of small runs with their limits; exit code 1 if one is outside
    Regress(RegressOptions),
    /// Draws pictures out of what `all --out` or `--json` wrote
    Plot(plot::Options),
    /// A worker, started by the other commands
    #[command(name = process::NAME, hide = true)]
    WorkerProcess(process::Order),
}

#[derive(Debug, Args)]
struct RegressOptions {
    /// How many runs the medians are of.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
}

#[derive(Debug, Clone, Subcommand)]
enum Figure {
    /// Sending: one at a time beside a bare EVALSHA, 64 tasks at once, in bulk
    Enqueue(Sizes),
    /// 100,000 and 1,000,000 due jobs through a worker, beside what the scripts alone do
    Drain(figures::drain::Options),
    /// 100,000 and 1,000,000 jobs that fall due in one instant, a worker waiting for them
    Burst(Sizes),
    /// How late jobs start: idle, at 1,000/s and at 10,000/s, with 1 and 10 worker processes
    Lateness(figures::lateness::Options),
    /// What 1 and 10 workers without a job ask of Redis
    Idle(Sizes),
    /// Redis's memory a pending job, at 100,000 and 1,000,000
    Memory(Sizes),
    /// Drain and bulk enqueue with an append-only file, beside without
    Aof(Sizes),
    /// A drain with ten priorities, unique keys, tracing, metrics, each beside the plain one
    Extras(Sizes),
    /// Claim, settle and send with 0, 1 and 10 million jobs behind that are not due
    Behind(figures::behind::Options),
    /// Whole lives of jobs on the embedded engine, beside Redis; files in the folder for temporary files (TMPDIR)
    Embedded(figures::embedded::Options),
}

impl Figure {
    async fn take(&self) -> Res<Report> {
        match self {
            Figure::Enqueue(sizes) => figures::enqueue::take(sizes).await,
            Figure::Drain(options) => figures::drain::take(options).await,
            Figure::Burst(sizes) => figures::burst::take(sizes).await,
            Figure::Lateness(options) => figures::lateness::take(options).await,
            Figure::Idle(sizes) => figures::idle::take(sizes).await,
            Figure::Memory(sizes) => figures::memory::take(sizes).await,
            Figure::Aof(sizes) => figures::aof::take(sizes).await,
            Figure::Extras(sizes) => figures::extras::take(sizes).await,
            Figure::Behind(options) => figures::behind::take(options).await,
            Figure::Embedded(options) => figures::embedded::take(options).await,
        }
    }

    fn sizes(&self) -> &Sizes {
        match self {
            Figure::Enqueue(sizes)
            | Figure::Burst(sizes)
            | Figure::Idle(sizes)
            | Figure::Memory(sizes)
            | Figure::Aof(sizes)
            | Figure::Extras(sizes) => sizes,
            Figure::Drain(options) => &options.sizes,
            Figure::Lateness(options) => &options.sizes,
            Figure::Behind(options) => &options.sizes,
            Figure::Embedded(options) => &options.sizes,
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        tokio::select! {
            result = run(cli) => result,
            // What was started is dropped, and so stopped.
            stopped = stopped() => stopped.and(Err("stopped".into())),
        }
    });
    // A read of standard input may be pending for ever.
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("delayq-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn stopped() -> Res<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ctrl_c = tokio::signal::ctrl_c() => Ok(ctrl_c?),
        _ = terminate.recv() => Ok(()),
    }
}

async fn run(cli: Cli) -> Res<ExitCode> {
    match cli.command {
        Command::Figure(figure) => {
            let report = taken(&figure).await?;
            show(&report, cli.json)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::All(options) => all::run(options, cli.json).await,
        Command::Regress(options) => regress::run(options.runs, cli.json).await,
        Command::Plot(options) => plot::run(&options).map(|()| ExitCode::SUCCESS),
        Command::WorkerProcess(order) => process::work(order).await.map(|()| ExitCode::SUCCESS),
    }
}

/// Takes a figure, and says how long that took.
async fn taken(figure: &Figure) -> Res<Report> {
    let started = Instant::now();
    let mut report = figure.take().await?;
    report.took_s = started.elapsed().as_secs_f64();
    report.quick = figure.sizes().quick;
    Ok(report)
}

fn show(report: &Report, json: bool) -> Res<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        println!("{}", table::text(report));
    }
    Ok(())
}

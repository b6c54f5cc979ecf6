//! A fault campaign: starts redis-servers, workers and producers as processes of their own, torments them with one fault
//! after the other, and judges from the history of each run whether delayq kept its promises.

mod cli;
mod decoders;
mod dice;
mod faults;
mod hands;
mod history;
mod joining;
mod judge;
mod producer;
mod run;
mod sender;
mod table;
mod work;
mod worker;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use cli::{Cli, Process};
use faults::{Fault, SMOKE};
use judge::Verdict;
use run::Plan;
use table::Campaign;
use world::{EngineKind, MUTANTS};

/// How long a fault goes on unless told otherwise, and in a short run.
const SECONDS: f64 = 10.0;
const SMOKE_SECONDS: f64 = 0.0;
/// How many changed inputs a decoder gets for each seed of a run of all faults, and of a short one.
const INPUTS: u64 = 20_000;
const SMOKE_INPUTS: u64 = 500;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.process {
        Some(Process::Worker(args)) => {
            world::end_with_parent();
            ended(worker::run(args).await)
        }
        Some(Process::Producer(args)) => {
            world::end_with_parent();
            ended(producer::run(args).await)
        }
        None => campaign(cli).await,
    }
}

fn ended(result: Result<(), delayq::BoxError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn campaign(cli: Cli) -> ExitCode {
    let all = faults::all();
    if cli.list {
        table::list(&all, cli.json);
        return ExitCode::SUCCESS;
    }
    if let Some(history) = &cli.judge {
        return match run::again(history, cli.seed) {
            Ok(report) => told(&Campaign::of(vec![report]), cli.json),
            Err(error) => {
                eprintln!("{}: {error}", history.display());
                ExitCode::from(2)
            }
        };
    }
    let chosen = match choose(&cli, &all) {
        Ok(chosen) => chosen,
        Err(wrong) => {
            eprintln!("{wrong}");
            return ExitCode::from(2);
        }
    };
    let mutant = cli.mutant.as_ref().and_then(|name| MUTANTS.iter().find(|mutant| mutant.name == name));
    let usual = if cli.smoke { SMOKE_SECONDS } else { SECONDS };
    let seconds = match cli.minutes {
        Some(minutes) => minutes * 60.0 / (chosen.len().max(1) as u64 * cli.seeds) as f64,
        None => cli.seconds_per_fault.unwrap_or(usual),
    };
    let plan = |seed| Plan {
        seed,
        engine: cli.engine,
        time: Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0)),
        is_smoke: cli.smoke,
        keep: cli.keep.clone(),
        mutant,
    };
    let seeds = (0..cli.seeds).map(|nth| cli.seed.wrapping_add(nth));
    let todo = seeds.flat_map(|seed| chosen.iter().map(move |fault| (**fault, plan(seed)))).collect();
    let mut campaign = Campaign::of(hands::run_all(todo, cli.at_once, stopped()).await);
    if cli.fault.is_empty() && mutant.is_none() {
        let seeds = cli.seed..cli.seed.saturating_add(cli.seeds);
        let each = if cli.smoke { SMOKE_INPUTS } else { INPUTS };
        eprintln!("  decoders: {each} changed inputs each, for each seed");
        match tokio::task::spawn_blocking(move || decoders::torment(seeds, each)).await {
            Ok(decoded) => campaign.add(decoded),
            Err(error) => {
                eprintln!("the decoders' run ended: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    told(&campaign, cli.json)
}

/// Prints what came of it, and ends accordingly.
fn told(campaign: &Campaign, as_json: bool) -> ExitCode {
    if as_json {
        print_json(campaign);
    } else {
        table::print(campaign);
    }
    match campaign.verdict {
        Verdict::Pass => ExitCode::SUCCESS,
        Verdict::Fail => ExitCode::from(1),
        Verdict::Unknown => ExitCode::from(3),
    }
}

/// Waits for ctrl-c or SIGTERM.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut term) => tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        },
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

#[allow(clippy::print_stdout)] // What it prints is what it is for.
fn print_json(campaign: &Campaign) {
    println!("{}", serde_json::to_string_pretty(campaign).unwrap_or_default());
    eprintln!("{}", table::summary(campaign));
}

/// The faults that are to be run.
fn choose<'a>(cli: &Cli, all: &'a [Fault]) -> Result<Vec<&'a Fault>, String> {
    let mut names = cli.fault.clone();
    if let Some(name) = &cli.mutant {
        let mutant = MUTANTS.iter().find(|mutant| mutant.name == name).ok_or_else(|| {
            let known: Vec<String> = MUTANTS.iter().map(|m| format!("{}: {}", m.name, m.about)).collect();
            format!("there is no mutant {name}. There are:\n  {}", known.join("\n  "))
        })?;
        if cli.engine == EngineKind::Embedded {
            return Err("scripts are changed on their way to a server: the embedded engine has none".to_owned());
        }
        if names.is_empty() {
            names.push(mutant.under.to_owned());
        }
    }
    let fits = |fault: &&Fault| fault.engines.contains(&cli.engine);
    if names.is_empty() {
        let wanted = |fault: &&Fault| !cli.smoke || SMOKE.contains(&fault.number);
        return Ok(all.iter().filter(wanted).filter(fits).collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        let named = |fault: &&Fault| fault.name == name || fault.number.to_string() == name;
        let fault = all.iter().find(named).ok_or_else(|| format!("there is no fault {name}: --list shows them"))?;
        if !fits(&fault) {
            return Err(format!("the fault {} makes no sense on this engine", fault.name));
        }
        chosen.push(fault);
    }
    Ok(chosen)
}

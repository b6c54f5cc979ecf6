//! What the command line says.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::producer::ProducerArgs;
use crate::worker::WorkerArgs;
use crate::world::EngineKind;

/// Torments delayq with faults, and judges from the history of each run whether it kept its promises.
///
/// Exit code 0: every run passed. 1: one failed. 3: none failed, and something is unknown. 2: wrong usage.
#[derive(Debug, Parser)]
#[command(name = "delayq-campaign", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) process: Option<Process>,
    /// Decides delays, mixes and victims: the same seed, the same schedule.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many seeds, one after the other from `--seed` on.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) seeds: u64,
    /// How many runs at once. A busy machine stalls processes, which may excuse further runs: see the column `stalls`.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) at_once: u64,
    /// Faults by name or number; all sixty, and the decoders, unless given.
    #[arg(long, num_args = 1.., value_name = "FAULT")]
    pub(crate) fault: Vec<String>,
    /// Minutes for the firing of all faults and seeds together, where they run one after the other; starting, healing and draining come on top.
    #[arg(long, conflicts_with = "seconds_per_fault")]
    pub(crate) minutes: Option<f64>,
    /// How long each fault goes on; it is fired again and again until then, and at least once.
    #[arg(long, value_name = "S")]
    pub(crate) seconds_per_fault: Option<f64>,
    /// List the faults, and run nothing.
    #[arg(long)]
    pub(crate) list: bool,
    /// Ten faults in under two minutes.
    #[arg(long)]
    pub(crate) smoke: bool,
    #[arg(long, value_enum, default_value_t = EngineKind::Redis)]
    pub(crate) engine: EngineKind,
    /// Print one JSON document instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the histories in this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Judge a history that was kept, and run nothing.
    #[arg(long, value_name = "FILE")]
    pub(crate) judge: Option<PathBuf>,
    /// Change a script on its way to the server, under the fault that shows it: the run must fail.
    #[arg(long, value_name = "NAME")]
    pub(crate) mutant: Option<String>,
}

/// The processes of a run: this program starts itself with these.
#[derive(Debug, Subcommand)]
pub(crate) enum Process {
    #[command(hide = true)]
    Worker(WorkerArgs),
    #[command(hide = true)]
    Producer(ProducerArgs),
}

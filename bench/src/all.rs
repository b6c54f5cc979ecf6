//! All figures, one after the other, each in a process of its own: one that fails doesn't take the others with it.

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::report::Report;
use crate::{Res, table};

/// In the order in which they are taken.
const FIGURES: [&str; 10] =
    ["enqueue", "drain", "burst", "lateness", "idle", "memory", "aof", "extras", "behind", "embedded"];
/// A figure that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(1200);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many runs the medians are of.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Smaller sizes and shorter times, for a try.
    #[arg(long)]
    quick: bool,
    /// Also written to this file as JSON, after each figure. Figures that are in it are not taken again: an `all` that was
    /// stopped, or in which some failed, goes on.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only these, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(FIGURES))]
    only: Vec<String>,
}

/// All that was taken.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) figures: Vec<Report>,
    #[serde(default)]
    pub(crate) failed: Vec<Failed>,
}

/// A figure that could not be taken.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failed {
    pub(crate) figure: String,
    pub(crate) why: String,
}

impl Results {
    /// What `all --out` or a figure with `--json` wrote.
    pub(crate) fn read(path: &Path) -> Res<Results> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let results = serde_json::from_str(&text);
        let one = || Ok(Results { figures: vec![serde_json::from_str(&text)?], failed: Vec::new() });
        results.or_else(|_: serde_json::Error| one()).map_err(|error: serde_json::Error| {
            format!("{} has no figures: {error}; `all --out` writes such a file", path.display()).into()
        })
    }

    fn write(&self, path: &Path) -> Res<()> {
        // Whole or not at all: it is what a later `all` goes on with.
        let beside = path.with_extension("part");
        std::fs::write(&beside, serde_json::to_string_pretty(self)?)?;
        std::fs::rename(&beside, path)?;
        Ok(())
    }

    fn has(&self, figure: &str, quick: bool) -> bool {
        self.figures.iter().any(|report| report.figure == figure && report.quick == quick)
    }
}

pub(crate) async fn run(options: Options, json: bool) -> Res<ExitCode> {
    let mut results = match &options.out {
        Some(path) if path.exists() => Results::read(path)?,
        _ => Results::default(),
    };
    results.failed.clear();
    let wanted = FIGURES.iter().filter(|name| options.only.is_empty() || options.only.iter().any(|only| only == *name));
    for figure in wanted {
        if results.has(figure, options.quick) {
            eprintln!("{figure}: there already");
            continue;
        }
        eprintln!("{figure} ...");
        results.figures.retain(|report| report.figure != *figure);
        match take(figure, &options).await {
            Ok(report) => {
                if !json {
                    println!("{}", table::text(&report));
                }
                results.figures.push(report);
            }
            Err(error) => {
                eprintln!("{figure} could not be taken: {error}");
                results.failed.push(Failed { figure: (*figure).to_owned(), why: error.to_string() });
            }
        }
        if let Some(path) = &options.out {
            results.write(path)?;
        }
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&results)?);
    } else {
        let took_s: f64 = results.figures.iter().map(|report| report.took_s).sum();
        println!("{} figures taken in {took_s:.0} s, {} failed", results.figures.len(), results.failed.len());
        for failed in &results.failed {
            println!("  {}: {}", failed.figure, failed.why);
        }
    }
    Ok(if results.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn take(figure: &str, options: &Options) -> Res<Report> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([figure, "--json", "--runs", &options.runs.to_string()]);
    if options.quick {
        command.arg("--quick");
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pid = child.id();
    let mut stops = Stops(pid);
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let output = output.map_err(|_| format!("not done within {} s", PATIENCE.as_secs()))??;
    stops.0 = None;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.trim().lines().last().unwrap_or("it said nothing");
        return Err(format!("{} ({last})", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Asks a figure to stop when it is dropped, so that it stops its servers: to kill it would leave them behind.
struct Stops(Option<u32>);

impl Drop for Stops {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status();
        }
    }
}

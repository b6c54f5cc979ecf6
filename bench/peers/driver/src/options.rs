//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::peer::{PEERS, Peer};

pub(crate) const USAGE: &str = "\
Usage: cargo run --release --manifest-path bench/peers/Cargo.toml -- [--only NAME,..] [--jobs N] [--runs N] [--json] [--out FILE]
                                                           [--age SECONDS] [--patience SECONDS] [--fired N]

  --only NAME,..      these peers alone (delayq is always run beside them)
  --jobs N            jobs a phase (100,000); slower peers get the share that README.md names
  --runs N            rounds of all phases (3)
  --fired N           jobs that fire one by one over 20 s in the idle phase (500)
  --age SECONDS       how old jobs are at least when the drain begins (17)
  --patience SECONDS  how long after the due time a phase waits for jobs to run (60)
  --json              every sample, as JSON
  --out FILE          every sample, as JSON, into this file as well";

/// What was asked for.
pub(crate) struct Options {
    pub(crate) only: Option<Vec<String>>,
    pub(crate) jobs: usize,
    pub(crate) runs: usize,
    pub(crate) fired: usize,
    pub(crate) age: Duration,
    pub(crate) patience: Duration,
    pub(crate) json: bool,
    pub(crate) out: Option<PathBuf>,
    pub(crate) help: bool,
}

impl Options {
    pub(crate) fn from_args(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            only: None,
            jobs: 100_000,
            runs: 3,
            fired: 500,
            age: Duration::from_secs(17),
            patience: Duration::from_secs(60),
            json: false,
            out: None,
            help: false,
        };
        while let Some(arg) = args.next() {
            let mut number = |least: usize| -> Result<usize, String> {
                args.next()
                    .and_then(|value| value.replace(['_', ','], "").parse().ok())
                    .filter(|n| *n >= least)
                    .ok_or_else(|| format!("{arg} wants a whole number of at least {least}"))
            };
            match arg.as_str() {
                "--jobs" => options.jobs = number(1)?,
                "--runs" => options.runs = number(1)?,
                "--fired" => options.fired = number(1)?,
                "--age" => options.age = Duration::from_secs(number(0)? as u64),
                "--patience" => options.patience = Duration::from_secs(number(1)? as u64),
                "--json" => options.json = true,
                "--out" => options.out = Some(args.next().ok_or("--out wants the name of a file")?.into()),
                "--help" | "-h" => options.help = true,
                "--only" => {
                    let names = args.next().ok_or("--only wants names with commas between them")?;
                    options.only = Some(names.split(',').map(str::to_owned).collect());
                }
                _ => return Err(format!("{arg} is unknown\n\n{USAGE}")),
            }
        }
        let unknown = options.only.iter().flatten().find(|name| PEERS.iter().all(|peer| peer.name != **name));
        if let Some(name) = unknown {
            let known: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
            return Err(format!("no peer is called {name}; there are {}", known.join(", ")));
        }
        Ok(options)
    }

    /// The peers to run: delayq, which the others are compared with, comes first.
    pub(crate) fn peers(&self) -> impl Iterator<Item = &'static Peer> {
        PEERS.iter().enumerate().filter_map(|(place, peer)| {
            let wanted = self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == peer.name));
            (place == 0 || wanted).then_some(peer)
        })
    }
}

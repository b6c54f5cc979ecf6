//! The same workloads through delayq and its peers, interleaved in one run: `cargo run --release --manifest-path bench/peers/Cargo.toml`.

mod install;
mod options;
mod peer;
mod phases;
mod program;
mod report;
mod sample;
mod server;

use std::process::ExitCode;

use options::Options;
use phases::{Contender, PHASES};
use report::Report;

fn main() -> ExitCode {
    let options = match Options::from_args(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if options.help {
        println!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(report) => {
            if let Some(Err(error)) = options.out.as_ref().map(|file| std::fs::write(file, report.json().to_string())) {
                eprintln!("the samples could not be written: {error}");
            }
            if options.json {
                println!("{}", report.json());
            } else {
                print!("{}", report.text());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("the run could not be made: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<Report, Box<dyn std::error::Error>> {
    let redis = server::version()?;
    let mut report = Report::new(options, &redis.text);
    let mut contenders = Vec::new();
    for peer in options.peers() {
        eprintln!("{}: installing", peer.name);
        match install::install(peer, &redis) {
            Ok(command) => contenders.push(Contender::new(peer, command, options)),
            Err(why) => {
                eprintln!("{}: {why}", peer.name);
                report.absent(peer, why);
            }
        }
    }
    for run in 1..=options.runs {
        for phase in PHASES {
            if contenders.is_empty() {
                break;
            }
            // Nobody always runs first, or always after the same neighbour.
            let places = contenders.len();
            let order: Vec<usize> = (0..places).map(|place| (place + run - 1) % places).collect();
            eprintln!("run {run} of {}: {}", options.runs, phase.title);
            contenders.iter_mut().for_each(|contender| contender.run = run);
            (phase.run)(&mut contenders, &order, options);
        }
    }
    report.present(contenders);
    Ok(report)
}

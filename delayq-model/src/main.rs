//! Searches scenes further than the tests do: `cargo run --release -p delayq-model -- [scene ...] [--unusual n] [--most n] [--rules]`.

#![allow(clippy::print_stdout)] // The table is what it is run for.

use std::num::ParseIntError;
use std::process::ExitCode;
use std::time::Instant;

use delayq_model::world::{SCENES, scene};
use delayq_model::{CAUGHT, PARTS, Rules, Search, search};

/// Worlds that fit into a few gigabytes of memory.
const MOST: usize = 20_000_000;

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = args.iter().position(|arg| arg == "--rules") {
        args.remove(at);
        return show_rules();
    }
    let (Ok(unusual), Ok(most)) = (number(&mut args, "--unusual"), number(&mut args, "--most")) else {
        println!("--unusual and --most want numbers: of unusual events in one history, and of worlds");
        return ExitCode::FAILURE;
    };
    let names: Vec<&str> = if args.is_empty() { SCENES.to_vec() } else { args.iter().map(String::as_str).collect() };
    let mut holds = true;
    for name in names {
        let Some(mut scene) = scene(name) else {
            println!("{name} is no scene: {}", SCENES.join(", "));
            return ExitCode::FAILURE;
        };
        scene.unusual = unusual.map_or(scene.unusual + 1, |unusual| unusual as u8);
        let started = Instant::now();
        let Search { worlds, shards, events, depth, stopped, found } = search(&scene, Rules::ALL, most.unwrap_or(MOST));
        let seconds = started.elapsed().as_secs_f64();
        let end = if stopped { "stopped there" } else { "all of them" };
        println!(
            "{name:>8}, {} unusual: {worlds} worlds, {end}; {shards} shards drained, {events} events, {depth} deep, {seconds:.1} s",
            scene.unusual
        );
        if let Some(found) = found {
            println!("{found}");
            holds = false;
        }
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Takes an option and its number out of the arguments.
fn number(args: &mut Vec<String>, option: &str) -> Result<Option<usize>, ParseIntError> {
    let Some(at) = args.iter().position(|arg| arg == option) else { return Ok(None) };
    let taken: Vec<String> = args.drain(at..(at + 2).min(args.len())).collect();
    taken.get(1).map_or("", String::as_str).parse().map(Some)
}

/// What goes wrong without each part of a rule.
fn show_rules() -> ExitCode {
    let mut missed = true;
    for part in PARTS {
        let Some(caught) = CAUGHT.iter().find(|caught| caught.part == *part) else { continue };
        let Some(scene) = scene(caught.scene) else { continue };
        println!("{} {part:?}: {}", part.letter(), part.without());
        match search(&scene, Rules::without(*part), MOST).found {
            Some(found) => println!("    {found}"),
            None => {
                println!("    nothing goes wrong in {}", caught.scene);
                missed = false;
            }
        }
    }
    if missed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! The laws hold in every scene, and each rule is missed when it is gone.

#![allow(clippy::unwrap_used)] // In a case, an unwrap is an assertion.
#![allow(clippy::print_stdout)] // The numbers and the ways are what one looks at.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use delayq_model::world::scene;
use delayq_model::{CAUGHT, ELSEWHERE, MUTANTS, PARTS, Rules, search};

/// More than any scene has.
const MOST: usize = 2_000_000;

#[track_caller]
fn holds(name: &str) {
    let started = Instant::now();
    let seen = search(&scene(name).unwrap(), Rules::ALL, MOST);
    if let Some(found) = seen.found {
        panic!("{name}: {found}");
    }
    assert!(!seen.stopped, "{name} has more than {MOST} worlds");
    println!(
        "{name}: {} worlds, {} shards drained, {} events, {} deep, {:.1} s",
        seen.worlds,
        seen.shards,
        seen.events,
        seen.depth,
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn two_jobs_two_workers_and_whatever_may_happen_once() {
    holds("whole");
}

#[test]
fn leases_that_run_out_lose_nothing() {
    holds("leases");
}

#[test]
fn calls_that_are_lost_late_or_doubled_change_nothing() {
    holds("network");
}

#[test]
fn sends_and_ends_over_a_bad_network_make_each_job_once() {
    holds("sends");
}

#[test]
fn crashes_upon_crashes_end() {
    holds("crashes");
}

#[test]
fn somebody_always_watches_the_clock() {
    holds("baton");
}

#[test]
fn foreign_hands_and_rollbacks_stop_nobody() {
    holds("damage");
}

#[test]
fn each_part_of_a_rule_is_missed_when_it_is_gone() {
    let mut wrong = Vec::new();
    for caught in CAUGHT {
        let (part, scene) = (caught.part, scene(caught.scene).unwrap());
        match search(&scene, Rules::without(part), MOST).found {
            Some(found) if found.letter == caught.law => println!("{part:?}, {}:\n    {found}", part.without()),
            Some(found) => wrong.push(format!("{part:?} breaks another law than {}: {found}", caught.law)),
            None => wrong.push(format!("{part:?} is not missed in {}", caught.scene)),
        }
    }
    assert!(wrong.is_empty(), "\n  {}\n", wrong.join("\n  "));
}

#[test]
fn every_letter_has_its_row() {
    let parts: BTreeSet<_> = CAUGHT.iter().map(|caught| caught.part).collect();
    assert_eq!((parts.len(), CAUGHT.len()), (PARTS.len(), PARTS.len()), "each part has one row in src/caught.rs");
    let letters: BTreeSet<char> = PARTS.iter().map(|part| part.letter()).collect();
    let elsewhere: BTreeSet<char> = ELSEWHERE.iter().map(|row| row.letter).collect();
    let all: BTreeSet<char> = ('a'..='x').collect();
    assert_eq!(letters.union(&elsewhere).copied().collect::<BTreeSet<_>>(), all);
    let readme = read("delayq-model/README.md");
    for letter in all {
        assert!(readme.contains(&format!("\n| {letter} | ")), "delayq-model/README.md has no row for {letter}");
    }
    for part in PARTS {
        assert!(readme.contains(&format!("`{part:?}`")), "delayq-model/README.md doesn't name {part:?}");
    }
}

#[test]
fn what_the_model_cant_say_is_held_by_tests_that_exist() {
    for row in ELSEWHERE {
        let there = read(row.file).contains(&format!("fn {}(", row.name));
        assert!(there, "rule {}: {} has no test {} any more", row.letter, row.file, row.name);
    }
    let mutants = read("delayq-campaign/src/world/rewrite.rs");
    for (letter, name) in MUTANTS {
        assert!(mutants.contains(&format!("name: \"{name}\"")), "rule {letter}: the campaign has no mutant {name}");
    }
}

#[test]
fn the_tests_that_the_readme_names_exist() {
    let mut sources = read("delayq/src/engine/embedded/opening.rs");
    for suite in ["store", "worker", "client"] {
        for file in fs::read_dir(root().join("tests/tests").join(suite)).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                sources.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    let readme = read("delayq-model/README.md");
    let rows = readme.lines().skip_while(|line| !line.starts_with("| rule |"));
    let names = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let tests: Vec<&str> = names.filter(|name| name.contains('_') && !name.contains('.')).collect();
    assert!(tests.len() > 20, "{tests:?}");
    for name in tests {
        assert!(sources.contains(&format!("fn {name}(")), "delayq-model/README.md names {name}, which no suite has");
    }
}

#[test]
fn the_scripts_have_the_same_numbers() {
    for (file, line) in [
        ("ends", format!("local TOMB_MS = {}", delayq_model::TOMB_MS)),
        ("record", format!("local SOLO_AT = {}", delayq_model::SOLO_AT)),
        ("record", format!("local DUE_MAX = {}", delayq_model::DUE_MAX)),
    ] {
        let source = read(&format!("delayq/lua/lib/{file}.lua"));
        assert!(source.contains(&line), "lib/{file}.lua has no `{line}`");
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[track_caller]
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

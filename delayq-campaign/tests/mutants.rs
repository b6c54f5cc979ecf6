//! Mutated scripts: each must be noticed, and by an invariant that it breaks.

use std::process::Command;

/// Runs a mutant under its fault: the invariants that failed, and for how many ms the machine itself stalled.
#[track_caller]
fn ran(mutant: &str) -> (Vec<char>, u64) {
    let run = Command::new(env!("CARGO_BIN_EXE_delayq-campaign")).args(["--smoke", "--mutant", mutant]).output();
    let run = run.expect("the campaign can be started");
    let told = String::from_utf8_lossy(&run.stdout);
    assert_eq!(run.status.code(), Some(1), "{mutant} was not noticed:\n{told}");
    let row = told.lines().nth(1).unwrap_or_default();
    // The last nine verdicts of the row stand in the order of the letters.
    let words: Vec<&str> = row.split_whitespace().collect();
    let (cells, stalled_ms) = (&words[2..11], words[16].parse::<u64>().expect("the last column is a time"));
    let failed = "LEODATQCS".chars().zip(cells).filter(|(_, cell)| **cell == "FAIL").map(|(letter, _)| letter);
    (failed.collect(), stalled_ms)
}

/// The invariants that failed with a mutant.
#[track_caller]
fn caught(mutant: &str) -> Vec<char> {
    ran(mutant).0
}

#[test]
fn a_settle_that_checks_no_token() {
    assert!(caught("no-token-check").contains(&'A'));
}

#[test]
fn a_settle_that_keeps_the_record() {
    assert!(caught("settle-keeps-record").contains(&'C'));
}

#[test]
fn a_settle_that_keeps_the_hold() {
    assert!(caught("settle-keeps-held").contains(&'C'));
}

#[test]
fn a_rescue_that_keeps_the_run_number() {
    assert!(caught("no-run-bump").contains(&'A'));
}

#[test]
fn a_claim_that_does_not_look_at_the_clock() {
    assert!(caught("claim-before-due").contains(&'E'));
}

#[test]
fn a_claim_that_leaves_its_jobs_due() {
    let (broken, stalled_ms) = ran("claim-keeps-due");
    assert!(['A', 'C'].iter().all(|letter| broken.contains(letter)), "{broken:?}");
    // While the machine stalls, a job may run twice for that.
    assert!(broken.contains(&'D') || stalled_ms > 0, "{broken:?}");
}

#[test]
fn a_send_that_makes_a_second_job() {
    assert!(caught("no-dedupe").iter().any(|letter| "CD".contains(*letter)));
}

#[test]
fn a_renewal_that_needs_memory() {
    assert!(caught("beat-needs-memory").contains(&'D'));
}

#[test]
fn a_burial_without_a_letter() {
    assert!(caught("bury-forgets-letter").contains(&'Q'));
}

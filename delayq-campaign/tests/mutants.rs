//! Mutated scripts: each must be noticed, and by an invariant that it breaks.

use std::process::Command;

/// What came of a mutant under its fault.
struct Ran {
    /// The invariants that failed.
    broken: Vec<char>,
    /// For how many ms the machine itself stalled.
    stalled_ms: u64,
    /// All that was printed.
    told: String,
}

#[track_caller]
fn ran(mutant: &str) -> Ran {
    let run = Command::new(env!("CARGO_BIN_EXE_delayq-campaign")).args(["--smoke", "--mutant", mutant]).output();
    let run = run.expect("the campaign can be started");
    let told = String::from_utf8_lossy(&run.stdout);
    assert_eq!(run.status.code(), Some(1), "{mutant} was not noticed:\n{told}");
    let row = told.lines().nth(1).unwrap_or_default();
    // The last nine verdicts of the row stand in the order of the letters.
    let words: Vec<&str> = row.split_whitespace().collect();
    let (cells, stalled_ms) = (&words[2..11], words[16].parse::<u64>().expect("the last column is a time"));
    let failed = "LEODATQCS".chars().zip(cells).filter(|(_, cell)| **cell == "FAIL").map(|(letter, _)| letter);
    Ran { broken: failed.collect(), stalled_ms, told: told.into_owned() }
}

/// The invariants that failed with a mutant.
#[track_caller]
fn caught(mutant: &str) -> Vec<char> {
    ran(mutant).broken
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
    let Ran { broken, told, .. } = ran("claim-before-due");
    assert!(broken.contains(&'E') && told.contains("by the store's clock at its claim"), "{told}");
}

#[test]
fn a_claim_that_leaves_its_jobs_due() {
    let Ran { broken, stalled_ms, .. } = ran("claim-keeps-due");
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

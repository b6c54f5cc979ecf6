//! The short campaign: ten faults against a redis-server and processes of their own, and every invariant holds.

use std::process::Command;

#[test]
fn ten_faults_in_the_short_run_break_nothing() {
    let run = Command::new(env!("CARGO_BIN_EXE_delayq-campaign")).args(["--smoke", "--seed", "1"]).output();
    let run = run.expect("the campaign can be started");
    let (told, progress) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert_eq!(run.status.code(), Some(0), "{told}\n{progress}");
    assert!(told.contains("pass: seed 1, 10 faults: 10 passed"), "{told}");
}

//! No room on the disk: new jobs are refused, what is there stays, and with room all goes on.

use std::fs;
use std::process::Command;

use delayq_tests::process::Process;

use super::{Base, child};

/// What a full disk must look like from outside, told by `embedded_child fill`.
async fn refused(filling: &mut Process, path: &str) {
    let said = filling.line().await.unwrap();
    assert!(said.starts_with("Full "), "{said}");
    assert!(said.contains(path) && said.contains("try again"), "{said}");
}

async fn goes_on(mut filling: Process) {
    filling.tell("go on");
    let said = filling.line().await.unwrap();
    let (there, sent) = said.split_once(" of ").unwrap_or_else(|| panic!("{said}"));
    assert_eq!(there, sent, "refused jobs are not there, acknowledged ones are");
    assert!(sent.parse::<u32>().unwrap() > 1, "{said}");
    filling.rest().await;
}

/// A command whose files are bounded: a write beyond that fails, as it does for a user whose quota is used up.
fn bounded(program: &Command, bytes: u64) -> Command {
    let mut command = Command::new("prlimit");
    command.args([&format!("--fsize={bytes}:unlimited"), "sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    command.arg(program.get_program()).args(program.get_args());
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_user_s_limit() {
    let base = Base::new();
    let mut filling = Process::start(&mut bounded(&child(&["fill", &base.url(), "none"]), 3 << 20));
    refused(&mut filling, &base.path().display().to_string()).await;
    let raise = [&format!("--pid={}", filling.pid()), "--fsize=unlimited:unlimited"];
    assert!(Command::new("prlimit").args(raise).status().unwrap().success());
    goes_on(filling).await;
    base.assert_whole();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk() {
    let base = Base::new();
    // A small disk of its own, which nobody else sees and that is gone with the process.
    let disk = base.folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounts = |then: &str| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &format!("mount -t tmpfs -o size=4m none \"$0\" && {then}")]).arg(&disk);
        command
    };
    if !mounts("true").output().is_ok_and(|tried| tried.status.success()) {
        eprintln!("not tested: this user can't mount a small disk");
        return;
    }
    let path = disk.join("jobs.db").display().to_string();
    let (url, ballast) = (format!("sqlite://{path}"), disk.join("ballast").display().to_string());
    let mut command = mounts("head -c 2000000 /dev/zero > \"$0/ballast\" && exec \"$@\"");
    command.arg(env!("CARGO_BIN_EXE_embedded_child")).args(["fill", &url, &ballast]);
    let mut filling = Process::start(&mut command);
    refused(&mut filling, &path).await;
    goes_on(filling).await;
    // The same disk, read-only.
    let mut command = mounts("mount -o remount,ro \"$0\" && exec \"$@\"");
    command.arg(env!("CARGO_BIN_EXE_client_child")).args(["ping", &url]);
    let said = Process::start(&mut command).line().await.unwrap();
    assert!(said.starts_with("Denied ") && said.contains(&path), "{said}");
}

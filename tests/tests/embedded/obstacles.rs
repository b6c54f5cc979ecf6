//! What stands in the way is told: by its kind, with the file's name and what to do. Once it is gone, all works again.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use delayq::{Client, Error, ErrorKind, JobId, Worker};
use delayq_tests::process::Process;
use delayq_tests::{Running, eventually, soon};
use rusqlite::Connection;

use super::{Base, Cargo, beside, send_cargo};

async fn refused(path: &Path) -> Error {
    let url = format!("sqlite://{}", path.display());
    soon("an answer", Client::connect(&url)).await.err().unwrap_or_else(|| panic!("{url} was opened"))
}

fn assert_told(error: &Error, kind: ErrorKind, path: &Path, advice: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(text.contains(&path.display().to_string()), "it doesn't name the file: {text}");
    assert!(text.contains(advice), "it doesn't say {advice:?}: {text}");
}

#[tokio::test]
async fn what_is_no_database_is_left_alone() {
    let base = Base::new();
    for (name, content) in [("short", "hello\n".to_owned()), ("long", "no database at all\n".repeat(2000))] {
        let path = base.folder.path().join(name);
        fs::write(&path, &content).unwrap();
        assert_told(&refused(&path).await, ErrorKind::Corrupt, &path, "give another path");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
        assert!(!beside(&path, "-wake").exists());
    }
}

#[tokio::test]
async fn other_programs_databases_are_left_alone() {
    let base = Base::new();
    for (name, sql) in [
        ("plain.db", "CREATE TABLE mine (a)"),
        ("marked.db", "PRAGMA application_id = 7; CREATE TABLE keys (a)"),
        ("empty_but_marked.db", "PRAGMA application_id = 7"),
        ("wal.db", "PRAGMA journal_mode = WAL; CREATE TABLE mine (a)"),
    ] {
        let path = base.folder.path().join(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(&path).unwrap();
        assert_told(&refused(&path).await, ErrorKind::Config, &path, "a file of its own");
        assert!(fs::read(&path).unwrap() == before, "{name} was changed");
        assert!(!beside(&path, "-wake").exists());
    }
}

#[tokio::test]
async fn tables_of_another_release_are_left_alone() {
    let base = Base::new();
    send_cargo(&base.client().await).await.unwrap();
    eventually("the file's closing", || async { (!base.beside("-wal").exists()).then_some(()) }).await;
    base.look().execute_batch("PRAGMA user_version = 99").unwrap();
    assert_told(&refused(&base.path()).await, ErrorKind::Unsupported, &base.path(), "form 99");
    base.look().execute_batch("PRAGMA user_version = 2").unwrap();
    assert_eq!(base.client().await.stats("cargo").await.unwrap().waiting, 1);
}

#[tokio::test]
async fn paths_that_lead_nowhere() {
    let base = Base::new();
    let nowhere = base.folder.path().join("missing").join("jobs.db");
    assert_told(&refused(&nowhere).await, ErrorKind::Unreachable, &nowhere, "does its folder exist");
    fs::create_dir(base.path()).unwrap();
    assert_told(&refused(&base.path()).await, ErrorKind::Config, &base.path(), "is a folder");
    let below_a_file = base.folder.path().join("file");
    fs::write(&below_a_file, "").unwrap();
    let below = below_a_file.join("jobs.db");
    assert_told(&refused(&below).await, ErrorKind::Unreachable, &below, "does its folder exist");
}

/// Runs a program so that permissions bind it, which they don't for root. `None` where that can't be had.
fn bound(program: &str) -> Option<Command> {
    let base = Base::new();
    let path = base.folder.path().join("closed");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new().write(true).open(&path).is_err() {
        return Some(Command::new(program));
    }
    // Its files are still its own; the rights to overlook their modes are gone.
    let without = ["--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"];
    let mut command = Command::new("setpriv");
    command.args(without);
    let tried = Command::new("setpriv").args(without).args(["sh", "-c", ": > \"$0\""]).arg(&path).output();
    if !tried.is_ok_and(|tried| !tried.status.success() && String::from_utf8_lossy(&tried.stderr).contains("ermission"))
    {
        eprintln!("not tested: this user may write everywhere, and setpriv can't take that away");
        return None;
    }
    command.arg(program);
    Some(command)
}

#[tokio::test]
async fn what_may_not_be_written_is_denied() {
    let Some(_) = bound("true") else { return };
    let says = async |path: PathBuf| {
        let mut ping = bound(env!("CARGO_BIN_EXE_client_child")).unwrap();
        let url = format!("sqlite://{}", path.display());
        Process::start(ping.args(["ping", &url])).rest().await.concat()
    };
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let base = Base::new();
    let folder = base.folder.path().to_path_buf();
    assert_eq!(says(base.path()).await, "ok");
    let wake = base.beside("-wake");
    for (what, closed, open) in
        [(&base.path(), 0o444, 0o644), (&base.path(), 0o000, 0o644), (&folder, 0o555, 0o755), (&wake, 0o444, 0o644)]
    {
        base.clear();
        mode(what, closed);
        let said = says(base.path()).await;
        assert!(said.starts_with("Denied "), "{what:?} {closed:o}: {said}");
        let path = base.path().display().to_string();
        assert!(said.contains(&path) && said.contains("give this user the right"), "{said}");
        mode(what, open);
        assert_eq!(says(base.path()).await, "ok");
    }
    mode(&folder, 0o555);
    let said = says(folder.join("new.db")).await;
    mode(&folder, 0o755);
    assert!(said.starts_with("Denied ") && said.contains("new.db"), "{said}");
}

/// Damages the middle of a closed database: its first page stays, so that it opens.
fn damage(path: &Path) {
    let length = fs::metadata(path).unwrap().len();
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let from = (length / 4096 / 8).max(8) * 4096;
    file.seek(SeekFrom::Start(from)).unwrap();
    file.write_all(&vec![0xee; (length - from) as usize]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_told_and_nothing_hangs() {
    let base = Base::new();
    let client = base.client().await;
    let jobs = (0..400).map(|_| Cargo { text: "x".repeat(2000) });
    let sent = client.schedule(Duration::ZERO).send_all(jobs).await;
    let ids: Vec<JobId> = sent.into_iter().map(|job| job.unwrap().id()).collect();
    drop(client);
    eventually("the file's closing", || async { (!base.beside("-wal").exists()).then_some(()) }).await;
    damage(&base.path());
    let client = base.client().await;
    let mut told = 0;
    for id in &ids {
        if let Err(error) = soon("a status", client.handle::<Cargo>(*id).status()).await {
            assert_told(&error, ErrorKind::Corrupt, &base.path(), "restore it from a copy");
            told += 1;
        }
    }
    assert!(told > 0, "no call found the damage");
    let error = soon("a send", send_cargo(&client)).await.unwrap_err();
    assert_told(&error, ErrorKind::Corrupt, &base.path(), "restore it from a copy");
    // A worker on it goes on trying, and stops when it is told to.
    let worker = Running::start(Worker::new(client.clone()).queues(["cargo"]).grace(Duration::from_millis(100)));
    assert!(soon("a status", client.handle::<Cargo>(ids[0]).status()).await.is_ok() || told > 0);
    let _ = worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_locked_for_a_while_is_waited_for() {
    let base = Base::new();
    // No second try: the engine itself waits.
    let client = Client::builder().send_deadline(Duration::from_secs(2)).connect(&base.url()).await.unwrap();
    let other = base.look();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let from = Instant::now();
    let release = std::thread::spawn(move || {
        // So long another program holds it.
        std::thread::sleep(Duration::from_secs(3));
        other.execute_batch("COMMIT").unwrap();
    });
    send_cargo(&client).await.unwrap();
    assert!(from.elapsed() >= Duration::from_millis(2990), "{:?}", from.elapsed());
    release.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_stays_locked_is_unavailable() {
    let base = Base::new();
    let client = Client::builder().send_deadline(Duration::from_secs(4)).connect(&base.url()).await.unwrap();
    send_cargo(&client).await.unwrap();
    let other = base.look();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let from = Instant::now();
    // However many wait, each waits once.
    let calls = (0..40).map(|_| client.stats("cargo"));
    for answer in futures_util::future::join_all(calls).await {
        assert_told(&answer.unwrap_err(), ErrorKind::Unavailable, &base.path(), "close that program");
    }
    let took = from.elapsed();
    // Those that came after the first began to wait may wait once more behind it. One after the other they would wait for
    // 200 s.
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(60), "{took:?}");
    other.execute_batch("COMMIT").unwrap();
    send_cargo(&client).await.unwrap();
    assert_eq!(client.stats("cargo").await.unwrap().waiting, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_file_can_not_be_opened_and_then_can() {
    let base = Base::new();
    let other = base.look();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert_told(&refused(&base.path()).await, ErrorKind::Unavailable, &base.path(), "close that program");
    other.execute_batch("ROLLBACK").unwrap();
    send_cargo(&base.client().await).await.unwrap();
}

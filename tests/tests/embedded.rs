//! The embedded engine against real files: whole jobs, several processes, crashes, obstacles, what a transaction is.
#![allow(clippy::unwrap_used)] // A test that unwraps fails where it should.

#[path = "embedded/file.rs"]
mod file;
#[path = "embedded/jobs.rs"]
mod jobs;
#[path = "embedded/obstacles.rs"]
mod obstacles;
#[path = "embedded/processes.rs"]
mod processes;
#[path = "embedded/room.rs"]
mod room;
#[path = "embedded/runtimes.rs"]
mod runtimes;
#[path = "embedded/scripts.rs"]
mod scripts;
#[path = "embedded/shared.rs"]
mod shared;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use delayq::engine::Script;
use delayq::engine::embedded::{Clock, EmbeddedEngine};
use delayq::{Client, JobType};
use delayq_tests::Folder;
use rusqlite::Connection;

/// A database in a folder of its own. Nobody cuts the power here, and each flush to the disk takes its time.
struct Base {
    folder: Folder,
}

impl Base {
    fn new() -> Base {
        Base { folder: Folder::new("embedded") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("jobs.db")
    }

    fn url(&self) -> String {
        format!("sqlite://{}?synchronous=normal", self.path().display())
    }

    async fn client(&self) -> Client {
        Client::connect(&self.url()).await.unwrap()
    }

    async fn engine(&self) -> EmbeddedEngine {
        EmbeddedEngine::connect(&self.url(), Clock::system()).await.unwrap()
    }

    /// Clears away the log, which stays beside the file when a process ends before it has closed it: while it lies there,
    /// nothing has to be made in the folder.
    fn clear(&self) {
        self.look().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        assert!(!self.beside("-wal").exists() && !self.beside("-shm").exists(), "somebody has the file open");
    }

    /// A look at the file that goes round delayq.
    fn look(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    fn assert_whole(&self) {
        let said: String = self.look().query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
        assert_eq!(said, "ok");
    }

    /// One of the files that SQLite and delayq keep beside the database.
    fn beside(&self, suffix: &str) -> PathBuf {
        beside(&self.path(), suffix)
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn child(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedded_child"));
    command.args(args);
    command
}

/// What `embedded_child` runs, and sends.
#[delayq::payload]
struct Steady {
    name: String,
    takes_ms: u64,
}

impl JobType for Steady {
    const NAME: &'static str = "steady";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "steady";
}

fn steady(name: &str, takes_ms: u64) -> Steady {
    Steady { name: name.to_owned(), takes_ms }
}

/// What is only there.
#[delayq::payload]
struct Cargo {
    text: String,
}

impl JobType for Cargo {
    const NAME: &'static str = "cargo";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "cargo";
}

const HOUR: Duration = Duration::from_secs(3600);

async fn send_cargo(client: &Client) -> Result<delayq::JobId, delayq::Error> {
    client.schedule(HOUR).send(Cargo { text: "x".repeat(300) }).await.map(|job: delayq::JobHandle<Cargo>| job.id())
}

/// Asks the clock.
static ASKS: Script = Script::new("test_asks", "return redis.call('TIME')[1]");

/// Scripts that ask the clock wait here until it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    reached: AtomicBool,
}

impl Gate {
    fn pass(&self) -> u64 {
        self.reached.store(true, Ordering::SeqCst);
        drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
        1_000_000
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

//! What the cases share: the program, a server, jobs in each state.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use delayq::{Client, Job, JobContext, JobError, JobId, JobResult, RawJob, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long anything may take before its case fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// A delay that no case lives to see the end of.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// The queue of [`ChargeCard`].
pub(crate) const ORDERS: &str = "orders";

/// What a run of the program came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// What it printed, where it must have succeeded.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{self:#?}");
        &self.out
    }

    /// The one JSON document that it printed.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.ok()).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// The JSON lines that it printed.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.ok().lines().map(line).collect()
    }

    /// It must have ended with this code, and said this on standard error.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, saying: &str) {
        assert_eq!(self.code, code, "{self:#?}");
        assert!(self.err.contains(saying), "{saying:?} is not in {self:#?}");
    }
}

/// A program for a store, with nothing of this process's own settings.
fn unaffected(program: &str, url: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DELAYQ_") {
            command.env_remove(name);
        }
    }
    command.env_remove("NO_COLOR").env("DELAYQ_URL", url);
    command
}

/// The program on a store, with nothing of this process's own settings.
pub(crate) fn program(url: &str, args: &[&str]) -> Command {
    let mut command = unaffected(env!("CARGO_BIN_EXE_delayq"), url);
    command.env_remove("CLICOLOR_FORCE").args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// A line of a shell in a terminal of its own, which `script` of util-linux makes, of 120 columns and 30 rows.
pub(crate) fn in_terminal(url: &str, line: &str) -> Command {
    let mut command = unaffected("script", url);
    let line = format!("stty rows 30 cols 120; {line}");
    command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
    command.env("TERM", "xterm-256color").env("SHELL", "/bin/sh").kill_on_drop(true);
    command
}

pub(crate) async fn run(url: &str, args: &[&str]) -> Ran {
    ended(program(url, args)).await
}

pub(crate) async fn run_with_input(url: &str, args: &[&str], input: &[u8]) -> Ran {
    let mut command = program(url, args);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let written = tokio::spawn(async move {
        // A program that refuses its arguments doesn't read.
        let _ = stdin.write_all(&input).await;
    });
    let ran = ran(soon(child.wait_with_output()).await.unwrap());
    written.await.unwrap();
    ran
}

pub(crate) async fn ended(mut command: Command) -> Ran {
    ran(soon(command.output()).await.unwrap())
}

fn ran(output: std::process::Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it comes to an end")
}

/// Waits until `reached` answers with something.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut reached: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = reached().await {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn server_and_client() -> (RedisServer, Client) {
    let server = RedisServer::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    (server, client)
}

/// Makes the user that SECURITY.md has, and answers the URL with it.
pub(crate) fn documented_user(server: &RedisServer) -> String {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../SECURITY.md")).unwrap();
    let (_, rules) = text.split_once("ACL SETUSER delayq ").unwrap();
    let (rules, _) = rules.split_once("```").unwrap();
    let command: Vec<&str> = ["ACL", "SETUSER", "delayq"].into_iter().chain(rules.split_whitespace()).collect();
    assert_eq!(server.command(&command).unwrap(), "+OK\r\n");
    // Servers that know this one log the refusal otherwise, as SECURITY.md says.
    server.command(&["ACL", "SETUSER", "delayq", "+client|setinfo"]).unwrap();
    format!("redis://delayq:a-long-random-password@127.0.0.1:{}/", server.port())
}

/// A folder that is gone with its case.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("delayq-cli-{}-{nth}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.file(name), text).unwrap();
        shown(&self.file(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn shown(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A job that does as its text says.
#[delayed_job(name = "charge_card", version = 1, queue = "orders", max_retries = 0)]
pub(crate) struct ChargeCard {
    /// `pass`, `wait`, `bury`, or what it fails with.
    pub(crate) says: String,
}

impl Job for ChargeCard {
    async fn run(self, _cx: JobContext) -> JobResult {
        match self.says.as_str() {
            "pass" => Ok(()),
            "wait" => std::future::pending().await,
            "bury" => Err(JobError::bury("nobody wants it")),
            says => Err(says.to_owned())?,
        }
    }
}

pub(crate) fn charge(says: &str) -> ChargeCard {
    ChargeCard { says: says.to_owned() }
}

/// A worker that runs beside its case.
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), delayq::Error>>,
}

impl Running {
    pub(crate) fn start(client: &Client, name: &str) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = Worker::new(client.clone()).queues([ORDERS]).name(name).grace(Duration::from_millis(100));
        let task = tokio::spawn(worker.run_until(async {
            let _ = stopped.await;
        }));
        Running { stop: Some(stop), task }
    }

    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        soon(&mut self.task).await.unwrap().unwrap();
    }
}

/// Makes dead letters of the queue, one for each error, and answers their ids in order.
pub(crate) async fn bury(client: &Client, errors: &[&str]) -> Vec<JobId> {
    let worker = Running::start(client, "undertaker");
    let before = client.stats(ORDERS).await.unwrap().dead;
    let sent = client.enqueue().send_all(errors.iter().map(|error| charge(error))).await;
    let ids = sent.into_iter().map(|sent| sent.unwrap().id()).collect();
    let all = before + errors.len() as u64;
    eventually("all are dead", || async { (client.stats(ORDERS).await.unwrap().dead == all).then_some(()) }).await;
    worker.stop().await;
    ids
}

/// Sends jobs that nobody runs, due in an hour, and answers their ids in order.
pub(crate) async fn waiting(client: &Client, queue: &str, name: &'static str, count: usize) -> Vec<JobId> {
    let job = |n| RawJob::new(name, 1, format!("{{\"n\":{n}}}")).at(HOUR + Duration::from_secs(n as u64));
    let sent = client.send_raw(queue, (0..count).map(job).collect()).await;
    let ids = sent.into_iter().map(|sent| sent.unwrap().id()).collect();
    listed(client, queue).await;
    ids
}

/// Waits until a queue is on the list of those in use: it is written beside the first send.
pub(crate) async fn listed(client: &Client, queue: &str) {
    let known = || async { client.queues().await.unwrap().contains(&queue.to_owned()).then_some(()) };
    eventually("the queue is listed", known).await;
}

/// The ids of JSON lines.
pub(crate) fn ids(lines: &[Value]) -> BTreeSet<String> {
    lines.iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect()
}

/// Ids as texts.
pub(crate) fn texts(ids: &[JobId]) -> BTreeSet<String> {
    ids.iter().map(ToString::to_string).collect()
}

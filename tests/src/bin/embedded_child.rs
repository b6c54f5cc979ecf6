//! A process that shares a database file with its test.
//!
//! `embedded_child work URL QUEUE`: a worker for [`Steady`]; says `ready`, `start NAME`, `end NAME`.
//! `embedded_child send URL`: sends one job after the other, and says the id of each once the send returned.
//! `embedded_child fill URL BALLAST`: sends until it is refused, says why, removes the file BALLAST, waits for a line to
//! read, sends once more, and says how many jobs there are.

use std::io::Write;
use std::time::Duration;

use delayq::{Client, Error, Job, JobContext, JobResult, JobType, Worker, delayed_job};

/// Ends well after some time.
#[delayed_job(name = "steady", version = 1, queue = "steady")]
struct Steady {
    name: String,
    takes_ms: u64,
}

/// Is there, and never due.
#[delayq::payload]
struct Cargo {
    text: String,
}

impl JobType for Cargo {
    const NAME: &'static str = "cargo";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "cargo";
}

impl Job for Steady {
    async fn run(self, _: JobContext) -> JobResult {
        tell(&format!("start {}", self.name));
        tokio::time::sleep(Duration::from_millis(self.takes_ms)).await;
        tell(&format!("end {}", self.name));
        Ok(())
    }
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // A parent that no longer reads has what it wanted.
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

async fn work(url: &str, queue: &str) -> Result<(), Error> {
    let client = Client::connect(url).await?;
    tell("ready");
    Worker::new(client).queues([queue]).concurrency(20).run().await
}

async fn send(url: &str) -> Result<(), Error> {
    let client = Client::connect(url).await?;
    loop {
        tell(&client.schedule(Duration::from_secs(3600)).send(Cargo { text: "x".repeat(300) }).await?.id().to_string());
    }
}

async fn fill(url: &str, ballast: &str) -> Result<(), Error> {
    let client = Client::connect(url).await?;
    let heavy = || client.schedule(Duration::from_secs(3600)).send(Cargo { text: "x".repeat(100_000) });
    let mut sent = 0;
    let refused = loop {
        match heavy().await {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    tell(&format!("{:?} {refused}", refused.kind()));
    let _ = std::fs::remove_file(ballast);
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    heavy().await?;
    let waiting = client.stats("cargo").await?.waiting;
    tell(&format!("{waiting} of {}", sent + 1));
    Ok(())
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["work", url, queue] => work(url, queue).await,
        ["send", url] => send(url).await,
        ["fill", url, ballast] => fill(url, ballast).await,
        _ => panic!("work URL QUEUE, send URL, or fill URL BALLAST"),
    };
    if let Err(error) = done {
        tell(&format!("{:?} {error:?}", error.kind()));
    }
}

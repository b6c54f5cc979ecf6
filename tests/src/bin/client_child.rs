//! A program of its own that connects: for cases about a process's environment and its use of the processor.
//!
//! `client_child ping URL [CONNECT_MS]` connects, within 10 s unless said, sends one job, and prints "ok" or the error.
//! `client_child work URL` runs a worker until it is killed; it prints "ready" first.

#![allow(clippy::print_stdout)] // What it prints is what it is for.

use std::time::Duration;

use delayq::{Client, Error, Job, JobContext, JobResult, Worker, delayed_job};

/// How long connecting may take unless said.
const CONNECT: Duration = Duration::from_secs(10);

#[delayed_job(name = "ping", version = 1, queue = "tasks")]
struct Ping {}

impl Job for Ping {
    async fn run(self, _: JobContext) -> JobResult {
        Ok(())
    }
}

async fn connect(url: &str, within: Duration) -> Result<Client, Error> {
    Client::builder().connect_timeout(within).connect(url).await
}

async fn ping(url: &str, within: Duration) -> Result<(), Error> {
    connect(url, within).await?.enqueue().send(Ping {}).await.map(|_| ())
}

async fn work(url: &str) -> Result<(), Error> {
    let client = connect(url, CONNECT).await?;
    println!("ready");
    Worker::new(client).run().await
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ping", url] => ping(url, CONNECT).await,
        ["ping", url, ms] => ping(url, Duration::from_millis(ms.parse().expect("CONNECT_MS is a number"))).await,
        ["work", url] => work(url).await,
        _ => panic!("ping URL [CONNECT_MS], or work URL"),
    };
    match result {
        Ok(()) => println!("ok"),
        Err(error) => println!("{:?} {error:?}", error.kind()),
    }
}

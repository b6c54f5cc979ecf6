//! A worker process for the suites to kill, freeze and stop: `crashing_worker URL QUEUE [LEASE_MS]`, the lease 2 s unless said.
//!
//! It tells what its handlers do on standard output, a line each: `start NAME ATTEMPT`, `end NAME`, `ended` when `run` returned.

use std::io::Write;
use std::time::Duration;

use delayq::{Client, Job, JobContext, JobResult, Worker, delayed_job};

/// Ends well after some time.
#[delayed_job(name = "steady", version = 1, timeout = "1m")]
struct Steady {
    name: String,
    takes_ms: u64,
}

/// Ends its process: by aborting, by "exit", or by "kill", as the kernel does it that is out of memory.
#[delayed_job(name = "poison", version = 1, max_retries = 9)]
struct Poison {
    name: String,
    #[serde(default)]
    how: String,
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // A parent that no longer reads has what it wanted.
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

impl Job for Steady {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(&format!("start {} {}", self.name, cx.attempt()));
        tokio::time::sleep(Duration::from_millis(self.takes_ms)).await;
        tell(&format!("end {}", self.name));
        Ok(())
    }
}

impl Job for Poison {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(&format!("start {} {}", self.name, cx.attempt()));
        match self.how.as_str() {
            "exit" => std::process::exit(0),
            "kill" => {
                let _ = std::process::Command::new("bash").args(["-c", "kill -KILL $PPID"]).status();
                std::future::pending().await
            }
            _ => std::process::abort(),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(queue)) = (args.next(), args.next()) else {
        return Err("usage: crashing_worker URL QUEUE [LEASE_MS]".into());
    };
    let lease = args.next().map_or(Ok(2000), |ms| ms.parse()).map(Duration::from_millis)?;
    let client = Client::connect(&url).await?;
    tell("ready");
    Worker::new(client).queues([queue]).lease(lease).grace(Duration::from_secs(10)).run().await?;
    tell("ended");
    Ok(())
}

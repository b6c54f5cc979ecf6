//! Three jobs, each fired on time; one always fails, is retried, and becomes a dead letter.
//!
//! Run it: `cargo run --example quickstart`. It needs no server: the jobs are kept in memory, by the embedded engine. With
//! `DELAYQ_URL=redis://127.0.0.1/` it uses that Redis, with `DELAYQ_URL=sqlite://jobs.db` that file.

use std::time::{Duration, Instant};

use delayq::{Client, Job, JobContext, JobResult, Worker, delayed_job};
use tokio::sync::mpsc;

#[delayed_job(name = "cancel_order", version = 1, queue = "quickstart")]
struct CancelOrder {
    order_id: u64,
}

#[delayed_job(name = "send_reminder", version = 1, queue = "quickstart")]
struct SendReminder {
    guest: String,
}

#[delayed_job(name = "charge_card", version = 1, queue = "quickstart", max_retries = 2, backoff = exponential("500ms", factor = 2, jitter = 0.1))]
struct ChargeCard {
    order_id: u64,
}

/// What the handlers tell the main program.
type Fired = mpsc::UnboundedSender<()>;

fn show(cx: &JobContext, what: &str) {
    println!(
        "  {what:<42} attempt {}, {:.1} ms after its due time",
        cx.attempt(),
        cx.lateness().as_secs_f64() * 1000.0
    );
}

impl Job for CancelOrder {
    async fn run(self, cx: JobContext) -> JobResult {
        show(&cx, &format!("order {} is unpaid: cancelled", self.order_id));
        cx.data::<Fired>()?.send(())?;
        Ok(())
    }
}

impl Job for SendReminder {
    async fn run(self, cx: JobContext) -> JobResult {
        show(&cx, &format!("reminded {}", self.guest));
        cx.data::<Fired>()?.send(())?;
        Ok(())
    }
}

impl Job for ChargeCard {
    async fn run(self, cx: JobContext) -> JobResult {
        show(&cx, &format!("charging order {}: the bank says no", self.order_id));
        if cx.is_last_attempt() {
            cx.data::<Fired>()?.send(())?;
        }
        Err("the bank says no")?
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DELAYQ_URL").unwrap_or_else(|_| "sqlite::memory:".to_owned());
    let client = Client::connect(&url).await?;
    println!("Scheduled:");
    client.schedule::<CancelOrder>(Duration::from_secs(1)).send(CancelOrder { order_id: 42 }).await?;
    println!("  cancel order 42 in 1 s");
    client.schedule::<SendReminder>(Duration::from_secs(2)).send(SendReminder { guest: "Ada".to_owned() }).await?;
    println!("  remind Ada in 2 s");
    let charge = client.schedule::<ChargeCard>(Duration::from_millis(1500)).send(ChargeCard { order_id: 43 }).await?;
    println!("  charge order 43 in 1.5 s; it always fails, and is tried three times in all");

    println!("Fired:");
    let started = Instant::now();
    let (fired, mut heard) = mpsc::unbounded_channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(Worker::new(client.clone()).data::<Fired>(fired).run_until(async {
        let _ = stopped.await;
    }));
    // Two jobs that succeed, and the last attempt of the one that doesn't.
    for _ in 0..3 {
        heard.recv().await;
    }
    let _ = stop.send(());
    worker.await??;

    println!("Dead letters after {:.1} s:", started.elapsed().as_secs_f64());
    let dead = client.dead_letters("quickstart");
    for letter in dead.newest_first(10, None).await?.letters {
        println!(
            "  {} {} after {} attempts: {} ({}), payload {}",
            letter.name.as_deref().unwrap_or("?"),
            letter.reason.map_or("", |reason| reason.as_str()),
            letter.attempts,
            letter.error,
            letter.id,
            String::from_utf8_lossy(&letter.payload),
        );
    }
    // A person would look, fix and redrive it; this program leaves no job behind.
    dead.delete(charge.id()).await?;
    Ok(())
}

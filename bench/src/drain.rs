//! Due jobs through a real worker, from its start to the last settle.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use delayq::{Client, Job, JobContext, JobResult, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;
use tokio::sync::Notify;

use crate::machine;

const QUEUE: &str = "bench";

/// 120 bytes of JSON.
#[delayed_job(name = "bench_order", version = 1, queue = "bench")]
struct BenchOrder {
    order_id: u64,
    customer: String,
    note: String,
}

impl BenchOrder {
    fn numbered(n: u64) -> BenchOrder {
        BenchOrder { order_id: 1_000_000_000 + n, customer: "customer-0000042".to_owned(), note: "x".repeat(54) }
    }
}

/// Counts runs, and tells when all are done.
struct Count {
    runs: AtomicUsize,
    wanted: usize,
    all: Notify,
}

impl Job for BenchOrder {
    async fn run(self, cx: JobContext) -> JobResult {
        let count = cx.data::<Arc<Count>>()?;
        if count.runs.fetch_add(1, Ordering::Relaxed) + 1 == count.wanted {
            count.all.notify_one();
        }
        Ok(())
    }
}

struct Figures {
    jobs_per_s: f64,
    redis_us: f64,
    worker_us: f64,
    calls: f64,
    repeated: usize,
}

/// Takes the figure `runs` times after one that warms up, and prints each and the median.
pub(crate) async fn run(jobs: usize, runs: usize, commandstats: bool) -> Result<(), Box<dyn Error>> {
    let server = RedisServer::start()?;
    let version = server.command(&["INFO", "server"])?;
    let version = version.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("?").trim().to_owned();
    println!("drain: {jobs} due jobs of 120 bytes, default worker and stack, persistence off");
    println!("{}", machine::describe(&version));
    println!(
        "{:>10} {:>12} {:>14} {:>14} {:>14} {:>9}",
        "run", "jobs/s", "Redis us/job", "worker us/job", "calls/job", "repeated"
    );
    let mut taken = Vec::with_capacity(runs);
    for run in 0..=runs {
        let figures = once(&server, jobs).await?;
        let name = if run == 0 { "warm-up".to_owned() } else { run.to_string() };
        show(&name, &figures);
        if run > 0 {
            taken.push(figures);
        }
    }
    taken.sort_by(|a, b| a.jobs_per_s.total_cmp(&b.jobs_per_s));
    if let Some(median) = taken.get(taken.len() / 2) {
        show("median", median);
    }
    if commandstats {
        println!("\nWhere Redis's time went in the last run, us:");
        print!("{}", server.command(&["INFO", "commandstats"])?);
    }
    Ok(())
}

fn show(name: &str, f: &Figures) {
    println!(
        "{name:>10} {:>12.0} {:>14.2} {:>14.2} {:>14.3} {:>9}",
        f.jobs_per_s, f.redis_us, f.worker_us, f.calls, f.repeated
    );
}

async fn once(server: &RedisServer, jobs: usize) -> Result<Figures, Box<dyn Error>> {
    server.command(&["FLUSHALL"])?;
    let client = Client::connect(&server.url()).await?;
    for chunk in (0..jobs as u64).collect::<Vec<_>>().chunks(10_000) {
        for sent in client.enqueue::<BenchOrder>().send_all(chunk.iter().map(|n| BenchOrder::numbered(*n))).await {
            sent?;
        }
    }
    server.command(&["CONFIG", "RESETSTAT"])?;
    let count = Arc::new(Count { runs: AtomicUsize::new(0), wanted: jobs, all: Notify::new() });
    let redis_cpu = || Ok::<f64, std::io::Error>(server.info("used_cpu_user")? + server.info("used_cpu_sys")?);
    let (cpu_before, own_before) = (redis_cpu()?, machine::own_cpu());

    let started = Instant::now();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(Worker::new(client.clone()).data(count.clone()).run_until(async {
        let _ = stopped.await;
    }));
    tokio::time::timeout(Duration::from_secs(120), count.all.notified())
        .await
        .map_err(|_| "not drained within 120 s")?;
    // The last settle counts too.
    while client.stats(QUEUE).await?.done_total < jobs as u64 {
        if started.elapsed() > Duration::from_secs(120) {
            return Err("not settled within 120 s".into());
        }
    }
    let took = started.elapsed();
    let (cpu_after, own_after) = (redis_cpu()?, machine::own_cpu());
    let stats = server.command(&["INFO", "commandstats"])?;
    let calls = stats
        .lines()
        // What runs inside a script is counted as commands too; a call is what goes over the wire.
        .filter(|line| {
            line.starts_with("cmdstat_evalsha:")
                || line.starts_with("cmdstat_eval:")
                || line.starts_with("cmdstat_bzpopmin:")
        })
        .filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<f64>().ok())
        .sum();
    let _ = stop.send(());
    worker.await??;
    let stats = client.stats(QUEUE).await?;
    if stats.waiting + stats.running + stats.dead != 0 || stats.orphans != 0 {
        return Err(format!("jobs are left over: {stats:?}").into());
    }
    let each = |total: f64| total / jobs as f64;
    let own = own_after.zip(own_before).map_or(f64::NAN, |(after, before)| (after - before).as_secs_f64());
    Ok(Figures {
        jobs_per_s: jobs as f64 / took.as_secs_f64(),
        redis_us: each((cpu_after - cpu_before) * 1e6),
        worker_us: each(own * 1e6),
        calls: each(calls),
        repeated: count.runs.load(Ordering::Relaxed) - jobs,
    })
}

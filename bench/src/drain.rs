//! Due jobs through a real worker, from its start to the last settle.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use delayq::{Client, Job, JobContext, JobResult, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;
use tokio::sync::Notify;

use crate::{bare, machine};

const QUEUE: &str = "bench";
const PATIENCE: Duration = Duration::from_secs(120);

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
    own_us: f64,
    calls: f64,
    repeated: usize,
}

/// Takes the figure `runs` times after one that warms up, each beside the bare scripts, and prints the medians.
pub(crate) async fn run(jobs: usize, runs: usize, young: bool, commandstats: bool) -> Result<(), Box<dyn Error>> {
    let server = RedisServer::start()?;
    let version = server.command(&["INFO", "server"])?;
    let version = version.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("?").trim().to_owned();
    let age = if young { "sent just now" } else { "sent 17 s before" };
    println!("drain: {jobs} due jobs of 120 bytes, {age}; default worker and stack, persistence off");
    println!("{}", machine::describe(&version));
    println!(
        "{:>20} {:>10} {:>14} {:>14} {:>12} {:>9}",
        "", "jobs/s", "Redis us/job", "own us/job", "calls/job", "repeated"
    );
    let (mut workers, mut bares) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for run in 0..=runs {
        let name = if run == 0 { "warm-up".to_owned() } else { format!("run {run}") };
        let worker = with_worker(&server, jobs, young).await?;
        show(&name, &worker);
        let bare = bare_scripts(&server, jobs, young).await?;
        show("bare scripts", &bare);
        if run > 0 {
            workers.push(worker);
            bares.push(bare);
        }
    }
    let (worker, bare) = (median(workers)?, median(bares)?);
    show("median", &worker);
    show("median, bare scripts", &bare);
    println!("the worker does {:.0} % of what the bare scripts do", 100.0 * worker.jobs_per_s / bare.jobs_per_s);
    if commandstats {
        println!("\nWhere Redis's time went in the last run, us:");
        print!("{}", server.command(&["INFO", "commandstats"])?);
    }
    Ok(())
}

fn median(mut figures: Vec<Figures>) -> Result<Figures, &'static str> {
    figures.sort_by(|a, b| a.jobs_per_s.total_cmp(&b.jobs_per_s));
    let middle = figures.len() / 2;
    figures.into_iter().nth(middle).ok_or("no run")
}

fn show(name: &str, f: &Figures) {
    println!(
        "{name:>20} {:>10.0} {:>14.2} {:>14.2} {:>12.3} {:>9}",
        f.jobs_per_s, f.redis_us, f.own_us, f.calls, f.repeated
    );
}

/// Fills the queue with due jobs.
async fn fill(server: &RedisServer, jobs: usize, young: bool) -> Result<Client, Box<dyn Error>> {
    server.command(&["FLUSHALL"])?;
    let client = Client::connect(&server.url()).await?;
    for chunk in (0..jobs as u64).collect::<Vec<_>>().chunks(10_000) {
        for sent in client.enqueue::<BenchOrder>().send_all(chunk.iter().map(|n| BenchOrder::numbered(*n))).await {
            sent?;
        }
    }
    // Jobs of a delay queue were sent a while before they run. Younger ones also leave a tombstone at their end, in case
    // their send is repeated: `--young` measures them.
    if !young {
        tokio::time::sleep(delayq::limits::TOMBSTONE + Duration::from_secs(2)).await;
    }
    server.command(&["CONFIG", "RESETSTAT"])?;
    Ok(client)
}

/// Measures from its making on.
struct Meter<'a> {
    server: &'a RedisServer,
    redis_s: f64,
    own: Option<Duration>,
    started: Instant,
}

impl Meter<'_> {
    fn start(server: &RedisServer) -> Result<Meter<'_>, Box<dyn Error>> {
        Ok(Meter { server, redis_s: redis_cpu_s(server)?, own: machine::own_cpu(), started: Instant::now() })
    }

    fn read(&self, jobs: usize) -> Result<Figures, Box<dyn Error>> {
        let took = self.started.elapsed();
        let own = machine::own_cpu().zip(self.own).map_or(f64::NAN, |(after, before)| (after - before).as_secs_f64());
        let redis_s = redis_cpu_s(self.server)? - self.redis_s;
        let stats = self.server.command(&["INFO", "commandstats"])?;
        let calls: f64 = stats
            .lines()
            // What runs inside a script is counted as commands too; a call is what goes over the wire.
            .filter(|line| {
                ["cmdstat_evalsha:", "cmdstat_eval:", "cmdstat_bzpopmin:"].iter().any(|name| line.starts_with(name))
            })
            .filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<f64>().ok())
            .sum();
        let each = |total: f64| total / jobs as f64;
        Ok(Figures {
            jobs_per_s: jobs as f64 / took.as_secs_f64(),
            redis_us: each(redis_s * 1e6),
            own_us: each(own * 1e6),
            calls: each(calls),
            repeated: 0,
        })
    }
}

fn redis_cpu_s(server: &RedisServer) -> std::io::Result<f64> {
    Ok(server.info("used_cpu_user")? + server.info("used_cpu_sys")?)
}

async fn bare_scripts(server: &RedisServer, jobs: usize, young: bool) -> Result<Figures, Box<dyn Error>> {
    let _client = fill(server, jobs, young).await?;
    let meter = Meter::start(server)?;
    let drained = bare::drain(&server.url(), QUEUE, young).await?;
    if drained != jobs {
        return Err(format!("{drained} jobs of {jobs} came out").into());
    }
    meter.read(jobs)
}

async fn with_worker(server: &RedisServer, jobs: usize, young: bool) -> Result<Figures, Box<dyn Error>> {
    let client = fill(server, jobs, young).await?;
    let count = Arc::new(Count { runs: AtomicUsize::new(0), wanted: jobs, all: Notify::new() });
    let meter = Meter::start(server)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(Worker::new(client.clone()).data(count.clone()).run_until(async {
        let _ = stopped.await;
    }));
    tokio::time::timeout(PATIENCE, count.all.notified()).await.map_err(|_| "not drained in time")?;
    // The last settle counts too.
    while client.stats(QUEUE).await?.done_total < jobs as u64 {
        if meter.started.elapsed() > PATIENCE {
            return Err("not settled in time".into());
        }
    }
    let mut figures = meter.read(jobs)?;
    let _ = stop.send(());
    worker.await??;
    let stats = client.stats(QUEUE).await?;
    if stats.waiting + stats.running + stats.dead != 0 || stats.orphans != 0 {
        return Err(format!("jobs are left over: {stats:?}").into());
    }
    figures.repeated = count.runs.load(Ordering::Relaxed) - jobs;
    Ok(figures)
}

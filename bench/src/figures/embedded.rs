//! The embedded engine: whole lives of jobs by the scripts alone, in a file and in memory, beside the same on Redis.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use delayq::engine::embedded::{Clock, EmbeddedEngine};
use delayq::store::ops::{NewJob, Options as JobOptions};
use delayq::store::{Prefix, Shard, Store};
use uuid::Uuid;

use super::{Sizes, short};
use crate::bare::BATCH;
use crate::job::QUEUE;
use crate::report::{JOBS_PER_S, Measure, Report, Sample};
use crate::server::{Info, Persistence, Server};
use crate::{Res, bare, machine};

/// How many tasks send one job after another, each job by a call of its own.
const SENDERS: usize = 64;
/// How many have the file open at once, each by a connection of its own.
const WRITERS: usize = 3;
/// How many jobs go into a call while the backlog is filled.
const FILL_BATCH: usize = 1000;

const CPU_US: Measure = Measure { key: "cpu_us_per_job", title: "CPU us/job", digits: 1 };
const SENT: Measure = Measure { key: "sent_per_s", title: "sent/s", digits: 0 };
const CLAIMED: Measure = Measure { key: "claimed_per_s", title: "claimed/s", digits: 0 };

const FILE: &str = "file, due as sent";
const FILE_RANDOM: &str = "file, random due";
const MEMORY: &str = "memory, due as sent";
const REDIS: &str = "Redis, due as sent";
const REDIS_RANDOM: &str = "Redis, random due";
const SINGLES: &str = "file, single sends";
const BEHIND: &str = "file, backlog";

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// How many jobs that are not due are behind, in one of the files; 1,000,000 unless said otherwise.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) behind: Option<u32>,
    /// Each job leaves a tombstone at its end.
    #[arg(long)]
    pub(crate) young: bool,
}

/// How due times go with ids.
#[derive(Clone, Copy)]
enum Order {
    OfIds,
    Random,
}

/// Takes all in turns, after one turn that warms up.
pub(crate) async fn take(options: &Options) -> Res<Report> {
    let (runs, young) = (options.sizes.runs(), options.young);
    let jobs = options.sizes.job_count(100_000, 10_000);
    let behind = options.behind.map_or(if options.sizes.quick { 50_000 } else { 1_000_000 }, |behind| behind as usize);
    let machine = Server::start(Persistence::Off)?.machine();
    let folder = Folder::new()?;
    let mut report =
        Report::new("embedded", "whole lives of jobs by the scripts alone, on SQLite and on Redis", machine);
    let tombs = if young { ", each leaves a tombstone" } else { "" };
    report.setting(format!("{jobs} jobs of 120 bytes, {BATCH} a call{tombs}; CPU of this process, and of Redis"));
    report.setting(format!(
        "SQLite {}, files in {}, synchronous=FULL; Redis without persistence",
        rusqlite::version(),
        folder.0.display()
    ));
    let far = Store::new(Arc::new(engine(&folder.url("behind.db")).await?), Prefix::default());
    fill(&far, behind).await?;
    for turn in 0..=runs {
        let server = Server::start(Persistence::Off)?;
        let url = server.url();
        let file = |name: &str| folder.url(&format!("{name}{turn}.db"));
        let taken = [
            (FILE, life(&on_file(&file("a")).await?, None, jobs, Order::OfIds, young).await?),
            (FILE_RANDOM, life(&on_file(&file("b")).await?, None, jobs, Order::Random, young).await?),
            (MEMORY, life(&on_file("sqlite::memory:").await?, None, jobs, Order::OfIds, young).await?),
            (REDIS, life(&bare::store(&url).await?, Some(&url), jobs, Order::OfIds, young).await?),
            (REDIS_RANDOM, life(&bare::store(&url).await?, Some(&url), jobs, Order::Random, young).await?),
            (SINGLES, single_sends(&on_file(&file("e")).await?, jobs).await?),
            (BEHIND, life(&far, None, jobs, Order::OfIds, young).await?),
        ];
        for (series, sample) in &taken {
            if turn > 0 {
                report.add(series, sample);
            }
        }
    }
    let pairs = [
        ("file_to_redis", "file to Redis".to_owned(), FILE, REDIS),
        ("file_to_redis_random", "file to Redis, both with random due times".to_owned(), FILE_RANDOM, REDIS_RANDOM),
        ("memory_to_redis", "memory to Redis".to_owned(), MEMORY, REDIS),
        ("behind_to_none", format!("file with {} jobs behind to without", short(behind)), BEHIND, FILE),
    ];
    for (key, what, of, to) in pairs {
        report.ratio(key, what, (of, JOBS_PER_S), (to, JOBS_PER_S));
    }
    report.note(format!("{SENDERS} tasks send one by one to a file ({SINGLES})"));
    let wal = writers(&folder, jobs, young).await?;
    report.note(format!("{WRITERS} writers leave a -wal of {:.1} MiB", wal as f64 / f64::from(1 << 20)));
    report.note(format!("an fsync of 4 KiB takes {:.0} us here, the median of {FSYNCS}", fsync_us(&folder.0)?));
    Ok(report)
}

async fn engine(url: &str) -> Res<EmbeddedEngine> {
    Ok(EmbeddedEngine::connect(url, Clock::system()).await?)
}

async fn on_file(url: &str) -> Res<Store> {
    Ok(Store::new(Arc::new(engine(url).await?), Prefix::default()))
}

fn job(when: String) -> NewJob {
    let options = JobOptions { priority: 5, attempts_max: 25, ..JobOptions::default() };
    NewJob { id: Uuid::now_v7().into_bytes(), when, options, envelope: vec![b'x'; 120] }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

async fn enqueue(store: &Store, shard: &Shard, jobs: &[NewJob]) -> Res<()> {
    store.enqueue(shard, jobs).await?;
    Ok(())
}

/// Sends jobs that are due, then claims and settles them all.
async fn life(store: &Store, redis: Option<&str>, jobs: usize, order: Order, young: bool) -> Res<Sample> {
    life_in(store, redis, QUEUE, jobs, order, young).await
}

async fn life_in(
    store: &Store,
    redis: Option<&str>,
    queue: &str,
    jobs: usize,
    order: Order,
    young: bool,
) -> Res<Sample> {
    let shard = store.shard(queue, 0)?;
    let from = now_ms() - jobs as u64;
    let mut dues: Vec<u64> = (0..jobs as u64).map(|n| from + n).collect();
    if let Order::Random = order {
        fastrand::shuffle(&mut dues);
    }
    let (cpu, started) = (cpu_s(redis)?, Instant::now());
    for dues in dues.chunks(BATCH) {
        let batch: Vec<NewJob> = dues.iter().map(|due| job(format!("@{due}"))).collect();
        enqueue(store, &shard, &batch).await?;
    }
    let sending = started.elapsed();
    let ended = bare::drain_store(store, queue, usize::MAX, young).await?;
    if ended != jobs {
        return Err(format!("{ended} jobs of {jobs} came out").into());
    }
    let whole = started.elapsed();
    let per_s = |took: Duration| jobs as f64 / took.as_secs_f64();
    Ok(Sample::default()
        .with(JOBS_PER_S, per_s(whole))
        .with(CPU_US, (cpu_s(redis)? - cpu) * 1e6 / jobs as f64)
        .with(SENT, per_s(sending))
        .with(CLAIMED, per_s(whole - sending)))
}

/// CPU seconds of this process and of the server it talks to.
fn cpu_s(redis: Option<&str>) -> Res<f64> {
    let own = machine::own_cpu().as_secs_f64();
    Ok(own + redis.map(|url| Info::of(url)?.cpu_s()).transpose()?.unwrap_or_default())
}

/// Many tasks send, each one job at a time.
async fn single_sends(store: &Store, jobs: usize) -> Res<Sample> {
    let (cpu, started) = (cpu_s(None)?, Instant::now());
    let mut senders = tokio::task::JoinSet::new();
    for nth in 0..SENDERS {
        let store = store.clone();
        senders.spawn(async move {
            let shard = store.shard(QUEUE, 0)?;
            for _ in (nth..jobs).step_by(SENDERS) {
                enqueue(&store, &shard, &[job("+3600000".to_owned())]).await?;
            }
            Res::Ok(())
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    let per_s = jobs as f64 / started.elapsed().as_secs_f64();
    let cpu_us = (cpu_s(None)? - cpu) * 1e6 / jobs as f64;
    Ok(Sample::default().with(JOBS_PER_S, per_s).with(CPU_US, cpu_us).with(SENT, per_s))
}

/// Jobs that are not due for hours, in random order.
async fn fill(store: &Store, jobs: usize) -> Res<()> {
    let shard = store.shard(QUEUE, 0)?;
    let mut left = jobs;
    while left > 0 {
        let few = left.min(FILL_BATCH);
        let batch: Vec<NewJob> = (0..few).map(|_| job(format!("+{}", fastrand::u64(36_000_000..72_000_000)))).collect();
        enqueue(store, &shard, &batch).await?;
        left -= few;
    }
    Ok(())
}

/// Several at once on one file, each on a queue of its own; answers how long SQLite's log is before they close it.
async fn writers(folder: &Folder, jobs: usize, young: bool) -> Res<u64> {
    let url = folder.url("writers.db");
    let mut stores = Vec::with_capacity(WRITERS);
    for _ in 0..WRITERS {
        stores.push(on_file(&url).await?);
    }
    let mut lives = tokio::task::JoinSet::new();
    for (nth, store) in stores.iter().cloned().enumerate() {
        lives.spawn(async move {
            life_in(&store, None, &format!("{QUEUE}{nth}"), jobs / WRITERS, Order::OfIds, young).await
        });
    }
    while let Some(done) = lives.join_next().await {
        done??;
    }
    Ok(std::fs::metadata(folder.0.join("writers.db-wal"))?.len())
}

/// How many fsyncs are timed.
const FSYNCS: usize = 200;

/// How long it takes until 4 KiB more of a file are on the disk, in us.
fn fsync_us(folder: &Path) -> Res<f64> {
    let mut file = std::fs::File::create(folder.join("fsync"))?;
    let mut took = Vec::with_capacity(FSYNCS);
    for _ in 0..FSYNCS {
        file.write_all(&[0; 4096])?;
        let started = Instant::now();
        file.sync_data()?;
        took.push(started.elapsed());
    }
    took.sort_unstable();
    Ok(took[FSYNCS / 2].as_secs_f64() * 1e6)
}

/// A folder for databases, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Folder> {
        let path = std::env::temp_dir().join(format!("delayq-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    fn url(&self, name: &str) -> String {
        format!("sqlite://{}", self.0.join(name).display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

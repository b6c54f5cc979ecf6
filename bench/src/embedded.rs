//! The embedded engine: whole lives of jobs by the scripts alone, in a file and in memory, beside the same on Redis.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use delayq::engine::embedded::{Clock, EmbeddedEngine};
use delayq::engine::redis::{RedisEngine, Settings, Target};
use delayq::store::ops::{NewJob, Options};
use delayq::store::{Prefix, Shard, Store};
use delayq_redis_fixture::RedisServer;
use uuid::Uuid;

use crate::{bare, machine};

const QUEUE: &str = "bench";
/// How many jobs go into a call.
const BATCH: usize = 100;
/// How many tasks send one job after another, each job by a call of its own.
const SENDERS: usize = 64;
/// How many have the file open at once, each by a connection of its own.
const WRITERS: usize = 3;
/// How many jobs go into a call while the backlog is filled.
const FILL_BATCH: usize = 1000;

type Res<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How due times go with ids.
#[derive(Clone, Copy)]
enum Order {
    OfIds,
    Random,
}

/// One run of one figure.
#[derive(Clone, Copy)]
struct Sample {
    per_s: f64,
    cpu_us: f64,
    sends_per_s: f64,
    claims_per_s: f64,
}

/// One figure: its name, and its runs.
struct Series {
    name: &'static str,
    samples: Vec<Sample>,
}

/// Takes all figures `runs` times, in turns, after one turn that warms up.
pub(crate) async fn run(jobs: usize, runs: usize, behind: usize, young: bool) -> Result<(), Box<dyn Error>> {
    figures(jobs, runs, behind, young).await.map_err(|error| error as Box<dyn Error>)
}

async fn figures(jobs: usize, runs: usize, behind: usize, young: bool) -> Res<()> {
    let server = RedisServer::start()?;
    let version = server.command(&["INFO", "server"])?;
    let version = version.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("?").trim().to_owned();
    let folder = Folder::new()?;
    let tombs = if young { ", each leaves a tombstone" } else { "" };
    println!("embedded: whole lives of {jobs} jobs of 120 bytes by the scripts alone, {BATCH} a call{tombs}");
    println!("{}, SQLite {}", machine::describe(&version), rusqlite::version());
    println!("files in {}, synchronous=FULL; Redis without persistence", folder.0.display());
    println!("an fsync of 4 KiB takes {:.0} us here, the median of {FSYNCS}", fsync_us(&folder.0)?);

    let far = Store::new(Arc::new(engine(&folder.url("behind.db")).await?), Prefix::default());
    fill(&far, behind).await?;
    let mut all = [
        "a file, due as sent",
        "b file, random due",
        "c memory, due as sent",
        "d Redis, due as sent",
        "  Redis, random due",
        "e file, single sends",
        "f file, backlog",
    ]
    .map(|name| Series { name, samples: Vec::new() });
    for turn in 0..=runs {
        server.command(&["FLUSHALL"])?;
        let file = |name: &str| folder.url(&format!("{name}{turn}.db"));
        let took = [
            life(&on_file(&file("a")).await?, None, jobs, Order::OfIds, young).await?,
            life(&on_file(&file("b")).await?, None, jobs, Order::Random, young).await?,
            life(&on_file("sqlite::memory:").await?, None, jobs, Order::OfIds, young).await?,
            life(&on_redis(&server).await?, Some(&server), jobs, Order::OfIds, young).await?,
            life(&on_redis(&server).await?, Some(&server), jobs, Order::Random, young).await?,
            single_sends(&on_file(&file("e")).await?, jobs).await?,
            life(&far, None, jobs, Order::OfIds, young).await?,
        ];
        for (series, sample) in all.iter_mut().zip(took) {
            if turn > 0 {
                series.samples.push(sample);
            }
        }
    }

    println!(
        "{:>22} {:>9} {:>17} {:>12} {:>10} {:>10}",
        "median", "jobs/s", "least-most", "CPU us/job", "sent/s", "claimed/s"
    );
    for series in &all {
        series.show()?;
    }
    let [a, b, c, redis, redis_random, e, f] = all.each_ref().map(Series::median);
    let (a, b, c, redis, redis_random, e, f) = (a?, b?, c?, redis?, redis_random?, e?, f?);
    println!("to Redis: file {:.2}, file with random due {:.2}, memory {:.2}", a / redis, b / redis_random, c / redis);
    println!("{SENDERS} tasks send {e:.0} jobs/s one by one");
    println!("with {behind} jobs behind that are not due, a job costs {:.2} of what it costs without", a / f);
    let wal = writers(&folder, jobs, young).await?;
    println!("{WRITERS} writers leave a -wal of {:.1} MiB", wal as f64 / f64::from(1 << 20));
    Ok(())
}

impl Series {
    fn sorted(&self) -> Vec<Sample> {
        let mut samples = self.samples.clone();
        samples.sort_by(|a, b| a.per_s.total_cmp(&b.per_s));
        samples
    }

    fn median(&self) -> Res<f64> {
        Ok(self.sorted().get(self.samples.len() / 2).ok_or("no run")?.per_s)
    }

    fn show(&self) -> Res<()> {
        let sorted = self.sorted();
        let middle = sorted.get(sorted.len() / 2).ok_or("no run")?;
        let (least, most) = (sorted[0].per_s, sorted[sorted.len() - 1].per_s);
        println!(
            "{:>22} {:>9.0} {:>17} {:>12.1} {:>10.0} {:>10.0}",
            self.name,
            middle.per_s,
            format!("{least:.0}-{most:.0}"),
            middle.cpu_us,
            middle.sends_per_s,
            middle.claims_per_s
        );
        Ok(())
    }
}

async fn engine(url: &str) -> Res<EmbeddedEngine> {
    Ok(EmbeddedEngine::connect(url, Clock::system()).await?)
}

async fn on_file(url: &str) -> Res<Store> {
    Ok(Store::new(Arc::new(engine(url).await?), Prefix::default()))
}

async fn on_redis(server: &RedisServer) -> Res<Store> {
    let engine = RedisEngine::connect(Target::parse(&server.url(), Settings::default())?).await?;
    Ok(Store::new(Arc::new(engine), Prefix::default()))
}

fn job(when: String) -> NewJob {
    let options = Options { priority: 5, attempts_max: 25, ..Options::default() };
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
async fn life(store: &Store, redis: Option<&RedisServer>, jobs: usize, order: Order, young: bool) -> Res<Sample> {
    life_in(store, redis, QUEUE, jobs, order, young).await
}

async fn life_in(
    store: &Store,
    redis: Option<&RedisServer>,
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
    let ended = bare::drain_store(store, queue, young).await?;
    if ended != jobs {
        return Err(format!("{ended} jobs of {jobs} came out").into());
    }
    let whole = started.elapsed();
    let per_s = |took: Duration| jobs as f64 / took.as_secs_f64();
    Ok(Sample {
        per_s: per_s(whole),
        cpu_us: (cpu_s(redis)? - cpu) * 1e6 / jobs as f64,
        sends_per_s: per_s(sending),
        claims_per_s: per_s(whole - sending),
    })
}

/// CPU seconds of this process and of the server it talks to.
fn cpu_s(redis: Option<&RedisServer>) -> Res<f64> {
    let own = machine::own_cpu().map_or(f64::NAN, |cpu| cpu.as_secs_f64());
    Ok(match redis {
        Some(server) => own + server.info("used_cpu_user")? + server.info("used_cpu_sys")?,
        None => own,
    })
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
            Ok::<(), Box<dyn Error + Send + Sync>>(())
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    let per_s = jobs as f64 / started.elapsed().as_secs_f64();
    let cpu_us = (cpu_s(None)? - cpu) * 1e6 / jobs as f64;
    Ok(Sample { per_s, cpu_us, sends_per_s: per_s, claims_per_s: f64::NAN })
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

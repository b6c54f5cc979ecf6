//! Workers that are killed, frozen, or kill themselves.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use delayq::{Client, DeadReason, Job, JobContext, JobId, JobResult, JobType, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;
use delayq_tests::process::Process;
use delayq_tests::{Lag, Running, eventually, server_and_client};
use tokio::sync::Notify;

/// What `crashing_worker` runs; its handlers are there, and the workers of this program need none.
#[delayq::payload]
struct Steady {
    name: String,
    takes_ms: u64,
}

impl JobType for Steady {
    const NAME: &'static str = "steady";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "crash";
}

#[delayq::payload]
struct Poison {
    name: String,
}

impl JobType for Poison {
    const NAME: &'static str = "poison";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "crash";
    const MAX_RETRIES: u32 = 9;
}

/// A worker process.
fn start(server: &RedisServer, queue: &str) -> Process {
    Process::start(Command::new(env!("CARGO_BIN_EXE_crashing_worker")).args([&server.url(), queue]))
}

async fn send_steady(client: &Client, name: &str, takes_ms: u64) -> JobId {
    client.enqueue::<Steady>().send(Steady { name: name.to_owned(), takes_ms }).await.unwrap().id()
}

async fn done(client: &Client, count: u64) {
    eventually("jobs done", || async { (client.stats("crash").await.unwrap().done_total == count).then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b19_jobs_of_a_killed_worker_run_again_after_its_lease() {
    let (server, client) = server_and_client().await;
    let mut first = start(&server, "crash");
    first.says("ready").await;
    send_steady(&client, "a", 60_000).await;
    first.says("start a 1").await;
    let mut second = start(&server, "crash");
    second.says("ready").await;
    // Both have beaten before one is killed.
    eventually("two sessions", || async { (client.stats("crash").await.unwrap().sessions == 2).then_some(()) }).await;
    first.kill().await;
    let (killed, lag) = (Instant::now(), Lag::watch());
    second.says("start a 2").await;
    let took = killed.elapsed();
    assert!(took < Duration::from_millis(3_500) + lag.so_far(), "{took:?} with a lease of 2 s");
    let stats = client.stats("crash").await.unwrap();
    assert_eq!((stats.crashed_total, stats.running, stats.orphans), (1, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_worker_can_not_settle_what_was_given_away() {
    let (server, client) = server_and_client().await;
    let takes = Duration::from_secs(3);
    let mut frozen = start(&server, "crash");
    frozen.says("ready").await;
    send_steady(&client, "a", takes.as_millis() as u64).await;
    frozen.says("start a 1").await;
    let started = Instant::now();
    frozen.signal("STOP");
    let mut other = start(&server, "crash");
    other.says("start a 2").await;
    // Time itself is waited for: the frozen run is to end as soon as it goes on, while the other one runs.
    tokio::time::sleep(takes.saturating_sub(started.elapsed())).await;
    frozen.signal("CONT");
    other.says("end a").await;
    done(&client, 1).await;
    // It works on: with a session of its own, on what comes next.
    other.signal("TERM");
    other.says("ended").await;
    send_steady(&client, "b", 1).await;
    frozen.says("start b 1").await;
    done(&client, 2).await;
    let stats = client.stats("crash").await.unwrap();
    assert_eq!((stats.dead, stats.waiting, stats.running, stats.orphans), (0, 0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_freeze_shorter_than_the_lease_changes_nothing() {
    let (server, client) = server_and_client().await;
    let mut frozen = start(&server, "crash");
    frozen.says("ready").await;
    send_steady(&client, "a", 1500).await;
    frozen.says("start a 1").await;
    frozen.signal("STOP");
    // Shorter than its lease: time itself is what is tested.
    tokio::time::sleep(Duration::from_millis(700)).await;
    frozen.signal("CONT");
    frozen.says("end a").await;
    done(&client, 1).await;
    let stats = client.stats("crash").await.unwrap();
    assert_eq!((stats.crashed_total, stats.retried_total), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn b33_a_job_that_kills_its_workers_is_put_aside_and_its_neighbours_live() {
    let (server, client) = server_and_client().await;
    let poison = client.enqueue::<Poison>().send(Poison { name: "poison".to_owned() }).await.unwrap();
    for n in 0..5 {
        send_steady(&client, &format!("neighbour {n}"), 400).await;
    }
    // A supervisor starts the worker again whenever it dies.
    let (mut poison_starts, mut deaths) = (0, 0);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut worker = start(&server, "crash");
    loop {
        assert!(Instant::now() < deadline, "no dead letter after {deaths} deaths");
        tokio::select! {
            line = worker.line() => match line {
                Some(line) if line.starts_with("start poison") => poison_starts += 1,
                Some(_) => {}
                None => {
                    deaths += 1;
                    worker = start(&server, "crash");
                }
            },
            () = tokio::time::sleep(Duration::from_millis(50)) => {
                let stats = client.stats("crash").await.unwrap();
                if stats.dead == 1 && stats.done_total == 5 {
                    break;
                }
            }
        }
    }
    assert_eq!((poison_starts, deaths), (3, 3));
    let letter = client.dead_letters("crash").get(poison.id()).await.unwrap().expect("p: only the poison is dead");
    assert_eq!(letter.reason, Some(DeadReason::CrashLoop));
    assert!(letter.error.contains("lost"), "{}", letter.error);
    let stats = client.stats("crash").await.unwrap();
    assert_eq!((stats.waiting, stats.running, stats.orphans), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_running_jobs_finish() {
    let (server, client) = server_and_client().await;
    let mut worker = start(&server, "crash");
    worker.says("ready").await;
    send_steady(&client, "a", 700).await;
    worker.says("start a 1").await;
    worker.signal("TERM");
    assert_eq!(worker.rest().await, ["end a", "ended"]);
    let stats = client.stats("crash").await.unwrap();
    assert_eq!((stats.done_total, stats.sessions, stats.crashed_total), (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_process_at_once() {
    let (server, client) = server_and_client().await;
    let mut worker = start(&server, "crash");
    worker.says("ready").await;
    send_steady(&client, "a", 60_000).await;
    worker.says("start a 1").await;
    worker.signal("TERM");
    worker.signal("INT");
    let asked = Instant::now();
    assert!(!worker.rest().await.contains(&"ended".to_owned()));
    // Half of the grace period.
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
}

/// What the jobs below see of each other.
#[derive(Default)]
struct Company {
    long_runs: AtomicBool,
    long_may_end: Notify,
    alone: OnceLock<bool>,
}

#[delayed_job(name = "long", version = 1, queue = "company")]
struct Long;

impl Job for Long {
    async fn run(self, cx: JobContext) -> JobResult {
        let company = cx.data::<Arc<Company>>()?;
        company.long_runs.store(true, Ordering::SeqCst);
        company.long_may_end.notified().await;
        company.long_runs.store(false, Ordering::SeqCst);
        Ok(())
    }
}

#[delayed_job(name = "suspect", version = 1, queue = "suspects")]
struct Suspect;

impl Job for Suspect {
    async fn run(self, cx: JobContext) -> JobResult {
        let company = cx.data::<Arc<Company>>()?;
        let _ = company.alone.set(!company.long_runs.load(Ordering::SeqCst));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_a_job_that_must_run_alone_waits_for_the_worker_s_other_queues() {
    let (server, client) = server_and_client().await;
    let company = Arc::new(Company::default());
    client.enqueue::<Long>().send(Long).await.unwrap();
    let worker = Worker::new(client.clone()).queues(["company", "suspects"]).data(company.clone());
    let worker = Running::start(worker);
    eventually("the other queue's job runs", || async { company.long_runs.load(Ordering::SeqCst).then_some(()) }).await;
    let suspect = client.schedule::<Suspect>(Duration::from_secs(600)).send(Suspect).await.unwrap();
    // As two crashes leave it.
    let crashed = "for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do local r = redis.call('HGET', KEYS[1], id) \
                   redis.call('HSET', KEYS[1], id, r:sub(1, 3) .. string.char(2) .. r:sub(5)) end";
    server.command(&["EVAL", crashed, "1", "delayq:{suspects/0}:jobs"]).unwrap();
    suspect.reschedule(Duration::ZERO).await.unwrap();
    let due = || server.command(&["ZRANGE", "delayq:{suspects/0}:due:5", "0", "-1", "WITHSCORES"]).unwrap();
    let at_first = due();
    eventually("it is put off", || async { (due() != at_first).then_some(()) }).await;
    assert_eq!(company.alone.get(), None);
    company.long_may_end.notify_one();
    eventually("it runs", || async { company.alone.get().copied().filter(|alone| *alone) }).await;
    worker.stop().await.unwrap();
}

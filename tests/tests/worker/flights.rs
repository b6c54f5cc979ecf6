//! Two calls of a worker on their way at once: what breaks between them loses nothing, and who wants to be alone is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use delayq::{Client, Job, JobContext, JobResult, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;
use delayq_tests::{Running, eventually, server_and_client};

use super::{Act, Ran, log, probe};

async fn done(client: &Client, queue: &str, count: u64) {
    eventually("all is done", || async { (client.stats(queue).await.unwrap().done_total == count).then_some(()) })
        .await;
}

fn each_once(runs: impl Iterator<Item = Ran>, jobs: usize) {
    let mut times: HashMap<String, u32> = HashMap::new();
    runs.for_each(|run| *times.entry(run.name).or_default() += 1);
    let again: Vec<_> = times.iter().filter(|(_, times)| **times > 1).take(10).collect();
    assert!(again.is_empty() && times.len() == jobs, "{} of {jobs} ran, more than once: {again:?}", times.len());
}

fn evalsha_calls(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
    line.and_then(|line| line.split_once("calls=")?.1.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn c_connections_that_break_under_two_calls_lose_nothing() {
    const JOBS: usize = 20_000;
    let (server, client) = server_and_client().await;
    let numbers: Vec<String> = (0..JOBS).map(|n| n.to_string()).collect();
    for sent in client.enqueue().send_all(numbers.iter().map(|n| probe(n, Act::Succeed))).await {
        sent.unwrap();
    }
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log).queues(["default"]));
    let (mut ran, mut kills) = (Vec::new(), 0);
    while ran.len() < JOBS {
        // Every few hundred runs, in the thick of it: whatever is on its way just then is of unknown outcome.
        ran.append(&mut runs.take(500.min(JOBS - ran.len())).await);
        if kills < 20 {
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
            kills += 1;
        }
    }
    assert_eq!(kills, 20);
    done(&client, "default", JOBS as u64).await;
    worker.stop().await.unwrap();
    let stats = client.stats("default").await.unwrap();
    assert_eq!((stats.waiting, stats.running, stats.dead, stats.orphans), (0, 0, 0, 0), "{stats:?}");
    // What was claimed by a call whose answer was lost is handed back, and costs no attempt; what ended is not run again,
    // though it may have been settled by such a call, or not.
    assert_eq!((stats.crashed_total, stats.retried_total), (0, 0));
    each_once(ran.into_iter().chain(runs.rest()), JOBS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_worked_off_in_full_calls() {
    const JOBS: u64 = 10_000;
    let (server, client) = server_and_client().await;
    for sent in client.enqueue().send_all((0..JOBS).map(|n| probe(&n.to_string(), Act::Succeed))).await {
        sent.unwrap();
    }
    let (log, mut runs) = log();
    let before = evalsha_calls(&server);
    let worker = Running::start(Worker::new(client.clone()).data(log).queues(["default"]));
    let ran = runs.take(JOBS as usize).await;
    let calls = evalsha_calls(&server) - before;
    assert!(calls <= JOBS / 25, "{calls} calls for {JOBS} jobs");
    done(&client, "default", JOBS).await;
    worker.stop().await.unwrap();
    each_once(ran.into_iter().chain(runs.rest()), JOBS as usize);
}

/// Says whether it had company.
#[delayed_job(name = "crowd", version = 1, queue = "crowd", timeout = "10s")]
struct Crowd {
    alone: bool,
}

#[derive(Default)]
struct Hall {
    inside: AtomicUsize,
    company: AtomicBool,
    alone: AtomicUsize,
}

impl Job for Crowd {
    async fn run(self, cx: JobContext) -> JobResult {
        let hall = cx.data::<Arc<Hall>>()?;
        let inside = hall.inside.fetch_add(1, Ordering::SeqCst) + 1;
        if self.alone {
            let mut company = inside > 1;
            // Long enough for whatever else was claimed to be started.
            tokio::time::sleep(Duration::from_millis(100)).await;
            company |= hall.inside.load(Ordering::SeqCst) > 1;
            hall.company.fetch_or(company, Ordering::SeqCst);
            hall.alone.fetch_add(1, Ordering::SeqCst);
        }
        hall.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p_who_wants_to_be_alone_is_in_the_middle_of_a_backlog() {
    const MARK: &str = "local n = 0
        for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
            local r = redis.call('HGET', KEYS[1], id)
            if string.find(r, '{\"alone\":true}', 1, true) then
                redis.call('HSET', KEYS[1], id, string.sub(r, 1, 3) .. string.char(2) .. string.sub(r, 5))
                n = n + 1
            end
        end
        return n";
    let (server, client) = server_and_client().await;
    let jobs = (0..6_000).map(|n| Crowd { alone: n == 1_500 || n == 3_700 });
    for sent in client.enqueue().send_all(jobs).await {
        sent.unwrap();
    }
    // As if two workers had died of each.
    let marked = server.command(&["EVAL", MARK, "1", "delayq:{crowd/0}:jobs"]).unwrap();
    assert_eq!(marked.trim().trim_start_matches(':'), "2");
    let hall = Arc::new(Hall::default());
    let worker = Running::start(Worker::new(client.clone()).data(hall.clone()).queues(["crowd"]));
    done(&client, "crowd", 6_000).await;
    worker.stop().await.unwrap();
    assert_eq!(hall.alone.load(Ordering::SeqCst), 2);
    assert!(!hall.company.load(Ordering::SeqCst), "something ran beside it");
    assert_eq!(client.stats("crowd").await.unwrap().crashed_total, 0);
}

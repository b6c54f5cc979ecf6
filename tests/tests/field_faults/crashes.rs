//! B19 to B24: processes and servers that die, and what is left of their jobs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use delayq::{CancelOutcome, Client, DeadReason, Error, Job, JobContext, JobHandle, JobResult, delayed_job};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::proxy::{Blow, End, Proxy};
use delayq_tests::{Lag, eventually, server_and_client};
use futures_util::future::join_all;

use crate::kit::{
    Act, FIELD, Field, HOUR, LEASE, LONG_LEASE, Poison, SLACK, Stage, child, conserved, dead, field, harmless,
    listened_to, numbers, script, send_all, sessions, settled, steady, tell, world,
};

/// How long after a crash its jobs run again: the lease, and somebody's next look.
fn back(lease: Duration) -> Duration {
    lease + Duration::from_secs(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn b19_what_a_killed_process_ran_runs_again_after_its_lease() {
    const JOBS: u64 = 20;
    let (server, client) = server_and_client().await;
    let mut doomed = child(&server.url(), "crash", LONG_LEASE);
    doomed.says("ready").await;
    send_all(client.enqueue(), (0..JOBS).map(|n| steady(n, 60_000))).await;
    for _ in 0..JOBS {
        assert!(doomed.line().await.unwrap().starts_with("start "));
    }
    let mut stage = Stage::with(&client, |worker| harmless(worker).lease(LONG_LEASE));
    sessions(&client, "crash", 2).await;
    let (before, lag) = (Instant::now(), Lag::watch());
    doomed.kill().await;
    let runs = stage.take(JOBS as usize).await;
    let took = before.elapsed();
    assert!(took < back(LONG_LEASE) + SLACK + lag.so_far(), "{took:?}");
    assert!(numbers(&runs).into_iter().eq(0..JOBS) && runs.iter().all(|ran| ran.attempt == 2), "{runs:?}");
    settled(&client, "crash", JOBS).await;
    assert!(stage.stop().await.is_empty());
    assert_eq!(client.stats("crash").await.unwrap().crashed_total, JOBS);
    conserved(&server, "crash").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b19_a_process_killed_in_the_thick_of_claims_and_ends_loses_nothing() {
    const JOBS: u64 = 600;
    let (server, client) = server_and_client().await;
    send_all(client.enqueue(), (0..JOBS).map(|n| steady(n, 3))).await;
    let mut told = Vec::new();
    let mut doomed = child(&server.url(), "crash", LEASE);
    for _ in 0..500 {
        told.push(doomed.line().await.unwrap());
    }
    told.extend(doomed.kill().await);
    let mut stage = Stage::with(&client, harmless);
    settled(&client, "crash", JOBS).await;
    let ended = told.iter().filter_map(|line| line.strip_prefix("end ")?.parse().ok());
    let mut all: Vec<u64> = ended.chain(stage.rest().iter().map(|ran| ran.n)).collect();
    assert!(stage.stop().await.is_empty());
    all.sort_unstable();
    all.dedup();
    assert!(all.into_iter().eq(0..JOBS), "each has ended somewhere");
    let stats = client.stats("crash").await.unwrap();
    assert_eq!((stats.dead_total, stats.retried_total), (0, 0));
    conserved(&server, "crash").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b20_a_claim_that_was_carried_out_and_never_answered_loses_no_job() {
    let (server, client) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let quick = Client::builder().response_timeout(Duration::from_millis(500));
    let behind = eventually("a client", || async { quick.clone().connect(&proxy.url()).await.ok() }).await;
    let mut stage = Stage::start(&behind);
    client.enqueue().send(field(0, Act::Pass)).await.unwrap();
    stage.next().await;
    let ways = [(0, End::Close), (1, End::Reset), (20, End::Close), (90, End::Close), (0, End::Silence)];
    for (n, (keep, end)) in (1..).zip(ways) {
        settled(&client, FIELD, n).await;
        listened_to(&server).await;
        proxy.strike(Blow::Reply { keep, end }, &[script("claim")], 1);
        let (sent, lag) = (Instant::now(), Lag::watch());
        client.enqueue().send(field(n, Act::Pass)).await.unwrap();
        let ran = stage.next().await;
        assert_eq!((ran.n, ran.attempt, proxy.struck()), (n, 1, n), "{keep} {end:?}");
        assert!(sent.elapsed() < back(LEASE) + SLACK + lag.so_far(), "{keep} {end:?}: {:?}", sent.elapsed());
    }
    settled(&client, FIELD, 1 + ways.len() as u64).await;
    assert!(stage.stop().await.is_empty());
    assert_eq!(client.stats(FIELD).await.unwrap().crashed_total, 0);
    conserved(&server, FIELD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b20_a_process_that_dies_with_the_answer_to_its_claim_loses_no_job() {
    let (server, client) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    // Somebody who is busy meanwhile, and looks after the lost all the same.
    let mut stage = Stage::with(&client, |worker| harmless(worker).concurrency(1).lease(LONG_LEASE));
    for (n, dies_of_it) in [(1, true), (2, false), (3, true)] {
        client.enqueue().queue("crash").send(field(10 * n, Act::Wait)).await.unwrap();
        assert_eq!(stage.next().await.n, 10 * n);
        let mut doomed = child(&proxy.url(), "crash", LONG_LEASE);
        doomed.says("ready").await;
        listened_to(&server).await;
        let (lost, lag) = if dies_of_it {
            // The first of its code that has the answer ends the process.
            let poison = Poison { name: n.to_string(), how: "abort".to_owned() };
            client.enqueue().send(poison).await.unwrap();
            let told = doomed.rest().await;
            assert_eq!(told, [format!("start {n} 1")]);
            (Instant::now(), Lag::watch())
        } else {
            // It never has it.
            proxy.strike(Blow::Reply { keep: 0, end: End::Silence }, &[script("claim")], 1);
            client.enqueue().send(steady(n, 60_000)).await.unwrap();
            eventually("the answer is withheld", || async { (proxy.struck() == 1).then_some(()) }).await;
            assert_eq!(client.stats("crash").await.unwrap().running, 2);
            assert!(doomed.kill().await.is_empty());
            (Instant::now(), Lag::watch())
        };
        stage.open(1);
        let ran = stage.next().await;
        assert_eq!((ran.n, ran.attempt), (n, 2));
        assert!(lost.elapsed() < back(LONG_LEASE) + SLACK + lag.so_far(), "{:?}", lost.elapsed());
        settled(&client, "crash", 2 * n).await;
    }
    assert!(stage.stop().await.is_empty());
    conserved(&server, "crash").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b23_delayed_jobs_outlive_restarts_of_their_server_and_are_on_time() {
    const JOBS: u64 = 100;
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lease = Duration::from_secs(2);
    let mut stage = Stage::team(2, &client, |worker| worker.lease(lease));
    sessions(&client, FIELD, 2).await;
    client.enqueue().send(field(JOBS, Act::Wait)).await.unwrap();
    assert_eq!(stage.next().await.n, JOBS);
    let wait = Duration::from_millis(1500);
    send_all(client.schedule(wait), (0..JOBS).map(|n| field(n, Act::Pass))).await;
    for _ in 0..2 {
        server.restart().unwrap();
        client.stats(FIELD).await.unwrap();
    }
    let (restarted, lag) = (Instant::now(), Lag::watch());
    // What ran all the while ends after them.
    stage.open(1);
    let runs = stage.take(JOBS as usize).await;
    assert!(restarted.elapsed() < wait + lease + SLACK + lag.so_far(), "{:?}", restarted.elapsed());
    assert!(numbers(&runs).into_iter().eq(0..JOBS) && runs.iter().all(|ran| ran.attempt == 1), "{runs:?}");
    settled(&client, FIELD, JOBS + 1).await;
    assert!(stage.stop().await.is_empty(), "none ran twice");
    conserved(&server, FIELD).await;
}

/// Ends in this way, for good.
#[delayed_job(name = "residue", version = 1, queue = "field", max_retries = 0, timeout = "300ms")]
#[derive(Clone)]
struct Residue {
    n: u64,
    how: How,
}

#[delayq::payload]
#[derive(Clone, Copy)]
enum How {
    Well,
    InError,
    InTimeout,
}

impl Job for Residue {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(self.n, &cx)?;
        match self.how {
            How::Well => Ok(()),
            How::InError => Err("told to fail")?,
            How::InTimeout => std::future::pending().await,
        }
    }
}

async fn cancelled(sent: Vec<Result<JobHandle<Field>, Error>>) -> Vec<CancelOutcome> {
    join_all(sent.into_iter().map(|handle| async move { handle.unwrap().cancel().await.unwrap() })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn b24_finished_jobs_leave_nothing_that_is_taken_for_running() {
    const EACH: u64 = 250;
    let (server, client) = server_and_client().await;
    let mut stage = Stage::with(&client, |worker| worker.concurrency(1000));
    // Cancelled while they wait, and while they run.
    let some = |act: Act| (0..EACH / 2).map(move |n| field(n, act.clone()));
    let waiting = client.schedule(HOUR).send_all(some(Act::Pass)).await;
    assert!(cancelled(waiting).await.iter().all(|outcome| *outcome == CancelOutcome::Cancelled));
    let running = client.enqueue().send_all(some(Act::WaitFail)).await;
    stage.take(EACH as usize / 2).await;
    assert!(cancelled(running).await.iter().all(|outcome| *outcome == CancelOutcome::Running));
    stage.open(EACH as usize / 2);
    let mut ids = BTreeMap::new();
    for (how, ended) in [(How::Well, "well"), (How::InError, "told to fail"), (How::InTimeout, "timed out")] {
        let jobs = (0..EACH).map(|n| Residue { n, how });
        for id in send_all(client.enqueue(), jobs).await {
            ids.insert(id, ended);
        }
    }
    stage.take(3 * EACH as usize).await;
    settled(&client, FIELD, EACH).await;
    dead(&client, FIELD, 2 * EACH).await;
    // Three leases of nothing: time itself is what is tested.
    tokio::time::sleep(3 * LEASE).await;
    let stats = client.stats(FIELD).await.unwrap();
    assert_eq!((stats.running, stats.waiting, stats.retained, stats.orphans), (0, 0, 0, 0));
    assert_eq!((stats.done_total, stats.dead, stats.cancelled_total), (EACH, 2 * EACH, EACH));
    assert_eq!((stats.crashed_total, stats.retried_total, stats.quarantined_total), (0, 0, 0));
    let (mut after, mut letters) = (None, 0);
    loop {
        let page = client.dead_letters(FIELD).oldest_first(100, after).await.unwrap();
        for letter in &page.letters {
            assert_eq!(letter.reason, Some(DeadReason::RetriesExhausted));
            assert!(letter.error.contains(ids[&letter.id]), "{letter:?}");
        }
        letters += page.letters.len() as u64;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(letters, 2 * EACH);
    let held: Vec<String> = world(&server, FIELD).await.dump().await.0.into_keys().collect();
    assert!(!held.iter().any(|name| name.starts_with("held:")), "{held:?}");
    assert!(stage.stop().await.is_empty());
    conserved(&server, FIELD).await;
}

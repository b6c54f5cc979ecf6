//! Several processes on one file: each job once, prompt wake-ups, quiet when idle, kills at any moment.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use delayq::{Client, JobId, JobStatus};
use delayq_tests::process::Process;
use delayq_tests::{eventually, soon};

use super::{Base, Cargo, Steady, child, steady};

fn worker(base: &Base) -> Process {
    Process::start(&mut child(&["work", &base.url(), "steady"]))
}

async fn done(client: &Client, count: u64) {
    eventually("jobs done", || async { (client.stats("steady").await.unwrap().done_total == count).then_some(()) })
        .await;
}

async fn sessions(client: &Client, count: u64) {
    eventually("sessions", || async { (client.stats("steady").await.unwrap().sessions == count).then_some(()) }).await;
}

/// Waits until a worker listens: the file says that the baton is waited for.
async fn listened(base: &Base) {
    let look = base.look();
    eventually("somebody who listens", || async {
        look.query_row("SELECT max(waited) = 1 FROM keys", (), |row| row.get(0)).unwrap_or(false).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_of_other_processes_run_each_job_once() {
    let base = Base::new();
    let client = base.client().await;
    let mut workers = [worker(&base), worker(&base)];
    for worker in &mut workers {
        worker.says("ready").await;
    }
    sessions(&client, 2).await;
    let jobs: Vec<Steady> = (0..400).map(|n| steady(&n.to_string(), 30 + n % 7)).collect();
    for sent in client.schedule(Duration::from_millis(200)).send_all(jobs).await {
        sent.unwrap();
    }
    done(&client, 400).await;
    let mut starts: BTreeMap<String, u32> = BTreeMap::new();
    let mut shares = Vec::new();
    for worker in &mut workers {
        let lines = worker.kill().await;
        let names = lines.iter().filter_map(|line| line.strip_prefix("start "));
        shares.push(names.clone().count());
        names.for_each(|name| *starts.entry(name.to_owned()).or_default() += 1);
    }
    assert_eq!(starts.len(), 400);
    assert!(starts.values().all(|count| *count == 1), "some job ran twice: {starts:?}");
    assert!(shares.iter().all(|share| *share > 0), "one did all the work: {shares:?}");
    base.assert_whole();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_wakes_an_idle_worker_of_another_process() {
    let base = Base::new();
    let client = base.client().await;
    let mut worker = worker(&base);
    worker.says("ready").await;
    listened(&base).await;
    // One may be lucky: it comes just when the worker's own wait is over. Not five.
    for n in 0..5 {
        let (name, sent) = (n.to_string(), Instant::now());
        client.enqueue().send(steady(&name, 0)).await.unwrap();
        worker.says(&format!("start {name}")).await;
        let took = sent.elapsed();
        assert!(took < Duration::from_millis(500), "job {n}: {took:?}; without a signal it is up to 5 s");
        worker.says(&format!("end {name}")).await;
        done(&client, n + 1).await;
    }
    // And one that is due later: whoever sleeps learns of the earlier due time.
    client.schedule(Duration::from_secs(60)).send(steady("far", 0)).await.unwrap();
    let sent = Instant::now();
    client.schedule(Duration::from_millis(300)).send(steady("near", 0)).await.unwrap();
    worker.says("start near").await;
    assert!((300..800).contains(&sent.elapsed().as_millis()), "{:?}", sent.elapsed());
}

/// How often a process's threads went to sleep so far.
fn sleeps(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")));
    let count = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).map(str::trim);
        line.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0)
    };
    // A thread may end between the two looks.
    status.filter_map(Result::ok).map(count).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_neither_writes_nor_polls() {
    let base = Base::new();
    let client = base.client().await;
    let mut worker = worker(&base);
    worker.says("ready").await;
    client.enqueue().send(steady("first", 0)).await.unwrap();
    worker.says("end first").await;
    done(&client, 1).await;
    drop(client);
    let look = base.look();
    let version = || look.query_row("PRAGMA data_version", (), |row| row.get::<_, i64>(0)).unwrap();
    // Three seconds of idleness are what is measured: a beat each, and one wait that ends.
    let (mut seen, mut changes) = (version(), 0);
    let (from, until) = (sleeps(worker.pid()), Instant::now() + Duration::from_secs(3));
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = version();
        changes += u32::from(now != seen);
        seen = now;
    }
    let slept = sleeps(worker.pid()) - from;
    assert!(changes <= 6, "{changes} commits in 3 s");
    assert!(slept <= 50, "its threads woke up {slept} times in 3 s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_s_job_is_finished_by_another_process() {
    let base = Base::new();
    let client = base.client().await;
    // Its lease is 2 s.
    let crashing = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crashing_worker"));
        command.args([&base.url(), "steady"]);
        Process::start(&mut command)
    };
    let mut first = crashing();
    first.says("ready").await;
    let job = client.enqueue().send(steady("a", 400)).await.unwrap();
    first.says("start a 1").await;
    let mut second = crashing();
    second.says("ready").await;
    sessions(&client, 2).await;
    // In the middle of the run, and in the middle of whatever its threads do with the file.
    first.kill().await;
    let killed = Instant::now();
    second.says("start a 2").await;
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?} with a lease of 2 s", killed.elapsed());
    second.says("end a").await;
    done(&client, 1).await;
    assert_eq!(job.status().await.unwrap(), JobStatus::Done);
    let stats = client.stats("steady").await.unwrap();
    assert_eq!((stats.crashed_total, stats.waiting, stats.running, stats.orphans), (1, 0, 0, 0));
    base.assert_whole();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_producer_was_told_is_in_the_file() {
    let base = Base::new();
    let (mut acknowledged, mut rounds) = (Vec::new(), 0);
    while rounds < 6 {
        let mut producer = Process::start(&mut child(&["send", &base.url()]));
        for _ in 0..20 + 13 * rounds {
            acknowledged.push(producer.line().await.expect("it goes on until it is killed"));
        }
        acknowledged.extend(producer.kill().await);
        base.assert_whole();
        rounds += 1;
    }
    let client = base.client().await;
    for id in &acknowledged {
        let id: JobId = id.parse().unwrap();
        let status = client.handle::<Cargo>(id).status().await.unwrap();
        assert!(matches!(status, JobStatus::Waiting { .. }), "{id}: {status:?}");
    }
    let stats = client.stats("cargo").await.unwrap();
    let unacknowledged = stats.waiting as usize - acknowledged.len();
    assert!(unacknowledged <= rounds, "{unacknowledged} jobs more than were told of");
    assert_eq!((stats.orphans, stats.enqueued_total), (0, stats.waiting));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_s_end_leaves_the_others_the_file() {
    let base = Base::new();
    let mut worker = worker(&base);
    worker.says("ready").await;
    listened(&base).await;
    // Each opens the file, sends and closes it: the worker's companions of the file must not be taken away.
    for n in 0..3 {
        let client = base.client().await;
        client.enqueue().send(steady(&n.to_string(), 0)).await.unwrap();
        drop(client);
        worker.says(&format!("end {n}")).await;
    }
    let client = base.client().await;
    soon("the ends", done(&client, 3)).await;
}

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
    let (mut one, mut other) = (worker(&base), worker(&base));
    one.says("ready").await;
    other.says("ready").await;
    sessions(&client, 2).await;
    let mut said: [Vec<String>; 2] = Default::default();
    let (mut sent, mut ends) = (0, 0);
    let has_run = |lines: &Vec<String>| lines.iter().any(|line| line.starts_with("start "));
    // A worker that the machine kept from its turn has its share in a later batch.
    while !said.iter().all(has_run) {
        assert!(sent < 2000, "one did all the work");
        let jobs: Vec<Steady> = (sent..sent + 400).map(|n| steady(&n.to_string(), 30 + n % 7)).collect();
        for job in client.schedule(Duration::from_millis(200)).send_all(jobs).await {
            job.unwrap();
        }
        sent += 400;
        while ends < sent {
            let (by, line) = tokio::select! {
                line = one.line() => (0, line),
                line = other.line() => (1, line),
            };
            let line = line.expect("it goes on until it is killed");
            ends += u64::from(line.starts_with("end "));
            said[by].push(line);
        }
    }
    done(&client, sent).await;
    said[0].extend(one.kill().await);
    said[1].extend(other.kill().await);
    let mut starts: BTreeMap<&str, u32> = BTreeMap::new();
    for name in said.iter().flatten().filter_map(|line| line.strip_prefix("start ")) {
        *starts.entry(name).or_default() += 1;
    }
    assert_eq!(starts.len() as u64, sent);
    assert!(starts.values().all(|count| *count == 1), "some job ran twice: {starts:?}");
    base.assert_whole();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_wakes_an_idle_worker_of_another_process() {
    let base = Base::new();
    let client = base.client().await;
    let mut worker = worker(&base);
    worker.says("ready").await;
    listened(&base).await;
    // Each comes right after the one before was done. Without a signal it would take nearly all of the worker's own wait of
    // 5 s; one may be lucky, and the machine may hold another up. Not most of them.
    let mut took = Vec::new();
    for n in 0..5 {
        let (name, sent) = (n.to_string(), Instant::now());
        client.enqueue().send(steady(&name, 0)).await.unwrap();
        worker.says(&format!("start {name}")).await;
        took.push(sent.elapsed());
        worker.says(&format!("end {name}")).await;
        done(&client, n + 1).await;
    }
    let prompt = took.iter().filter(|took| **took < Duration::from_millis(2500)).count();
    assert!(prompt >= 3, "{took:?}; without a signal it is nearly 5 s");
    // And one that is due later: whoever sleeps learns of the earlier due time.
    client.schedule(Duration::from_secs(60)).send(steady("far", 0)).await.unwrap();
    let sent = Instant::now();
    client.schedule(Duration::from_millis(300)).send(steady("near", 0)).await.unwrap();
    worker.says("start near").await;
    let took = sent.elapsed();
    assert!((300..4000).contains(&took.as_millis()), "{took:?}; without a signal it is nearly 5 s");
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
    // That is written beside the first send.
    eventually("the queue is listed", || async {
        client.queues().await.unwrap().contains(&"steady".to_owned()).then_some(())
    })
    .await;
    drop(client);
    let look = base.look();
    let version = || look.query_row("PRAGMA data_version", (), |row| row.get::<_, i64>(0)).unwrap();
    // Three seconds of idleness are what is measured: a beat each, and one wait that ends.
    let (mut seen, mut changes) = (version(), 0);
    let (before, from) = (sleeps(worker.pid()), Instant::now());
    while from.elapsed() < Duration::from_secs(3) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = version();
        changes += u32::from(now != seen);
        seen = now;
    }
    let (slept, seconds) = (sleeps(worker.pid()) - before, from.elapsed().as_secs_f64());
    assert!(f64::from(changes) <= 3.0 * seconds, "{changes} commits in {seconds} s");
    assert!(slept as f64 <= 17.0 * seconds, "its threads woke up {slept} times in {seconds} s");
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
    let (mut one, mut other) = (crashing(), crashing());
    one.says("ready").await;
    other.says("ready").await;
    sessions(&client, 2).await;
    let job = client.enqueue().send(steady("a", 3000)).await.unwrap();
    let (first, second) = tokio::select! {
        () = one.says("start a 1") => (&mut one, &mut other),
        () = other.says("start a 1") => (&mut other, &mut one),
    };
    // In the middle of the run, and in the middle of whatever its threads do with the file.
    first.kill().await;
    // The patience is shorter than the lease that workers have by default.
    second.says("start a 2").await;
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

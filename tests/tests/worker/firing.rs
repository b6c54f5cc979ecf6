//! On time: never early, promptly, whatever the worker was doing before.

use std::time::{Duration, Instant};

use delayq::Worker;
use delayq_tests::{Lag, Running, eventually, server_and_client, watched};

use super::{Act, Probe, Ran, gate, held, log, probe};

#[tokio::test(flavor = "multi_thread")]
async fn jobs_fire_on_time_and_never_early() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    for n in 0..40u64 {
        let delay = Duration::from_millis(100 + n * 7);
        client.schedule::<Probe>(delay).send(probe(&n.to_string(), Act::Succeed)).await.unwrap();
    }
    let fired = runs.take(40).await;
    assert!(fired.iter().all(|run| run.attempt == 1));
    // A job that was claimed early would show a lateness cut off at zero; one in 40 may be that prompt by chance.
    let exact = fired.iter().filter(|run| run.lateness.is_zero()).count();
    assert!(exact <= 4, "{exact} of 40 were claimed at or before their due time");
    worker.stop().await.unwrap();
    assert_eq!(client.stats("default").await.unwrap().done_total, 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_a_short_delay_does_not_wait_for_a_longer_one() {
    let (server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    client.schedule::<Probe>(Duration::from_secs(50)).send(probe("far", Act::Succeed)).await.unwrap();
    // The worker sleeps once it holds the timer of the far one.
    eventually("the far job's timer", || async {
        let stats = client.stats("default").await.unwrap();
        (stats.sessions == 1 && stats.waiting == 1).then_some(())
    })
    .await;
    watched(&server, "default").await;
    let lag = Lag::watch();
    client.schedule::<Probe>(Duration::from_millis(300)).send(probe("near", Act::Succeed)).await.unwrap();
    let near = runs.next().await;
    assert_eq!(near.name, "near");
    assert!(near.lateness < Duration::from_millis(50) + lag.so_far(), "{:?} late", near.lateness);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_asks_little_and_wakes_at_once() {
    let (server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log).queues(["default"]));
    client.enqueue::<Probe>().send(probe("first", Act::Succeed)).await.unwrap();
    runs.next().await;
    let calls = || {
        let stats = server.command(&["INFO", "commandstats"]).unwrap();
        let count = |name: &str| {
            let line = stats.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        count("cmdstat_evalsha:") + count("cmdstat_bzpopmin:")
    };
    // Ten seconds of idleness are what is measured.
    let (before, since) = (calls(), Instant::now());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let per_second = (calls() - before) as f64 / since.elapsed().as_secs_f64();
    assert!(per_second <= 2.0, "{per_second} calls a second while idle");
    let lag = Lag::watch();
    client.enqueue::<Probe>().send(probe("second", Act::Succeed)).await.unwrap();
    let second = runs.next().await;
    assert!(second.lateness < Duration::from_millis(50) + lag.so_far(), "{:?} late", second.lateness);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_workers_run_each_job_once() {
    let (_server, client) = server_and_client().await;
    let (first_log, mut first) = log();
    let (second_log, mut second) = log();
    let workers = [
        Running::start(Worker::new(client.clone()).data(first_log).concurrency(20)),
        Running::start(Worker::new(client.clone()).data(second_log).concurrency(20)),
    ];
    let jobs: Vec<Probe> = (0..2000).map(|n| probe(&n.to_string(), Act::Succeed)).collect();
    for sent in client.schedule::<Probe>(Duration::from_millis(300)).send_all(jobs).await {
        sent.unwrap();
    }
    eventually("2,000 jobs done", || async {
        (client.stats("default").await.unwrap().done_total == 2000).then_some(())
    })
    .await;
    for worker in workers {
        worker.stop().await.unwrap();
    }
    let mut names: Vec<String> = first.rest().into_iter().chain(second.rest()).map(|run| run.name).collect();
    assert_eq!(names.len(), 2000);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 2000, "some job ran twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_jobs_run_at_once_than_allowed() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let jobs: Vec<Probe> = (0..12).map(|n| probe(&n.to_string(), Act::Sleep { ms: 100 })).collect();
    for sent in client.enqueue::<Probe>().send_all(jobs).await {
        sent.unwrap();
    }
    let worker = Running::start(Worker::new(client.clone()).data(log).concurrency(3));
    let mut starts: Vec<Instant> = runs.take(12).await.into_iter().map(|run| run.at).collect();
    // What begins at once is told in any order.
    starts.sort_unstable();
    for (earlier, later) in starts.iter().zip(&starts[3..]) {
        assert!(later.duration_since(*earlier) >= Duration::from_millis(95), "four ran at once");
    }
    // What it can't run it doesn't hold either.
    worker.stop().await.unwrap();
    assert_eq!(client.stats("default").await.unwrap().done_total, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_can_not_start_it_leaves_to_others() {
    let (_server, client) = server_and_client().await;
    let (busy_log, mut busy) = log();
    let (other_log, mut other) = log();
    let gate = gate();
    let first = Running::start(Worker::new(client.clone()).data(busy_log).data(gate.clone()).concurrency(1));
    client.enqueue().send(held("long")).await.unwrap();
    busy.next().await;
    for n in 0..5 {
        client.enqueue::<Probe>().send(probe(&n.to_string(), Act::Succeed)).await.unwrap();
    }
    let second = Running::start(Worker::new(client.clone()).data(other_log));
    let runs = other.take(5).await;
    assert_eq!(runs.len(), 5);
    assert!(busy.rest().is_empty());
    gate.add_permits(1);
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn urgent_jobs_run_first_among_the_due() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    for priority in [9, 0, 5, 3] {
        let job = probe(&priority.to_string(), Act::Succeed);
        client.enqueue::<Probe>().priority(priority).send(job).await.unwrap();
    }
    let worker = Running::start(Worker::new(client.clone()).data(log).concurrency(1));
    let order: Vec<String> = runs.take(4).await.into_iter().map(|run| run.name).collect();
    assert_eq!(order, ["0", "3", "5", "9"]);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_neither_new_nor_delayed_jobs_starve() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let jobs: Vec<Probe> = (0..100).map(|n| probe(&format!("delayed {n}"), Act::Succeed)).collect();
    for sent in client.schedule::<Probe>(Duration::from_millis(500)).send_all(jobs).await {
        sent.unwrap();
    }
    let worker = Running::start(Worker::new(client.clone()).data(log).concurrency(1));
    let stream = tokio::spawn({
        let client = client.clone();
        async move {
            for n in 0.. {
                client.enqueue::<Probe>().send(probe(&format!("now {n}"), Act::Succeed)).await.unwrap();
            }
        }
    });
    let (mut ran, mut delayed): (Vec<Ran>, usize) = (Vec::new(), 0);
    while delayed < 100 {
        let run = runs.next().await;
        delayed += usize::from(run.name.starts_with("delayed"));
        ran.push(run);
    }
    // After the last of the delayed, those that are new go on.
    ran.extend(runs.take(100).await);
    stream.abort();
    worker.stop().await.unwrap();
    // Neither are the delayed put behind what came in later, nor what came in earlier behind them.
    assert!(ran.windows(2).all(|pair| pair[0].due <= pair[1].due), "not in the order of due times");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_starts_nothing_until_it_is_resumed() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    client.enqueue::<Probe>().send(probe("before", Act::Succeed)).await.unwrap();
    runs.next().await;
    assert!(client.pause("default").await.unwrap());
    client.schedule::<Probe>(Duration::from_millis(50)).send(probe("during", Act::Succeed)).await.unwrap();
    // Long past its due time: that nothing runs meanwhile is what is tested.
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(runs.rest().is_empty());
    assert!(client.resume("default").await.unwrap());
    let (resumed, lag) = (Instant::now(), Lag::watch());
    assert_eq!(runs.next().await.name, "during");
    let took = resumed.elapsed();
    assert!(took < Duration::from_millis(500) + lag.so_far(), "{took:?}");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_worker_serves_several_queues_with_shared_places() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log).queues(["a", "b", "c"]).concurrency(2));
    for n in 0..30 {
        let queue = ["a", "b", "c"][n % 3];
        client.enqueue::<Probe>().queue(queue).send(probe(&n.to_string(), Act::Sleep { ms: 5 })).await.unwrap();
    }
    assert_eq!(runs.take(30).await.len(), 30);
    worker.stop().await.unwrap();
    for queue in ["a", "b", "c"] {
        let stats = client.stats(queue).await.unwrap();
        assert_eq!((stats.done_total, stats.waiting, stats.running, stats.sessions), (10, 0, 0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_longer_worth_running_expires() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let late = client.enqueue::<Probe>().expires_in(Duration::from_millis(30));
    let late = late.send(probe("late", Act::Succeed)).await.unwrap();
    client.enqueue::<Probe>().expires_in(Duration::from_secs(60)).send(probe("fresh", Act::Succeed)).await.unwrap();
    // Until it has expired: time itself is what is waited for.
    tokio::time::sleep(Duration::from_millis(60)).await;
    let worker = Running::start(Worker::new(client.clone()).data(log));
    assert_eq!(runs.next().await.name, "fresh");
    worker.stop().await.unwrap();
    assert!(runs.rest().is_empty());
    assert_eq!(late.status().await.unwrap(), delayq::JobStatus::Expired);
    assert_eq!(client.stats("default").await.unwrap().expired_total, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_jobs_are_spread_over_the_workers_and_not_hoarded() {
    const WORKERS: usize = 10;
    const EACH: usize = 5;
    let (_server, client) = server_and_client().await;
    let (mut workers, mut logs, gate) = (Vec::new(), Vec::new(), gate());
    for _ in 0..WORKERS {
        let (log, runs) = log();
        let worker = Worker::new(client.clone()).data(log).data(gate.clone()).queues(["default"]);
        workers.push(Running::start(worker.concurrency(EACH)));
        logs.push(runs);
    }
    eventually("they are there", || async {
        (client.stats("default").await.unwrap().sessions == WORKERS as u64).then_some(())
    })
    .await;
    // Many more than one worker has places for, all due at once; what one took beyond them would not start.
    let jobs = (0..WORKERS * EACH).map(|n| held(&n.to_string()));
    for sent in client.schedule(Duration::from_millis(200)).send_all(jobs).await {
        sent.unwrap();
    }
    for runs in &mut logs {
        assert_eq!(runs.take(EACH).await.len(), EACH);
    }
    gate.add_permits(WORKERS * EACH);
    for worker in workers {
        worker.stop().await.unwrap();
    }
    assert!(logs.iter_mut().all(|runs| runs.rest().is_empty()));
    assert_eq!(client.stats("default").await.unwrap().done_total, (WORKERS * EACH) as u64);
}

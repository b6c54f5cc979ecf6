//! The graceful end.

use std::time::{Duration, Instant};

use delayq::{JobStatus, Worker};
use delayq_tests::{Running, eventually, server_and_client, watched};

use super::{Act, Probe, log, probe};

#[tokio::test(flavor = "multi_thread")]
async fn b82_an_idle_worker_stops_within_a_second() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    client.enqueue::<Probe>().send(probe("a", Act::Succeed)).await.unwrap();
    runs.next().await;
    let asked = Instant::now();
    worker.stop().await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    let stats = client.stats("default").await.unwrap();
    assert_eq!((stats.done_total, stats.sessions), (1, 0), "settled and closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn running_jobs_finish_within_the_grace_period() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    client.enqueue::<Probe>().send(probe("a", Act::Sleep { ms: 400 })).await.unwrap();
    runs.next().await;
    worker.stop().await.unwrap();
    let stats = client.stats("default").await.unwrap();
    assert_eq!((stats.done_total, stats.waiting, stats.running), (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn b81_what_does_not_finish_is_handed_back_at_no_cost() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let grace = Duration::from_millis(200);
    let worker = Running::start(Worker::new(client.clone()).data(log).grace(grace));
    let job = client.enqueue::<Probe>().send(probe("long", Act::Sleep { ms: 900 })).await.unwrap();
    let delayed: Vec<Probe> = (0..200).map(|n| probe(&n.to_string(), Act::Succeed)).collect();
    for sent in client.schedule::<Probe>(Duration::from_secs(60)).send_all(delayed).await {
        sent.unwrap();
    }
    let first = runs.next().await;
    worker.stop().await.unwrap();
    let status = job.status().await.unwrap();
    assert!(matches!(status, JobStatus::Waiting { attempts: 0, last_error: None, .. }), "{status:?}");
    let stats = client.stats("default").await.unwrap();
    assert_eq!((stats.waiting, stats.running, stats.sessions, stats.orphans), (201, 0, 0, 0));
    let (log, mut runs) = super::log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    let again = runs.next().await;
    assert_eq!((again.name.as_str(), again.attempt), ("long", 1));
    assert!(again.run_token > first.run_token);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b26_the_lease_is_renewed_while_the_worker_drains() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let lease = Duration::from_millis(500);
    let worker = Running::start(Worker::new(client.clone()).data(log).lease(lease).grace(Duration::from_secs(10)));
    // Its timeout is a second, twice the lease.
    client.enqueue::<Probe>().send(probe("long", Act::Sleep { ms: 950 })).await.unwrap();
    runs.next().await;
    let (other_log, mut other_runs) = super::log();
    let other = Running::start(Worker::new(client.clone()).data(other_log).lease(lease));
    worker.stop().await.unwrap();
    eventually("its end", || async { (client.stats("default").await.unwrap().done_total == 1).then_some(()) }).await;
    other.stop().await.unwrap();
    assert!(other_runs.rest().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_dropped_takes_its_runs_with_it() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let lease = Duration::from_secs(1);
    let run = Worker::new(client.clone()).data(log).lease(lease).run_until(std::future::pending());
    let dropped = tokio::time::timeout(Duration::from_millis(600), run);
    client.enqueue::<Probe>().send(probe("a", Act::Sleep { ms: 950 })).await.unwrap();
    assert!(dropped.await.is_err());
    assert_eq!(runs.next().await.attempt, 1);
    assert_eq!(client.stats("default").await.unwrap().done_total, 0, "the run went on without its worker");
    let (log, mut runs) = super::log();
    let worker = Running::start(Worker::new(client.clone()).data(log).lease(lease));
    // Nobody handed it back: it comes when the lease runs out, and that counts.
    assert_eq!(runs.next().await.attempt, 2);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_is_passed_on_by_a_worker_that_leaves() {
    let (server, client) = server_and_client().await;
    let (first_log, _first) = log();
    let (second_log, mut second) = log();
    let leaving = Running::start(Worker::new(client.clone()).data(first_log));
    client.schedule::<Probe>(Duration::from_millis(800)).send(probe("a", Act::Succeed)).await.unwrap();
    eventually("a session", || async { (client.stats("default").await.unwrap().sessions == 1).then_some(()) }).await;
    watched(&server, "default").await;
    let staying = Running::start(Worker::new(client.clone()).data(second_log));
    eventually("both sessions", || async { (client.stats("default").await.unwrap().sessions == 2).then_some(()) })
        .await;
    leaving.stop().await.unwrap();
    let run = second.next().await;
    assert!(run.lateness < Duration::from_millis(100), "{:?} late", run.lateness);
    staying.stop().await.unwrap();
}

//! The graceful end.

use std::time::{Duration, Instant};

use delayq::{JobStatus, Worker};
use delayq_tests::{Lag, Running, eventually, server_and_client, watched};

use super::{Act, Probe, gate, held, log, probe};

#[tokio::test(flavor = "multi_thread")]
async fn b82_an_idle_worker_stops_within_a_second() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    client.enqueue::<Probe>().send(probe("a", Act::Succeed)).await.unwrap();
    runs.next().await;
    let (asked, lag) = (Instant::now(), Lag::watch());
    worker.stop().await.unwrap();
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(1) + lag.so_far(), "{took:?}");
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
    let ((log, mut runs), gate) = (log(), gate());
    let grace = Duration::from_millis(200);
    let worker = Running::start(Worker::new(client.clone()).data(log).data(gate.clone()).grace(grace));
    let job = client.enqueue().send(held("long")).await.unwrap();
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
    let worker = Running::start(Worker::new(client.clone()).data(log).data(gate.clone()));
    let again = runs.next().await;
    assert_eq!((again.name.as_str(), again.attempt), ("long", 1));
    assert!(again.run_token > first.run_token);
    gate.add_permits(1);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b26_the_lease_is_renewed_while_the_worker_drains() {
    let (_server, client) = server_and_client().await;
    let ((log, mut runs), gate) = (log(), gate());
    let lease = Duration::from_secs(3);
    let worker = Running::start(Worker::new(client.clone()).data(log).data(gate.clone()).lease(lease));
    client.enqueue().send(held("long")).await.unwrap();
    runs.next().await;
    let (other_log, mut other_runs) = super::log();
    let other = Running::start(Worker::new(client.clone()).data(other_log).data(gate.clone()).lease(lease));
    let stopping = tokio::spawn(worker.stop());
    // Twice the lease, within the grace period: time itself is what is tested.
    tokio::time::sleep(2 * lease).await;
    gate.add_permits(1);
    stopping.await.unwrap().unwrap();
    eventually("its end", || async { (client.stats("default").await.unwrap().done_total == 1).then_some(()) }).await;
    other.stop().await.unwrap();
    assert!(other_runs.rest().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grace_without_end_waits_for_what_runs() {
    let (_server, client) = server_and_client().await;
    let ((log, mut runs), gate) = (log(), gate());
    let worker = Worker::new(client.clone()).data(log).data(gate.clone()).grace(Duration::MAX);
    let worker = Running::start(worker);
    client.enqueue().send(held("long")).await.unwrap();
    runs.next().await;
    let stopping = tokio::spawn(worker.stop());
    gate.add_permits(1);
    stopping.await.unwrap().unwrap();
    let stats = client.stats("default").await.unwrap();
    assert_eq!((stats.done_total, stats.sessions, stats.running), (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_dropped_takes_its_runs_with_it() {
    let (_server, client) = server_and_client().await;
    let ((log, mut runs), gate) = (log(), gate());
    let lease = Duration::from_secs(1);
    let worker = Worker::new(client.clone()).data(log).data(gate.clone()).lease(lease);
    let dropped = tokio::spawn(worker.run_until(std::future::pending()));
    client.enqueue().send(held("a")).await.unwrap();
    assert_eq!(runs.next().await.attempt, 1);
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    let (log, mut runs) = super::log();
    let worker = Running::start(Worker::new(client.clone()).data(log).data(gate.clone()).lease(lease));
    // Nobody handed it back: it comes when the lease runs out, and that counts.
    assert_eq!(runs.next().await.attempt, 2);
    // A run that went on without its worker would be the first at the gate, and the other one wait for ever.
    gate.add_permits(1);
    worker.stop().await.unwrap();
    assert_eq!(client.stats("default").await.unwrap().done_total, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_is_passed_on_by_a_worker_that_leaves() {
    let (server, client) = server_and_client().await;
    let (first_log, mut first) = log();
    let (second_log, mut second) = log();
    let leaving = Running::start(Worker::new(client.clone()).data(first_log));
    client.schedule::<Probe>(Duration::from_secs(3)).send(probe("a", Act::Succeed)).await.unwrap();
    eventually("a session", || async { (client.stats("default").await.unwrap().sessions == 1).then_some(()) }).await;
    watched(&server, "default").await;
    let staying = Running::start(Worker::new(client.clone()).data(second_log));
    eventually("both sessions", || async { (client.stats("default").await.unwrap().sessions == 2).then_some(()) })
        .await;
    leaving.stop().await.unwrap();
    assert!(first.rest().is_empty(), "it left only after the job was due");
    let lag = Lag::watch();
    let run = second.next().await;
    assert!(run.lateness < Duration::from_millis(100) + lag.so_far(), "{:?} late", run.lateness);
    staying.stop().await.unwrap();
}

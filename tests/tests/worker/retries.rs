//! Retries and verdicts, kept in the store.

use std::time::Duration;

use delayq::{DeadReason, Job, JobContext, JobResult, JobState, JobStatus, Worker, delayed_job};
use delayq_tests::{Lag, Running, eventually, server_and_client};

use super::{Act, Held, Probe, gate, log, probe, tell};

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_comes_back_and_then_succeeds() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    client.enqueue::<Probe>().send(probe("a", Act::FailUntil { attempt: 3 })).await.unwrap();
    let runs = runs.take(3).await;
    let attempts: Vec<u32> = runs.iter().map(|run| run.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert!(runs.windows(2).all(|pair| pair[1].at - pair[0].at >= Duration::from_millis(50)));
    assert!(runs.windows(2).all(|pair| pair[0].run_token < pair[1].run_token), "d: run numbers rise");
    eventually("its end", || async { (client.stats("default").await.unwrap().done_total == 1).then_some(()) }).await;
    worker.stop().await.unwrap();
    let stats = client.stats("default").await.unwrap();
    assert_eq!((stats.retried_total, stats.dead, stats.orphans), (2, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn b39_a_job_without_attempts_left_is_a_dead_letter() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    let job = client.enqueue::<Probe>().send(probe("a", Act::Fail)).await.unwrap();
    assert_eq!(runs.take(3).await.last().unwrap().attempt, 3);
    let letter =
        eventually("the dead letter", || async { client.dead_letters("default").get(job.id()).await.unwrap() }).await;
    assert_eq!(letter.reason, Some(DeadReason::RetriesExhausted));
    assert_eq!((letter.error.as_str(), letter.attempts, letter.name.as_deref()), ("told to fail", 3, Some("probe")));
    assert_eq!(letter.payload, r#"{"name":"a","act":"Fail"}"#);
    let status = job.status().await.unwrap();
    assert!(
        matches!(status, JobStatus::Dead { reason: Some(DeadReason::RetriesExhausted), attempts: 3, .. }),
        "{status:?}"
    );
    worker.stop().await.unwrap();
    assert!(runs.rest().is_empty());
}

/// Fails always; the rest is the default.
#[delayed_job(name = "default_policy", version = 1, queue = "policies")]
struct DefaultPolicy;

impl Job for DefaultPolicy {
    async fn run(self, cx: JobContext) -> JobResult {
        tell("default", &cx)?;
        Err("always")?
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_is_three_retries_after_5_10_and_20_seconds() {
    let (server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log).queues(["policies"]));
    let job = client.enqueue::<DefaultPolicy>().send(DefaultPolicy).await.unwrap();
    for (attempt, seconds) in [(1u32, 5.0f64), (2, 10.0), (3, 20.0)] {
        assert_eq!(runs.next().await.attempt, attempt);
        let waiting = eventually("the retry", || async {
            let found = client.jobs("policies").get(job.id()).await.unwrap()?;
            (found.state == JobState::Waiting && found.attempts == attempt).then_some(found)
        })
        .await;
        let failure = waiting.failure.unwrap();
        assert_eq!(failure.text, "always");
        // From the failure, as the store has noted it.
        let wait = waiting.due.unwrap().duration_since(failure.at.unwrap()).as_secs_f64();
        assert!((wait - seconds).abs() <= seconds * 0.1 + 0.01, "attempt {attempt}: {wait} s instead of {seconds}");
        // Nobody wants to wait for it.
        job.reschedule(Duration::ZERO).await.unwrap();
    }
    assert_eq!(runs.next().await.attempt, 4);
    eventually("the dead letter", || async { client.dead_letters("policies").get(job.id()).await.unwrap() }).await;
    worker.stop().await.unwrap();
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_of_handlers_end_up_where_they_should() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    let discarded = client.enqueue::<Probe>().send(probe("discarded", Act::Discard)).await.unwrap();
    let buried = client.enqueue::<Probe>().send(probe("buried", Act::Bury)).await.unwrap();
    let later = client.enqueue::<Probe>().send(probe("later", Act::RetryIn { ms: 120 })).await.unwrap();
    let snoozed = client.enqueue::<Probe>().send(probe("snoozed", Act::Snooze { ms: 20, times: 5 })).await.unwrap();
    let runs = runs.take(1 + 1 + 2 + 6).await;
    eventually("all ends", || async {
        let stats = client.stats("default").await.unwrap();
        (stats.done_total == 2 && stats.discarded_total == 1 && stats.dead == 1).then_some(())
    })
    .await;
    assert_eq!(discarded.status().await.unwrap(), JobStatus::Discarded);
    let letter = client.dead_letters("default").get(buried.id()).await.unwrap().unwrap();
    assert_eq!((letter.reason, letter.error.as_str(), letter.attempts), (Some(DeadReason::Buried), "look at this", 1));
    assert_eq!(later.status().await.unwrap(), JobStatus::Done);
    assert_eq!(snoozed.status().await.unwrap(), JobStatus::Done);
    let later: Vec<_> = runs.iter().filter(|run| run.name == "later").collect();
    assert!(later[1].at - later[0].at >= Duration::from_millis(120));
    // q: a snooze spends no attempt.
    assert!(runs.iter().filter(|run| run.name == "snoozed").all(|run| run.attempt == 1));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b30_a_run_past_its_timeout_fails_its_attempt() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log).concurrency(1));
    let lag = Lag::watch();
    let job = client.enqueue::<Probe>().send(probe("slow", Act::Sleep { ms: 60_000 })).await.unwrap();
    let runs = runs.take(3).await;
    // A run that tells of itself late has the less time left.
    let wait = runs[1].at - runs[0].at + lag.so_far();
    assert!(wait >= Duration::from_millis(1050), "{wait:?}");
    let letter =
        eventually("the dead letter", || async { client.dead_letters("default").get(job.id()).await.unwrap() }).await;
    assert_eq!(letter.error, "the run timed out after 1s");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_redriving_all_takes_the_letters_that_are_there_once() {
    let (_server, client) = server_and_client().await;
    let (log, mut runs) = log();
    let worker = Running::start(Worker::new(client.clone()).data(log));
    let jobs: Vec<Probe> = (0..50).map(|n| probe(&n.to_string(), Act::Bury)).collect();
    for sent in client.enqueue::<Probe>().send_all(jobs).await {
        sent.unwrap();
    }
    runs.take(50).await;
    eventually("50 dead letters", || async { (client.stats("default").await.unwrap().dead == 50).then_some(()) }).await;
    let report = client.dead_letters("default").redrive_all().await.unwrap();
    assert_eq!((report.redriven, report.conflicts, report.unreadable), (50, 0, 0));
    let again = runs.take(50).await;
    assert!(again.iter().all(|run| run.attempt == 1), "a redrive gives all attempts back");
    eventually("50 dead letters again", || async { (client.stats("default").await.unwrap().dead == 50).then_some(()) })
        .await;
    worker.stop().await.unwrap();
    assert!(runs.rest().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn o_a_job_cancelled_while_it_runs_does_not_run_again() {
    let (_server, client) = server_and_client().await;
    let ((log, mut runs), gate) = (log(), gate());
    let worker = Running::start(Worker::new(client.clone()).data(log).data(gate.clone()));
    let failing = client.enqueue().send(Held { name: "slow".to_owned(), fails: true }).await.unwrap();
    runs.next().await;
    assert_eq!(failing.cancel().await.unwrap(), delayq::CancelOutcome::Running);
    assert!(matches!(failing.status().await.unwrap(), JobStatus::Running { cancelling: true, .. }));
    // Its run fails; instead of a retry it ends as cancelled.
    gate.add_permits(1);
    eventually("its end", || async { (failing.status().await.unwrap() == JobStatus::Cancelled).then_some(()) }).await;
    let stats = client.stats("default").await.unwrap();
    assert_eq!((stats.cancelled_total, stats.retried_total, stats.waiting), (1, 0, 0));
    worker.stop().await.unwrap();
}

//! Handles: status, cancel and reschedule in every state; pause, resume and the counts of a queue.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use delayq::{CancelOutcome, DeadReason, ErrorKind, JobHandle, JobId, JobStatus, JobType};
use delayq_tests::{Lag, eventually, server_and_client};
use jiff::{SignedDuration, Timestamp};

use crate::kit::{Act, Raw, Retried, Stage, TASKS, Task, ThirdTime, does, pass, settled};

async fn becomes<J: JobType>(handle: &JobHandle<J>, what: &str, is: impl Fn(&JobStatus) -> bool) -> JobStatus {
    eventually(what, || async { Some(handle.status().await.unwrap()).filter(|status| is(status)) }).await
}

async fn dead<J: JobType>(handle: &JobHandle<J>) -> JobStatus {
    becomes(handle, "it is dead", |status| matches!(status, JobStatus::Dead { .. })).await
}

async fn done<J: JobType>(handle: &JobHandle<J>) -> JobStatus {
    becomes(handle, "it is done", |status| *status == JobStatus::Done).await
}

#[tokio::test]
async fn status_tells_every_state() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let waiting = client.schedule(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    let due = raw.due(5, waiting.id()).await.unwrap();
    let due = Timestamp::from_millisecond(due as i64).unwrap();
    assert_eq!(waiting.status().await.unwrap(), JobStatus::Waiting { due, attempts: 0, last_error: None });

    let mut stage = Stage::start(&client);
    let running = client.enqueue().send(does(Act::WaitPass)).await.unwrap();
    stage.next().await;
    assert_eq!(running.status().await.unwrap(), JobStatus::Running { attempts: 0, cancelling: false });
    running.cancel().await.unwrap();
    assert_eq!(running.status().await.unwrap(), JobStatus::Running { attempts: 0, cancelling: true });
    stage.open(1);
    done(&running).await;

    let before = Timestamp::now();
    let failed = client.enqueue().send(does(Act::Fail)).await.unwrap();
    let JobStatus::Dead { since, reason, error, attempts } = dead(&failed).await else { unreachable!() };
    assert_eq!((reason, attempts), (Some(DeadReason::RetriesExhausted), 1));
    assert!(error.contains("told to fail") && since >= before - jiff::SignedDuration::from_secs(1), "{error} {since}");
    let buried = client.enqueue().send(does(Act::Bury)).await.unwrap();
    assert!(matches!(dead(&buried).await, JobStatus::Dead { reason: Some(DeadReason::Buried), .. }));
    let discarded = client.enqueue().send(does(Act::Discard)).await.unwrap();
    becomes(&discarded, "it is discarded", |status| *status == JobStatus::Discarded).await;
    waiting.cancel().await.unwrap();
    assert_eq!(waiting.status().await.unwrap(), JobStatus::Cancelled);
    client.dead_letters(TASKS).delete(failed.id()).await.unwrap();
    assert_eq!(failed.status().await.unwrap(), JobStatus::Deleted);
    assert_eq!(client.handle::<Task>(JobId::new()).status().await.unwrap(), JobStatus::Gone);
    assert_eq!(client.handle_in::<Task>("others", buried.id()).status().await.unwrap(), JobStatus::Gone);
    let again = client.handle_in::<Task>(TASKS, buried.id());
    assert_eq!(again.status().await.unwrap(), buried.status().await.unwrap());
    assert_eq!((again.queue(), again.is_new()), (TASKS, false));
    stage.stop().await;

    let third = client.enqueue().send(ThirdTime { n: 1 }).await.unwrap();
    let stage = Stage::start(&client);
    eventually("it is done", || async { (third.status().await.unwrap() == JobStatus::Done).then_some(()) }).await;
    assert_eq!(client.stats(TASKS).await.unwrap().retried_total, 2);
    stage.stop().await;
}

#[tokio::test]
async fn k_cancel_answers_the_same_when_it_is_repeated() {
    let (_server, client) = server_and_client().await;
    let waiting = client.schedule(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    for _ in 0..3 {
        assert_eq!(waiting.cancel().await.unwrap(), CancelOutcome::Cancelled);
    }
    let due = client.enqueue().send(pass(2)).await.unwrap();
    assert_eq!(due.cancel().await.unwrap(), CancelOutcome::Cancelled);
    assert_eq!(client.stats(TASKS).await.unwrap().cancelled_total, 2);

    let mut stage = Stage::start(&client);
    let fails = client.enqueue().send(Retried { act: Act::WaitFail }).await.unwrap();
    stage.next().await;
    let passes = client.enqueue().send(does(Act::WaitPass)).await.unwrap();
    stage.next().await;
    for _ in 0..2 {
        assert_eq!(fails.cancel().await.unwrap(), CancelOutcome::Running);
        assert_eq!(passes.cancel().await.unwrap(), CancelOutcome::Running);
    }
    stage.open(2);
    becomes(&fails, "it ends as cancelled", |status| *status == JobStatus::Cancelled).await;
    done(&passes).await;
    assert_eq!(fails.cancel().await.unwrap(), CancelOutcome::Cancelled);
    let ended = passes.cancel().await.unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::NotFound, "{ended:?}");
    assert!(ended.to_string().contains("succeeded"), "{ended}");

    let letter = client.enqueue().send(does(Act::Fail)).await.unwrap();
    dead(&letter).await;
    let kept = client.enqueue().retain_for(Duration::from_secs(60)).send(pass(3)).await.unwrap();
    done(&kept).await;
    for (handle, kind) in [
        (letter, ErrorKind::WrongState),
        (kept, ErrorKind::WrongState),
        (client.handle(JobId::new()), ErrorKind::NotFound),
    ] {
        for _ in 0..2 {
            assert_eq!(handle.cancel().await.unwrap_err().kind(), kind);
        }
    }
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.cancelled_total, stats.waiting, stats.running, stats.orphans), (3, 0, 0, 0));
    stage.stop().await;
}

#[tokio::test]
async fn o_a_cancelled_job_whose_last_run_fails_ends_as_cancelled() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let handle = client.enqueue().send(does(Act::WaitFail)).await.unwrap();
    stage.next().await;
    assert_eq!(handle.cancel().await.unwrap(), CancelOutcome::Running);
    stage.open(1);
    let ended = becomes(&handle, "it ends", |status| !matches!(status, JobStatus::Running { .. })).await;
    // As CancelOutcome::Running promises; a dead letter would run again with the next redrive of all.
    assert_eq!(ended, JobStatus::Cancelled);
    stage.stop().await;
}

#[tokio::test]
async fn b72_a_job_that_was_moved_starts_at_its_new_time() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let mut stage = Stage::start(&client);
    let sooner = client.schedule(Duration::from_secs(60)).send(pass(2)).await.unwrap();
    let at = client.schedule(Duration::from_secs(60)).send(pass(3)).await.unwrap();
    let past = client.schedule(Duration::from_secs(60)).send(pass(4)).await.unwrap();
    // It must not be due before it is moved.
    let later = client.schedule(Duration::from_secs(3)).send(pass(1)).await.unwrap();
    delayq_tests::watched(&server, TASKS).await;
    let (lag, ms) = (Lag::watch(), Duration::from_millis);
    // When each is to start, counted from before it is moved.
    let mut starts = HashMap::from([(1, Instant::now() + ms(4_000))]);
    let due = later.reschedule(ms(4_000)).await.unwrap();
    assert_eq!(raw.due(5, later.id()).await, Some(due.as_millisecond() as u64));
    starts.insert(2, Instant::now() + ms(300));
    sooner.reschedule(ms(300)).await.unwrap();
    // Asked for at an instant, like a job can be.
    starts.insert(3, Instant::now() + ms(600));
    at.reschedule_at(std::time::SystemTime::now() + ms(600)).await.unwrap();
    starts.insert(4, Instant::now());
    past.reschedule_at(Timestamp::UNIX_EPOCH).await.unwrap();
    for ran in stage.take(4).await {
        let start = starts.remove(&ran.n).unwrap();
        // Instants of this process and of the store are of one machine; its wall clock has no finer promise.
        let early = if ran.n == 3 { ms(5) } else { Duration::ZERO };
        let late = ran.at.saturating_duration_since(start);
        assert!(ran.at + early >= start && late < ms(300) + lag.so_far(), "{}: {late:?} late", ran.n);
    }
    settled(&client, 4).await;
    stage.stop().await;
}

#[tokio::test]
async fn b72_what_does_not_wait_can_not_be_moved() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let running = client.enqueue().send(does(Act::WaitPass)).await.unwrap();
    stage.next().await;
    let letter = client.enqueue().send(does(Act::Fail)).await.unwrap();
    dead(&letter).await;
    let kept = client.enqueue().retain_for(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    done(&kept).await;
    let over = client.enqueue().send(pass(2)).await.unwrap();
    done(&over).await;
    let cancelled = client.schedule(Duration::from_secs(60)).send(pass(3)).await.unwrap();
    cancelled.cancel().await.unwrap();
    for (handle, kind) in [
        (&running, ErrorKind::WrongState),
        (&letter, ErrorKind::WrongState),
        (&kept, ErrorKind::WrongState),
        (&over, ErrorKind::NotFound),
        (&cancelled, ErrorKind::NotFound),
        (&client.handle(JobId::new()), ErrorKind::NotFound),
    ] {
        let refused = handle.reschedule(Duration::ZERO).await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused:?}");
    }
    let waiting = client.schedule(Duration::from_secs(60)).send(pass(4)).await.unwrap();
    for absurd in [Duration::MAX, Duration::from_millis(delayq::limits::DUE_MAX_MS - 1)] {
        assert_eq!(waiting.reschedule(absurd).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    stage.open(1);
    done(&running).await;
    stage.stop().await;
}

#[tokio::test]
async fn an_expiry_moves_with_its_job() {
    let (_server, client) = server_and_client().await;
    let schedule = client.schedule(Duration::from_secs(60)).expires_in(Duration::from_millis(500));
    let handle = schedule.send(pass(1)).await.unwrap();
    let due = handle.reschedule(Duration::from_secs(120)).await.unwrap();
    let moved = client.jobs(TASKS).get(handle.id()).await.unwrap().unwrap();
    assert_eq!(moved.expires_at, Some(due + SignedDuration::from_millis(500)));
    // One that has expired already, until it is moved.
    let past = Timestamp::now() - SignedDuration::from_secs(60);
    let handle = client.schedule_at(past).expires_in(Duration::from_secs(20)).send(pass(2)).await.unwrap();
    handle.reschedule(Duration::ZERO).await.unwrap();
    let mut stage = Stage::start(&client);
    assert_eq!(stage.next().await.n, 2, "it is worth starting for as long after its new due time");
    stage.stop().await;
}

#[tokio::test]
async fn a_paused_queue_takes_jobs_and_starts_none() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let running = client.enqueue().send(does(Act::WaitPass)).await.unwrap();
    stage.next().await;
    assert!(client.pause(TASKS).await.unwrap());
    assert!(!client.pause(TASKS).await.unwrap(), "it was paused already");
    for n in 0..10 {
        client.enqueue().send(pass(n)).await.unwrap();
    }
    stage.open(1);
    done(&running).await;
    // Longer than a worker needs to look again: that it doesn't is what is tested.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(stage.is_quiet());
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.paused, stats.waiting, stats.due, stats.running), (true, 10, 10, 0));
    let (resumed, lag) = (Instant::now(), Lag::watch());
    assert!(client.resume(TASKS).await.unwrap());
    assert!(!client.resume(TASKS).await.unwrap());
    stage.take(10).await;
    let took = resumed.elapsed();
    assert!(took < Duration::from_secs(1) + lag.so_far(), "{took:?}");
    settled(&client, 11).await;
    stage.stop().await;
}

#[tokio::test]
async fn the_counts_of_a_queue_add_up() {
    let (_server, client) = server_and_client().await;
    let empty = client.stats("nothing").await.unwrap();
    assert_eq!((empty.waiting, empty.enqueued_total, empty.next_due, empty.paused), (0, 0, None, false));
    let soon = client.schedule(Duration::from_secs(60)).priority(9).send(pass(1)).await.unwrap();
    client.schedule(Duration::from_secs(600)).priority(0).send(pass(2)).await.unwrap();
    let JobStatus::Waiting { due, .. } = soon.status().await.unwrap() else { panic!("it waits") };
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.waiting, stats.due, stats.next_due), (2, 0, Some(due)));
    let mut stage = Stage::start(&client);
    client.enqueue().retain_for(Duration::from_secs(60)).send(pass(3)).await.unwrap();
    for act in [Act::Pass, Act::Fail, Act::Bury, Act::Discard, Act::WaitPass] {
        client.enqueue().send(does(act)).await.unwrap();
    }
    client.enqueue().send(ThirdTime { n: 4 }).await.unwrap();
    soon.cancel().await.unwrap();
    stage.take(9).await;
    let stats = eventually("all but one have ended", || async {
        let stats = client.stats(TASKS).await.unwrap();
        (stats.done_total == 3 && stats.dead == 2 && stats.discarded_total == 1).then_some(stats)
    })
    .await;
    assert_eq!((stats.waiting, stats.running, stats.retained, stats.sessions), (1, 1, 1, 1));
    assert_eq!((stats.enqueued_total, stats.dead_total, stats.retried_total, stats.cancelled_total), (9, 2, 2, 1));
    assert_eq!((stats.expired_total, stats.crashed_total, stats.quarantined_total, stats.orphans), (0, 0, 0, 0));
    stage.open(1);
    eventually("the last", || async { (client.stats(TASKS).await.unwrap().done_total == 4).then_some(()) }).await;
    stage.stop().await;
    assert_eq!(client.stats(TASKS).await.unwrap().sessions, 0);
}

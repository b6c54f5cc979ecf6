//! Due times: stored to the millisecond, refused where absurd, never early.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use delayq::limits::DUE_MAX_MS;
use delayq::{ErrorKind, JobStatus};
use delayq_tests::{Lag, eventually, server_and_client};
use jiff::{SignedDuration, Timestamp};

use crate::kit::{Raw, Stage, TASKS, pass};

const YEAR: u64 = 365 * 86_400_000;

#[tokio::test]
async fn b01_far_delays_are_stored_to_the_millisecond_and_only_the_near_one_runs() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let mut stage = Stage::start(&client);
    for ms in [60_000, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 32, 400 * 86_400_000, 1000 * YEAR] {
        let before = raw.now_us().await;
        let handle = client.schedule(Duration::from_millis(ms)).send(pass(ms)).await.unwrap();
        let after = raw.now_us().await;
        let due = raw.due(5, handle.id()).await.unwrap();
        assert!((before.div_ceil(1000)..=after.div_ceil(1000)).contains(&(due - ms)), "{ms}: {due}");
        let record = raw.record(handle.id()).await.unwrap();
        assert_eq!(record.due_ms, due);
        assert!(due - ms - record.enqueued_ms <= 1, "{ms}: rounded up from the very clock that dated the record");
    }
    let (lag, sent) = (Lag::watch(), Instant::now());
    client.schedule(Duration::from_millis(200)).send(pass(200)).await.unwrap();
    let ran = stage.next().await;
    assert_eq!(ran.n, 200);
    let took = ran.at - sent;
    assert!(took >= Duration::from_millis(200) && took < Duration::from_millis(500) + lag.so_far(), "{took:?}");
    assert!(stage.is_quiet());
    assert_eq!(client.stats(TASKS).await.unwrap().waiting, 7);
    stage.stop().await;
}

#[tokio::test]
async fn h_fractions_of_a_millisecond_are_rounded_up() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let at = Timestamp::from_nanosecond(4_100_000_000_123_000_001).unwrap();
    let handle = client.schedule_at(at).send(pass(0)).await.unwrap();
    assert_eq!(raw.due(5, handle.id()).await, Some(4_100_000_000_124));
    let at = UNIX_EPOCH + Duration::from_nanos(4_100_000_000_123_999_999);
    let handle = client.schedule_at(at).send(pass(0)).await.unwrap();
    assert_eq!(raw.due(5, handle.id()).await, Some(4_100_000_000_124));
    let at = UNIX_EPOCH + Duration::from_millis(4_100_000_000_123);
    let handle = client.schedule_at(at).send(pass(0)).await.unwrap();
    assert_eq!(raw.due(5, handle.id()).await, Some(4_100_000_000_123));
    let handle = client.schedule(Duration::from_nanos(59_999_000_001)).send(pass(0)).await.unwrap();
    let record = raw.record(handle.id()).await.unwrap();
    assert!(record.due_ms >= record.enqueued_ms + 60_000);
}

#[tokio::test]
async fn b07_every_millisecond_of_far_years_is_stored_exactly() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let base = 4_102_444_800_000_i64;
    let mut expected = Vec::new();
    let mut sends = Vec::new();
    for at in base..base + 1000 {
        let client = client.clone();
        sends.push(tokio::spawn(async move {
            client.schedule_at(Timestamp::from_millisecond(at).unwrap()).send(pass(0)).await.unwrap().id()
        }));
        expected.push(at as u64);
    }
    for (send, expected) in sends.into_iter().zip(expected) {
        assert_eq!(raw.due(5, send.await.unwrap()).await, Some(expected));
    }
    let last = client.schedule_at(Timestamp::MAX).send(pass(0)).await.unwrap();
    assert_eq!(
        raw.due(5, last.id()).await,
        Some(Timestamp::MAX.as_millisecond() as u64 + 1),
        "rounded up like any other"
    );
}

#[tokio::test]
async fn b03_absurd_times_are_refused_and_leave_no_key() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let now = raw.now_us().await / 1000;
    for delay in [
        Duration::MAX,
        Duration::from_secs(u64::MAX),
        Duration::from_millis(u64::MAX),
        Duration::from_millis(1 << 53),
        Duration::from_millis(DUE_MAX_MS),
        // Each is in range by itself, and the due time is not: only the store's clock can tell.
        Duration::from_millis(DUE_MAX_MS - 1),
        Duration::from_millis(DUE_MAX_MS - now + 60_000),
    ] {
        let refused = client.schedule(delay).send(pass(0)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{delay:?}: {refused:?}");
        assert!(refused.to_string().contains("9999"), "{refused}");
    }
    for at in [UNIX_EPOCH + Duration::from_secs(1 << 40), UNIX_EPOCH + Duration::from_millis(DUE_MAX_MS + 1)] {
        let refused = client.schedule_at(at).send(pass(0)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{at:?}: {refused:?}");
    }
    assert_eq!(raw.keys().await, 0);
    // The furthest that there is.
    client.schedule(Duration::from_millis(DUE_MAX_MS - now - 60_000)).send(pass(0)).await.unwrap();
    client.schedule_at(Timestamp::MAX).send(pass(0)).await.unwrap();
    assert_eq!(client.stats(TASKS).await.unwrap().waiting, 2);
}

#[tokio::test]
async fn b04_the_past_runs_now_whatever_else_is_asked_for() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let year_ago = Timestamp::now() - SignedDuration::from_hours(365 * 24);
    let handle =
        client.schedule_at(year_ago).unique("one").retain_for(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    assert_eq!(stage.next().await.n, 1);
    eventually("it is done", || async { (handle.status().await.unwrap() == JobStatus::Done).then_some(()) }).await;
    for (n, at) in [
        (2, SystemTime::now() - Duration::from_secs(365 * 86_400)),
        (3, UNIX_EPOCH - Duration::from_millis(1)),
        (4, UNIX_EPOCH),
    ] {
        client.schedule_at(at).unique("one").send(pass(n)).await.unwrap();
        assert_eq!(stage.next().await.n, n);
        let free = || async { (client.stats(TASKS).await.unwrap().done_total == n).then_some(()) };
        eventually("the key is free again", free).await;
    }
    client.schedule_at(Timestamp::MIN).send(pass(5)).await.unwrap();
    assert_eq!(stage.next().await.n, 5);
    client.schedule(Duration::ZERO).send(pass(6)).await.unwrap();
    client.enqueue().send(pass(7)).await.unwrap();
    let mut last: Vec<u64> = stage.take(2).await.iter().map(|ran| ran.n).collect();
    last.sort_unstable();
    assert_eq!(last, [6, 7]);
    // What is worth a minute after a due time of a year ago is no longer worth anything.
    let late = client.schedule_at(year_ago).expires_in(Duration::from_secs(60)).send(pass(8)).await.unwrap();
    eventually("it expired", || async { (late.status().await.unwrap() == JobStatus::Expired).then_some(()) }).await;
    assert!(stage.is_quiet());
    stage.stop().await;
}

#[tokio::test]
async fn h_five_millisecond_jobs_never_start_early() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let mut early = 0;
    for n in 0..200u64 {
        // A fraction of its own each, so that every phase of the store's clock is met.
        let delay = Duration::from_micros(4_300 + 7 * (n % 100));
        let sent = Instant::now();
        client.schedule(delay).send(pass(n)).await.unwrap();
        let ran = stage.next().await;
        assert_eq!((ran.n, ran.attempt), (n, 1));
        early += u32::from(ran.at - sent < delay);
    }
    assert_eq!(early, 0);
    stage.stop().await;
}

//! Stores that can't be reached or don't answer: told in time, and told which.

use std::time::{Duration, Instant};

use delayq::{Client, ErrorKind, JobId};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::proxy::{Mode, Proxy};
use delayq_tests::eventually;

use crate::kit::{Raw, Stage, TASKS, listens, pass, settled};

const CONNECT: Duration = Duration::from_millis(300);
const RESPONSE: Duration = Duration::from_millis(400);
const DEADLINE: Duration = Duration::from_millis(1000);
/// What the machine may add.
const SLACK: Duration = Duration::from_millis(500);

async fn behind_a_proxy() -> (RedisServer, Proxy, Client) {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let client = Client::builder()
        .connect_timeout(CONNECT)
        .response_timeout(RESPONSE)
        .send_deadline(DEADLINE)
        .connect(&proxy.url())
        .await
        .unwrap();
    // From here on the script is known.
    client.schedule(Duration::from_secs(600)).send(pass(0)).await.unwrap().cancel().await.unwrap();
    (server, proxy, client)
}

fn in_time(started: Instant, what: &str) {
    let took = started.elapsed();
    assert!(took < DEADLINE + RESPONSE + SLACK, "{what}: only after {took:?}");
}

#[tokio::test]
async fn a_store_that_is_gone_is_unreachable_and_nothing_was_sent() {
    let (mut server, _proxy, _) = behind_a_proxy().await;
    let client = Client::builder()
        .connect_timeout(CONNECT)
        .response_timeout(RESPONSE)
        .send_deadline(DEADLINE)
        .connect(&server.url())
        .await
        .unwrap();
    client.stats(TASKS).await.unwrap();
    server.kill();
    let started = Instant::now();
    // The connection that is there breaks only when it is used: the first answer may be a lost one.
    let first = client.enqueue().send(pass(1)).await.unwrap_err();
    assert!(matches!(first.kind(), ErrorKind::Unreachable | ErrorKind::Unknown), "{first:?}");
    in_time(started, "send");
    let started = Instant::now();
    let second = client.enqueue().send(pass(2)).await.unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Unreachable, "{second:?}");
    assert!(second.is_temporary() && !second.is_unknown());
    in_time(started, "send");
    let started = Instant::now();
    assert_eq!(client.stats(TASKS).await.unwrap_err().kind(), ErrorKind::Unreachable);
    in_time(started, "stats");
    // However many jobs, the caller waits once.
    let started = Instant::now();
    let answers = client.enqueue().send_all((0..2000).map(pass)).await;
    in_time(started, "send_all");
    assert_eq!(answers.len(), 2000);
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unreachable);
    }
    server.restart().unwrap();
    client.enqueue().send(pass(3)).await.unwrap();
    assert_eq!(client.stats(TASKS).await.unwrap().waiting, 1, "a failure that says unreachable has sent nothing");
}

#[tokio::test]
async fn b56_a_store_that_falls_silent_is_unknown_in_time_and_recovers_when_healed() {
    let (server, proxy, client) = behind_a_proxy().await;
    let mut raw = Raw::connect(&server).await;
    proxy.set(Mode::Swallow);
    let started = Instant::now();
    let ids: Vec<JobId> = (0..1000).map(|_| JobId::new()).collect();
    let sends: Vec<_> = ids.iter().map(|id| tokio::spawn(client.enqueue().id(*id).send(pass(1)))).collect();
    let (mut unknown, mut unreachable) = (0, 0);
    for send in sends {
        let error = send.await.unwrap().unwrap_err();
        match error.kind() {
            ErrorKind::Unknown => unknown += 1,
            ErrorKind::Unreachable => unreachable += 1,
            _ => panic!("{error:?}"),
        }
    }
    in_time(started, "1,000 sends");
    assert!(unknown > 0, "calls were on their way");
    // Two at most, of up to 200 jobs each.
    assert!(
        unknown <= 400,
        "{unknown} unknown, {unreachable} unreachable: what was never sent is known not to be there"
    );
    let started = Instant::now();
    client.stats(TASKS).await.unwrap_err();
    in_time(started, "stats");

    proxy.set(Mode::Pass);
    let healed = Instant::now();
    // Each is safe to send again.
    for id in &ids {
        client.schedule(Duration::from_secs(60)).id(*id).send(pass(1)).await.unwrap();
    }
    assert!(healed.elapsed() < Duration::from_secs(5), "{:?}", healed.elapsed());
    assert_eq!(client.stats(TASKS).await.unwrap().waiting, 1000);
    assert_eq!(raw.ask::<u64>(&[b"HLEN", crate::kit::key("jobs").as_bytes()]).await, 1000);
}

#[tokio::test]
async fn a_short_stall_is_waited_out() {
    let (_server, proxy, client) = behind_a_proxy().await;
    proxy.set(Mode::Hold);
    let send = tokio::spawn(client.enqueue().send(pass(1)));
    // Longer than one answer may take, shorter than the send may: time itself is what is tested.
    tokio::time::sleep(Duration::from_millis(700)).await;
    proxy.set(Mode::Pass);
    send.await.unwrap().unwrap();
    assert_eq!(client.stats(TASKS).await.unwrap().waiting, 1, "what was held back came in too, and made no second job");
}

/// A worker whose connections go dead for a while, at a moment; answers how long after that it took to run the next job.
async fn half_open(idle: bool) -> Duration {
    let (server, proxy, client) = behind_a_proxy().await;
    let direct = Client::connect(&server.url()).await.unwrap();
    let mut stage = Stage::start(&client);
    direct.enqueue().send(pass(1)).await.unwrap();
    assert_eq!(stage.next().await.n, 1);
    if idle {
        settled(&direct, 1).await;
        eventually("it listens", || async { listens(&server).then_some(()) }).await;
    }
    proxy.set(Mode::Swallow);
    // As long as a worker needs to notice and a little more: time itself is what is tested.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    proxy.set(Mode::Pass);
    let healed = Instant::now();
    direct.enqueue().send(pass(2)).await.unwrap();
    assert_eq!(stage.next().await.n, 2);
    let took = healed.elapsed();
    settled(&direct, 2).await;
    stage.stop().await;
    took
}

#[tokio::test]
async fn b56_a_worker_that_was_cut_off_while_settling_resumes_within_five_seconds() {
    let took = half_open(false).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn b56_a_worker_that_was_cut_off_while_listening_resumes_within_five_seconds() {
    let took = half_open(true).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

//! Stores that can't be reached or don't answer: told in time, and told which.

use std::time::{Duration, Instant};

use delayq::{Client, ClientBuilder, ErrorKind, JobId};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::proxy::{Mode, Proxy};
use delayq_tests::{Lag, eventually};
use futures_util::future::join_all;

use crate::kit::{Raw, Stage, TASKS, listens, pass, settled};

const CONNECT: Duration = Duration::from_millis(300);
const RESPONSE: Duration = Duration::from_millis(400);
const DEADLINE: Duration = Duration::from_millis(1000);
/// What comes on top of it all.
const SLACK: Duration = Duration::from_millis(500);
/// From when the network is well.
const RESUMES: Duration = Duration::from_secs(5);

/// Settings with which a silent store is soon given up.
fn hasty() -> ClientBuilder {
    Client::builder().connect_timeout(CONNECT).response_timeout(RESPONSE).send_deadline(DEADLINE)
}

/// A client, once it is connected: with timeouts this short, a slow machine needs more than one try.
async fn connected(builder: ClientBuilder, url: &str) -> Client {
    eventually("it connects", || async { builder.clone().connect(url).await.ok() }).await
}

async fn behind_a_proxy(builder: ClientBuilder) -> (RedisServer, Proxy, Client) {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let client = connected(builder, &proxy.url()).await;
    // From here on the script is known.
    let id = JobId::new();
    eventually("a job is sent and cancelled", || async {
        client.schedule(Duration::from_secs(600)).id(id).send(pass(0)).await.ok()?.cancel().await.ok()
    })
    .await;
    (server, proxy, client)
}

/// A call that must be over in time, and what the machine adds to it.
struct Call {
    started: Instant,
    lag: Lag,
}

impl Call {
    fn starts() -> Call {
        Call { lag: Lag::watch(), started: Instant::now() }
    }

    fn is_in_time(&self, what: &str) {
        let took = self.started.elapsed();
        assert!(took < DEADLINE + RESPONSE + SLACK + self.lag.so_far(), "{what}: only after {took:?}");
    }
}

#[tokio::test]
async fn a_store_that_is_gone_is_unreachable_and_nothing_was_sent() {
    let mut server = RedisServer::start().unwrap();
    let client = connected(hasty(), &server.url()).await;
    eventually("it has a connection", || async { client.stats(TASKS).await.ok() }).await;
    server.kill();
    let call = Call::starts();
    // The connection that is there breaks only when it is used: the first answer may be a lost one.
    let first = client.enqueue().send(pass(1)).await.unwrap_err();
    assert!(matches!(first.kind(), ErrorKind::Unreachable | ErrorKind::Unknown), "{first:?}");
    call.is_in_time("send");
    let call = Call::starts();
    let second = client.enqueue().send(pass(2)).await.unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Unreachable, "{second:?}");
    assert!(second.is_temporary() && !second.is_unknown());
    call.is_in_time("send");
    let call = Call::starts();
    assert_eq!(client.stats(TASKS).await.unwrap_err().kind(), ErrorKind::Unreachable);
    call.is_in_time("stats");
    // However many jobs, the caller waits once.
    let call = Call::starts();
    let answers = client.enqueue().send_all((0..2000).map(pass)).await;
    call.is_in_time("send_all");
    assert_eq!(answers.len(), 2000);
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unreachable);
    }
    server.restart().unwrap();
    let id = JobId::new();
    eventually("it is sent", || async { client.enqueue().id(id).send(pass(3)).await.ok() }).await;
    let stats = eventually("the counts", || async { client.stats(TASKS).await.ok() }).await;
    assert_eq!(stats.waiting, 1, "a failure that says unreachable has sent nothing");
}

#[tokio::test]
async fn b56_a_store_that_falls_silent_is_unknown_in_time_and_recovers_when_healed() {
    let (server, proxy, client) = behind_a_proxy(hasty()).await;
    let mut raw = Raw::connect(&server).await;
    proxy.set(Mode::Swallow);
    let call = Call::starts();
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
    call.is_in_time("1,000 sends");
    assert!(unknown > 0, "calls were on their way");
    // Two at most, of up to 200 jobs each.
    assert!(
        unknown <= 400,
        "{unknown} unknown, {unreachable} unreachable: what was never sent is known not to be there"
    );
    let call = Call::starts();
    client.stats(TASKS).await.unwrap_err();
    call.is_in_time("stats");

    proxy.set(Mode::Pass);
    let call = Call::starts();
    // Each is safe to send again.
    let send = |id: JobId| {
        let client = &client;
        let again = move || async move { client.schedule(Duration::from_secs(60)).id(id).send(pass(1)).await.ok() };
        eventually("it is sent again", again)
    };
    send(ids[0]).await;
    call.is_in_time("the first send that gets through");
    join_all(ids[1..].iter().copied().map(send)).await;
    let direct = Client::connect(&server.url()).await.unwrap();
    assert_eq!(direct.stats(TASKS).await.unwrap().waiting, 1000);
    assert_eq!(raw.ask::<u64>(&[b"HLEN", crate::kit::key("jobs").as_bytes()]).await, 1000);
}

#[tokio::test]
async fn a_short_stall_is_waited_out() {
    let (server, proxy, client) = behind_a_proxy(Client::builder().response_timeout(RESPONSE)).await;
    proxy.set(Mode::Hold);
    let send = tokio::spawn(client.enqueue().send(pass(1)));
    // Longer than one answer may take, shorter than the send may: time itself is what is tested.
    tokio::time::sleep(Duration::from_millis(700)).await;
    proxy.set(Mode::Pass);
    send.await.unwrap().unwrap();
    let direct = Client::connect(&server.url()).await.unwrap();
    assert_eq!(direct.stats(TASKS).await.unwrap().waiting, 1, "what was held back came in too, and made no second job");
}

/// A worker whose connections go dead for a while, at a moment: it runs the next job within [`RESUMES`] after that.
async fn half_open(idle: bool) {
    let (server, proxy, client) = behind_a_proxy(hasty()).await;
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
    let (healed, lag) = (Instant::now(), Lag::watch());
    direct.enqueue().send(pass(2)).await.unwrap();
    assert_eq!(stage.next().await.n, 2);
    let took = healed.elapsed();
    assert!(took < RESUMES + lag.so_far(), "{took:?}");
    settled(&direct, 2).await;
    stage.stop().await;
}

#[tokio::test]
async fn b56_a_worker_that_was_cut_off_while_settling_resumes_within_five_seconds() {
    half_open(false).await;
}

#[tokio::test]
async fn b56_a_worker_that_was_cut_off_while_listening_resumes_within_five_seconds() {
    half_open(true).await;
}

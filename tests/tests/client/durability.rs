//! Sends that count only when replicas have them.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use delayq::engine::redis::{RedisEngine, Settings, Target};
use delayq::store::{Prefix, Store};
use delayq::{Client, Durability, ErrorKind, JobId};
use delayq_redis_fixture::RedisServer;
use delayq_tests::eventually;
use uuid::Uuid;

use crate::kit::{TASKS, Task, calls, pass};

const SHORTLY: Durability = shortly();

const fn shortly() -> Durability {
    match Durability::wait(1) {
        Durability::Replicas { count, .. } => Durability::Replicas { count, within: Duration::from_millis(100) },
        other => other,
    }
}

/// A primary, and a replica that has all it has.
async fn pair() -> (RedisServer, RedisServer) {
    let primary = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]).unwrap();
    let of = format!("127.0.0.1 {}", primary.port());
    let replica = RedisServer::start_with(&["--replicaof", &of]).unwrap();
    // The primary counts it only once it has confirmed something, up to a second after the link is up.
    eventually("the replica confirms", || async {
        primary.command(&["WAIT", "1", "100"]).unwrap().starts_with(":1").then_some(())
    })
    .await;
    (primary, replica)
}

/// Stops or continues the server's process: its connections stay.
pub(crate) fn signal(server: &RedisServer, signal: &str) {
    let kill = format!("kill -{signal} {}", server.pid().unwrap());
    assert!(Command::new("bash").args(["-c", &kill]).status().unwrap().success());
}

/// A client whose sends give up on replicas soon.
async fn hasty(server: &RedisServer) -> Client {
    let builder = Client::builder().durability(SHORTLY).send_deadline(Duration::from_secs(1));
    builder.connect(&server.url()).await.unwrap()
}

/// One that waits for them.
async fn patient(server: &RedisServer) -> Client {
    Client::builder().durability(Durability::wait(1)).connect(&server.url()).await.unwrap()
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn what_a_replica_confirmed_outlives_the_primary() {
    let (mut primary, replica) = pair().await;
    let client = patient(&primary).await;
    let sends = (0..500).map(|n| client.schedule(HOUR).send(pass(n)));
    let sent = futures_util::future::join_all(sends).await;
    primary.kill();
    let acknowledged = sent.iter().filter(|sent| sent.is_ok()).count() as u64;
    assert_eq!(acknowledged, 500);
    replica.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let promoted = Client::connect(&replica.url()).await.unwrap();
    assert_eq!(promoted.stats(TASKS).await.unwrap().waiting, acknowledged);
}

#[tokio::test]
async fn f38_what_no_replica_confirmed_is_unknown_however_often_it_is_sent() {
    let (primary, replica) = pair().await;
    let waits = hasty(&primary).await;
    let id = JobId::from(Uuid::now_v7());
    patient(&primary).await.schedule(HOUR).send(pass(0)).await.unwrap();
    signal(&replica, "STOP");
    // The second send finds the job there, and has written nothing that a replica could lack.
    for _ in 0..2 {
        let error = waits.schedule(HOUR).id(id).send(pass(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown);
        assert!(error.to_string().contains("only 0 of 1 replicas confirmed"), "{error}");
    }
    let at_once = Client::connect(&primary.url()).await.unwrap();
    let waits_before = calls(&primary, "wait");
    at_once.schedule(HOUR).send(pass(2)).await.unwrap();
    assert_eq!(calls(&primary, "wait"), waits_before, "who doesn't ask for replicas doesn't wait for them");
    signal(&replica, "CONT");
    eventually("the replica confirms again", || async { waits.schedule(HOUR).id(id).send(pass(1)).await.ok() }).await;
    assert_eq!(at_once.stats(TASKS).await.unwrap().waiting, 3);
}

#[tokio::test]
async fn a_cancel_and_a_new_due_time_wait_for_replicas_too() {
    let (primary, replica) = pair().await;
    let (waits, patient) = (hasty(&primary).await, patient(&primary).await);
    let handle = waits.handle::<Task>(patient.schedule(HOUR).send(pass(1)).await.unwrap().id());
    let other = waits.handle::<Task>(patient.schedule(HOUR).send(pass(2)).await.unwrap().id());
    signal(&replica, "STOP");
    assert_eq!(handle.cancel().await.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(handle.cancel().await.unwrap_err().kind(), ErrorKind::Unknown, "it is cancelled, and not confirmed");
    assert_eq!(other.reschedule(HOUR * 2).await.unwrap_err().kind(), ErrorKind::Unknown);
    signal(&replica, "CONT");
    eventually("the cancel is confirmed", || async { handle.cancel().await.ok() }).await;
    eventually("the new due time is confirmed", || async { other.reschedule(HOUR * 3).await.ok() }).await;
    // What is there to be refused is refused, whoever confirms it.
    assert_eq!(handle.reschedule(HOUR).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_primary_without_replicas_confirms_nothing() {
    let server = RedisServer::start().unwrap();
    let waits = hasty(&server).await;
    let error = waits.enqueue().send(pass(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert_eq!(waits.stats(TASKS).await.unwrap().waiting, 1);
}

#[tokio::test]
async fn a_durability_that_can_not_be_is_refused() {
    let server = RedisServer::start().unwrap();
    let within = |count, within| Durability::Replicas { count, within };
    for durability in [within(0, Duration::from_secs(1)), within(1, Duration::ZERO), within(1, Duration::from_secs(3))]
    {
        let error = Client::builder().durability(durability).connect(&server.url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{durability:?}: {error}");
    }
    let error = Client::builder().durability(Durability::wait(1)).connect("sqlite::memory:").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

/// Redis from 7.2 on lets WAIT look back only as far as the connection's last call that was passed on to replicas.
#[tokio::test]
async fn what_is_asked_for_again_is_passed_on_to_replicas_each_time() {
    // The primary's own pings would be counted too.
    let primary =
        RedisServer::start_with(&["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600"]).unwrap();
    let _replica = RedisServer::start_with(&["--replicaof", &format!("127.0.0.1 {}", primary.port())]).unwrap();
    eventually("the replica confirms", || async {
        primary.command(&["WAIT", "1", "100"]).unwrap().starts_with(":1").then_some(())
    })
    .await;
    let engine = RedisEngine::connect(Target::parse(&primary.url(), Settings::default()).unwrap()).await.unwrap();
    let store = Store::new(Arc::new(engine), Prefix::default());
    let shard = store.shard(TASKS, 0).unwrap();
    let passed_on = || primary.info("master_repl_offset").unwrap();
    for _ in 0..3 {
        let before = passed_on();
        store.probe(&shard).await.unwrap();
        assert!(passed_on() > before, "{before}");
    }
}

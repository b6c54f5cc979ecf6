//! A primary that Sentinels watch: clients and workers follow it through a failover.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use delayq::{Client, Durability, ErrorKind};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::sentinel::Sentinels;
use delayq_tests::{Lag, eventually};

use crate::kit::{RIGHTS, Stage, TASKS, pass};

const NAME: &str = "my-primary";
const JOBS: u64 = 200;
/// After this a primary is taken for dead that was killed ..
const SOON: Duration = Duration::from_millis(500);
/// .. and one that lives, never: on a slow machine it may be silent for a while.
const NEVER: Duration = Duration::from_secs(60);

/// Two servers, and three Sentinels that watch whichever is the primary.
struct Watched {
    servers: [RedisServer; 2],
    sentinels: Sentinels,
}

impl Watched {
    fn start(settings: &[&str], down_after: Duration) -> Watched {
        let settings = [settings, &["--repl-diskless-sync-delay", "0"]].concat();
        let primary = RedisServer::start_with(&settings).unwrap();
        let of = format!("127.0.0.1 {}", primary.port());
        let replica = RedisServer::start_with(&[&settings[..], &["--replicaof", &of]].concat()).unwrap();
        let sentinels = Sentinels::start(&primary, NAME, 3, down_after).unwrap();
        Watched { servers: [primary, replica], sentinels }
    }

    /// Waits until the Sentinels call the other one the primary.
    fn promoted(&self) {
        let other = self.sentinels.await_primary_other_than(self.servers[0].port(), Duration::from_secs(20));
        assert_eq!(other.unwrap(), self.servers[1].port());
    }
}

/// A client whose sends outlive a failover.
async fn durable(url: &str) -> Client {
    Client::builder().durability(Durability::wait(1)).connect(url).await.unwrap()
}

/// Jobs that fall due one after the other, each of them confirmed by the replica.
async fn send_all(client: &Client, numbers: std::ops::Range<u64>) {
    let first = numbers.start;
    let sends = numbers.map(|n| client.schedule(Duration::from_millis(1000 + (n - first) * 15)).send(pass(n)));
    for sent in futures_util::future::join_all(sends).await {
        sent.unwrap();
    }
}

/// Runs until each of these jobs has run.
async fn all_ran(stage: &mut Stage, numbers: impl IntoIterator<Item = u64>) {
    let mut open: BTreeSet<u64> = numbers.into_iter().collect();
    while !open.is_empty() {
        open.remove(&stage.next().await.n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b60_jobs_go_on_when_the_primary_dies_and_a_sentinel_with_it() {
    let mut watched = Watched::start(&[], SOON);
    // One of the hosts is no Sentinel: that is no reason to end, even while no other knows a primary.
    let odd = RedisServer::start().unwrap();
    let url = watched.sentinels.url().replace("/my-primary", &format!(",127.0.0.1:{}/my-primary", odd.port()));
    let client = durable(&url).await;
    let mut stage = Stage::start(&client);
    send_all(&client, 0..JOBS).await;
    let ran: BTreeSet<u64> = stage.take(20).await.into_iter().map(|ran| ran.n).collect();
    watched.servers[0].kill();
    // The first that the URL names is one that doesn't answer: the others are asked as well.
    watched.sentinels.kill(0);
    watched.promoted();
    // What ended moments before, and wasn't passed on, runs once more.
    all_ran(&mut stage, (0..JOBS).filter(|n| !ran.contains(n))).await;
    let at_once = Client::connect(&watched.sentinels.url()).await.unwrap();
    at_once.enqueue().send(pass(JOBS)).await.unwrap();
    all_ran(&mut stage, JOBS..JOBS + 1).await;
    eventually("all is settled", || async {
        let stats = at_once.stats(TASKS).await.unwrap();
        (stats.waiting + stats.running == 0).then_some(())
    })
    .await;
    let stats = at_once.stats(TASKS).await.unwrap();
    assert_eq!((stats.dead, stats.retried_total), (0, 0), "a failover is no failure of a handler");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b60_jobs_go_on_through_a_planned_failover_while_others_are_sent() {
    let watched = Watched::start(&["--requirepass", "p@ss", "--masterauth", "p@ss"], NEVER);
    let client = durable(&watched.sentinels.url()).await;
    let mut stage = Stage::start(&client);
    send_all(&client, 0..JOBS).await;
    // A replica that was last heard of long ago is not fit for it until it is heard of again.
    eventually("the failover begins", || async {
        let begun = watched.sentinels.failover().is_ok();
        let is_over = watched.sentinels.primary().is_ok_and(|port| port != watched.servers[0].port());
        (begun || is_over).then_some(())
    })
    .await;
    // Sent meanwhile: until the old primary follows the new one, nothing can be confirmed.
    send_all(&client, JOBS..2 * JOBS).await;
    watched.promoted();
    all_ran(&mut stage, 0..2 * JOBS).await;
    eventually("all is settled", || async {
        let stats = client.stats(TASKS).await.unwrap();
        (stats.waiting + stats.running == 0).then_some(())
    })
    .await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_sentinel_url_is_said() {
    let watched = Watched::start(&[], NEVER);
    let [primary, _] = &watched.servers;
    let [first, ..] = watched.sentinels.ports()[..] else { panic!("no Sentinel") };
    let quickly = Client::builder().connect_timeout(Duration::from_secs(2));
    let said = async |url: String| {
        let error = quickly.clone().connect(&url).await.unwrap_err();
        (error.kind(), error.to_string())
    };
    let url = format!("redis-sentinel://127.0.0.1:{first}/another");
    let (kind, text) = said(url).await;
    assert!(kind == ErrorKind::Unreachable && text.contains("correct the name in the URL"), "{text}");
    let (kind, text) = said(format!("redis-sentinel://127.0.0.1:{}/{NAME}", primary.port())).await;
    assert!(kind == ErrorKind::Config && text.contains("is no Sentinel"), "{text}");
    let (kind, text) = said(format!("redis://127.0.0.1:{first}/")).await;
    assert!(kind == ErrorKind::Config && text.contains("give redis-sentinel://host:port/name"), "{text}");
    let (kind, text) = said(format!("redis-sentinel://127.0.0.1:1,127.0.0.1:2/{NAME}")).await;
    assert!(kind == ErrorKind::Unreachable && text.contains("do Sentinels run there"), "{text}");
    // One that answers is enough, and whoever is silent isn't waited for.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis-sentinel://{},127.0.0.1:{first}/{NAME}", silent.local_addr().unwrap());
    let (lag, asked) = (Lag::watch(), Instant::now());
    Client::connect(&url).await.unwrap();
    let took = asked.elapsed();
    assert!(took < Duration::from_millis(900) + lag.so_far(), "{took:?}");
    let client = Client::connect(&format!("redis-sentinel://127.0.0.1:1,127.0.0.1:{first}/{NAME}/2")).await.unwrap();
    client.schedule(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    assert!(primary.command(&["INFO", "keyspace"]).unwrap().contains("db2:"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_rights_that_are_listed_is_let_in() {
    let watched = Watched::start(&[], NEVER);
    let url = watched.sentinels.url().replacen("://", "://app:pw@", 1);
    let allow = |rights: &str| {
        let user = format!("ACL SETUSER app on >pw resetchannels {rights}");
        let parts: Vec<&str> = user.split_whitespace().collect();
        assert!(watched.servers[0].command(&parts).unwrap().starts_with("+OK"));
    };
    allow(RIGHTS);
    let error = Client::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    allow(&format!("{RIGHTS} +role"));
    // The Sentinels have users of their own.
    for n in 0..watched.sentinels.len() {
        let user = ["ACL", "SETUSER", "looks", "on", ">pw2", "+role", "+sentinel|masters"];
        assert!(watched.sentinels.command(n, &user).unwrap().starts_with("+OK"));
        let off = ["ACL", "SETUSER", "default", "off"];
        assert!(watched.sentinels.command(n, &off).unwrap().starts_with("+OK"));
    }
    let error = Client::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("that of the Sentinels by ?sentinel_user="), "{error}");
    let client = Client::connect(&format!("{url}?sentinel_user=looks&sentinel_password=pw2")).await.unwrap();
    let mut stage = Stage::start(&client);
    client.enqueue().send(pass(1)).await.unwrap();
    assert_eq!(stage.next().await.n, 1);
    stage.stop().await;
}

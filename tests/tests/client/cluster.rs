//! A Redis Cluster: each queue on the node that has its slot, and work that goes on when slots move and nodes are lost.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use delayq::{Client, Durability, ErrorKind, JobId, JobQuery, JobState, JobStatus, Level, Worker};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::cluster::Cluster;
use delayq_tests::{Lag, eventually};

use crate::durability::signal;
use crate::kit::{Act, RIGHTS, Stage, TASKS, does, only, pass};

const HOUR: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(20);
/// Where no node is killed: on a slow machine one may be silent for a while, and is not to be taken for dead.
const CALM: [&str; 2] = ["--cluster-node-timeout", "15000"];

fn slot(cluster: &Cluster, queue: &str) -> u16 {
    cluster.slot(&format!("{{{queue}/0}}")).unwrap()
}

/// The node that has a queue.
fn home(cluster: &Cluster, queue: &str) -> usize {
    cluster.owner(slot(cluster, queue)).unwrap()
}

/// A queue on each of the first so many nodes.
fn spread(cluster: &Cluster, nodes: usize) -> Vec<String> {
    let mut queues = HashMap::new();
    for name in (0..).map(|n| format!("queue-{n}")) {
        queues.entry(home(cluster, &name)).or_insert(name);
        if queues.len() == nodes {
            break;
        }
    }
    queues.into_values().collect()
}

/// Waits until a queue has neither waiting nor running jobs.
async fn empty(client: &Client, queue: &str) {
    eventually("all is settled", || async {
        let stats = client.stats(queue).await.ok()?;
        (stats.waiting + stats.running == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_a_client_does_is_done_on_the_node_of_the_queue() {
    let cluster = Cluster::start(3, 0, &CALM).unwrap();
    // Any one node will do to find the others.
    let client = Client::connect(&format!("redis-cluster://127.0.0.1:{}", cluster.node(1).port())).await.unwrap();
    let queues = spread(&cluster, 3);
    let mut stage = Stage::with(&client, |worker| worker.queues(queues.iter().map(String::as_str)));
    for (n, queue) in (0..).zip(&queues) {
        client.schedule(Duration::from_millis(20)).queue(queue).send(pass(n)).await.unwrap();
    }
    let ran: BTreeSet<u64> = stage.take(3).await.into_iter().map(|ran| ran.n).collect();
    assert_eq!(ran, BTreeSet::from([0, 1, 2]));
    for queue in &queues {
        empty(&client, queue).await;
        let home = cluster.node(home(&cluster, queue));
        let stats = format!("delayq:{{{queue}/0}}:stats");
        assert_eq!(home.command(&["EXISTS", &stats]).unwrap().trim(), ":1");

        let handle = client.schedule(HOUR).queue(queue).send(pass(7)).await.unwrap();
        handle.reschedule(HOUR * 2).await.unwrap();
        assert!(matches!(handle.status().await.unwrap(), JobStatus::Waiting { .. }));
        let page = client.jobs(queue).list(&JobQuery::new(JobState::Waiting)).await.unwrap();
        assert_eq!(page.jobs.len(), 1);
        assert_eq!(client.forecast(queue, HOUR, 3).await.unwrap().steps.iter().sum::<u64>(), 1);
        handle.cancel().await.unwrap();

        client.enqueue().queue(queue).send(does(Act::Fail)).await.unwrap();
        stage.next().await;
        eventually("it is dead", || async { (client.stats(queue).await.ok()?.dead == 1).then_some(()) }).await;

        let first = client.schedule(HOUR).queue(queue).send(only("k", Act::Pass)).await.unwrap();
        let second = client.schedule(HOUR).queue(queue).send(only("k", Act::Pass)).await.unwrap_err();
        assert_eq!((second.kind(), second.owner()), (ErrorKind::Duplicate, Some(first.id())));
        first.cancel().await.unwrap();
    }
    let listed: BTreeSet<String> = client.queues().await.unwrap().into_iter().collect();
    assert!(queues.iter().all(|queue| listed.contains(queue)), "{listed:?}");
    let many = client.schedule(HOUR).queue(&queues[0]).send_all((0..500).map(pass)).await;
    assert!(many.iter().all(Result::is_ok));

    let names: Vec<&str> = queues.iter().map(String::as_str).collect();
    let diagnosis = client.diagnose(&names).await.unwrap();
    let versions: BTreeSet<String> = diagnosis.of("version").filter_map(|found| found.server.clone()).collect();
    let nodes: BTreeSet<String> = (0..3).map(|n| format!("127.0.0.1:{}", cluster.node(n).port())).collect();
    assert_eq!(versions, nodes, "each primary is looked at");
    assert_eq!(diagnosis.of("scripts").next().unwrap().level, Level::Good, "{diagnosis:#?}");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b65_a_failover_of_each_shard_loses_none_of_a_thousand_jobs() {
    let cluster = Cluster::start(3, 1, &CALM).unwrap();
    let client = Client::connect(&cluster.url()).await.unwrap();
    let queues = spread(&cluster, 3);
    let mut stage = Stage::with(&client, |worker| worker.queues(queues.iter().map(String::as_str)));
    let send =
        |n: u64| client.schedule(Duration::from_millis(500 + 3 * n)).queue(&queues[n as usize % 3]).send(pass(n));
    for sent in futures_util::future::join_all((0..1000).map(send)).await {
        sent.unwrap();
    }
    let mut runs = stage.take(50).await;
    for primary in 0..3 {
        let replica = cluster.replicas_of(primary).unwrap()[0];
        cluster.failover(replica).unwrap();
    }
    // What is sent now finds the new primaries, which have none of the scripts.
    let sent = (1000..1030).map(|n| client.enqueue().queue(&queues[n as usize % 3]).send(pass(n)));
    for sent in futures_util::future::join_all(sent).await {
        sent.unwrap();
    }
    runs.extend(stage.take(980).await);
    for queue in &queues {
        empty(&client, queue).await;
        let stats = client.stats(queue).await.unwrap();
        assert_eq!(
            (stats.retried_total, stats.crashed_total, stats.dead),
            (0, 0, 0),
            "a failover is no failure of a handler"
        );
    }
    assert!(stage.is_quiet(), "none ran twice");
    let numbers: BTreeSet<u64> = runs.iter().map(|ran| ran.n).collect();
    assert_eq!(numbers.len(), 1030);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_moves_to_another_node_while_its_jobs_run() {
    let cluster = Cluster::start(3, 0, &CALM).unwrap();
    let client = Client::connect(&cluster.url()).await.unwrap();
    let mut stage = Stage::start(&client);
    let send = async |numbers: std::ops::Range<u64>| {
        let sends = numbers.map(|n| client.schedule(Duration::from_millis(300 + 4 * (n % 300))).send(pass(n)));
        for sent in futures_util::future::join_all(sends).await {
            sent.unwrap();
        }
    };
    send(0..300).await;
    let mut runs = stage.take(20).await;
    let (slot, from) = (slot(&cluster, TASKS), home(&cluster, TASKS));
    let [to, third] = [(from + 1) % 3, (from + 2) % 3];
    cluster.begin_move(slot, from, to).unwrap();
    // Some keys of the queue are on neither node, so that its scripts are refused (TRYAGAIN) until it is over: sends wait that long.
    let refused = || async {
        let told = cluster.node(from).command(&["INFO", "errorstats"]).unwrap();
        told.contains("errorstat_TRYAGAIN:").then_some(())
    };
    tokio::join!(send(300..320), async {
        eventually("the queue stands still", refused).await;
        tokio::task::block_in_place(|| {
            cluster.move_keys(slot, from, to).unwrap();
            cluster.end_move(slot, from, to).unwrap();
        });
    });
    runs.extend(stage.take(300).await);
    // At rest it moves on: the worker's waiting connection is on a node that has nothing for it any more.
    empty(&client, TASKS).await;
    cluster.move_slot(slot, to, third).unwrap();
    let (at, lag) = (Instant::now(), Lag::watch());
    client.enqueue().send(pass(320)).await.unwrap();
    runs.push(stage.next().await);
    let took = at.elapsed();
    assert!(took < Duration::from_secs(3) + lag.so_far(), "{took:?}");
    empty(&client, TASKS).await;
    assert_eq!(home(&cluster, TASKS), third);
    assert!(stage.is_quiet(), "none ran twice");
    let numbers: BTreeSet<u64> = runs.iter().map(|ran| ran.n).collect();
    assert_eq!((numbers.len(), runs.len()), (321, 321));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_replica_confirmed_outlives_its_node() {
    let mut cluster = Cluster::start(3, 1, &[]).unwrap();
    let client = Client::builder().durability(Durability::wait(1)).connect(&cluster.url()).await.unwrap();
    let mut stage = Stage::start(&client);
    let sends = (0..200).map(|n| client.schedule(Duration::from_millis(1000 + 10 * n)).send(pass(n)));
    for sent in futures_util::future::join_all(sends).await {
        sent.unwrap();
    }
    let ran: BTreeSet<u64> = stage.take(20).await.into_iter().map(|ran| ran.n).collect();
    let lost = home(&cluster, TASKS);
    cluster.node_mut(lost).kill();
    let mut open: BTreeSet<u64> = (0..200).filter(|n| !ran.contains(n)).collect();
    while !open.is_empty() {
        // What ended moments before, and wasn't passed on, runs once more.
        open.remove(&stage.next().await.n);
    }
    assert_ne!(home(&cluster, TASKS), lost);
    // Who connects now finds one node of those that the URL names gone.
    let late = Client::connect(&cluster.url()).await.unwrap();
    empty(&late, TASKS).await;
    late.enqueue().send(pass(300)).await.unwrap();
    while stage.next().await.n != 300 {}
    cluster.node_mut(lost).restart().unwrap();
    cluster.await_ok(PATIENCE).unwrap();
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_cluster_or_its_url_is_said() {
    let said = async |url: String| {
        let error = Client::connect(&url).await.unwrap_err();
        (error.kind(), error.to_string())
    };
    let plain = RedisServer::start().unwrap();
    let (kind, text) = said(format!("redis-cluster://127.0.0.1:{}", plain.port())).await;
    assert!(kind == ErrorKind::Config && text.contains("belongs to no cluster: give redis://host:port"), "{text}");
    let new = RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-port", "0"]);
    let new = new.or_else(|_| RedisServer::start_with(&["--cluster-enabled", "yes"])).unwrap();
    let (kind, text) = said(format!("redis-cluster://127.0.0.1:{}", new.port())).await;
    assert!(kind == ErrorKind::Unavailable && text.contains("has given no slots to any"), "{text}");
    let two = Cluster::start(2, 0, &CALM).unwrap();
    let (kind, text) = said(two.node(1).url()).await;
    assert!(kind == ErrorKind::Config && text.contains("give redis-cluster://host:port"), "{text}");
    // One that has all slots is worked with as any other server.
    let one = Cluster::start(1, 0, &CALM).unwrap();
    Client::connect(&one.node(0).url()).await.unwrap().schedule(HOUR).send(pass(1)).await.unwrap();
    let (kind, text) = said("redis-cluster://127.0.0.1:1,127.0.0.1:2".to_owned()).await;
    assert!(kind == ErrorKind::Unreachable && text.contains("does a Redis run there?"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_replicas_of_the_queue_s_own_node_are_asked() {
    let cluster = Cluster::start(3, 1, &CALM).unwrap();
    let connect = async |within: Duration, deadline: Duration| {
        let builder = Client::builder().durability(Durability::Replicas { count: 1, within }).send_deadline(deadline);
        builder.connect(&cluster.url()).await.unwrap()
    };
    // What is not confirmed in time is asked for once more, which would be counted too.
    let client = connect(Duration::from_secs(2), Duration::from_secs(10)).await;
    let listed = cluster.owner(cluster.slot("delayq:queues").unwrap()).unwrap();
    let queue = spread(&cluster, 3).into_iter().find(|queue| home(&cluster, queue) != listed).unwrap();
    let waits = |node: &RedisServer| {
        let stats = node.command(&["INFO", "commandstats"]).unwrap();
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls=")?.split(',').next());
        calls.map_or(0, |calls| calls.parse::<u64>().unwrap())
    };
    let sent = client.schedule(HOUR).queue(&queue).send(pass(1)).await.unwrap();
    client.schedule(HOUR).queue(&queue).id(sent.id()).send(pass(1)).await.unwrap();
    for primary in 0..3 {
        // Once for what is written, once more for what was there already: an earlier try may have put it there.
        let asked = if primary == home(&cluster, &queue) { 3 } else { 0 };
        assert_eq!(waits(cluster.node(primary)), asked, "{primary}");
    }
    let replica = cluster.replicas_of(home(&cluster, &queue)).unwrap()[0];
    let hasty = connect(Duration::from_millis(100), Duration::from_secs(1)).await;
    signal(cluster.node(replica), "STOP");
    // Asked for again it is there already, and nothing is written that a replica could lack.
    for id in [sent.id(), JobId::new()] {
        let error = hasty.schedule(HOUR).queue(&queue).id(id).send(pass(1)).await.unwrap_err();
        assert!(error.is_unknown() && error.to_string().contains("only 0 of 1 replicas"), "{error}");
    }
    signal(cluster.node(replica), "CONT");
    eventually("the replica confirms again", || async {
        client.schedule(HOUR).queue(&queue).id(sent.id()).send(pass(1)).await.ok()
    })
    .await;
}

/// A user whom each node allows only this.
fn allow(cluster: &Cluster, rights: &str) {
    for n in 0..cluster.len() {
        let user = format!("ACL SETUSER app on >pw resetchannels {rights}");
        let parts: Vec<&str> = user.split_whitespace().collect();
        assert!(cluster.node(n).command(&parts).unwrap().starts_with("+OK"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_rights_that_are_listed_is_let_in() {
    let cluster = Cluster::start(3, 0, &CALM).unwrap();
    let url = cluster.url().replacen("://", "://app:pw@", 1);
    allow(&cluster, RIGHTS);
    let error = Client::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    // A node alone is a part of the queues: that it is one must not stay unknown.
    let error = Client::connect(&cluster.node(0).url().replacen("://", "://app:pw@", 1)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("+cluster|slots"), "{error}");
    allow(&cluster, &format!("{RIGHTS} +cluster|slots"));
    let client = Client::connect(&url).await.unwrap();
    let mut stage = Stage::start(&client);
    client.enqueue().send(pass(1)).await.unwrap();
    assert_eq!(stage.next().await.n, 1);
    // A key alone in its slot is asked for where it is being moved to, once the node that has the slot has it no more.
    empty(&client, TASKS).await;
    stage.stop().await;
    let listed = cluster.slot("delayq:queues").unwrap();
    let from = cluster.owner(listed).unwrap();
    let to = (from + 1) % 3;
    cluster.begin_move(listed, from, to).unwrap();
    cluster.move_keys(listed, from, to).unwrap();
    let error = client.queues().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("asking"), "{error}");
    allow(&cluster, &format!("{RIGHTS} +cluster|slots +asking"));
    assert_eq!(client.queues().await.unwrap(), [TASKS]);
    cluster.end_move(listed, from, to).unwrap();
    assert_eq!(client.queues().await.unwrap(), [TASKS]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_costs_no_lease_on_the_others() {
    let settings = ["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "60000"];
    let cluster = Cluster::start(2, 0, &settings).unwrap();
    let queues = spread(&cluster, 2);
    let [silent, well] = [&queues[0], &queues[1]];
    let client = Client::connect(&cluster.url()).await.unwrap();
    // Another worker, all of whose places are taken: it would give a lost session's jobs to others.
    let lease = Duration::from_secs(3);
    let mut other = Stage::with(&client, |worker| worker.queues([well]).lease(lease).concurrency(1));
    client.enqueue().queue(well).send(does(Act::WaitPass)).await.unwrap();
    other.next().await;
    // Three places: what a call to the silent node takes along is missing to the other queue.
    let two_queues = |worker: Worker| worker.queues([silent, well]).lease(lease).concurrency(3);
    let mut stage = Stage::with(&client, two_queues);
    client.enqueue().queue(silent).send(pass(1)).await.unwrap();
    client.enqueue().queue(well).send(does(Act::WaitPass)).await.unwrap();
    stage.take(2).await;
    empty(&client, silent).await;
    let frozen = cluster.node(home(&cluster, silent));
    signal(frozen, "STOP");
    let mut late = 0;
    for n in 100..140 {
        // Time itself: more than three leases, and longer than calls to the silent node are waited for.
        tokio::time::sleep(Duration::from_millis(250)).await;
        let (at, lag) = (Instant::now(), Lag::watch());
        client.enqueue().queue(well).send(pass(n)).await.unwrap();
        assert_eq!(stage.next().await.n, n);
        late += u32::from(at.elapsed() > Duration::from_secs(1) + lag.so_far());
    }
    assert!(
        late <= 1,
        "{late} were late: the first call that finds it silent takes all free places along, and no other"
    );
    stage.open(1);
    other.open(1);
    empty(&client, well).await;
    other.stop().await;
    let stats = client.stats(well).await.unwrap();
    assert_eq!((stats.done_total, stats.crashed_total), (42, 0), "the runs that were under way kept their lease");
    signal(frozen, "CONT");
    client.enqueue().queue(silent).send(pass(3)).await.unwrap();
    while stage.next().await.n != 3 {}
    empty(&client, silent).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_gone_is_told_by_a_diagnosis() {
    let mut cluster = Cluster::start(3, 0, &["--cluster-require-full-coverage", "no"]).unwrap();
    let client = Client::builder().send_deadline(Duration::from_secs(1)).connect(&cluster.url()).await.unwrap();
    let lost = (home(&cluster, TASKS) + 1) % 3;
    let queue = spread(&cluster, 3).into_iter().find(|queue| home(&cluster, queue) == lost).unwrap();
    cluster.node_mut(lost).kill();
    let name = format!("127.0.0.1:{}", cluster.node(lost).port());
    let diagnosis = client.diagnose(&[TASKS, &queue]).await.unwrap();
    let told = diagnosis.of("queue").next().unwrap();
    assert_eq!((told.level, told.queue.as_ref()), (Level::Wrong, Some(&queue)), "{told}");
    let told = diagnosis.of("server").next().unwrap();
    assert_eq!((told.level, told.server.as_ref()), (Level::Wrong, Some(&name)), "{told}");
    assert!(told.to_string().starts_with(&format!("server of {name}: wrong: can't connect")), "{told}");
    assert_eq!(diagnosis.of("version").count(), 2);
    // The queues of the other nodes go on, for those who connect now too.
    let late = Client::connect(&cluster.url()).await.unwrap();
    let mut stage = Stage::start(&late);
    late.enqueue().send(pass(1)).await.unwrap();
    assert_eq!(stage.next().await.n, 1);
    empty(&late, TASKS).await;
    let error = client.enqueue().queue(&queue).send(pass(2)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Unavailable), "{error}");
    stage.stop().await;
}

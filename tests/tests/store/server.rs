//! What only a real server can do to the store: full memory, forgotten scripts, a crash. Each case has a server of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delayq::store::ops::{Closed, NewJob, Place, Rescue, Verdict};
use delayq::{DeadReason, ErrorKind};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::cluster::Cluster;
use delayq_tests::store_kit::{HOUR_MS, LONG, With, World, id, job, kind};

use super::settle::verdicts;

fn memory(server: &RedisServer, full: bool) {
    let limit = if full { "1" } else { "0" };
    server.command(&["CONFIG", "SET", "maxmemory", limit]).unwrap();
}

#[tokio::test]
async fn t_b69_at_maxmemory_new_work_is_refused_and_old_work_gets_through() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]).unwrap();
    let world = World::on(&server).await;
    let mut hand = world.open().await;
    let mut lost = world.open().await;
    world.create(&[job(1)]).await;
    lost.take_one().await;
    world.expire(&lost.id).await;
    for n in [2, 3] {
        world.create(&[job(n)]).await;
        hand.run_one(Verdict::Bury { reason: DeadReason::Buried, error: String::new() }).await;
    }
    let jobs: Vec<NewJob> = (10..20).map(|n| job(n).unique(&n.to_string()).retain(HOUR_MS)).collect();
    world.create(&jobs).await;
    let other = world.open().await;

    memory(&server, true);
    let before = world.dump().await;
    let new = [job(90), job(91).priority(0).unique("new")];
    assert_eq!(kind(world.store.enqueue(&world.shard, &new).await), ErrorKind::Full);
    assert_eq!(world.dump().await, before, "refused whole");

    assert_eq!(hand.beat().await.lost, [lost.id]);
    let runs = hand.take(8).await;
    assert_eq!(runs.len(), 8);
    let settled: Vec<_> = runs[..6].iter().zip(verdicts().into_iter().skip(2)).map(|(r, v)| (r.member, v)).collect();
    let answers = hand.try_settle(&settled).await.unwrap();
    assert!(answers.iter().all(|answer| *answer == delayq::store::ops::Settled::Accepted));
    hand.reconcile(&[]).await.unwrap();
    assert!(matches!(world.store.rescue(&world.shard, &lost.id, 5).await.unwrap(), Rescue::Took { given_back: 1, .. }));
    assert!(world.store.pause(&world.shard, true).await.unwrap());
    assert!(world.store.pause(&world.shard, false).await.unwrap());
    world.store.pass(&world.shard).await.unwrap();
    world.store.reschedule(&world.shard, &id(19), "+9000").await.unwrap();
    world.store.cancel(&world.shard, &id(18)).await.unwrap();
    let run = hand.take(1).await.remove(0);
    world.store.cancel(&world.shard, &run.id).await.unwrap();
    world.store.dead_redrive(&world.shard, &[id(2).to_vec()]).await.unwrap();
    assert_eq!(world.store.dead_delete(&world.shard, &[id(3).to_vec()]).await.unwrap(), [true]);
    world.store.open(&world.shard, &[9; 16], LONG).await.unwrap();
    assert_eq!(other.close().await, Closed::Closed);
    assert_eq!(kind(world.store.enqueue(&world.shard, &new).await), ErrorKind::Full);

    memory(&server, false);
    world.create(&new).await;
    world.finish().await;
}

#[tokio::test]
async fn b54_forgotten_scripts_are_no_ones_error() {
    let server = Arc::new(RedisServer::start().unwrap());
    let world = World::on(&server).await;
    let stop = Arc::new(AtomicBool::new(false));
    let flusher = {
        let (server, stop) = (server.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut flushes = 0;
            while !stop.load(Ordering::Relaxed) {
                server.command(&["SCRIPT", "FLUSH"]).unwrap();
                flushes += 1;
            }
            flushes
        })
    };
    let work = |from: u64| {
        let world = &world;
        async move {
            let mut hand = world.open().await;
            let mut ran = 0;
            for n in from..from + 500 {
                world.create(&[job(n)]).await;
                for run in hand.take(10).await {
                    hand.settle(&run, Verdict::Done).await;
                    ran += 1;
                }
            }
            hand.close().await;
            ran
        }
    };
    let (a, b, c, d) = tokio::join!(work(0), work(10_000), work(20_000), work(30_000));
    stop.store(true, Ordering::Relaxed);
    assert!(flusher.join().unwrap() > 50);
    let mut rest = world.open().await;
    assert_eq!(a + b + c + d + rest.take(1000).await.len(), 2000);
    world.finish().await;
}

#[tokio::test]
async fn every_call_keeps_to_one_slot_of_a_cluster() {
    let cluster = Cluster::start(1, 0, &[]).unwrap();
    let world = World::on(cluster.node(0)).await;
    super::wrong_types::u_the_table_of_calls_works_where_nothing_is_wrong(&world).await;
}

#[tokio::test]
async fn acknowledged_jobs_and_sessions_survive_a_crash_of_the_server() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let world = World::on(&server).await;
    world.create(&[job(1), job(2).due("+3600000").unique("k")]).await;
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    let (before, seq) = (world.dump().await, hand.seq);
    server.restart().unwrap();
    let after = World::on(&server).await.named("delayq", world.shard.queue());
    assert_eq!(after.dump().await, before);
    // The same worker, over new connections.
    let settled = after.store.settle(&after.shard, &hand.id, seq + 1, &[(run.member, Verdict::Done)]).await.unwrap();
    assert_eq!(settled.unwrap(), [delayq::store::ops::Settled::Accepted]);
    assert_eq!(after.place(&id(2)).await, Some(Place::Due));
    after.finish().await;
}

#[tokio::test]
async fn b42_no_key_has_a_time_to_live() {
    let server = RedisServer::start().unwrap();
    let world = World::on(&server).await;
    let mut hand = world.open().await;
    for (n, verdict) in (0..).zip(verdicts()).filter(|(_, verdict)| *verdict != Verdict::HandBack) {
        world.create(&[job(n).unique(&n.to_string()).retain(HOUR_MS)]).await;
        hand.run_one(verdict).await;
    }
    world.create(&[job(20).due("+3600000"), job(21), job(22).expires(1)]).await;
    hand.take(10).await;
    let dump = world.dump().await;
    for name in ["jobs", "stats", "wake", "sessions", "dead", "error", "done", "unique", "tombs", "due:5"] {
        assert!(dump.0.contains_key(name), "{name} is part of it: {dump:?}");
    }
    for name in dump.0.keys() {
        let key = String::from_utf8(world.shard.key(name)).unwrap();
        assert_eq!(server.command(&["PTTL", &key]).unwrap().trim(), ":-1", "{name}");
    }
}

/// What the server spent on scripts, in ms of its processor: whatever else the machine does meanwhile doesn't count.
fn spent_ms(server: &RedisServer) -> f64 {
    (server.info("used_cpu_user_main_thread").unwrap() + server.info("used_cpu_sys_main_thread").unwrap()) * 1000.0
}

#[tokio::test]
async fn b17_no_script_of_the_largest_batches_costs_fifty_milliseconds() {
    let server = RedisServer::start().unwrap();
    let world = World::on(&server).await;
    let mut spent: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut last = spent_ms(&server);
    let mut cost = |what: &'static str| {
        let now = spent_ms(&server);
        spent.entry(what).or_default().push(now - last);
        last = now;
    };
    for batch in 0..10 {
        let jobs: Vec<NewJob> = (0..1000).map(|n| job(batch * 1000 + n).unique(&format!("{batch}.{n}"))).collect();
        world.create(&jobs).await;
        cost("enqueue");
    }
    let mut hand = world.open().await;
    let mut all = Vec::new();
    for _ in 0..10 {
        let runs = hand.take(1000).await;
        cost("claim");
        let bury = Verdict::Bury { reason: DeadReason::Buried, error: "x".repeat(100) };
        let settled: Vec<_> = runs.iter().map(|run| (run.member, bury.clone())).collect();
        hand.try_settle(&settled).await.unwrap();
        cost("settle");
        all.extend(runs.into_iter().map(|run| run.id.to_vec()));
    }
    for chunk in all.chunks(500) {
        world.store.dead_redrive(&world.shard, chunk).await.unwrap();
        cost("redrive");
    }
    world.sleep_until(world.now_ms().await + 1).await;
    for _ in 0..10 {
        cost("between");
        assert_eq!(hand.take(1000).await.len(), 1000);
    }
    world.expire(&hand.id).await;
    cost("claim");
    loop {
        let rescue = world.store.rescue(&world.shard, &hand.id, 500).await.unwrap();
        cost("rescue");
        if matches!(rescue, Rescue::Took { more: false, .. }) {
            break;
        }
    }
    // On a busy machine a processor that is shared makes one or the other dearer.
    for (what, mut each) in spent {
        each.sort_by(f64::total_cmp);
        assert!(each[each.len() / 2] < 50.0, "{what}: {each:?} ms");
    }
    world.finish().await;
}

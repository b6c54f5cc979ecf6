//! A server whose memory is full, and one that makes room by deleting (B69, B70).

use std::time::{Duration, Instant};

use delayq::{CancelOutcome, Client, ErrorKind, JobStatus};
use delayq_redis_fixture::RedisServer;
use delayq_tests::store_kit::World;
use delayq_tests::{eventually, server_and_client};
use tracing::Level;

use crate::kit::{LONG_LEASE, conserved, key, settled};
use crate::kit_b::{Act, Deed, Logged, QUEUE, Raw, Retried, Stage, does, pass};

#[tokio::test]
async fn b69_oom_in_scripts() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut raw = Raw::connect(&server).await;
    let mut stage = Stage::start(&client);
    // Runs of every end are under way, others wait, and one is dead.
    let dead = client.enqueue().send(does(0, Act::Fail("no".to_owned()))).await.unwrap();
    let letters = client.dead_letters(QUEUE);
    eventually("it is dead", || async { letters.get(dead.id()).await.unwrap() }).await;
    client.enqueue().send(does(1, Act::Wait)).await.unwrap();
    let cancelled = client.enqueue().send(does(1, Act::Wait)).await.unwrap();
    stage.take(3).await;
    let moved = client.schedule(Duration::from_secs(60)).send(pass(2)).await.unwrap();
    let never = client.schedule(Duration::from_secs(60)).unique("old").send(pass(3)).await.unwrap();
    let later = Duration::from_millis(400);
    for act in [Act::Pass, Act::Discard("no".to_owned()), Act::Bury("no".to_owned())] {
        client.schedule(later).send(does(4, act)).await.unwrap();
    }
    client.schedule(later).send(Retried { n: 5, act: Act::FailUntil(2) }).await.unwrap();

    raw.set("maxmemory", "1").await;
    let started = Instant::now();
    let before = client.stats(QUEUE).await.unwrap();
    for refused in [
        client.enqueue().unique("new").send(pass(6)).await.unwrap_err(),
        client.schedule(Duration::from_secs(60)).priority(0).send(pass(6)).await.unwrap_err(),
        client.enqueue().queue("b-new-queue").send(pass(6)).await.unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::Full, "{refused:?}");
    }
    for answer in client.enqueue().send_all((0..300).map(pass)).await {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Full);
    }
    // What is tried again is tried for 10 s.
    assert!(started.elapsed() < Duration::from_secs(5), "at once: {:?}", started.elapsed());
    let after = client.stats(QUEUE).await.unwrap();
    assert_eq!((after.enqueued_total, after.orphans), (before.enqueued_total, 0), "no trace of it");
    assert_eq!(raw.ask::<u64>(&["HLEN", key(QUEUE, "unique").as_str()]).await, 1);
    for key in [key(QUEUE, "due:0"), key("b-new-queue", "jobs"), key("b-new-queue", "stats")] {
        assert_eq!(raw.ask::<u64>(&["EXISTS", key.as_str()]).await, 0, "{key}");
    }

    // What is there gets through: claims, every verdict, cancels, moves, dead letters, pauses.
    stage.take(6).await;
    assert_eq!(cancelled.cancel().await.unwrap(), CancelOutcome::Running);
    stage.open(2);
    assert_eq!(never.cancel().await.unwrap(), CancelOutcome::Cancelled);
    moved.reschedule(Duration::from_millis(1)).await.unwrap();
    assert_eq!(stage.next().await.n, 2);
    assert!(client.pause(QUEUE).await.unwrap() && client.resume(QUEUE).await.unwrap());
    letters.redrive(dead.id()).await.unwrap();
    assert_eq!(stage.next().await.n, 0);
    eventually("it is dead again", || async { letters.get(dead.id()).await.unwrap() }).await;
    letters.delete(dead.id()).await.unwrap();
    // A pass, two waits, the moved one and the retried one; success wins over a cancel.
    settled(&client, QUEUE, 5).await;
    stage.stop().await;
    raw.set("maxmemory", "0").await;
    client.schedule(Duration::from_secs(60)).unique("new").send(pass(6)).await.unwrap();
    conserved(&server, QUEUE).await;
}

#[tokio::test]
async fn b70_a_cache_beside_the_queue_is_evicted_and_the_queue_is_not() {
    let logged = Logged::from_now();
    let server = RedisServer::start_with(&["--maxmemory-policy", "volatile-lru"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut raw = Raw::connect(&server).await;
    let used = server.info("used_memory").unwrap() as u64;
    raw.set("maxmemory", &(used + (4 << 20)).to_string()).await;
    let mut stage = Stage::with(&client, |worker| worker.lease(Duration::from_secs(1)));
    for n in 0..20 {
        client.enqueue().unique(n.to_string()).send(does(n, Act::Wait)).await.unwrap();
    }
    stage.take(20).await;
    for sent in client.schedule(Duration::from_millis(300)).send_all((20..220).map(pass)).await {
        sent.unwrap();
    }
    // Three times what fits.
    let value = "x".repeat(1000);
    for chunk in 0..12 {
        let mut pipe = redis::pipe();
        for n in 0..1000 {
            pipe.cmd("SET").arg(format!("cache:{chunk}:{n}")).arg(&value).arg("EX").arg(1000).ignore();
        }
        pipe.query_async::<()>(&mut raw.0).await.unwrap();
    }
    assert!(server.info("evicted_keys").unwrap() > 1000.0, "the cache is evicted");
    // Why the queue is not: none of its keys has a time to live, no lease or unique key among them.
    let keys: Vec<String> = raw.ask(&["KEYS", "delayq:*"]).await;
    for name in ["jobs", "sessions", "held:", "unique"] {
        assert!(keys.iter().any(|there| there.starts_with(&key(QUEUE, name))), "{name}: {keys:?}");
    }
    for key in &keys {
        // -1: without end; -2: gone since, as a set is whose last job was taken.
        let ttl: i64 = raw.ask(&["PTTL", key.as_str()]).await;
        assert!(ttl == -1 || ttl == -2, "{key}: {ttl}");
    }
    stage.open(20);
    let mut runs = stage.take(200).await;
    settled(&client, QUEUE, 220).await;
    runs.sort_by_key(|ran| ran.n);
    assert!(runs.iter().zip(20..).all(|(ran, n)| ran.n == n && ran.attempt == 1));
    assert!(stage.rest().is_empty());
    stage.stop().await;
    conserved(&server, QUEUE).await;
    let warned = logged.of(Level::WARN);
    assert!(
        matches!(&warned[..], [start] if start.message.contains("volatile-lru")),
        "only the worker's start: {warned:?}"
    );
}

#[tokio::test]
async fn b70_a_server_that_would_delete_jobs_is_warned_of_and_one_that_says_nothing_is_not() {
    let logged = Logged::from_now();
    let server = RedisServer::start().unwrap();
    let mut raw = Raw::connect(&server).await;
    for (policy, maxmemory, warned) in [
        ("allkeys-lru", "100mb", true),
        ("allkeys-lfu", "100mb", true),
        ("allkeys-random", "100mb", true),
        ("allkeys-lru", "0", false),
        ("volatile-lru", "100mb", false),
        ("volatile-ttl", "100mb", false),
        ("noeviction", "100mb", false),
    ] {
        raw.set("maxmemory", maxmemory).await;
        raw.set("maxmemory-policy", policy).await;
        let before = logged.of(Level::WARN).len();
        Client::connect(&server.url()).await.unwrap();
        let said = logged.of(Level::WARN).split_off(before);
        assert_eq!(said.len(), usize::from(warned), "{policy}, {maxmemory}: {said:?}");
        if let [said] = &said[..] {
            assert_eq!(said.fields["policy"], policy);
            assert!(said.message.contains("set its maxmemory-policy to noeviction"), "{said:?}");
        }
    }
    // A user who may ask neither of the two works as well, and nothing is claimed to be known.
    raw.set("maxmemory-policy", "allkeys-lru").await;
    let _: () = raw.ask(&["ACL", "SETUSER", "default", "-info", "-config"]).await;
    let before = logged.of(Level::WARN).len();
    let client = Client::connect(&server.url()).await.unwrap();
    client.enqueue::<Deed>().send(pass(1)).await.unwrap();
    let mut stage = Stage::start(&client);
    assert_eq!(stage.next().await.n, 1);
    stage.stop().await;
    assert_eq!(logged.of(Level::WARN).len(), before, "{:?}", logged.of(Level::WARN));
}

#[tokio::test]
async fn b70_what_was_evicted_after_all_makes_no_run_that_is_not_fenced() {
    let (server, client) = server_and_client().await;
    let cases = ["sessions", "held", "jobs", "stats"].map(|lost| {
        let (server, client) = (&server, &client);
        async move {
            let queue = format!("b-evicts-{lost}");
            let mut stage = Stage::with(client, |worker| worker.queues([queue.as_str()]).lease(LONG_LEASE));
            client.enqueue().queue(queue.as_str()).send(does(1, Act::Wait)).await.unwrap();
            let first = stage.next().await;
            let world = World::on(server).await.named("delayq", &queue);
            let name = world.dump().await.0.into_keys().find(|name| name.starts_with(lost)).expect("such a key");
            world.write(&name, None).await;
            // Somebody else who would run what was given away.
            let other = Stage::with(client, |worker| worker.queues([queue.as_str()]).lease(LONG_LEASE));
            // Longer than the lease, so that whatever is lost is noticed: time itself is what is tested.
            tokio::time::sleep(2 * LONG_LEASE).await;
            stage.open(1);
            other.open(1);
            let next = client.enqueue().queue(queue.as_str()).send(pass(2)).await.unwrap();
            eventually("the next job runs", || async {
                (next.status().await.unwrap() == JobStatus::Done).then_some(())
            })
            .await;
            let mut runs = vec![first];
            runs.extend(stage.ended().await);
            runs.extend(other.ended().await);
            runs.retain(|ran| ran.n == 1);
            runs.sort_by_key(|ran| ran.at);
            assert!(
                runs.is_sorted_by(|one, next| one.token < next.token),
                "{lost}: each with a higher number: {runs:?}"
            );
            let stats = client.stats(&queue).await.unwrap();
            assert!(stats.done_total <= 2, "{lost}: no job has two ends: {stats:?}");
        }
    });
    futures_util::future::join_all(cases).await;
}

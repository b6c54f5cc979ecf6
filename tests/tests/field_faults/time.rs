//! B01 to B10: due times and the clock.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use delayq::engine::Reply;
use delayq::limits::{DUE_MAX_MS, LEASE_DEFAULT};
use delayq::store::ops::NewJob;
use delayq::{CancelOutcome, Client, ErrorKind, JobHandle, JobId, JobStatus, JobType, RawJob, When};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::proxy::{Blow, End, Proxy};
use delayq_tests::store_kit::{Value, With, World, id, job, kind};
use delayq_tests::{Lag, eventually, server_and_client, watched};
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Semaphore;

use crate::kit::{
    Act, FIELD, Field, HOUR, Ran, SLACK, Stage, conserved, field, key, letter, listened_to, numbers, script, send_all,
    settled, stored, text_id, world,
};

const DAY_MS: u64 = 86_400_000;

/// The stored due time lies exactly this far ahead of the store's clock, somewhere between then and now.
async fn is_due_in(world: &World, id: JobId, ms: u64, then_us: u64) {
    let now_us = world.now_us().await;
    let due = world.score("due:5", stored(id)).await.expect("it waits");
    assert!((then_us.div_ceil(1000)..=now_us.div_ceil(1000)).contains(&(due - ms)), "{ms}: {due}");
    assert_eq!(world.record(&stored(id)).await.due_ms, due);
}

#[tokio::test(flavor = "multi_thread")]
async fn b01_far_delays_are_exact_and_only_the_near_one_runs() {
    let (server, client) = server_and_client().await;
    let world = world(&server, FIELD).await;
    let mut stage = Stage::start(&client);
    let far = [
        (1 << 31) - 1,
        1 << 31,
        (1 << 31) + 1,
        25 * DAY_MS,
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 1,
        400 * DAY_MS,
        36_500 * DAY_MS,
    ];
    for ms in far {
        let delay = Duration::from_millis(ms);
        let then_us = world.now_us().await;
        let sent = client.schedule(delay).send(field(ms, Act::Pass)).await.unwrap();
        is_due_in(&world, sent.id(), ms, then_us).await;
        let moved = client.schedule(HOUR).send(field(ms, Act::Pass)).await.unwrap();
        let then_us = world.now_us().await;
        moved.reschedule(delay).await.unwrap();
        is_due_in(&world, moved.id(), ms, then_us).await;
        // A wait that a handler asks for is as far as one that a sender asks for.
        for act in [Act::RetryIn { ms }, Act::Snooze { ms }] {
            let then_us = world.now_us().await;
            let asked = client.enqueue().send(field(ms, act)).await.unwrap();
            assert_eq!(stage.next().await.n, ms);
            eventually("it waits again", || async {
                (world.score("due:5", stored(asked.id())).await? > then_us / 1000 + DAY_MS).then_some(())
            })
            .await;
            is_due_in(&world, asked.id(), ms, then_us).await;
        }
    }
    let (sent, lag) = (Instant::now(), Lag::watch());
    client.schedule(Duration::from_millis(200)).send(field(200, Act::Pass)).await.unwrap();
    let near = stage.next().await;
    assert!(near.n == 200 && near.at - sent >= Duration::from_millis(200), "{near:?}");
    assert!(near.lateness < SLACK + lag.so_far(), "{near:?}");
    settled_but(&client, 1, 4 * far.len() as u64).await;
    assert!(stage.stop().await.is_empty());
    conserved(&server, FIELD).await;
}

/// So many are done, and so many wait.
async fn settled_but(client: &Client, done: u64, waiting: u64) {
    eventually("the near are done, the far wait", || async {
        let stats = client.stats(FIELD).await.unwrap();
        (stats.done_total == done && stats.waiting == waiting && stats.running == 0).then_some(())
    })
    .await;
}

/// Puts a member into the due set past all scripts.
fn zadd(server: &RedisServer, score: &str, member: &str) {
    let answer = server.command(&["ZADD", &key(FIELD, "due:5"), score, member]).unwrap();
    assert!(answer.starts_with(':'), "{score} {member}: {answer}");
}

/// What an idle worker costs its server stays small: time itself is what is measured.
async fn idles(server: &RedisServer) {
    watched(server, FIELD).await;
    let asked = || server.info("total_commands_processed").unwrap();
    let (before, since) = (asked(), Instant::now());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let per_second = (asked() - before) / since.elapsed().as_secs_f64();
    assert!(per_second < 50.0, "{per_second} commands a second, those inside scripts included");
}

#[tokio::test(flavor = "multi_thread")]
async fn b03_what_is_due_before_all_times_runs_once_or_is_put_aside_and_then_costs_nothing() {
    let (server, client) = server_and_client().await;
    let world = world(&server, FIELD).await;
    // The default lease: its beats are what an idle worker costs.
    let mut stage = Stage::with(&client, |worker| worker.lease(LEASE_DEFAULT));
    // The interface takes what lies before 1970 for now.
    let early: [When; 5] = [
        (UNIX_EPOCH - Duration::from_millis(1)).into(),
        (UNIX_EPOCH - Duration::from_secs(1 << 33)).into(),
        Timestamp::from_millisecond(-1).unwrap().into(),
        Timestamp::MIN.into(),
        Timestamp::UNIX_EPOCH.into(),
    ];
    for (n, at) in (0..).zip(early) {
        client.schedule_at(at).send(field(n, Act::Pass)).await.unwrap();
        assert_eq!(stage.next().await.n, n);
    }
    settled(&client, FIELD, 5).await;
    // The script refuses them, whole.
    for when in ["@-1", "@-9223372036854775808", "+-5", "-5", "@", "@1.5", "@nan", "@1e3", "@ 5", ""] {
        let jobs = [job(900), job(901).due(when)];
        assert_eq!(kind(world.store.enqueue(&world.shard, &jobs).await), ErrorKind::InvalidArgument, "{when:?}");
    }
    assert_eq!((world.read("jobs").await, world.read("due:5").await), (None, None));
    // A hand from outside moves jobs that are there, and puts in ids that nobody knows.
    let scores = ["-5", "-9223372036854775808", "-inf", "0", "0.5", "1e-300"];
    for (n, score) in (100..).zip(scores) {
        let (id, text) = text_id(n);
        client.schedule(HOUR).id(id).send(field(n, Act::Pass)).await.unwrap();
        zadd(&server, score, &text);
        zadd(&server, score, &text_id(n + 100).1);
    }
    for odd in ["", "x", "seventeen bytes!!", &"x".repeat(5000)] {
        zadd(&server, "-5", odd);
    }
    // Nobody is woken by a hand; whoever looks next finds them.
    client.enqueue().send(field(0, Act::Pass)).await.unwrap();
    let runs = stage.take(scores.len() + 1).await;
    assert_eq!(numbers(&runs), [0, 100, 101, 102, 103, 104, 105]);
    settled(&client, FIELD, 12).await;
    let stats = client.stats(FIELD).await.unwrap();
    assert_eq!((stats.quarantined_total, stats.dead, stats.orphans), (scores.len() as u64 + 4, 0, 0));
    idles(&server).await;
    assert!(stage.stop().await.is_empty());
    conserved(&server, FIELD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b03_what_is_due_after_all_times_keeps_nobody_from_working() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::with(&client, |worker| worker.lease(LEASE_DEFAULT));
    let mut far = Vec::new();
    for (n, score) in (0..).zip(["inf", "1e300", "9223372036854775807", "9007199254740993", "9007199254740992"]) {
        let (id, text) = text_id(n);
        far.push(client.schedule(HOUR).id(id).send(field(n, Act::Pass)).await.unwrap());
        zadd(&server, score, &text);
        for n in 10..13 {
            client.enqueue().send(field(n, Act::Pass)).await.unwrap();
            assert_eq!(stage.next().await.n, n, "with a score of {score}");
        }
        let lag = Lag::watch();
        client.schedule(Duration::from_millis(30)).send(field(20, Act::Pass)).await.unwrap();
        let on_time = stage.next().await;
        let in_time = on_time.lateness < SLACK + lag.so_far();
        assert!(on_time.n == 20 && in_time, "with a score of {score}: {on_time:?}");
    }
    settled_but(&client, 20, 5).await;
    idles(&server).await;
    for handle in far {
        assert_eq!(handle.cancel().await.unwrap(), CancelOutcome::Cancelled);
    }
    assert!(stage.stop().await.is_empty());
    conserved(&server, FIELD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b04_the_past_runs_now_whatever_else_is_asked_for() {
    let (server, client) = server_and_client().await;
    let world = world(&server, FIELD).await;
    let mut stage = Stage::start(&client);
    let ago = |hours: i64| When::from(Timestamp::now() - SignedDuration::from_hours(hours));
    let minute = Duration::from_secs(60);
    let year_and_more = Duration::from_secs(400 * 86_400);
    let cases = [
        (ago(365 * 24), None),
        // Worth running for longer than it is late.
        (ago(365 * 24), Some(year_and_more)),
        (ago(1), Some(2 * HOUR)),
        (SystemTime::now().checked_sub(year_and_more).unwrap().into(), None),
        ((UNIX_EPOCH - Duration::from_millis(1)).into(), None),
        (UNIX_EPOCH.into(), None),
        (Timestamp::MIN.into(), None),
    ];
    let done = |handle: JobHandle<Field>| async move {
        eventually("it is done", || async { (handle.status().await.unwrap() == JobStatus::Done).then_some(()) }).await;
    };
    for (n, (at, expires)) in (1..).zip(cases) {
        let mut schedule = client.schedule_at(at).unique("one").retain_for(minute);
        if let Some(after_due) = expires {
            schedule = schedule.expires_in(after_due);
        }
        let handle = schedule.send(field(n, Act::Pass)).await.unwrap();
        assert_eq!(stage.next().await.n, n);
        // The next one has the same key: it must be free by then.
        done(handle).await;
    }
    // As programs in other languages may ask: a key that has had its time before its job runs keeps nobody out.
    for n in 0..3 {
        let bytes = [&n.to_string().into_bytes()[..], &[b'-'; 15]].concat();
        let envelope = format!("field 1\n{{\"n\":{n},\"act\":\"Pass\"}}").into_bytes();
        let options = b"5 3 expires=99999999999999 retain=60000 unique_ttl=1000 unique=two".to_vec();
        let args = [&b"1"[..], b"1", b"5", &bytes[..], b"@1000", &options[..], &envelope[..]].map(<[u8]>::to_vec);
        let answer = world.raw("enqueue", &world.enqueue_keys("5"), &args).await.unwrap();
        assert_eq!(answer, Reply::List(vec![Reply::Bytes(b"OK".to_vec()), Reply::Int(1)]));
    }
    assert_eq!(numbers(&stage.take(3).await), [0, 1, 2]);
    // What is worth a minute after a due time of a year ago ends as documented, and not in an error.
    let late = client.schedule_at(ago(365 * 24)).unique("one").expires_in(minute).retain_for(minute);
    let late = late.send(field(99, Act::Pass)).await.unwrap();
    eventually("it expired", || async { (late.status().await.unwrap() == JobStatus::Expired).then_some(()) }).await;
    let kept = 7 + 3;
    settled(&client, FIELD, kept).await;
    assert!(stage.stop().await.is_empty());
    assert_eq!(client.stats(FIELD).await.unwrap().retained, kept);
    conserved(&server, FIELD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b07_due_times_are_stored_to_the_millisecond_and_refused_beyond() {
    let (server, client) = server_and_client().await;
    let world = world(&server, FIELD).await;
    let scores = || async {
        match world.read("due:5").await {
            Some(Value::Sorted(members)) => members,
            other => panic!("{other:?}"),
        }
    };
    // A thousand in a row in the year 2100, and then each moved to another.
    let first_ms = 4_102_444_800_000_i64;
    let instant = |ms: i64| Timestamp::from_millisecond(ms).unwrap();
    let sends = (0..1000).map(|n| client.schedule_at(instant(first_ms + n)).send(field(n as u64, Act::Pass)));
    let handles: Vec<JobHandle<Field>> = join_all(sends).await.into_iter().map(Result::unwrap).collect();
    let stored_ms = scores().await;
    for (ms, handle) in (first_ms..).zip(&handles) {
        assert_eq!(stored_ms[&stored(handle.id()).to_vec()], ms as f64);
    }
    let moved_ms = 253_402_207_100_000_i64;
    let moves = (moved_ms..).zip(&handles).map(|(ms, handle)| handle.reschedule_at(instant(ms)));
    let answers = join_all(moves).await;
    let stored_ms = scores().await;
    for ((ms, handle), answer) in (moved_ms..).zip(&handles).zip(answers) {
        assert_eq!(answer.unwrap(), instant(ms));
        assert_eq!(stored_ms[&stored(handle.id()).to_vec()], ms as f64);
    }
    let JobStatus::Waiting { due, .. } = handles[999].status().await.unwrap() else { panic!("it waits") };
    assert_eq!(due, instant(moved_ms + 999));
    // The last millisecond that there is, and those beyond.
    let last = [job(1).due(format!("@{DUE_MAX_MS}"))];
    world.create(&last).await;
    assert_eq!(world.score("due:5", id(1)).await, Some(DUE_MAX_MS));
    let before = world.dump().await;
    let beyond = [DUE_MAX_MS + 1, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, 1 << 62, u64::MAX];
    for ms in beyond {
        for when in [format!("@{ms}"), format!("+{ms}")] {
            let jobs: [NewJob; 2] = [job(2), job(3).due(when.as_str())];
            assert_eq!(kind(world.store.enqueue(&world.shard, &jobs).await), ErrorKind::InvalidArgument, "{when}");
            assert_eq!(
                kind(world.store.reschedule(&world.shard, &id(1), &when).await),
                ErrorKind::InvalidArgument,
                "{when}"
            );
        }
        let delay = Duration::from_millis(ms);
        let refused = client.schedule(delay).send(field(0, Act::Pass)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{ms}: {refused:?}");
        let refused = client.schedule_at(UNIX_EPOCH + delay).send(field(0, Act::Pass)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{ms}: {refused:?}");
        assert_eq!(handles[0].reschedule(delay).await.unwrap_err().kind(), ErrorKind::InvalidArgument, "{ms}");
    }
    assert_eq!(world.dump().await, before);
    conserved(&server, FIELD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_what_becomes_due_sooner_does_not_wait_for_what_was_there() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let near = Duration::from_millis(150);
    let far = Duration::from_secs(50);
    client.schedule(far).send(field(1000, Act::Pass)).await.unwrap();
    let moved = client.schedule(far).send(field(1, Act::Pass)).await.unwrap();
    let buried = client.enqueue().send(field(2, Act::Bury)).await.unwrap();
    stage.next().await;
    letter(&client, FIELD, buried.id()).await;
    for way in 0..8 {
        // The worker sleeps, by the far job's timer.
        watched(&server, FIELD).await;
        let lag = Lag::watch();
        let expected = match way {
            0 => client.schedule(near).send(field(0, Act::Pass)).await.map(|_| 0).unwrap(),
            1 => moved.reschedule(near).await.map(|_| 1).unwrap(),
            2 => client.dead_letters(FIELD).redrive(buried.id()).await.map(|()| 2).unwrap(),
            3 => client.schedule(near).priority(0).send(field(3, Act::Pass)).await.map(|_| 3).unwrap(),
            4 => client.schedule(near).priority(9).send(field(4, Act::Pass)).await.map(|_| 4).unwrap(),
            5 => {
                client.pause(FIELD).await.unwrap();
                client.schedule(near).send(field(5, Act::Pass)).await.unwrap();
                client.resume(FIELD).await.map(|_| 5).unwrap()
            }
            6 | 7 => {
                let ms = near.as_millis() as u64;
                let act = if way == 6 { Act::RetryIn { ms } } else { Act::Snooze { ms } };
                client.enqueue().send(field(way, act)).await.unwrap();
                assert_eq!(stage.next().await.n, way);
                way
            }
            _ => unreachable!("there are eight"),
        };
        let ran = stage.next().await;
        assert!(ran.n == expected && ran.lateness < SLACK + lag.so_far(), "{way}: {ran:?}");
    }
    // The redriven one is a dead letter again, and the far one waits on.
    settled_but(&client, 7, 1).await;
    assert!(stage.stop().await.is_empty());
    conserved(&server, FIELD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_an_answer_of_before_does_not_put_off_what_became_due_sooner() {
    let (server, client) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let behind = Client::connect(&proxy.url()).await.unwrap();
    // Its lease is the default: it beats once a second.
    let mut stage = Stage::with(&behind, |worker| worker.lease(LEASE_DEFAULT));
    client.schedule(Duration::from_secs(50)).send(field(1, Act::Pass)).await.unwrap();
    watched(&server, FIELD).await;
    for (n, late_ms) in [(1, 1), (2, 300), (3, 300)] {
        // The store says how long the far timer still has. Until the worker hears of that, there is a nearer one.
        proxy.strike(Blow::Late(late_ms), &[script("beat")], 1);
        eventually("a beat", || async { (proxy.struck() == n).then_some(()) }).await;
        // By the time that this is answered, the beat has been carried out.
        client.stats(FIELD).await.unwrap();
        let lag = Lag::watch();
        client.schedule(Duration::from_millis(600)).send(field(10 + n, Act::Pass)).await.unwrap();
        let ran = stage.next().await;
        assert!(ran.n == 10 + n && ran.lateness < SLACK + lag.so_far(), "{ran:?}");
    }
    assert!(stage.stop().await.is_empty());
    conserved(&server, FIELD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_a_claim_whose_answer_is_lost_leaves_the_next_due_time_watched() {
    let (server, client) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let behind = Client::connect(&proxy.url()).await.unwrap();
    let mut stage = Stage::with(&behind, |worker| worker.lease(LEASE_DEFAULT));
    client.enqueue().send(field(0, Act::Pass)).await.unwrap();
    stage.next().await;
    for n in 1..=4 {
        listened_to(&server).await;
        // Both in one call. The claim that ends the first, which is too late to be run, makes its worker the watcher of the second:
        // the answer would say so.
        proxy.strike(Blow::Reply { keep: 0, end: End::Close }, &[script("claim")], 1);
        let now = client.stats(FIELD).await.unwrap().now;
        let raw = |n| RawJob::new(Field::NAME, 1, serde_json::to_vec(&field(n, Act::Pass)).unwrap());
        let late = raw(10 * n).at(now - Duration::from_secs(9)).expires_in(Duration::from_millis(1));
        let lag = Lag::watch();
        for sent in client.send_raw(FIELD, vec![late, raw(n).at(Duration::from_millis(700))]).await {
            sent.unwrap();
        }
        let ran = stage.next().await;
        assert!(ran.n == n && ran.lateness < SLACK + lag.so_far(), "{ran:?}");
        assert_eq!((proxy.struck(), client.stats(FIELD).await.unwrap().expired_total), (n, n));
    }
    assert!(stage.stop().await.is_empty());
    conserved(&server, FIELD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_jobs_start_in_the_order_of_their_due_times_and_none_starves() {
    /// How many of the stream wait at any time.
    const BACKLOG: usize = 50;
    const STREAM: u64 = 1000;
    let (server, client) = server_and_client().await;
    let mut stage = Stage::with(&client, |worker| worker.concurrency(1));
    let room = Arc::new(Semaphore::new(BACKLOG));
    let stream = tokio::spawn({
        let (client, room) = (client.clone(), room.clone());
        async move {
            for n in STREAM.. {
                room.acquire().await.unwrap().forget();
                client.enqueue().send(field(n, Act::Pass)).await.unwrap();
            }
        }
    });
    // The stream is under way when the others come.
    let mut runs: Vec<Ran> = vec![stage.next().await];
    room.add_permits(1);
    let delay = Duration::from_millis(500);
    send_all(client.schedule(delay), (0..100).map(|n| field(n, Act::Pass))).await;
    let (started, lag) = (Instant::now(), Lag::watch());
    let mut delayed = 0;
    while delayed < 100 || started.elapsed() < 2 * delay {
        let ran = stage.next().await;
        if ran.n < STREAM {
            delayed += 1;
        } else {
            room.add_permits(1);
        }
        runs.push(ran);
    }
    stream.abort();
    let _ = stream.await;
    eventually("the rest has run", || async { (client.stats(FIELD).await.unwrap().waiting == 0).then_some(()) }).await;
    runs.extend(stage.stop().await);
    assert!(runs.windows(2).all(|pair| pair[0].due <= pair[1].due), "not in the order of due times");
    let latest = |delayed: bool| {
        let of_kind = runs.iter().filter(|ran| (ran.n < STREAM) == delayed);
        of_kind.map(|ran| ran.lateness).max().expect("both kinds ran")
    };
    let (late, stream_late) = (latest(true), latest(false));
    assert!(late < stream_late + SLACK + lag.so_far(), "{late:?} against {stream_late:?}");
    let behind = runs.iter().rposition(|ran| ran.n < STREAM).unwrap();
    assert!(runs[..behind].iter().any(|ran| ran.n >= STREAM) && runs.len() > behind + 1, "the stream went on");
    conserved(&server, FIELD).await;
}

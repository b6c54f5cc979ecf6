//! enqueue: none -> due.

use delayq::ErrorKind;
use delayq::engine::Reply;
use delayq::limits::DUE_MAX_MS;
use delayq::store::ops::{NewJob, Sent};
use delayq_tests::store_kit::{HOUR_MS, With, World, id, job, kind};

delayq_tests::store_cases!(
    new_jobs_are_stored_as_they_were_sent,
    an_empty_batch_changes_nothing,
    b01_b07_due_times_up_to_the_year_9999_are_exact,
    due_times_beyond_or_malformed_are_refused_whole,
    malformed_options_are_refused_whole,
    ids_of_another_length_are_refused_whole,
    b17_a_thousand_jobs_go_at_once_and_no_more,
    k_the_same_send_twice_makes_one_job,
    k_one_id_twice_in_a_batch_makes_one_job,
    k_a_send_doesnt_disturb_the_job_that_runs,
    w_another_schema_or_shard_count_is_refused_whole,
    b97_queues_and_prefixes_dont_merge,
    h_delays_count_from_the_stores_clock_rounded_up,
);

/// Arguments as another language's client would send them.
fn args(head: [&str; 3], jobs: &[(&[u8], &str, &str, &str)]) -> Vec<Vec<u8>> {
    let mut args: Vec<Vec<u8>> = head.iter().map(|part| part.as_bytes().to_vec()).collect();
    for (id, when, options, envelope) in jobs {
        args.extend([id.to_vec(), when.as_bytes().to_vec(), options.as_bytes().to_vec(), envelope.as_bytes().to_vec()]);
    }
    args
}

async fn refused_whole(world: &World, args: &[Vec<u8>], why: &str) {
    let before = world.dump().await;
    let answer = world.raw("enqueue", &world.enqueue_keys("5"), args).await;
    assert_eq!(kind(answer), ErrorKind::InvalidArgument, "{why}");
    assert_eq!(world.dump().await, before, "{why}");
}

async fn new_jobs_are_stored_as_they_were_sent(world: &World) {
    let before = world.now_ms().await;
    world.create(&[job(1).due("+5000").expires(700).retain(900).unique("k").attempts(9).priority(3)]).await;
    let record = world.record(&id(1)).await;
    let after = world.now_ms().await;
    assert_eq!((record.priority, record.attempts_max, record.attempts), (3, Some(9), 0));
    assert_eq!((record.crashes, record.free_returns, record.cancel_waits), (0, 0, false));
    assert!(record.extension.is_some());
    assert!((before..=after).contains(&record.enqueued_ms));
    assert!((before + 5000..=after + 5001).contains(&record.due_ms));
    assert_eq!(record.run, record.enqueued_ms);
    assert_eq!(&record.envelope[..], b"test 1\n{\"n\":1}");
    assert_eq!(world.score("due:3", id(1)).await, Some(record.due_ms));
    let bytes = world.field("jobs", id(1)).await.unwrap();
    assert_eq!(&bytes[29..35], &(record.due_ms + 700).to_be_bytes()[2..], "it expires after its due time");
    assert_eq!(&bytes[35..41], &900u64.to_be_bytes()[2..]);
    assert_eq!(&bytes[41..42], b"k");
    assert_eq!(world.stat("enqueued").await, 1);
    assert_eq!(world.field("stats", "priorities").await.unwrap(), b"3");
}

async fn an_empty_batch_changes_nothing(world: &World) {
    world.create(&[job(1)]).await;
    let before = world.dump().await;
    assert_eq!(world.send(&[]).await, []);
    assert_eq!(world.dump().await, before);
}

async fn b01_b07_due_times_up_to_the_year_9999_are_exact(world: &World) {
    let instants =
        [0, 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 32, 4_102_444_800_123, DUE_MAX_MS - 1, DUE_MAX_MS];
    for (n, due) in instants.into_iter().enumerate() {
        world.create(&[job(n as u64).due(format!("@{due}"))]).await;
        assert_eq!(world.score("due:5", id(n as u64)).await, Some(due));
        assert_eq!(world.record(&id(n as u64)).await.due_ms, due);
    }
    for (n, delay) in [(1u64 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 32, 400 * 86_400_000].into_iter().enumerate() {
        let (n, before) = (100 + n as u64, world.now_ms().await);
        world.create(&[job(n).due(format!("+{delay}"))]).await;
        let due = world.record(&id(n)).await.due_ms;
        assert!((before + delay..=world.now_ms().await + delay + 1).contains(&due));
    }
    let in_a_row: Vec<NewJob> = (0..1000).map(|n| job(1000 + n).due(format!("@{}", 4_102_444_800_000 + n))).collect();
    world.create(&in_a_row).await;
    for n in (0..1000).step_by(37) {
        assert_eq!(world.score("due:5", id(1000 + n)).await, Some(4_102_444_800_000 + n));
    }
}

async fn due_times_beyond_or_malformed_are_refused_whole(world: &World) {
    world.create(&[job(1).due("+3600000")]).await;
    let beyond = (DUE_MAX_MS + 1).to_string();
    let far = ["@".to_owned() + &beyond, format!("+{DUE_MAX_MS}"), "@9007199254740993".to_owned(), "+1".repeat(9)];
    let malformed = ["", "+", "@", "5", "-5", "+-5", "@1e3", "+0x10", " +5", "+5 ", "+5.5", "+\n", "@nan"];
    for when in far.iter().map(String::as_str).chain(malformed) {
        let neighbour = id(2);
        let jobs = [(&neighbour[..], "+0", "5 4", "a 1\n"), (&id(3)[..], when, "5 4", "a 1\n")];
        refused_whole(world, &args(["1", "1", "5"], &jobs), when).await;
    }
}

async fn malformed_options_are_refused_whole(world: &World) {
    let long = format!("5 4 unique={}", "k".repeat(201));
    let malformed = [
        "",
        "5",
        "5 ",
        "5 0",
        "x 4",
        "55 4",
        "4 4",
        "5 4 ",
        "5 4 later=1",
        "5 4 expires=",
        "5 4 expires=x",
        "5 4 retain=1 expires=1",
        "5 4 unique=",
        "5 -1",
        &long,
    ];
    for options in malformed {
        let jobs = [(&id(2)[..], "+0", "5 4", "a 1\n"), (&id(3)[..], "+0", options, "a 1\n")];
        refused_whole(world, &args(["1", "1", "5"], &jobs), options).await;
    }
    // Limits are clipped, not refused: 65,535 stands for none.
    let key = "k".repeat(200);
    let fine = format!("5 99999999 expires=1 retain=2 unique_ttl=3 unique={key}");
    let answer =
        world.raw("enqueue", &world.enqueue_keys("5"), &args(["1", "1", "5"], &[(&id(9), "+0", &fine, "")])).await;
    assert_eq!(answer.unwrap(), Reply::List(vec![Reply::Bytes(b"OK".to_vec()), Reply::Int(1)]));
    assert_eq!(world.record(&id(9)).await.attempts_max, None);
}

async fn ids_of_another_length_are_refused_whole(world: &World) {
    for length in [0, 1, 15, 17, 36, 1000] {
        let odd = vec![b'i'; length];
        let jobs = [(&id(2)[..], "+0", "5 4", "a 1\n"), (&odd[..], "+0", "5 4", "a 1\n")];
        refused_whole(world, &args(["1", "1", "5"], &jobs), &format!("{length} bytes")).await;
    }
    // A job more or less than its four arguments.
    let mut cut = args(["1", "1", "5"], &[(&id(2), "+0", "5 4", "a 1\n")]);
    cut.pop();
    refused_whole(world, &cut, "a missing envelope").await;
}

async fn b17_a_thousand_jobs_go_at_once_and_no_more(world: &World) {
    let jobs: Vec<NewJob> = (0..1001).map(job).collect();
    let before = world.dump().await;
    assert_eq!(kind(world.store.enqueue(&world.shard, &jobs).await), ErrorKind::InvalidArgument);
    assert_eq!(world.dump().await, before);
    world.create(&jobs[..1000]).await;
    assert_eq!(world.stat("enqueued").await, 1000);
}

async fn k_the_same_send_twice_makes_one_job(world: &World) {
    let jobs = [job(1), job(2).due("+100").unique("k"), job(3).due("@5")];
    world.create(&jobs).await;
    let before = world.dump().await;
    assert_eq!(world.send(&jobs).await, [Sent::Already; 3]);
    assert_eq!(world.dump().await, before, "a repeated send is no event");
}

async fn k_one_id_twice_in_a_batch_makes_one_job(world: &World) {
    let sent = world.send(&[job(1), job(1).priority(0).due("+9000")]).await;
    assert_eq!(sent, [Sent::Created, Sent::Already]);
    assert_eq!(world.score("due:0", id(1)).await, None);
    assert_eq!(world.stat("enqueued").await, 1);
}

async fn k_a_send_doesnt_disturb_the_job_that_runs(world: &World) {
    world.create(&[job(1)]).await;
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    let before = world.dump().await;
    assert_eq!(world.send(&[job(1)]).await, [Sent::Already]);
    assert_eq!(world.dump().await, before);
    assert!(hand.take(5).await.is_empty(), "what runs can't be claimed again");
    hand.settle(&run, delayq::store::ops::Verdict::DoneYoung).await;
}

async fn w_another_schema_or_shard_count_is_refused_whole(world: &World) {
    world.create(&[job(1)]).await;
    assert_eq!(world.stat("schema").await, 1);
    assert_eq!(world.stat("shards").await, 1);
    for field in ["schema", "shards"] {
        let before = world.dump().await;
        let (theirs, mine) = if field == "schema" { ("2", "1") } else { ("1", "2") };
        let sent = args([theirs, mine, "5"], &[(&id(2), "+0", "5 4", "a 1\n")]);
        let answer = world.raw("enqueue", &world.enqueue_keys("5"), &sent).await.unwrap();
        let code = field.to_uppercase().into_bytes();
        assert_eq!(answer, Reply::List(vec![Reply::Bytes(code), Reply::Bytes(b"1".to_vec())]));
        assert_eq!(world.dump().await, before);
        // And a queue of a later release refuses this one.
        world.set_field("stats", field, Some(b"7".to_vec())).await;
        let before = world.dump().await;
        assert_eq!(kind(world.store.enqueue(&world.shard, &[job(2)]).await), ErrorKind::Unsupported);
        assert_eq!(world.dump().await, before);
        world.set_field("stats", field, Some(b"1".to_vec())).await;
    }
}

async fn b97_queues_and_prefixes_dont_merge(world: &World) {
    let name = world.shard.queue();
    let others = [
        world.named("delayq", &format!("{name}.b")),
        world.named("delayq", &format!("{name}-b")),
        world.named("delayq.b", name),
        world.named("other", name),
    ];
    world.create(&[job(1)]).await;
    for other in &others {
        other.create(&[job(1)]).await;
        let mut hand = other.open().await;
        hand.run_one(delayq::store::ops::Verdict::Done).await;
        assert_eq!(other.dump().await.0.get("jobs"), None);
        other.finish().await;
    }
    assert_eq!(world.stat("done").await, 0);
    assert!(world.place(&id(1)).await.is_some(), "only its own queue ends a job");
}

async fn h_delays_count_from_the_stores_clock_rounded_up(world: &World) {
    for n in 0..50 {
        let before_us = world.now_us().await;
        world.create(&[job(n).due(format!("+{HOUR_MS}"))]).await;
        let due = world.record(&id(n)).await.due_ms;
        assert!(due * 1000 >= before_us + HOUR_MS * 1000, "not even a fraction of a millisecond early");
    }
}

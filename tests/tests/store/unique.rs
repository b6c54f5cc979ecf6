//! Rule r: one job that hasn't ended for each unique key of a queue.

use delayq::DeadReason;
use delayq::store::ops::{Redriven, Rescue, Sent, Settled, Verdict};
use delayq_tests::store_kit::{HOUR_MS, With, World, id, job};

delayq_tests::store_cases!(
    r_a_taken_key_names_its_owner,
    r_one_key_twice_in_a_batch_goes_to_the_first,
    r_a_key_is_kept_through_waiting_running_and_retries,
    r_b74_every_end_releases_the_key,
    r_only_the_owner_releases,
    r_b74_an_owner_whose_record_is_gone_keeps_nobody_out,
    r_redrive_takes_the_key_again_or_conflicts,
    r_a_key_with_a_time_limit_can_be_taken_over,
    u_an_entry_that_is_none_owns_nothing,
);

async fn r_a_taken_key_names_its_owner(world: &World) {
    world.create(&[job(1).unique("k").due("+3600000")]).await;
    let before = world.dump().await;
    assert_eq!(world.send(&[job(2).unique("k")]).await, [Sent::Duplicate { owner: id(1) }]);
    assert_eq!(world.send(&[job(1).unique("k")]).await, [Sent::Already], "the owner's own repeated send");
    assert_eq!(world.dump().await, before);
    world.create(&[job(3).unique("K"), job(4).unique("k "), job(5).unique("k unique=k"), job(6)]).await;
}

async fn r_one_key_twice_in_a_batch_goes_to_the_first(world: &World) {
    let sent = world.send(&[job(1).unique("k"), job(2).unique("k"), job(3)]).await;
    assert_eq!(sent, [Sent::Created, Sent::Duplicate { owner: id(1) }, Sent::Created]);
}

async fn r_a_key_is_kept_through_waiting_running_and_retries(world: &World) {
    world.create(&[job(1).unique("k")]).await;
    let taken = || async { assert_eq!(world.send(&[job(2).unique("k")]).await, [Sent::Duplicate { owner: id(1) }]) };
    let mut hand = world.open().await;
    for verdict in
        [Verdict::HandBack, Verdict::Snooze { delay_ms: 0 }, Verdict::Retry { delay_ms: 0, error: String::new() }]
    {
        world.sleep_until(world.record(&id(1)).await.due_ms).await;
        let run = hand.take_one().await;
        taken().await;
        hand.settle(&run, verdict).await;
        taken().await;
    }
    world.store.reschedule(&world.shard, &id(1), "@1000").await.unwrap();
    taken().await;
    hand.take_one().await;
    world.expire(&hand.id).await;
    world.store.rescue(&world.shard, &hand.id, 5).await.unwrap();
    taken().await;
}

async fn r_b74_every_end_releases_the_key(world: &World) {
    let mut n = 0;
    let bury = || Verdict::Bury { reason: DeadReason::Buried, error: String::new() };
    for (retain, verdict) in
        [(0, Verdict::DoneExtended), (HOUR_MS, Verdict::DoneExtended), (0, Verdict::Discard), (0, bury())]
    {
        n += 1;
        world.create(&[job(n).unique("k").retain(retain)]).await;
        let mut hand = world.open().await;
        hand.run_one(verdict).await;
        assert_eq!(world.read("unique").await, None);
    }
    // Cancelled, while it waits and while it runs.
    world.create(&[job(11).unique("k")]).await;
    world.store.cancel(&world.shard, &id(11)).await.unwrap();
    world.create(&[job(12).unique("k")]).await;
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    world.store.cancel(&world.shard, &id(12)).await.unwrap();
    assert_eq!(hand.settle(&run, Verdict::HandBack).await, Settled::Cancelled);
    // Expired; crashed for good.
    world.create(&[job(13).unique("k").due("@1000").expires(1)]).await;
    assert!(hand.take(1).await.is_empty());
    world.create(&[job(14).unique("k").attempts(1)]).await;
    hand.take_one().await;
    world.expire(&hand.id).await;
    assert!(matches!(world.store.rescue(&world.shard, &hand.id, 5).await.unwrap(), Rescue::Took { buried: 1, .. }));
    world.create(&[job(15).unique("k")]).await;
}

async fn r_only_the_owner_releases(world: &World) {
    world.create(&[job(1).unique("k")]).await;
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    // The key went to another job, as after its time limit.
    let entry = [&id(2)[..], &[0; 6]].concat();
    world.create(&[job(2).due("+3600000")]).await;
    world.set_field("unique", "k", Some(entry.clone())).await;
    hand.settle(&run, Verdict::DoneExtended).await;
    assert_eq!(world.field("unique", "k").await, Some(entry));
}

async fn r_b74_an_owner_whose_record_is_gone_keeps_nobody_out(world: &World) {
    world.set_field("unique", "k", Some([&id(9)[..], &[0; 6]].concat())).await;
    world.create(&[job(1).unique("k")]).await;
    assert_eq!(world.field("unique", "k").await.unwrap(), [&id(1)[..], &[0; 6]].concat());
}

async fn r_redrive_takes_the_key_again_or_conflicts(world: &World) {
    let mut hand = world.open().await;
    for n in [1, 2] {
        world.create(&[job(n).unique("k")]).await;
        hand.run_one(Verdict::Bury { reason: DeadReason::Buried, error: String::new() }).await;
    }
    let redrive = |ids: &[u64]| {
        let ids: Vec<Vec<u8>> = ids.iter().map(|n| id(*n).to_vec()).collect();
        async move { world.store.dead_redrive(&world.shard, &ids).await.unwrap() }
    };
    assert_eq!(redrive(&[1, 2]).await, [Redriven::Waits, Redriven::Conflict]);
    assert!(world.score("dead", id(2)).await.is_some(), "the letter stays where it is");
    let before = world.dump().await;
    assert_eq!(redrive(&[2]).await, [Redriven::Conflict]);
    assert_eq!(world.dump().await, before);
    assert_eq!(world.send(&[job(3).unique("k")]).await, [Sent::Duplicate { owner: id(1) }]);
    world.sleep_until(world.record(&id(1)).await.due_ms).await;
    hand.run_one(Verdict::DoneExtended).await;
    assert_eq!(redrive(&[2]).await, [Redriven::Waits]);
}

async fn r_a_key_with_a_time_limit_can_be_taken_over(world: &World) {
    let send = |n: u64| async move {
        let mut args = vec![b"1".to_vec(), b"1".to_vec(), b"5".to_vec()];
        args.extend([id(n).to_vec(), b"@1000".to_vec(), b"5 4 unique_ttl=500 unique=k".to_vec(), b"a 1\n".to_vec()]);
        world.raw("enqueue", &world.enqueue_keys("5"), &args).await.unwrap()
    };
    send(1).await;
    assert_eq!(world.field("unique", "k").await.unwrap(), [&id(1)[..], &1500u64.to_be_bytes()[2..]].concat());
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    // Half a second after the due time, long ago, the key is free although the job runs.
    send(2).await;
    assert_eq!(&world.field("unique", "k").await.unwrap()[..16], id(2));
    hand.settle(&run, Verdict::DoneExtended).await;
    assert_eq!(&world.field("unique", "k").await.unwrap()[..16], id(2));
}

async fn u_an_entry_that_is_none_owns_nothing(world: &World) {
    for (n, entry) in (1..).zip([&b""[..], b"x", &[7; 21], &[7; 400]]) {
        world.set_field("unique", "k", Some(entry.to_vec())).await;
        assert_eq!(world.send(&[job(n).unique("k"), job(n + 10)]).await, [Sent::Created; 2]);
        world.store.cancel(&world.shard, &id(n)).await.unwrap();
    }
}

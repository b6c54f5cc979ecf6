//! Rule d: run numbers never repeat for an id, and rise.

use delayq::store::ops::{Rescue, Settled, Verdict};
use delayq_tests::store_kit::{With, World, id, job};

delayq_tests::store_cases!(
    d_run_numbers_rise_through_everything_that_can_happen,
    d_a_rolled_back_record_gets_no_old_number,
    d_a_claim_that_was_rolled_back_is_given_out_under_another_number,
    d_a_clock_that_was_set_back_repeats_no_number,
);

async fn due_now(world: &World) {
    let due = world.record(&id(1)).await.due_ms;
    world.sleep_until(due).await;
}

async fn d_run_numbers_rise_through_everything_that_can_happen(world: &World) {
    let mut seen = vec![0];
    let mut saw = |run: u64| {
        assert!(run > seen[seen.len() - 1], "{run} after {seen:?}");
        seen.push(run);
    };
    world.create(&[job(1).attempts(65_535)]).await;
    let mut hand = world.open().await;
    let bury = || Verdict::Bury { reason: delayq::DeadReason::Buried, error: String::new() };
    // Several within one millisecond, too.
    for _ in 0..20 {
        saw(hand.run_one(Verdict::HandBack).await.record.run);
    }
    for verdict in [Verdict::Snooze { delay_ms: 0 }, Verdict::Retry { delay_ms: 0, error: String::new() }] {
        saw(hand.run_one(verdict).await.record.run);
        due_now(world).await;
    }
    saw(hand.take_one().await.record.run);
    hand.reconcile(&[]).await.unwrap();
    saw(hand.run_one(bury()).await.record.run);
    world.store.dead_redrive(&world.shard, &[id(1).to_vec()]).await.unwrap();
    due_now(world).await;
    saw(hand.take_one().await.record.run);
    world.expire(&hand.id).await;
    assert!(matches!(world.store.rescue(&world.shard, &hand.id, 5).await.unwrap(), Rescue::Took { given_back: 1, .. }));
    let mut hand = world.open().await;
    saw(hand.run_one(bury()).await.record.run);
    // Deleted and sent again, when its tombstone is too old to matter.
    world.store.dead_delete(&world.shard, &[id(1).to_vec()]).await.unwrap();
    world.write("tombs", None).await;
    world.sleep_until(seen[seen.len() - 1] + 1).await;
    world.create(&[job(1)]).await;
    let saw = |run: u64| assert!(run > *seen.iter().max().unwrap());
    saw(hand.take_one().await.record.run);
}

async fn d_a_rolled_back_record_gets_no_old_number(world: &World) {
    world.create(&[job(1)]).await;
    let backup = world.field("jobs", id(1)).await.unwrap();
    let mut hand = world.open().await;
    let mut last = 0;
    for _ in 0..3 {
        last = hand.run_one(Verdict::HandBack).await.record.run;
    }
    // A failover to a replica that lagged: record and due set are those of before, their first run ran elsewhere.
    world.set_field("jobs", id(1), Some(backup)).await;
    world.sleep_until(last + 1).await;
    assert!(hand.take_one().await.record.run > last, "the clock is the floor of run numbers");
}

async fn d_a_claim_that_was_rolled_back_is_given_out_under_another_number(world: &World) {
    world.create(&[job(1)]).await;
    let due = world.read("due:5").await;
    let mut hand = world.open().await;
    let first = hand.take_one().await;
    // A server that came back without its last writes: nobody holds the job, and it waits as it did before it was claimed.
    world.write(&hand.held_name(), None).await;
    world.write("due:5", due).await;
    world.sleep_until(first.record.run + 1).await;
    let second = hand.take_one().await;
    assert!(second.record.run > first.record.run, "{} after {}", second.record.run, first.record.run);
    // The run that the server has forgotten can end nothing; the one that it knows can.
    assert_eq!(hand.settle(&first, Verdict::Done).await, Settled::NotHeld);
    assert_eq!(hand.settle(&second, Verdict::Done).await, Settled::Accepted);
}

async fn d_a_clock_that_was_set_back_repeats_no_number(world: &World) {
    world.create(&[job(1)]).await;
    let ahead = world.now_ms().await + 86_400_000;
    let mut bytes = world.field("jobs", id(1)).await.unwrap();
    bytes[10..16].copy_from_slice(&ahead.to_be_bytes()[2..]);
    world.set_field("jobs", id(1), Some(bytes)).await;
    let mut hand = world.open().await;
    assert_eq!(hand.run_one(Verdict::HandBack).await.record.run, ahead);
    assert_eq!(hand.run_one(Verdict::HandBack).await.record.run, ahead + 1);
    assert_eq!(hand.run_one(Verdict::HandBack).await.record.run, ahead + 2);
}

//! reschedule: due -> due.

use delayq::ErrorKind;
use delayq::limits::DUE_MAX_MS;
use delayq::store::ops::{End, Rescheduled, Verdict};
use delayq_tests::store_kit::{HOUR_MS, With, World, id, job, kind};

delayq_tests::store_cases!(
    waiting_jobs_move_both_ways,
    k_the_same_instant_twice_changes_nothing,
    jobs_that_dont_wait_stay_where_they_are,
    an_expiry_moves_along,
    far_expiries_end_with_the_year_9999,
    malformed_due_times_change_nothing,
    h_a_job_that_was_moved_later_is_not_early,
    l_moving_earlier_arms_and_moving_later_doesnt,
);

async fn reschedule(world: &World, n: u64, when: &str) -> Rescheduled {
    world.store.reschedule(&world.shard, &id(n), when).await.unwrap()
}

async fn waiting_jobs_move_both_ways(world: &World) {
    world.create(&[job(1).due("@4000000000000").unique("k")]).await;
    let before = world.record(&id(1)).await;
    for due in [5_000_000_000_000, 1000, DUE_MAX_MS, 0] {
        assert_eq!(reschedule(world, 1, &format!("@{due}")).await, Rescheduled::Due(due));
        assert_eq!(world.score("due:5", id(1)).await, Some(due));
        let mut record = world.record(&id(1)).await;
        assert_eq!(record.due_ms, due);
        record.due_ms = before.due_ms;
        assert_eq!(record, before, "nothing else changes");
    }
    let now_us = world.now_us().await;
    let Rescheduled::Due(due) = reschedule(world, 1, "+500").await else { panic!("it waits") };
    assert!(due * 1000 >= now_us + 500_000);
}

async fn k_the_same_instant_twice_changes_nothing(world: &World) {
    world.create(&[job(1).expires(100)]).await;
    reschedule(world, 1, "@4000000000000").await;
    let before = world.dump().await;
    assert_eq!(reschedule(world, 1, "@4000000000000").await, Rescheduled::Due(4_000_000_000_000));
    assert_eq!(world.dump().await, before);
}

async fn jobs_that_dont_wait_stay_where_they_are(world: &World) {
    let mut hand = world.open().await;
    assert_eq!(reschedule(world, 9, "+5").await, Rescheduled::None);
    world.create(&[job(1)]).await;
    let run = hand.take_one().await;
    let before = world.dump().await;
    assert_eq!(reschedule(world, 1, "+5").await, Rescheduled::Running);
    assert_eq!(world.dump().await, before);
    hand.settle(&run, Verdict::Discard).await;
    assert_eq!(reschedule(world, 1, "+5").await, Rescheduled::Ended(End::Discarded));
    world.create(&[job(2)]).await;
    hand.run_one(Verdict::Bury { reason: delayq::DeadReason::Buried, error: String::new() }).await;
    world.create(&[job(3).retain(HOUR_MS)]).await;
    hand.run_one(Verdict::DoneExtended).await;
    let before = world.dump().await;
    assert_eq!(reschedule(world, 2, "+5").await, Rescheduled::Dead);
    assert_eq!(reschedule(world, 3, "+5").await, Rescheduled::Done);
    assert_eq!(world.dump().await, before);
}

fn expiry(bytes: &[u8]) -> u64 {
    bytes[29..35].iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

async fn an_expiry_moves_along(world: &World) {
    world.create(&[job(1).due("@5000000000000").expires(700).retain(11).unique("k")]).await;
    for due in [6_000_000_000_000u64, 4_000_000_000_000] {
        reschedule(world, 1, &format!("@{due}")).await;
        let bytes = world.field("jobs", id(1)).await.unwrap();
        assert_eq!(expiry(&bytes), due + 700);
        assert_eq!(&bytes[35..42], [&11u64.to_be_bytes()[2..], b"k"].concat(), "the rest of the extension stays");
    }
    // What was due in 1970 is worth nothing any more.
    reschedule(world, 1, "@0").await;
    assert!(world.open().await.take(1).await.is_empty());
    assert_eq!(world.stat("expired").await, 1);
}

async fn far_expiries_end_with_the_year_9999(world: &World) {
    world.create(&[job(1).expires(HOUR_MS)]).await;
    assert_eq!(reschedule(world, 1, &format!("@{DUE_MAX_MS}")).await, Rescheduled::Due(DUE_MAX_MS));
    assert_eq!(expiry(&world.field("jobs", id(1)).await.unwrap()), DUE_MAX_MS);
}

async fn malformed_due_times_change_nothing(world: &World) {
    world.create(&[job(1)]).await;
    let before = world.dump().await;
    let beyond = format!("@{}", DUE_MAX_MS + 1);
    for when in ["", "5", "+", "-5", "@x", "@1e3", "+253402300799999", "@9007199254740993", &beyond] {
        assert_eq!(
            kind(world.store.reschedule(&world.shard, &id(1), when).await),
            ErrorKind::InvalidArgument,
            "{when}"
        );
    }
    assert_eq!(world.dump().await, before);
}

async fn h_a_job_that_was_moved_later_is_not_early(world: &World) {
    world.create(&[job(1)]).await;
    reschedule(world, 1, "+30").await;
    let mut hand = world.open().await;
    loop {
        let claimed = hand.claim(1, 0).await;
        if let Some(taken) = claimed.jobs.first() {
            let due = delayq::envelope::Record::decode(&taken.record).unwrap().due_ms;
            assert!(claimed.now_us >= due * 1000);
            return;
        }
    }
}

async fn l_moving_earlier_arms_and_moving_later_doesnt(world: &World) {
    world.create(&[job(1).due("@5000000000000")]).await;
    world.take_marker().await;
    reschedule(world, 1, "@6000000000000").await;
    assert_eq!((world.marker().await, world.timer_at().await), (None, Some(5_000_000_000_000)));
    reschedule(world, 1, "@4000000000000").await;
    assert_eq!((world.marker().await, world.timer_at().await), (Some(4_000_000_000_000), Some(4_000_000_000_000)));
}

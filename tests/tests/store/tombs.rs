//! Rule i: a send that arrives when its job has already run and gone makes no second one.

use delayq::limits::TOMBSTONE;
use delayq::store::ops::{Cancelled, End, Found, Rescheduled, Sent, Verdict};
use delayq_tests::store_kit::{HOUR_MS, With, World, id, job};

delayq_tests::store_cases!(
    i_a_late_send_of_an_ended_id_answers_already,
    i_a_late_send_doesnt_take_a_unique_key,
    i_a_job_whose_record_is_kept_for_a_moment_is_remembered_for_longer,
    i_an_old_tombstone_keeps_no_job_out,
    i_old_tombstones_are_trimmed_as_others_come,
    i_whatever_ends_jobs_trims_tombstones,
    i_trimming_is_bounded_and_outpaces_what_comes,
);

/// The score of a tombstone made `ago_ms` ago.
async fn score(world: &World, ago_ms: u64, how: u64) -> u64 {
    (world.now_ms().await - ago_ms) * 8 + how
}

async fn i_a_late_send_of_an_ended_id_answers_already(world: &World) {
    let mut hand = world.open().await;
    let bury = Verdict::Bury { reason: delayq::DeadReason::Buried, error: String::new() };
    world.create(&[job(1)]).await;
    hand.run_one(Verdict::DoneYoung).await;
    world.create(&[job(2).unique("k")]).await;
    hand.run_one(Verdict::DoneExtended).await;
    world.create(&[job(3)]).await;
    hand.run_one(Verdict::Discard).await;
    world.create(&[job(4)]).await;
    assert_eq!(world.store.cancel(&world.shard, &id(4)).await.unwrap(), Cancelled::Cancelled);
    world.create(&[job(5).due("@1000").expires(1)]).await;
    assert!(hand.take(1).await.is_empty());
    world.create(&[job(6)]).await;
    hand.run_one(bury).await;
    world.store.dead_delete(&world.shard, &[id(6).to_vec()]).await.unwrap();
    world.create(&[job(7)]).await;
    let run = hand.take_one().await;
    world.store.cancel(&world.shard, &id(7)).await.unwrap();
    hand.settle(&run, Verdict::HandBack).await;
    let ends = [End::Done, End::Done, End::Discarded, End::Cancelled, End::Expired, End::Deleted, End::Cancelled];
    let before = world.dump().await;
    for (n, end) in (1..).zip(ends) {
        assert_eq!(world.send(&[job(n)]).await, [Sent::Already], "{end:?}");
        assert_eq!(world.find(&id(n)).await, Found::Ended(end));
        let rescheduled = world.store.reschedule(&world.shard, &id(n), "+5").await.unwrap();
        assert_eq!(rescheduled, Rescheduled::Ended(end));
        let cancelled = if end == End::Cancelled { Cancelled::Cancelled } else { Cancelled::Ended(end) };
        assert_eq!(world.store.cancel(&world.shard, &id(n)).await.unwrap(), cancelled);
    }
    assert_eq!(world.dump().await, before);
    // A neighbour in the same call is new.
    assert_eq!(world.send(&[job(1), job(8)]).await, [Sent::Already, Sent::Created]);
}

async fn i_a_late_send_doesnt_take_a_unique_key(world: &World) {
    world.create(&[job(1).unique("k")]).await;
    world.open().await.run_one(Verdict::DoneExtended).await;
    assert_eq!(world.send(&[job(1).unique("k")]).await, [Sent::Already]);
    assert_eq!(world.read("unique").await, None);
    world.create(&[job(2).unique("k")]).await;
}

async fn i_a_job_whose_record_is_kept_for_a_moment_is_remembered_for_longer(world: &World) {
    let hand = &mut world.open().await;
    world.create(&[job(1).retain(1), job(2).retain(HOUR_MS)]).await;
    for run in hand.take(2).await {
        hand.settle(&run, Verdict::DoneExtended).await;
    }
    world.sleep_until(world.now_ms().await + 1).await;
    hand.beat().await;
    assert_eq!(world.find(&id(1)).await, Found::Ended(End::Done));
    assert_eq!(world.send(&[job(1).retain(1)]).await, [Sent::Already]);
    assert_eq!(world.score("tombs", id(2)).await, None, "a record that stays for long needs none");
}

async fn i_an_old_tombstone_keeps_no_job_out(world: &World) {
    // A quiet queue, where nothing came to trim it: an id that a caller named himself may be used again.
    world.create(&[job(1)]).await;
    world.store.cancel(&world.shard, &id(1)).await.unwrap();
    let old = TOMBSTONE.as_millis() as u64;
    let fresh = score(world, old / 2, 2).await;
    world.set_score("tombs", id(1), Some(fresh)).await;
    assert_eq!(world.send(&[job(1)]).await, [Sent::Already]);
    let stale = score(world, old + 1, 2).await;
    world.set_score("tombs", id(1), Some(stale)).await;
    assert_eq!(world.find(&id(1)).await, Found::None);
    assert_eq!(world.store.cancel(&world.shard, &id(1)).await.unwrap(), Cancelled::None);
    assert_eq!(world.store.reschedule(&world.shard, &id(1), "+5").await.unwrap(), Rescheduled::None);
    assert_eq!(world.send(&[job(1)]).await, [Sent::Created], "an acknowledged job must be in the store");
    assert_eq!(world.open().await.take(5).await.len(), 1);
}

async fn i_old_tombstones_are_trimmed_as_others_come(world: &World) {
    let old = TOMBSTONE.as_millis() as u64;
    let (stale, fresh) = (score(world, old + 1, 1).await, score(world, old / 2, 1).await);
    world.set_score("tombs", id(90), Some(stale)).await;
    world.set_score("tombs", id(91), Some(fresh)).await;
    world.create(&[job(1), job(2)]).await;
    world.store.cancel(&world.shard, &id(1)).await.unwrap();
    assert_eq!(world.score("tombs", id(90)).await, None);
    assert_eq!(world.score("tombs", id(91)).await, Some(fresh));
    world.set_score("tombs", id(90), Some(stale)).await;
    world.open().await.run_one(Verdict::DoneYoung).await;
    assert_eq!(world.score("tombs", id(90)).await, None);
    assert!(world.score("tombs", id(2)).await.is_some());
}

async fn i_whatever_ends_jobs_trims_tombstones(world: &World) {
    let stale = score(world, HOUR_MS, 1).await;
    let mut hand = world.open().await;
    let bury = Verdict::Bury { reason: delayq::DeadReason::Buried, error: String::new() };
    for n in 0..5 {
        world.set_score("tombs", id(90), Some(stale)).await;
        let new = if n == 0 { job(n).expires(1) } else { job(n) };
        world.create(&[new]).await;
        match n {
            0 => assert!(hand.take(1).await.is_empty(), "a queue where everything expires has no settles"),
            1 => {
                hand.run_one(bury.clone()).await;
                world.store.dead_delete(&world.shard, &[id(n).to_vec()]).await.unwrap();
            }
            2 => drop(world.store.cancel(&world.shard, &id(n)).await.unwrap()),
            _ => {
                hand.take_one().await;
                assert_eq!(world.store.cancel(&world.shard, &id(n)).await.unwrap(), Cancelled::Running);
                if n == 3 {
                    hand.reconcile(&[]).await.unwrap();
                } else {
                    world.expire(&hand.id).await;
                    world.store.rescue(&world.shard, &hand.id, 5).await.unwrap();
                }
            }
        }
        assert_eq!(world.score("tombs", id(90)).await, None, "{n}");
        assert!(world.score("tombs", id(n)).await.is_some(), "{n}");
    }
}

async fn i_trimming_is_bounded_and_outpaces_what_comes(world: &World) {
    let stale = score(world, HOUR_MS, 1).await;
    let members = (1000..1100).map(|n| (id(n).to_vec(), stale as f64)).collect();
    world.write("tombs", Some(delayq_tests::store_kit::Value::Sorted(members))).await;
    world.create(&[job(1)]).await;
    world.open().await.run_one(Verdict::DoneYoung).await;
    let Some(delayq_tests::store_kit::Value::Sorted(left)) = world.read("tombs").await else { panic!("some are left") };
    assert_eq!(left.len(), 99, "two go as one comes");
}

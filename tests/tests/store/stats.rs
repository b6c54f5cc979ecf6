//! stats, sessions and inspect: what is told about a shard.

use delayq::store::ops::{Found, Place, Verdict};
use delayq_tests::store_kit::{HOUR_MS, With, World, id, job};

delayq_tests::store_cases!(
    s_an_empty_queue_is_all_zero,
    s_every_job_is_counted_where_it_is,
    s_a_record_that_is_nowhere_is_an_orphan,
    s_running_is_counted_from_what_sessions_hold,
    every_place_is_told_with_its_time,
    looking_changes_nothing,
);

async fn s_an_empty_queue_is_all_zero(world: &World) {
    let stats = world.store.stats(&world.shard).await.unwrap();
    assert_eq!((stats.records, stats.waiting, stats.due, stats.running), (0, 0, 0, 0));
    assert_eq!((stats.dead, stats.done, stats.sessions, stats.paused, stats.head_ms), (0, 0, 0, false, None));
    assert_eq!(stats.counters.len(), 16);
    assert!(stats.counters.values().all(|count| *count == 0));
    assert_eq!(world.dump().await.0.len(), 0, "looking leaves no key behind");
}

/// One job in each place: 1 dead, 2 retained, 3 and 4 running in two sessions, 5 due, 6 waiting.
async fn everywhere(world: &World) {
    let mut hand = world.open().await;
    world.create(&[job(1)]).await;
    hand.run_one(Verdict::Bury { reason: delayq::DeadReason::Buried, error: "why".to_owned() }).await;
    world.create(&[job(2).retain(HOUR_MS)]).await;
    hand.run_one(Verdict::DoneExtended).await;
    world.create(&[job(3)]).await;
    hand.take_one().await;
    world.create(&[job(4).priority(0)]).await;
    world.open().await.take_one().await;
    world.create(&[job(5).due("@5000").priority(9), job(6).due("@5000000000000")]).await;
}

async fn s_every_job_is_counted_where_it_is(world: &World) {
    everywhere(world).await;
    let stats = world.store.stats(&world.shard).await.unwrap();
    assert_eq!((stats.records, stats.waiting, stats.due, stats.running), (6, 2, 1, 2));
    assert_eq!((stats.dead, stats.done, stats.sessions, stats.sessions_expired), (1, 1, 2, 0));
    assert_eq!(stats.head_ms, Some(5000));
    assert_eq!(stats.orphans(), 0);
    let counted: Vec<(&str, i64)> =
        stats.counters.iter().filter(|(_, n)| **n != 0).map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(counted, [("dead", 1), ("done", 1), ("enqueued", 6)]);
}

async fn s_a_record_that_is_nowhere_is_an_orphan(world: &World) {
    everywhere(world).await;
    world.set_score("due:9", id(5), None).await;
    assert_eq!(world.store.stats(&world.shard).await.unwrap().orphans(), 1);
    world.set_field("jobs", id(5), None).await;
    world.set_field("jobs", id(6), None).await;
    assert_eq!(world.store.stats(&world.shard).await.unwrap().orphans(), -1);
    world.leaves_damage();
}

async fn s_running_is_counted_from_what_sessions_hold(world: &World) {
    everywhere(world).await;
    // A session that is lost, and half drained, still holds what it holds.
    for session in world.store.sessions(&world.shard).await.unwrap() {
        world.set_score("sessions", session.id, Some(0)).await;
    }
    assert_eq!(world.store.stats(&world.shard).await.unwrap().running, 2);
}

async fn every_place_is_told_with_its_time(world: &World) {
    everywhere(world).await;
    assert_eq!(world.find(&id(99)).await, Found::None);
    let wanted = [
        (1, Place::Dead, world.score("dead", id(1)).await.unwrap()),
        (2, Place::Done, world.score("done", id(2)).await.unwrap()),
        (3, Place::Running, world.record(&id(3)).await.due_ms),
        (4, Place::Running, world.record(&id(4)).await.due_ms),
        (5, Place::Due, 5000),
        (6, Place::Due, 5_000_000_000_000),
    ];
    for (n, place, at_ms) in wanted {
        let record = world.field("jobs", id(n)).await.unwrap().into();
        let note = world.field("error", id(n)).await.unwrap_or_default();
        assert_eq!(world.find(&id(n)).await, Found::Job { place, at_ms, record, note });
    }
}

async fn looking_changes_nothing(world: &World) {
    everywhere(world).await;
    let before = world.dump().await;
    world.store.stats(&world.shard).await.unwrap();
    world.store.sessions(&world.shard).await.unwrap();
    for n in 0..8 {
        world.find(&id(n)).await;
    }
    assert_eq!(world.dump().await, before);
}

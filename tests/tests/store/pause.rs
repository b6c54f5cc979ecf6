//! pause: claims stop and start; what runs goes on, sends are taken.

use delayq::store::ops::{Claim, Settled, Verdict};
use delayq_tests::store_kit::{With, World, ask, id, job};

delayq_tests::store_cases!(
    paused_queues_give_nothing_out,
    paused_claims_still_settle,
    k_pausing_twice_changes_nothing,
    l_m_a_paused_claim_gives_the_clock_up,
    l_resuming_wakes_somebody,
);

async fn pause(world: &World, paused: bool) -> bool {
    world.store.pause(&world.shard, paused).await.unwrap()
}

async fn paused_queues_give_nothing_out(world: &World) {
    assert!(pause(world, true).await);
    world.create(&[job(1)]).await;
    let mut hand = world.open().await;
    let claimed = hand.claim(5, 0).await;
    assert!(claimed.paused && claimed.jobs.is_empty() && claimed.timer.is_none() && !claimed.more);
    assert!(world.store.stats(&world.shard).await.unwrap().paused);
    assert!(hand.take_alone(id(1)).await.is_empty());
    assert!(pause(world, false).await);
    assert_eq!(hand.take(5).await.len(), 1);
}

async fn paused_claims_still_settle(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    let runs = hand.take(2).await;
    pause(world, true).await;
    let verdicts = [(runs[0].member, Verdict::Done)];
    let claimed = hand.try_claim(Claim { verdicts: &verdicts, ..ask(5) }).await.unwrap();
    assert_eq!((claimed.paused, claimed.settled), (true, vec![Settled::Accepted]));
    assert_eq!(hand.settle(&runs[1], Verdict::HandBack).await, Settled::Accepted);
}

async fn k_pausing_twice_changes_nothing(world: &World) {
    world.create(&[job(1)]).await;
    assert!(!pause(world, false).await, "it was not paused");
    assert!(pause(world, true).await);
    let before = world.dump().await;
    // The clock goes on: a second pause would show as a later time.
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    assert!(!pause(world, true).await);
    assert_eq!(world.dump().await, before, "it is paused since the first call");
    assert!(pause(world, false).await);
    let before = world.dump().await;
    assert!(!pause(world, false).await);
    assert_eq!(world.dump().await, before);
}

async fn l_m_a_paused_claim_gives_the_clock_up(world: &World) {
    world.create(&[job(1)]).await;
    pause(world, true).await;
    world.take_marker().await;
    let mut hand = world.open().await;
    hand.claim(5, 0).await;
    assert_eq!((world.timer_at().await, world.marker().await), (None, None));
    // The same for whoever only passes on what it took.
    world.create(&[job(2)]).await;
    world.take_marker().await;
    world.store.pass(&world.shard).await.unwrap();
    assert_eq!((world.timer_at().await, world.marker().await), (None, None));
}

async fn l_resuming_wakes_somebody(world: &World) {
    world.create(&[job(1).due("@1000"), job(2).due("+3600000").priority(0)]).await;
    pause(world, true).await;
    world.take_marker().await;
    let mut hand = world.open().await;
    hand.claim(5, 0).await;
    pause(world, false).await;
    assert_eq!((world.timer_at().await, world.marker().await), (Some(1000), Some(1000)));
}

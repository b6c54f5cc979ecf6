//! The baton: rules l, m and n.

use std::time::Duration;

use delayq::store::ops::{NewJob, Verdict};
use delayq_tests::store_kit::{HOUR_MS, With, World, id, job};

delayq_tests::store_cases!(
    l_the_first_job_arms_and_later_ones_dont,
    l_an_earlier_job_writes_a_marker,
    l_while_the_timer_is_overdue_every_new_job_writes_a_marker,
    l_whatever_makes_a_job_earlier_ends_in_a_marker,
    m_a_timer_is_given_to_one_session_only,
    m_whoever_took_the_marker_gets_the_timer,
    m_a_timer_thats_overdue_goes_to_who_claims,
    m_a_full_claim_passes_the_baton_on,
    m_passing_leaves_a_marker_or_clears_the_timer,
    m_an_empty_queue_has_no_timer,
    m_one_marker_wakes_one_waiter,
    m_a_wait_ends_without_a_marker,
);

/// What a baton says: marker, timer.
async fn baton(world: &World) -> (Option<u64>, Option<u64>) {
    (world.marker().await, world.timer_at().await)
}

fn far(n: u64, due: u64) -> NewJob {
    job(n).due(format!("@{due}"))
}

const FAR: u64 = 5_000_000_000_000;

async fn l_the_first_job_arms_and_later_ones_dont(world: &World) {
    world.create(&[far(1, FAR)]).await;
    assert_eq!(baton(world).await, (Some(FAR), Some(FAR)));
    world.take_marker().await;
    world.create(&[far(2, FAR + 1), far(3, FAR).priority(0)]).await;
    assert_eq!(baton(world).await, (None, Some(FAR)));
}

async fn l_an_earlier_job_writes_a_marker(world: &World) {
    world.create(&[far(1, FAR)]).await;
    world.take_marker().await;
    world.create(&[far(2, FAR + 5), far(3, FAR - 1), far(4, FAR - 2).priority(9)]).await;
    assert_eq!(baton(world).await, (Some(FAR - 2), Some(FAR - 2)));
}

async fn l_while_the_timer_is_overdue_every_new_job_writes_a_marker(world: &World) {
    world.create(&[far(1, 1000)]).await;
    world.take_marker().await;
    world.create(&[far(2, FAR)]).await;
    assert_eq!(baton(world).await, (Some(1000), Some(1000)), "whoever should have come may never come");
}

async fn l_whatever_makes_a_job_earlier_ends_in_a_marker(world: &World) {
    let mut hand = world.open().await;
    let bury = Verdict::Bury { reason: delayq::DeadReason::Buried, error: String::new() };
    let verdicts = [
        Verdict::Retry { delay_ms: HOUR_MS, error: String::new() },
        Verdict::Snooze { delay_ms: HOUR_MS },
        Verdict::HandBack,
    ];
    // One that waits far off, and a timer for it; nothing else may be armed.
    world.create(&[far(99, FAR)]).await;
    let watched = |what: &'static str, n: u64| async move {
        let due = world.record(&id(n)).await.due_ms;
        assert_eq!(baton(world).await, (Some(due), Some(due)), "{what}");
        world.store.cancel(&world.shard, &id(n)).await.unwrap();
    };
    let rearm = || async {
        world.set_field("stats", "timer_at", Some(FAR.to_string().into_bytes())).await;
        world.take_marker().await;
    };
    for (n, verdict) in (1..).zip(verdicts) {
        world.create(&[job(n)]).await;
        let run = hand.take_one().await;
        rearm().await;
        hand.settle(&run, verdict).await;
        watched("settle", n).await;
    }
    world.create(&[job(11)]).await;
    hand.take_one().await;
    rearm().await;
    hand.reconcile(&[]).await.unwrap();
    watched("reconcile", 11).await;
    world.create(&[job(12)]).await;
    hand.run_one(bury).await;
    rearm().await;
    world.store.dead_redrive(&world.shard, &[id(12).to_vec()]).await.unwrap();
    watched("redrive", 12).await;
    world.create(&[far(13, FAR)]).await;
    rearm().await;
    world.store.reschedule(&world.shard, &id(13), "+5000").await.unwrap();
    watched("reschedule", 13).await;
    world.create(&[job(14)]).await;
    hand.take_one().await;
    rearm().await;
    world.expire(&hand.id).await;
    world.store.rescue(&world.shard, &hand.id, 5).await.unwrap();
    watched("rescue", 14).await;
}

async fn m_a_timer_is_given_to_one_session_only(world: &World) {
    world.create(&[far(1, FAR)]).await;
    let (mut one, mut two) = (world.open().await, world.open().await);
    let marker = world.take_marker().await.unwrap();
    let before_us = world.now_us().await;
    let (wait, timer) = one.claim(5, marker).await.timer.expect("it took the marker");
    assert_eq!(timer, FAR);
    let left_us = |now_us: u64| u128::from(FAR * 1000 - now_us);
    assert!(wait.as_micros() <= left_us(before_us) && wait.as_micros() >= left_us(world.now_us().await));
    assert_eq!(two.claim(5, 0).await.timer, None);
    assert_eq!(two.claim(5, FAR - 7).await.timer, None, "a timer that is no longer the shard's counts for nothing");
    assert_eq!(one.claim(5, timer).await.timer.map(|(_, at)| at), Some(FAR), "it keeps what it has");
    assert_eq!(baton(world).await, (None, Some(FAR)));
}

async fn m_whoever_took_the_marker_gets_the_timer(world: &World) {
    world.create(&[far(1, FAR)]).await;
    let (mut one, mut two) = (world.open().await, world.open().await);
    one.claim(5, world.take_marker().await.unwrap()).await;
    world.create(&[far(2, FAR - 9)]).await;
    let marker = world.take_marker().await.unwrap();
    assert_eq!(marker, FAR - 9);
    assert_eq!(two.claim(5, marker).await.timer.map(|(_, at)| at), Some(FAR - 9));
    assert_eq!(one.claim(5, FAR).await.timer, None, "its own timer is superseded");
    // Its job is cancelled: when the timer fires, the holder learns of the next one.
    world.store.cancel(&world.shard, &id(2)).await.unwrap();
    assert_eq!(two.claim(5, marker).await.timer.map(|(_, at)| at), Some(FAR));
    assert_eq!(world.timer_at().await, Some(FAR));
}

async fn m_a_timer_thats_overdue_goes_to_who_claims(world: &World) {
    world.create(&[far(1, FAR)]).await;
    world.set_field("stats", "timer_at", Some(b"1000".to_vec())).await;
    let mut hand = world.open().await;
    assert_eq!(hand.claim(5, 0).await.timer.map(|(_, at)| at), Some(FAR));
}

async fn m_a_full_claim_passes_the_baton_on(world: &World) {
    world.create(&[far(1, 1000), far(2, 2000), far(3, FAR)]).await;
    let mut hand = world.open().await;
    world.take_marker().await;
    let claimed = hand.claim(1, 0).await;
    assert_eq!((claimed.more, claimed.timer), (true, None));
    assert_eq!(baton(world).await, (Some(2000), Some(2000)));
    // Also where what is left is far off: this session may have no room, so another one watches.
    world.take_marker().await;
    let claimed = hand.claim(1, 0).await;
    assert_eq!((claimed.more, claimed.timer), (true, None));
    assert_eq!(baton(world).await, (Some(FAR), Some(FAR)));
}

async fn m_passing_leaves_a_marker_or_clears_the_timer(world: &World) {
    world.create(&[far(1, FAR), far(2, FAR + 1).priority(0)]).await;
    world.take_marker().await;
    world.store.pass(&world.shard).await.unwrap();
    assert_eq!(baton(world).await, (Some(FAR), Some(FAR)));
    let before = world.dump().await;
    world.store.pass(&world.shard).await.unwrap();
    assert_eq!(world.dump().await, before, "two markers would be one too many");
    for n in [1, 2] {
        world.store.cancel(&world.shard, &id(n)).await.unwrap();
    }
    world.take_marker().await;
    world.store.pass(&world.shard).await.unwrap();
    assert_eq!(baton(world).await, (None, None));
}

async fn m_an_empty_queue_has_no_timer(world: &World) {
    world.create(&[job(1)]).await;
    let mut hand = world.open().await;
    world.take_marker().await;
    let claimed = hand.claim(5, 0).await;
    assert_eq!((claimed.timer, claimed.more), (None, false));
    assert_eq!(baton(world).await, (None, None));
    let run = delayq_tests::store_kit::Runs::runs(&claimed).remove(0);
    hand.settle(&run, Verdict::Done).await;
    world.create(&[far(2, FAR)]).await;
    assert_eq!(baton(world).await, (Some(FAR), Some(FAR)), "the next job arms anew");
}

async fn m_one_marker_wakes_one_waiter(world: &World) {
    for n in 1..=3 {
        let mut waiters = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (store, shard) = (world.store.dedicated(), world.shard.clone());
            waiters.spawn(async move {
                // A marker that was written before all of them blocked wakes one all the same.
                store.wait(&[&shard], Duration::from_millis(700)).await.unwrap()
            });
        }
        // Each earlier than the one before, so that it writes a marker.
        world.create(&[far(n, FAR - n)]).await;
        let woken: Vec<_> = waiters.join_all().await.into_iter().flatten().collect();
        if !woken.is_empty() {
            assert_eq!(woken, [(0, FAR - n)]);
            assert_eq!(world.marker().await, None, "a taken marker is gone");
            return;
        }
        // The time of all of them was over before it came: then nobody took it.
        assert_eq!(world.take_marker().await, Some(FAR - n), "it is gone, and nobody was told");
    }
    panic!("a marker wakes nobody");
}

async fn m_a_wait_ends_without_a_marker(world: &World) {
    let (store, other) = (world.store.dedicated(), world.sibling());
    assert_eq!(store.wait(&[&world.shard, &other.shard], Duration::from_millis(50)).await.unwrap(), None);
    // Of several shards, the one with a marker is told; a marker's score may be anything.
    other.set_score("wake", "m", Some(77)).await;
    let told = store.wait(&[&world.shard, &other.shard], Duration::from_secs(5)).await.unwrap();
    assert_eq!(told, Some((1, 77)));
}

//! beat: a renewed lease, and what others may have left.

use std::time::Duration;

use delayq::store::ops::{Beat, Found, Place, Rescue, Sent, Verdict};
use delayq_tests::store_kit::{AGES_MS, HOUR_MS, LONG, With, World, id, job};

delayq_tests::store_cases!(
    beats_renew_and_count_what_is_held,
    k_a_repeated_beat_tells_the_same,
    retained_jobs_whose_time_is_over_go_with_a_beat,
    at_most_five_lost_sessions_are_told_at_once,
    e_after_an_outage_nobody_is_lost_for_one_more_lease,
    e_a_steady_beat_puts_nothing_on_hold,
    e_a_session_thats_being_drained_is_drained_on_through_a_hold,
    e_a_hold_beyond_the_longest_lease_is_none,
    e_a_lease_beyond_the_longest_is_cut_down,
    u_what_is_no_session_is_put_aside_and_hides_nobody,
    m_overdue_work_gets_a_marker,
    m_fresh_or_paused_work_gets_none,
    m_the_holder_of_the_timer_is_told_how_long_it_has,
);

async fn beats_renew_and_count_what_is_held(world: &World) {
    world.create(&[job(1), job(2), job(3)]).await;
    let mut hand = world.open().await;
    hand.take(2).await;
    world.expire(&hand.id).await;
    let before = world.now_ms().await;
    let beat = hand.beat().await;
    assert_eq!(beat, Beat { held: 2, paused: false, wait: None, lost: vec![] });
    let lease = LONG.as_millis() as u64;
    let expires = world.score("sessions", hand.id).await.unwrap();
    assert!((before + lease..=world.now_ms().await + lease).contains(&expires));
    world.store.pause(&world.shard, true).await.unwrap();
    assert!(hand.beat().await.paused);
}

async fn k_a_repeated_beat_tells_the_same(world: &World) {
    world.create(&[job(1)]).await;
    let hand = world.open().await;
    let first = hand.beat().await;
    let before = world.dump().await.without_stats(&["last_beat"]);
    assert_eq!(hand.beat().await, first);
    let mut after = world.dump().await.without_stats(&["last_beat"]);
    after.0.insert("sessions".to_owned(), before.0["sessions"].clone());
    assert_eq!(after, before);
}

async fn retained_jobs_whose_time_is_over_go_with_a_beat(world: &World) {
    // A queue with one job a day, under an id of its own, whose record is kept for an hour.
    let daily = || job(1).retain(HOUR_MS);
    world.create(&[daily(), job(2).retain(HOUR_MS)]).await;
    let mut hand = world.open().await;
    for run in hand.take(2).await {
        hand.settle(&run, Verdict::DoneExtended).await;
    }
    world.write("tombs", None).await;
    hand.beat().await;
    assert_eq!(world.send(&[daily()]).await, [Sent::Already]);
    let now = world.now_ms().await;
    world.set_score("done", id(1), Some(now)).await;
    hand.beat().await;
    assert_eq!(world.find(&id(1)).await, Found::None);
    assert_eq!(world.place(&id(2)).await, Some(Place::Done));
    world.create(&[daily()]).await;
}

async fn at_most_five_lost_sessions_are_told_at_once(world: &World) {
    let hand = world.open().await;
    for _ in 0..7 {
        let lost = world.open().await;
        world.expire(&lost.id).await;
    }
    let mut rescued = 0;
    for wanted in [5, 2, 0] {
        let lost = hand.beat().await.lost;
        assert_eq!(lost.len(), wanted);
        for session in lost {
            let rescue = world.store.rescue(&world.shard, &session, 10).await.unwrap();
            assert!(matches!(rescue, Rescue::Took { more: false, .. }));
            rescued += 1;
        }
    }
    assert_eq!(rescued, 7);
}

async fn e_after_an_outage_nobody_is_lost_for_one_more_lease(world: &World) {
    let (mut silent, other) = (world.open().await, world.open().await);
    world.create(&[job(1)]).await;
    silent.take_one().await;
    world.expire(&silent.id).await;
    // Nobody could beat for a little more than half a lease.
    let lease = LONG.as_millis() as u64;
    let now = world.now_ms().await;
    world.set_field("stats", "last_beat", Some((now - lease / 2 - 5).to_string().into_bytes())).await;
    other.beat().await;
    let hold = world.stat("hold_until").await;
    assert!((now + lease..=world.now_ms().await + lease).contains(&hold));
    let before = world.dump().await;
    assert_eq!(world.store.rescue(&world.shard, &silent.id, 10).await.unwrap(), Rescue::OnHold);
    assert_eq!(world.dump().await, before);
    // It comes back within that lease, and has lost nothing.
    assert_eq!(silent.beat().await.held, 1);
    // Or it doesn't.
    world.expire(&silent.id).await;
    world.set_field("stats", "hold_until", Some(now.to_string().into_bytes())).await;
    assert!(matches!(
        world.store.rescue(&world.shard, &silent.id, 10).await.unwrap(),
        Rescue::Took { given_back: 1, .. }
    ));
}

async fn e_a_steady_beat_puts_nothing_on_hold(world: &World) {
    let hand = world.open().await;
    let lease = LONG.as_millis() as u64;
    hand.beat().await;
    let soon = world.now_ms().await - lease / 2 + 5000;
    world.set_field("stats", "last_beat", Some(soon.to_string().into_bytes())).await;
    hand.beat().await;
    assert_eq!(world.field("stats", "hold_until").await, None);
}

async fn e_a_session_thats_being_drained_is_drained_on_through_a_hold(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    hand.take(2).await;
    world.expire(&hand.id).await;
    assert!(matches!(world.store.rescue(&world.shard, &hand.id, 1).await.unwrap(), Rescue::Took { more: true, .. }));
    let until = world.now_ms().await + HOUR_MS;
    world.set_field("stats", "hold_until", Some(until.to_string().into_bytes())).await;
    assert!(matches!(world.store.rescue(&world.shard, &hand.id, 1).await.unwrap(), Rescue::Took { more: false, .. }));
}

async fn e_a_hold_beyond_the_longest_lease_is_none(world: &World) {
    // The clock was ahead by a day when somebody beat after an outage, and was put right.
    let far = world.now_ms().await + 24 * HOUR_MS;
    world.create(&[job(1)]).await;
    let (mut dead, hand) = (world.open().await, world.open().await);
    dead.take(1).await;
    world.expire(&dead.id).await;
    world.set_field("stats", "hold_until", Some(far.to_string().into_bytes())).await;
    assert_eq!(world.store.rescue(&world.shard, &dead.id, 10).await.unwrap(), Rescue::OnHold);
    hand.beat().await;
    let cut: u64 = String::from_utf8(world.field("stats", "hold_until").await.unwrap()).unwrap().parse().unwrap();
    assert!(cut <= world.now_ms().await + LONG.as_millis() as u64, "{cut}");
}

async fn e_a_lease_beyond_the_longest_is_cut_down(world: &World) {
    // The clock was set back by an hour: what was given out before looks alive for an hour too long.
    let (hand, ahead) = (world.open().await, world.open().await);
    let now = world.now_ms().await;
    world.set_score("sessions", ahead.id, Some(now + HOUR_MS)).await;
    hand.beat().await;
    let cut = world.score("sessions", ahead.id).await.unwrap();
    assert!(cut <= world.now_ms().await + LONG.as_millis() as u64);
    // A shorter lease beside a longer one doesn't cut that.
    let short = world.open_for(Duration::from_millis(500)).await;
    short.beat().await;
    assert!(world.score("sessions", ahead.id).await.unwrap() > world.now_ms().await + 30_000);
}

async fn overdue(world: &World, by: u64) {
    world.create(&[job(1).due("@1000"), job(2).due("@2000").priority(2)]).await;
    let at = world.now_ms().await - by;
    world.set_field("stats", "timer_at", Some(at.to_string().into_bytes())).await;
    world.take_marker().await;
}

async fn m_overdue_work_gets_a_marker(world: &World) {
    let hand = world.open().await;
    overdue(world, 60).await;
    hand.beat().await;
    assert_eq!((world.marker().await, world.timer_at().await), (Some(1000), Some(1000)));
    // As long as nobody takes it up, each beat says so again: dead connections eat markers.
    world.take_marker().await;
    hand.beat().await;
    assert_eq!(world.marker().await, Some(1000));
}

async fn m_fresh_or_paused_work_gets_none(world: &World) {
    let hand = world.open().await;
    overdue(world, 0).await;
    let soon = world.now_ms().await + 5000;
    world.set_field("stats", "timer_at", Some(soon.to_string().into_bytes())).await;
    hand.beat().await;
    assert_eq!(world.marker().await, None, "whoever has the timer is on its way");
    world.store.pause(&world.shard, true).await.unwrap();
    world.set_field("stats", "timer_at", Some(b"1".to_vec())).await;
    hand.beat().await;
    assert_eq!(world.marker().await, None);
    world.store.pause(&world.shard, false).await.unwrap();
}

async fn m_the_holder_of_the_timer_is_told_how_long_it_has(world: &World) {
    world.create(&[job(1).due("+3600000")]).await;
    let mut hand = world.open().await;
    let marker = world.take_marker().await.expect("the first job arms");
    let (_, timer) = hand.claim(1, marker).await.timer.expect("it took the marker");
    assert_eq!(timer, world.record(&id(1)).await.due_ms);
    let wait = hand.try_beat(timer).await.unwrap().wait.expect("it is the shard's timer");
    assert!(wait > Duration::from_secs(3590) && wait <= Duration::from_secs(3600));
    // A job came that is earlier: somebody else has the timer now.
    world.create(&[job(2).due("+1800000")]).await;
    assert_eq!(hand.try_beat(timer).await.unwrap().wait, None);
}

async fn u_what_is_no_session_is_put_aside_and_hides_nobody(world: &World) {
    let (hand, lost) = (world.open().await, world.open().await);
    world.expire(&lost.id).await;
    for foreign in [&b"abc"[..], b"x", &[7; 17]] {
        world.set_score("sessions", foreign, Some(0)).await;
    }
    assert_eq!(hand.beat().await.lost, [lost.id]);
    assert_eq!(world.stat("quarantined").await, 3);
    assert_eq!(world.store.sessions(&world.shard).await.unwrap().len(), 2);
    world.set_score("sessions", b"abc", Some(AGES_MS)).await;
    let stats = world.store.stats(&world.shard).await.unwrap();
    assert_eq!((stats.sessions, stats.sessions_expired), (2, 1));
    world.set_score("sessions", b"abc", None).await;
    world.expire(&hand.id).await;
    let other = world.open().await;
    for session in other.beat().await.lost {
        world.store.rescue(&world.shard, &session, 10).await.unwrap();
    }
}

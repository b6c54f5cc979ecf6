//! open and close: a session's first and last call.

use std::time::Duration;

use delayq::ErrorKind;
use delayq::engine::Reply;
use delayq::store::Refusal;
use delayq::store::ops::{Closed, Rescue, Verdict};
use delayq_tests::store_kit::{HOUR_MS, LONG, Value, With, World, id, job, kind};

delayq_tests::store_cases!(
    an_open_session_is_listed_with_its_lease,
    a_no_id_is_ever_used_twice,
    w_another_schema_or_shard_count_is_refused,
    w_the_first_session_writes_the_layout_down,
    g_close_takes_the_session_away_only_when_it_holds_nothing,
    g_a_graceful_end_costs_no_attempt,
    g_m_close_passes_the_clock_on,
    k_a_repeated_close_finds_nothing,
    a_what_was_closed_is_no_session,
);

async fn an_open_session_is_listed_with_its_lease(world: &World) {
    let before = world.now_ms().await;
    let hand = world.open_for(Duration::from_millis(7_777)).await;
    let sessions = world.store.sessions(&world.shard).await.unwrap();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].id, hand.id);
    assert!((before + 7_777..=world.now_ms().await + 7_777).contains(&sessions[0].expires_ms));
    assert_eq!(world.stat("lease_max").await, 7_777);
    world.open_for(Duration::from_millis(5)).await;
    assert_eq!(world.stat("lease_max").await, 7_777);
}

async fn a_no_id_is_ever_used_twice(world: &World) {
    let mut hand = world.open().await;
    let open = |session| async move { world.store.open(&world.shard, &session, LONG).await };
    let before = world.dump().await;
    assert_eq!(kind(open(hand.id).await), ErrorKind::WrongState);
    assert_eq!(world.dump().await, before);
    // Neither while it is being drained,
    world.create(&[job(1), job(2)]).await;
    hand.take(2).await;
    world.expire(&hand.id).await;
    assert!(matches!(world.store.rescue(&world.shard, &hand.id, 1).await.unwrap(), Rescue::Took { more: true, .. }));
    assert_eq!(kind(open(hand.id).await), ErrorKind::WrongState);
    // nor where only its jobs are left.
    world.set_score("sessions", hand.id, None).await;
    assert_eq!(kind(open(hand.id).await), ErrorKind::WrongState);
    world.set_score("sessions", hand.id, Some(0)).await;
}

async fn w_another_schema_or_shard_count_is_refused(world: &World) {
    world.create(&[job(1)]).await;
    for field in ["schema", "shards"] {
        world.set_field("stats", field, Some(b"7".to_vec())).await;
        let before = world.dump().await;
        assert_eq!(kind(world.store.open(&world.shard, &[9; 16], LONG).await), ErrorKind::Unsupported);
        let args = [vec![9; 16], b"1000".to_vec(), b"1".to_vec(), b"1".to_vec()];
        let answer = world.raw("open", &world.all_keys(&[9; 16]), &args).await.unwrap();
        let code = field.to_uppercase().into_bytes();
        assert_eq!(answer, Reply::List(vec![Reply::Bytes(code), Reply::Bytes(b"7".to_vec())]));
        assert_eq!(world.dump().await, before);
        world.set_field("stats", field, Some(b"1".to_vec())).await;
    }
}

async fn w_the_first_session_writes_the_layout_down(world: &World) {
    world.open().await;
    assert_eq!((world.stat("schema").await, world.stat("shards").await), (1, 1));
}

async fn g_close_takes_the_session_away_only_when_it_holds_nothing(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    let runs = hand.take(2).await;
    let before = world.dump().await;
    assert_eq!(hand.close().await, Closed::Holds(2));
    assert_eq!(world.dump().await, before);
    hand.settle(&runs[0], Verdict::Done).await;
    hand.settle(&runs[1], Verdict::HandBack).await;
    assert_eq!(hand.close().await, Closed::Closed);
    assert_eq!((world.read("sessions").await, world.read(&hand.held_name()).await), (None, None));
    let Some(Value::Hash(stats)) = world.read("stats").await else { panic!("stats") };
    assert!(!stats.keys().any(|field| field.starts_with(b"seq:")), "nothing is left of it");
}

async fn g_a_graceful_end_costs_no_attempt(world: &World) {
    world.create(&[job(1)]).await;
    for _ in 0..5 {
        let mut hand = world.open().await;
        let run = hand.run_one(Verdict::HandBack).await;
        assert_eq!((run.record.attempts, run.record.crashes, run.record.free_returns), (0, 0, 0));
        assert_eq!(hand.close().await, Closed::Closed);
    }
}

async fn g_m_close_passes_the_clock_on(world: &World) {
    world.create(&[job(1).due("+3600000")]).await;
    let mut hand = world.open().await;
    let (_, timer) = hand.claim(1, world.take_marker().await.unwrap()).await.timer.unwrap();
    assert_eq!(world.marker().await, None);
    hand.close().await;
    assert_eq!((world.marker().await, world.timer_at().await), (Some(timer), Some(timer)));
    // Where nothing waits, nobody is told anything.
    world.store.cancel(&world.shard, &id(1)).await.unwrap();
    world.take_marker().await;
    world.open().await.close().await;
    assert_eq!((world.marker().await, world.timer_at().await), (None, None));
}

async fn k_a_repeated_close_finds_nothing(world: &World) {
    world.create(&[job(1).due(format!("+{HOUR_MS}"))]).await;
    let hand = world.open().await;
    assert_eq!(hand.close().await, Closed::Closed);
    let before = world.dump().await;
    assert_eq!(hand.close().await, Closed::Lost);
    assert_eq!(world.dump().await, before);
}

async fn a_what_was_closed_is_no_session(world: &World) {
    let mut hand = world.open().await;
    hand.close().await;
    let before = world.dump().await;
    assert_eq!(hand.try_beat(0).await, Err(Refusal::Lost));
    assert_eq!(hand.try_settle(&[]).await, Err(Refusal::Lost));
    assert_eq!(world.store.rescue(&world.shard, &hand.id, 5).await.unwrap(), Rescue::Gone);
    assert_eq!(world.dump().await, before);
}

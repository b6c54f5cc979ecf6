//! rescue: what a lost session held goes back to work, to the dead letters, or ends.

use std::time::Duration;

use delayq::ErrorKind;
use delayq::store::Refusal;
use delayq::store::ops::{NewJob, Place, Rescue, Settled, Verdict};
use delayq_tests::store_kit::{Hand, LONG, Run, Value, With, World, id, job, kind};

delayq_tests::store_cases!(
    a_b_sessions_are_lost_when_their_leases_run_out,
    b_a_session_that_was_renewed_in_time_is_left_alone,
    b_a_half_drained_session_stays_listed,
    b_two_lost_sessions_at_once_lose_nothing,
    b_b12_racing_rescuers_give_each_job_back_once,
    b_an_empty_lost_session_is_removed,
    k_a_repeated_rescue_finds_nobody,
    a_workers_that_wake_after_their_lease_can_do_nothing,
    chunks_outside_their_bounds_are_refused,
    b17_twelve_hundred_held_jobs_come_back_in_chunks,
    u_entries_that_are_no_held_job_are_counted,
    u_an_unreadable_record_becomes_a_dead_letter,
    u_an_old_runs_entry_brings_nothing_back,
    given_back_jobs_say_why,
);

async fn rescue(world: &World, hand: &Hand<'_>, chunk: usize) -> Rescue {
    world.store.rescue(&world.shard, &hand.id, chunk).await.unwrap()
}

fn took(more: bool, given_back: u64) -> Rescue {
    Rescue::Took { more, given_back, buried: 0, cancelled: 0, quarantined: 0 }
}

async fn holding(world: &World, jobs: std::ops::Range<u64>) -> (Hand<'_>, Vec<Run>) {
    let count = jobs.clone().count();
    world.create(&jobs.map(|n| job(n).due("@1000")).collect::<Vec<_>>()).await;
    let mut hand = world.open().await;
    let runs = hand.take(count).await;
    assert_eq!(runs.len(), count);
    (hand, runs)
}

async fn a_b_sessions_are_lost_when_their_leases_run_out(world: &World) {
    world.create(&[job(1)]).await;
    // Long leases keep a slow machine from looking like an outage.
    let before = world.now_ms().await;
    let mut short = world.open().await;
    let (after, lease_ms) = (world.now_ms().await, LONG.as_millis() as u64);
    let opened = world.score("sessions", short.id).await.unwrap();
    assert!((before + lease_ms..=after + lease_ms).contains(&opened), "{opened}");
    let other = world.open().await;
    let run = short.take_one().await;
    assert_eq!(rescue(world, &short, 10).await, Rescue::Alive);
    // Of one of them little is left from here on.
    let expires = world.now_ms().await + 300;
    world.set_score("sessions", short.id, Some(expires)).await;
    let lost = loop {
        let now = world.now_ms().await;
        let lost = other.beat().await.lost;
        if !lost.is_empty() {
            let now = world.now_ms().await;
            assert!(now >= expires, "{now} is before {expires}");
            break lost;
        }
        assert!(now < expires, "at {now} nobody says that it is lost");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(lost, [short.id]);
    assert_eq!(rescue(world, &short, 10).await, took(false, 1));
    assert_eq!(short.try_settle(&[(run.member, Verdict::Done)]).await, Err(Refusal::Lost));
    assert_eq!(world.place(&id(1)).await, Some(Place::Due));
}

async fn b_a_session_that_was_renewed_in_time_is_left_alone(world: &World) {
    let (hand, _) = holding(world, 0..2).await;
    world.expire(&hand.id).await;
    // Between the beat that listed it and the rescue, it was renewed.
    hand.beat().await;
    let before = world.dump().await;
    assert_eq!(rescue(world, &hand, 10).await, Rescue::Alive);
    assert_eq!(world.dump().await, before);
}

async fn b_a_half_drained_session_stays_listed(world: &World) {
    let (mut lost, runs) = holding(world, 0..5).await;
    world.expire(&lost.id).await;
    assert_eq!(rescue(world, &lost, 2).await, took(true, 2));
    assert_eq!(world.score("sessions", lost.id).await, Some(0));
    world.assert_conserved().await;
    // It is fenced from the first step on, whatever it still seems to hold.
    assert_eq!(lost.try_beat(0).await, Err(Refusal::Lost));
    for run in &runs {
        assert_eq!(lost.try_settle(&[(run.member, Verdict::Done)]).await, Err(Refusal::Lost));
    }
    // Whoever began died; any other worker carries on.
    let other = world.open().await;
    assert_eq!(other.beat().await.lost, [lost.id]);
    assert_eq!(rescue(world, &lost, 2).await, took(true, 2));
    assert_eq!(other.beat().await.lost, [lost.id]);
    assert_eq!(rescue(world, &lost, 2).await, took(false, 1));
    assert_eq!(other.beat().await.lost, Vec::<[u8; 16]>::new());
    assert_eq!(world.score("sessions", lost.id).await, None);
    assert_eq!(world.stat("sessions_lost").await, 1);
}

async fn b_two_lost_sessions_at_once_lose_nothing(world: &World) {
    let (one, _) = holding(world, 0..3).await;
    let (two, _) = holding(world, 3..7).await;
    let other = world.open().await;
    world.expire(&one.id).await;
    world.expire(&two.id).await;
    let mut lost = other.beat().await.lost;
    lost.sort_unstable();
    let mut wanted = [one.id, two.id];
    wanted.sort_unstable();
    assert_eq!(lost, wanted);
    assert_eq!(rescue(world, &one, 2).await, took(true, 2));
    assert_eq!(rescue(world, &two, 2).await, took(true, 2));
    world.assert_conserved().await;
    assert_eq!(rescue(world, &one, 2).await, took(false, 1));
    assert_eq!(rescue(world, &two, 2).await, took(false, 2));
    assert_eq!((world.stat("crashed").await, world.stat("sessions_lost").await), (7, 2));
    let mut fresh = world.open().await;
    assert_eq!(fresh.take(10).await.len(), 7);
}

async fn b_b12_racing_rescuers_give_each_job_back_once(world: &World) {
    let (lost, _) = holding(world, 0..300).await;
    world.expire(&lost.id).await;
    let drain = || async {
        let mut given = 0;
        loop {
            match rescue(world, &lost, 7).await {
                Rescue::Took { given_back, .. } => given += given_back,
                Rescue::Gone => return given,
                other => panic!("{other:?}"),
            }
        }
    };
    let (a, b, c, d) = tokio::join!(drain(), drain(), drain(), drain());
    assert_eq!(a + b + c + d, 300);
    let mut fresh = world.open().await;
    let runs = fresh.take(1000).await;
    assert_eq!(runs.len(), 300);
    assert!(runs.iter().all(|run| run.record.attempts == 1 && run.record.crashes == 1));
}

async fn b_an_empty_lost_session_is_removed(world: &World) {
    let hand = world.open().await;
    world.expire(&hand.id).await;
    assert_eq!(rescue(world, &hand, 10).await, took(false, 0));
    assert_eq!(world.read("sessions").await, None);
}

async fn k_a_repeated_rescue_finds_nobody(world: &World) {
    let (hand, _) = holding(world, 0..2).await;
    world.expire(&hand.id).await;
    assert_eq!(rescue(world, &hand, 10).await, took(false, 2));
    let before = world.dump().await;
    assert_eq!(rescue(world, &hand, 10).await, Rescue::Gone);
    assert_eq!(world.dump().await, before);
}

async fn a_workers_that_wake_after_their_lease_can_do_nothing(world: &World) {
    let (mut frozen, runs) = holding(world, 0..2).await;
    world.expire(&frozen.id).await;
    rescue(world, &frozen, 10).await;
    let mut other = world.open().await;
    let again = other.take(1).await.remove(0);
    let before = world.dump().await;
    // A claim that was buffered in the network all the while, a settle, a reconciliation, a renewal, an end.
    assert_eq!(frozen.try_claim(delayq_tests::store_kit::ask(10)).await.unwrap_err(), Refusal::Lost);
    assert_eq!(frozen.try_settle(&[(runs[0].member, Verdict::Done)]).await, Err(Refusal::Lost));
    assert_eq!(frozen.reconcile(&[runs[0].member]).await, Err(Refusal::Lost));
    assert_eq!(frozen.try_beat(0).await, Err(Refusal::Lost));
    assert_eq!(frozen.close().await, delayq::store::ops::Closed::Lost);
    assert_eq!(world.dump().await, before);
    assert_eq!(other.settle(&again, Verdict::DoneExtended).await, Settled::Accepted);
}

async fn chunks_outside_their_bounds_are_refused(world: &World) {
    let (hand, _) = holding(world, 0..2).await;
    world.expire(&hand.id).await;
    let before = world.dump().await;
    for chunk in [0, 501] {
        assert_eq!(kind(world.store.rescue(&world.shard, &hand.id, chunk).await), ErrorKind::InvalidArgument);
    }
    assert_eq!(world.dump().await, before);
}

async fn b17_twelve_hundred_held_jobs_come_back_in_chunks(world: &World) {
    let jobs: Vec<NewJob> = (0..1200).map(|n| job(n).due("@1000")).collect();
    for batch in jobs.chunks(1000) {
        world.create(batch).await;
    }
    let mut hand = world.open().await;
    assert_eq!(hand.take(1000).await.len() + hand.take(1000).await.len(), 1200);
    world.expire(&hand.id).await;
    assert_eq!(rescue(world, &hand, 500).await, took(true, 500));
    assert_eq!(rescue(world, &hand, 500).await, took(true, 500));
    assert_eq!(rescue(world, &hand, 500).await, took(false, 200));
}

async fn u_entries_that_are_no_held_job_are_counted(world: &World) {
    let (hand, runs) = holding(world, 0..2).await;
    let Some(Value::Set(mut members)) = world.read(&hand.held_name()).await else { panic!("it holds two") };
    members.insert(b"foreign".to_vec());
    members.insert(b"".to_vec());
    members.insert(vec![7; 22]);
    members.insert(vec![8; 5000]);
    world.write(&hand.held_name(), Some(Value::Set(members))).await;
    world.set_field("jobs", runs[0].id, None).await;
    world.expire(&hand.id).await;
    let answer = rescue(world, &hand, 500).await;
    assert_eq!(answer, Rescue::Took { more: false, given_back: 1, buried: 0, cancelled: 0, quarantined: 5 });
    assert_eq!(world.stat("quarantined").await, 5);
}

async fn u_an_unreadable_record_becomes_a_dead_letter(world: &World) {
    let (hand, runs) = holding(world, 0..2).await;
    world.set_field("jobs", runs[0].id, Some(b"damaged".to_vec())).await;
    world.expire(&hand.id).await;
    let answer = rescue(world, &hand, 500).await;
    assert_eq!(answer, Rescue::Took { more: false, given_back: 1, buried: 0, cancelled: 0, quarantined: 1 });
    assert_eq!(world.place(&runs[0].id).await, Some(Place::Dead));
    assert_eq!((world.stat("quarantined").await, world.stat("dead").await), (1, 1));
}

async fn u_an_old_runs_entry_brings_nothing_back(world: &World) {
    // A hand from outside wrote an entry of a run that ended: the job runs in another session.
    let (lost, runs) = holding(world, 0..1).await;
    let mut other = world.open().await;
    let mut lost = lost;
    lost.settle(&runs[0], Verdict::HandBack).await;
    let newer = other.take_one().await;
    let entry = std::collections::BTreeSet::from([runs[0].member.as_bytes().to_vec()]);
    world.write(&lost.held_name(), Some(Value::Set(entry))).await;
    world.expire(&lost.id).await;
    let answer = rescue(world, &lost, 500).await;
    assert_eq!(answer, Rescue::Took { more: false, given_back: 0, buried: 0, cancelled: 0, quarantined: 1 });
    assert_eq!(world.place(&id(0)).await, Some(Place::Running));
    assert_eq!(other.settle(&newer, Verdict::Done).await, Settled::Accepted);
}

async fn given_back_jobs_say_why(world: &World) {
    let (hand, runs) = holding(world, 0..1).await;
    world.expire(&hand.id).await;
    rescue(world, &hand, 1).await;
    let note = world.note(&runs[0].id).await;
    assert!(note.starts_with("crash ") && note.contains(" 1\n") && note.contains("was lost"), "{note}");
    assert_eq!(world.score("due:5", id(0)).await, Some(1000), "a first crash keeps its place");
}

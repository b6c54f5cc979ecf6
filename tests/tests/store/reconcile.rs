//! reconcile: after a call of unknown outcome, store and worker agree again on what is held.

use delayq::store::Member;
use delayq::store::Refusal;
use delayq::store::ops::{NewJob, Place, Reconciled, Settled, Verdict};
use delayq_tests::store_kit::{Value, With, World, id, job};

delayq_tests::store_cases!(
    c_agreement_changes_nothing_but_the_seq,
    c_what_isnt_known_is_handed_back_uncharged,
    c_what_the_store_no_longer_has_is_reported,
    c_a_replayed_settle_after_a_lost_answer,
    c_a_seq_thats_used_up_is_stale,
    b17_more_than_five_hundred_come_back_in_chunks,
    u_foreign_entries_are_counted_and_gone,
    u_an_unreadable_record_becomes_a_dead_letter,
    u_an_old_runs_entry_brings_nothing_back,
);

fn agreed() -> Reconciled {
    Reconciled { more: false, missing: Vec::new() }
}

async fn c_agreement_changes_nothing_but_the_seq(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    let known: Vec<Member> = hand.take(2).await.iter().map(|run| run.member).collect();
    let before = world.dump().await.without_stats(&["seq:"]);
    assert_eq!(hand.reconcile(&known).await.unwrap(), agreed());
    assert_eq!(world.dump().await.without_stats(&["seq:"]), before);
}

async fn c_what_isnt_known_is_handed_back_uncharged(world: &World) {
    world.create(&[job(1).due("@1000").unique("k").priority(7)]).await;
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    assert_eq!(hand.reconcile(&[]).await.unwrap(), agreed());
    let mut record = world.record(&id(1)).await;
    assert!(record.run > run.record.run);
    record.run = run.record.run;
    assert_eq!(record, run.record);
    assert_eq!(world.score("due:7", id(1)).await, Some(1000));
    assert_eq!(world.read(&hand.held_name()).await, None);
    assert!(world.field("unique", "k").await.is_some(), "it still waits, and keeps its key");
}

async fn c_what_the_store_no_longer_has_is_reported(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    let runs = hand.take(2).await;
    hand.settle(&runs[0], Verdict::Done).await;
    let strange = Member::new(&id(77), 5);
    let known = [runs[0].member, runs[1].member, strange];
    let reconciled = hand.reconcile(&known).await.unwrap();
    assert_eq!(reconciled, Reconciled { more: false, missing: vec![runs[0].member, strange] });
    assert_eq!(world.place(&runs[1].id).await, Some(Place::Running));
}

async fn c_a_replayed_settle_after_a_lost_answer(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    let runs = hand.take(2).await;
    // The settle arrived, its answer did not. The worker asks, drops what was settled, and sends the rest.
    let retry = Verdict::Retry { delay_ms: 60_000, error: "once".to_owned() };
    hand.try_settle(&[(runs[0].member, retry.clone())]).await.unwrap();
    let known = [runs[0].member, runs[1].member];
    assert_eq!(hand.reconcile(&known).await.unwrap().missing, [runs[0].member]);
    let again = hand.try_settle(&[(runs[0].member, retry), (runs[1].member, Verdict::Done)]).await.unwrap();
    assert_eq!(again, [Settled::NotHeld, Settled::Accepted]);
    assert_eq!((world.stat("retried").await, world.record(&runs[0].id).await.attempts), (1, 1));
}

async fn c_a_seq_thats_used_up_is_stale(world: &World) {
    world.create(&[job(1)]).await;
    let mut hand = world.open().await;
    hand.seq = 6;
    hand.reconcile(&[]).await.unwrap();
    // The claim that was thought lost comes through after all: what it would take, nobody would run.
    let before = world.dump().await;
    hand.seq = 5;
    assert_eq!(hand.try_claim(delayq_tests::store_kit::ask(5)).await.unwrap_err(), Refusal::Stale);
    hand.seq = 6;
    assert_eq!(hand.reconcile(&[]).await, Err(Refusal::Stale));
    assert_eq!(world.dump().await, before);
}

async fn b17_more_than_five_hundred_come_back_in_chunks(world: &World) {
    let jobs: Vec<NewJob> = (0..1000).map(|n| job(n).due("@1000")).collect();
    world.create(&jobs).await;
    let mut hand = world.open().await;
    let runs = hand.take(1000).await;
    let known: Vec<Member> = runs[..100].iter().map(|run| run.member).collect();
    assert!(hand.reconcile(&known).await.unwrap().more);
    world.assert_conserved().await;
    assert!(!hand.reconcile(&known).await.unwrap().more);
    assert_eq!(hand.beat().await.held, 100);
    // Ten thousand known members are as many as a worker can run.
    let many: Vec<Member> = (0..10_000).map(|n| Member::new(&id(50_000 + n), 1)).collect();
    assert_eq!(hand.reconcile(&[known, many].concat()).await.unwrap().missing.len(), 10_000);
}

async fn foreign(world: &World, name: &str, entry: Vec<u8>) {
    let mut members = match world.read(name).await {
        Some(Value::Set(members)) => members,
        _ => Default::default(),
    };
    members.insert(entry);
    world.write(name, Some(Value::Set(members))).await;
}

async fn u_foreign_entries_are_counted_and_gone(world: &World) {
    world.create(&[job(1)]).await;
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    for entry in [b"".to_vec(), b"foreign".to_vec(), vec![7; 22], [&id(1)[..], b"?"].concat(), vec![9; 3000]] {
        foreign(world, &hand.held_name(), entry).await;
    }
    assert_eq!(hand.reconcile(&[run.member]).await.unwrap(), agreed());
    assert_eq!(world.stat("quarantined").await, 5);
    assert_eq!(world.place(&id(1)).await, Some(Place::Running));
    assert_eq!(hand.settle(&run, Verdict::Done).await, Settled::Accepted);
}

async fn u_an_unreadable_record_becomes_a_dead_letter(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    hand.take(2).await;
    world.set_field("jobs", id(1), Some(b"damaged".to_vec())).await;
    hand.reconcile(&[]).await.unwrap();
    assert_eq!((world.place(&id(1)).await, world.place(&id(2)).await), (Some(Place::Dead), Some(Place::Due)));
    assert_eq!((world.stat("quarantined").await, world.stat("dead").await), (1, 1));
}

async fn u_an_old_runs_entry_brings_nothing_back(world: &World) {
    world.create(&[job(1)]).await;
    let (mut mine, mut theirs) = (world.open().await, world.open().await);
    let old = mine.run_one(Verdict::HandBack).await;
    let run = theirs.take_one().await;
    foreign(world, &mine.held_name(), old.member.as_bytes().to_vec()).await;
    mine.reconcile(&[]).await.unwrap();
    assert_eq!(world.place(&id(1)).await, Some(Place::Running), "it runs elsewhere, and must not run twice");
    assert_eq!(theirs.settle(&run, Verdict::Done).await, Settled::Accepted);
    assert_eq!(world.stat("quarantined").await, 1);
}

//! dead_list, dead_redrive, dead_delete.

use std::collections::BTreeSet;

use delayq::ErrorKind;
use delayq::limits::{DEAD_PAGE_MAX, REDRIVE_CHUNK};
use delayq::store::ops::{DeadPage, DeadRow, End, Found, NewJob, Order, Place, Redriven, Sent, Verdict};
use delayq::{DeadReason, store::Member};
use delayq_tests::store_kit::{AGES_MS, HOUR_MS, Id, With, World, id, job, kind};

delayq_tests::store_cases!(
    redriven_letters_wait_with_all_their_attempts,
    k_a_repeated_redrive_finds_no_letter,
    only_letters_are_redriven,
    u_a_letter_without_a_readable_record_stays,
    an_expiry_is_over_for_a_redriven_job,
    b41_b17_five_hundred_a_call_and_no_more,
    b42_none_is_dropped_however_many_there_are,
    k_deleting_twice_deletes_once,
    only_letters_are_deleted,
    pages_cover_all_letters_in_both_directions,
    pages_go_on_after_a_letter_that_is_gone,
    pages_show_records_and_notes_if_asked,
    pages_have_bounds,
);

async fn bury(world: &World, jobs: &[NewJob]) {
    let mut hand = world.open().await;
    for batch in jobs.chunks(500) {
        world.create(batch).await;
        let mut buried = 0;
        // Large jobs come a few at a time.
        while buried < batch.len() {
            let verdicts: Vec<(Member, Verdict)> = hand
                .take(1000)
                .await
                .iter()
                .map(|run| (run.member, Verdict::Bury { reason: DeadReason::Buried, error: "no".to_owned() }))
                .collect();
            assert!(!verdicts.is_empty(), "{buried} of {}", batch.len());
            hand.try_settle(&verdicts).await.unwrap();
            buried += verdicts.len();
        }
    }
    hand.close().await;
}

fn ids(of: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    of.into_iter().map(|n| id(n).to_vec()).collect()
}

async fn redrive(world: &World, of: &[Vec<u8>]) -> Vec<Redriven> {
    world.store.dead_redrive(&world.shard, of).await.unwrap()
}

async fn redriven_letters_wait_with_all_their_attempts(world: &World) {
    let mut hand = world.open().await;
    world.create(&[job(1).priority(8).attempts(3)]).await;
    hand.run_one(Verdict::Snooze { delay_ms: 0 }).await;
    world.sleep_until(world.record(&id(1)).await.due_ms).await;
    hand.run_one(Verdict::Bury { reason: DeadReason::Buried, error: String::new() }).await;
    let dead = world.record(&id(1)).await;
    assert_eq!(dead.attempts, 1);
    let before_us = world.now_us().await;
    assert_eq!(redrive(world, &ids([1])).await, [Redriven::Waits]);
    let record = world.record(&id(1)).await;
    assert_eq!((record.attempts, record.free_returns, record.attempts_max), (0, 1, Some(3)));
    assert!(record.run > dead.run && record.due_ms * 1000 >= before_us);
    assert_eq!(record.envelope, dead.envelope);
    assert_eq!(world.score("due:8", id(1)).await, Some(record.due_ms));
    assert_eq!((world.read("dead").await, world.read("error").await), (None, None));
    assert_eq!(world.stat("redriven").await, 1);
}

async fn k_a_repeated_redrive_finds_no_letter(world: &World) {
    bury(world, &[job(1)]).await;
    assert_eq!(redrive(world, &ids([1, 1])).await, [Redriven::Waits, Redriven::NotDead]);
    let before = world.dump().await;
    assert_eq!(redrive(world, &ids([1])).await, [Redriven::NotDead]);
    assert_eq!(redrive(world, &[]).await, []);
    assert_eq!(world.dump().await, before);
}

async fn only_letters_are_redriven(world: &World) {
    let mut hand = world.open().await;
    world.create(&[job(1)]).await;
    hand.take_one().await;
    world.create(&[job(2).due("+3600000")]).await;
    let before = world.dump().await;
    let mut of = ids([1, 2, 3]);
    of.extend([vec![], b"x".to_vec(), vec![0; 500]]);
    assert_eq!(redrive(world, &of).await, [Redriven::NotDead; 6]);
    assert_eq!(world.store.dead_delete(&world.shard, &of).await.unwrap(), [false; 6]);
    assert_eq!(world.dump().await, before);
}

async fn u_a_letter_without_a_readable_record_stays(world: &World) {
    bury(world, &[job(1), job(2), job(3)]).await;
    world.set_field("jobs", id(1), None).await;
    world.set_field("jobs", id(2), Some(b"damaged".to_vec())).await;
    assert_eq!(redrive(world, &ids([1, 2, 3])).await, [Redriven::Unreadable, Redriven::Unreadable, Redriven::Waits]);
    assert!(world.score("dead", id(1)).await.is_some() && world.score("dead", id(2)).await.is_some());
    assert_eq!(world.store.dead_delete(&world.shard, &ids([1, 2])).await.unwrap(), [true, true]);
}

async fn an_expiry_is_over_for_a_redriven_job(world: &World) {
    bury(world, &[job(1).expires(AGES_MS).retain(77).unique("k")]).await;
    let mut bytes = world.field("jobs", id(1)).await.unwrap();
    bytes[29..35].copy_from_slice(&1000u64.to_be_bytes()[2..]);
    world.set_field("jobs", id(1), Some(bytes)).await;
    redrive(world, &ids([1])).await;
    let bytes = world.field("jobs", id(1)).await.unwrap();
    assert_eq!(&bytes[29..42], [&[0; 6][..], &77u64.to_be_bytes()[2..], b"k"].concat());
    world.sleep_until(world.record(&id(1)).await.due_ms).await;
    assert_eq!(world.open().await.take(1).await.len(), 1);
}

async fn b41_b17_five_hundred_a_call_and_no_more(world: &World) {
    let jobs: Vec<NewJob> = (0..501).map(|n| job(n).priority((n % 10) as u8)).collect();
    bury(world, &jobs).await;
    let before = world.dump().await;
    assert_eq!(kind(world.store.dead_redrive(&world.shard, &ids(0..501)).await), ErrorKind::InvalidArgument);
    assert_eq!(kind(world.store.dead_delete(&world.shard, &ids(0..501)).await), ErrorKind::InvalidArgument);
    assert_eq!(world.dump().await, before);
    assert_eq!(redrive(world, &ids(0..REDRIVE_CHUNK as u64)).await, [Redriven::Waits; REDRIVE_CHUNK]);
    assert_eq!(world.stat("redriven").await, 500);
    let due = world.record(&id(0)).await.due_ms;
    world.sleep_until(due).await;
    let mut hand = world.open().await;
    assert_eq!(hand.take(1000).await.len(), 500, "one new start each");
    assert_eq!(world.store.dead_delete(&world.shard, &ids(500..501)).await.unwrap(), [true]);
}

async fn b42_none_is_dropped_however_many_there_are(world: &World) {
    let jobs: Vec<NewJob> = (0..1500).map(job).collect();
    bury(world, &jobs).await;
    let stats = world.store.stats(&world.shard).await.unwrap();
    assert_eq!((stats.dead, stats.records, stats.orphans()), (1500, 1500, 0));
}

async fn k_deleting_twice_deletes_once(world: &World) {
    bury(world, &[job(1).unique("k"), job(2)]).await;
    let delete = || async { world.store.dead_delete(&world.shard, &ids([1, 1, 9])).await.unwrap() };
    assert_eq!(delete().await, [true, true, false]);
    let before = world.dump().await;
    assert_eq!(delete().await, [true, true, false], "gone by this call or the same one before");
    assert_eq!(world.dump().await, before);
    assert_eq!(world.find(&id(1)).await, Found::Ended(End::Deleted));
    assert_eq!(world.stat("deleted").await, 1);
    assert_eq!(world.send(&[job(1)]).await, [Sent::Already], "a send that was under way all the while comes too late");
    assert_eq!(world.place(&id(2)).await, Some(Place::Dead));
}

async fn only_letters_are_deleted(world: &World) {
    let mut hand = world.open().await;
    world.create(&[job(1)]).await;
    hand.run_one(Verdict::DoneYoung).await;
    world.create(&[job(2).retain(HOUR_MS)]).await;
    hand.run_one(Verdict::DoneExtended).await;
    world.create(&[job(3)]).await;
    let before = world.dump().await;
    assert_eq!(world.store.dead_delete(&world.shard, &ids([1, 2, 3])).await.unwrap(), [false; 3]);
    assert!(world.store.dead_delete(&world.shard, &[]).await.unwrap().is_empty());
    assert_eq!(world.dump().await, before);
}

fn page(order: Order, after: Option<(u64, Vec<u8>)>, limit: usize) -> DeadPage {
    DeadPage { order, after, limit, until_ms: None, whole: false }
}

async fn walk(world: &World, order: Order, limit: usize) -> Vec<DeadRow> {
    let mut rows: Vec<DeadRow> = Vec::new();
    loop {
        let after = rows.last().map(|row| (row.died_ms, row.id.clone()));
        let next = world.store.dead_list(&world.shard, &page(order, after, limit)).await.unwrap();
        if next.is_empty() {
            return rows;
        }
        assert!(next.len() <= limit);
        rows.extend(next);
    }
}

async fn pages_cover_all_letters_in_both_directions(world: &World) {
    bury(world, &(0..25).map(job).collect::<Vec<_>>()).await;
    // Three of them died at each instant.
    for n in 0..25 {
        world.set_score("dead", id(n), Some(1000 + n / 3)).await;
    }
    let oldest = walk(world, Order::OldestFirst, 4).await;
    assert_eq!(oldest.len(), 25);
    assert_eq!(oldest.iter().map(|row| &row.id).collect::<BTreeSet<_>>().len(), 25);
    assert!(oldest.is_sorted_by_key(|row| row.died_ms));
    assert!(oldest.iter().all(|row| row.record.is_empty() && row.note.is_empty()));
    let mut newest = walk(world, Order::NewestFirst, 7).await;
    newest.reverse();
    assert_eq!(newest, oldest);
    let until = DeadPage { until_ms: Some(1003), ..page(Order::OldestFirst, None, 500) };
    assert_eq!(world.store.dead_list(&world.shard, &until).await.unwrap().len(), 12);
}

async fn pages_go_on_after_a_letter_that_is_gone(world: &World) {
    bury(world, &(0..9).map(job).collect::<Vec<_>>()).await;
    for n in 0..9 {
        world.set_score("dead", id(n), Some(1000 + n / 3)).await;
    }
    for order in [Order::OldestFirst, Order::NewestFirst] {
        let gone = (1001, b"deleted meanwhile".to_vec());
        let rows = world.store.dead_list(&world.shard, &page(order, Some(gone), 100)).await.unwrap();
        let at = |ms: u64| rows.iter().filter(|row| row.died_ms == ms).count();
        assert_eq!((at(1001), rows.len()), (3, 6), "rather a letter twice than one not at all");
    }
}

async fn pages_show_records_and_notes_if_asked(world: &World) {
    let big = |n: u64| job(n).envelope(vec![b'x'; 900_000]);
    bury(world, &(0..8).map(big).collect::<Vec<_>>()).await;
    world.set_field("jobs", id(7), None).await;
    let whole = |after| DeadPage { whole: true, ..page(Order::OldestFirst, after, 100) };
    let first = world.store.dead_list(&world.shard, &whole(None)).await.unwrap();
    assert_eq!(first.len(), 4, "a page stops at 4 MiB");
    let stored: Id = first[0].id.clone().try_into().unwrap();
    assert_eq!(first[0].record, world.field("jobs", stored).await.unwrap());
    assert!(String::from_utf8_lossy(&first[0].note).starts_with("buried "));
    let last = first.last().map(|row| (row.died_ms, row.id.clone()));
    let second = world.store.dead_list(&world.shard, &whole(last)).await.unwrap();
    assert_eq!(second.len(), 4);
    assert!(second[3].record.is_empty(), "a letter without a record is shown all the same");
    world.leaves_damage();
}

async fn pages_have_bounds(world: &World) {
    for (limit, whole) in [(0, false), (501, false), (DEAD_PAGE_MAX + 1, true)] {
        let page = DeadPage { whole, ..page(Order::OldestFirst, None, limit) };
        assert_eq!(kind(world.store.dead_list(&world.shard, &page).await), ErrorKind::InvalidArgument);
    }
    assert_eq!(world.store.dead_list(&world.shard, &page(Order::NewestFirst, None, 500)).await.unwrap(), []);
}

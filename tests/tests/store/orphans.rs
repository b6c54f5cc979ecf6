//! audit and repair: records that are in no place, and entries without a record, are found and mended. probe and the rehearsal leave nothing.

use std::collections::BTreeSet;

use delayq::ErrorKind;
use delayq::store::ops::{Audited, Look, Mended, NewJob, Place, Repaired, Settled, Verdict};
use delayq::store::{SCRIPTS, SessionId};
use delayq_tests::store_kit::{HOUR_MS, Value, With, World, id, job, kind};

delayq_tests::store_cases!(
    s_d_a_record_in_no_place_is_found_and_waits_again,
    s_what_has_a_place_is_no_orphan,
    s_o_a_cancelled_orphan_ends_as_cancelled,
    s_u_what_can_not_be_read_is_a_dead_letter_and_what_is_no_job_is_left,
    s_r_an_orphan_whose_key_has_another_owner_is_a_dead_letter,
    u_entries_without_a_record_are_found_in_each_place_and_removed,
    sessions_that_came_or_went_are_asked_for_again,
    where_too_much_runs_nothing_is_looked_through,
    every_record_is_looked_at_page_by_page,
    k_a_repeated_repair_finds_nothing,
    looking_changes_nothing,
    arguments_outside_their_bounds_are_refused,
    trying_every_command_and_script_leaves_nothing,
);

async fn sessions(world: &World) -> Vec<SessionId> {
    world.store.sessions(&world.shard).await.unwrap().iter().map(|session| session.id).collect()
}

/// All that is found, `step` at a time, and how many pages that took.
async fn found_by(world: &World, look: Look, step: usize) -> (BTreeSet<Vec<u8>>, u64) {
    let (sessions, mut cursor, mut found, mut pages) = (sessions(world).await, Vec::new(), BTreeSet::new(), 0);
    loop {
        match world.store.audit(&world.shard, look, &cursor, step, &sessions).await.unwrap() {
            Audited::Page(page) => {
                found.extend(page.found);
                pages += 1;
                match page.next {
                    Some(next) => cursor = next,
                    None => return (found, pages),
                }
            }
            refused => panic!("{refused:?}"),
        }
    }
}

async fn found(world: &World, look: Look) -> BTreeSet<Vec<u8>> {
    found_by(world, look, 100).await.0
}

fn ids(jobs: impl IntoIterator<Item = u64>) -> BTreeSet<Vec<u8>> {
    jobs.into_iter().map(|n| id(n).to_vec()).collect()
}

async fn mend(world: &World, look: Look, jobs: &[u64]) -> Vec<Mended> {
    let ids: Vec<Vec<u8>> = jobs.iter().map(|n| id(*n).to_vec()).collect();
    match world.store.repair(&world.shard, look, &ids, &sessions(world).await).await.unwrap() {
        Repaired::Each(mended) => mended,
        refused => panic!("{refused:?}"),
    }
}

/// Jobs that are in no place.
async fn orphans(world: &World, jobs: &[NewJob]) {
    world.create(jobs).await;
    for job in jobs {
        world.set_score(&format!("due:{}", job.options.priority), job.id, None).await;
    }
}

async fn s_d_a_record_in_no_place_is_found_and_waits_again(world: &World) {
    world.create(&[job(1), job(2).due("@5000000000000")]).await;
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    world.take_marker().await;
    // What its session held is gone, and the worker doesn't know.
    world.write(&hand.held_name(), None).await;
    assert_eq!(found(world, Look::Records).await, ids([1]));
    let before = world.record(&id(1)).await;
    assert_eq!(mend(world, Look::Records, &[1, 2, 3]).await, [Mended::Waits, Mended::Sound, Mended::Sound]);
    assert_eq!(world.place(&id(1)).await, Some(Place::Due));
    let after = world.record(&id(1)).await;
    assert_eq!((after.attempts, after.crashes, after.due_ms), (before.attempts, before.crashes, 1000));
    assert!(world.note(&id(1)).await.starts_with("repaired "), "{}", world.note(&id(1)).await);
    assert_eq!((world.stat("repaired").await, world.marker().await), (1, Some(1000)));
    // The run that was lost from sight settles nothing, also not once the job runs again.
    assert_eq!(hand.settle(&run, Verdict::Done).await, Settled::NotHeld);
    let next = hand.take_one().await;
    assert!(next.member.run() > run.member.run(), "{next:?} after {run:?}");
    assert_eq!(hand.settle(&run, Verdict::Done).await, Settled::NotHeld);
    assert_eq!(hand.settle(&next, Verdict::DoneExtended).await, Settled::Accepted);
}

/// One job in each place: 1 dead, 2 retained, 3 running, 4 held by a lost session, 5 due, 6 waiting.
async fn everywhere(world: &World) {
    let mut hand = world.open().await;
    world.create(&[job(1)]).await;
    hand.run_one(Verdict::Bury { reason: delayq::DeadReason::Buried, error: "why".to_owned() }).await;
    world.create(&[job(2).retain(HOUR_MS)]).await;
    hand.run_one(Verdict::DoneExtended).await;
    world.create(&[job(3)]).await;
    hand.take_one().await;
    world.create(&[job(4).priority(0)]).await;
    let mut lost = world.open().await;
    lost.take_one().await;
    world.expire(&lost.id).await;
    world.create(&[job(5).priority(9), job(6).due("@5000000000000")]).await;
}

async fn s_what_has_a_place_is_no_orphan(world: &World) {
    everywhere(world).await;
    for look in std::iter::once(Look::Records).chain(Look::places()) {
        assert_eq!(found(world, look).await, ids([]), "{look:?}");
    }
    assert_eq!(mend(world, Look::Records, &[1, 2, 3, 4, 5, 6]).await, [Mended::Sound; 6]);
    assert_eq!(mend(world, Look::Due(9), &[5, 6]).await, [Mended::Sound; 2]);
}

async fn s_o_a_cancelled_orphan_ends_as_cancelled(world: &World) {
    world.create(&[job(1).unique("k")]).await;
    let mut hand = world.open().await;
    hand.take_one().await;
    world.store.cancel(&world.shard, &id(1)).await.unwrap();
    assert_eq!(world.stat("cancelling").await, 1);
    world.write(&hand.held_name(), None).await;
    assert_eq!(mend(world, Look::Records, &[1]).await, [Mended::Cancelled]);
    assert_eq!((world.stat("cancelling").await, world.stat("cancelled").await), (0, 1));
    assert_eq!((world.place(&id(1)).await, world.field("unique", "k").await), (None, None));
}

async fn s_u_what_can_not_be_read_is_a_dead_letter_and_what_is_no_job_is_left(world: &World) {
    orphans(world, &[job(1), job(2)]).await;
    world.set_field("jobs", id(1), Some(b"damaged".to_vec())).await;
    world.set_field("jobs", "of another hand", Some(b"?".to_vec())).await;
    let mut wanted = ids([1, 2]);
    wanted.insert(b"of another hand".to_vec());
    assert_eq!(found(world, Look::Records).await, wanted);
    let all: Vec<Vec<u8>> = wanted.into_iter().collect();
    let repaired = world.store.repair(&world.shard, Look::Records, &all, &[]).await.unwrap();
    assert_eq!(repaired, Repaired::Each(vec![Mended::Buried, Mended::Waits, Mended::Foreign]));
    assert_eq!(world.place(&id(1)).await, Some(Place::Dead));
    assert_eq!((world.stat("dead").await, world.stat("quarantined").await), (1, 1));
    assert_eq!(world.field("jobs", "of another hand").await, Some(b"?".to_vec()));
    world.leaves_damage();
}

async fn s_r_an_orphan_whose_key_has_another_owner_is_a_dead_letter(world: &World) {
    orphans(world, &[job(1).unique("k"), job(2).unique("l"), job(3).unique("m")]).await;
    world.set_field("unique", "k", None).await;
    world.create(&[job(4).unique("k")]).await;
    world.set_field("unique", "l", None).await;
    assert_eq!(mend(world, Look::Records, &[1, 2, 3]).await, [Mended::Buried, Mended::Waits, Mended::Waits]);
    assert_eq!(world.place(&id(1)).await, Some(Place::Dead));
    assert!(world.note(&id(1)).await.contains("another owner"), "{}", world.note(&id(1)).await);
    let owner = async |key: &str| world.field("unique", key).await.unwrap()[..16].to_vec();
    assert_eq!((owner("k").await, owner("l").await, owner("m").await), (id(4).into(), id(2).into(), id(3).into()));
    assert_eq!((world.stat("dead").await, world.stat("repaired").await), (1, 2));
}

async fn u_entries_without_a_record_are_found_in_each_place_and_removed(world: &World) {
    everywhere(world).await;
    let now = world.now_ms().await;
    let places =
        [(Look::Due(5), "due:5", 51), (Look::Due(9), "due:9", 59), (Look::Dead, "dead", 60), (Look::Done, "done", 61)];
    for (_, name, n) in places {
        world.set_score(name, id(n), Some(now + HOUR_MS)).await;
    }
    world.set_field("error", id(60), Some(b"buried 1 0\n".to_vec())).await;
    for (look, name, n) in places {
        assert_eq!(found(world, look).await, ids([n]), "{look:?}");
        assert_eq!(mend(world, look, &[n, 1, 5]).await, [Mended::Removed, Mended::Sound, Mended::Sound]);
        assert_eq!(world.score(name, id(n)).await, None);
        assert_eq!(found(world, look).await, ids([]), "{look:?}");
    }
    assert_eq!((world.stat("quarantined").await, world.field("error", id(60)).await), (4, None));
}

async fn sessions_that_came_or_went_are_asked_for_again(world: &World) {
    orphans(world, &[job(1)]).await;
    let (one, other) = (world.open().await.id, world.open().await.id);
    let before = world.dump().await;
    for wrong in [vec![], vec![one], vec![one, other, [7; 16]], vec![one, [7; 16]], vec![one, one]] {
        let audited = world.store.audit(&world.shard, Look::Records, b"", 10, &wrong).await.unwrap();
        let repaired = world.store.repair(&world.shard, Look::Records, &[id(1).to_vec()], &wrong).await.unwrap();
        assert_eq!((audited, repaired), (Audited::Again, Repaired::Again), "{wrong:?}");
    }
    assert_eq!(world.dump().await, before);
    // What is no session's id is nobody's.
    world.set_score("sessions", b"nobody", Some(1)).await;
    assert_eq!(found_of(world, &[other, one]).await, ids([1]));
    world.leaves_damage();
}

async fn found_of(world: &World, sessions: &[SessionId]) -> BTreeSet<Vec<u8>> {
    match world.store.audit(&world.shard, Look::Records, b"", 100, sessions).await.unwrap() {
        Audited::Page(page) => page.found.into_iter().collect(),
        refused => panic!("{refused:?}"),
    }
}

async fn where_too_much_runs_nothing_is_looked_through(world: &World) {
    world.create(&(0..5).map(job).collect::<Vec<_>>()).await;
    let mut hand = world.open().await;
    hand.take(4).await;
    let audit =
        async |most| world.store.audit_within(&world.shard, Look::Records, b"", 100, &[hand.id], most).await.unwrap();
    assert_eq!(audit(3).await, Audited::Many);
    assert!(matches!(audit(4).await, Audited::Page(page) if page.looked == 5 && page.found.is_empty()));
}

async fn every_record_is_looked_at_page_by_page(world: &World) {
    let count = 700;
    for some in (0..count).collect::<Vec<_>>().chunks(100) {
        world.create(&some.iter().copied().map(job).collect::<Vec<_>>()).await;
    }
    let Some(Value::Sorted(mut waiting)) = world.read("due:5").await else { panic!("jobs wait") };
    let lost = ids((0..count).filter(|n| n % 10 == 3));
    waiting.retain(|id, _| !lost.contains(id));
    world.write("due:5", Some(Value::Sorted(waiting))).await;
    let (found, pages) = found_by(world, Look::Records, 7).await;
    assert_eq!(found, lost);
    assert!(pages > 10, "{pages} pages for {count} records");
    let lost: Vec<Vec<u8>> = lost.into_iter().collect();
    let repaired = world.store.repair(&world.shard, Look::Records, &lost, &[]).await.unwrap();
    assert_eq!(repaired, Repaired::Each(vec![Mended::Waits; 70]));
    assert_eq!(found_by(world, Look::Due(5), 50).await, (ids([]), 15));
}

async fn k_a_repeated_repair_finds_nothing(world: &World) {
    orphans(world, &[job(1)]).await;
    assert_eq!(mend(world, Look::Records, &[1, 1]).await, [Mended::Waits, Mended::Sound]);
    let before = world.dump().await;
    assert_eq!(mend(world, Look::Records, &[1]).await, [Mended::Sound]);
    assert_eq!(world.dump().await, before);
}

async fn looking_changes_nothing(world: &World) {
    everywhere(world).await;
    orphans(world, &[job(7)]).await;
    world.set_score("due:5", id(50), Some(6)).await;
    let before = world.dump().await;
    for look in std::iter::once(Look::Records).chain(Look::places()) {
        found(world, look).await;
    }
    assert_eq!(world.dump().await, before);
    world.leaves_damage();
}

async fn arguments_outside_their_bounds_are_refused(world: &World) {
    everywhere(world).await;
    let before = world.dump().await;
    let keys = world.all_keys(&[0; 16]);
    let text = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    for (script, args) in [
        ("audit", text(&["records", "0", "0", "0"])),
        ("audit", text(&["records", "0", "501", "0"])),
        ("audit", text(&["records", "0", "1", "many"])),
        ("audit", text(&["records", "0", "1", "0", "0123456789abcdef"])),
        ("audit", text(&["10", "0", "1", "0"])),
        ("audit", text(&["held", "0", "1", "0"])),
        ("audit", text(&["dead", "-1", "1", "0"])),
        ("repair", text(&["records", "0", "0"])),
        ("repair", text(&["records", "0", "2", "0123456789abcdef"])),
        ("repair", text(&["records", "0", "101"])),
        ("repair", text(&["held", "0", "1", "0123456789abcdef"])),
    ] {
        assert_eq!(kind(world.raw(script, &keys, &args).await), ErrorKind::InvalidArgument, "{script} {args:?}");
    }
    assert_eq!(world.dump().await, before);
}

async fn trying_every_command_and_script_leaves_nothing(world: &World) {
    world.create(&[job(1)]).await;
    let before = world.dump().await;
    world.store.probe(&world.shard).await.unwrap();
    let rehearsed = world.store.rehearse(&world.shard).await;
    assert!(rehearsed.failed.is_empty(), "{rehearsed:?}");
    let all: Vec<&str> = SCRIPTS.iter().map(|file| file.script.name).collect();
    let left_out: Vec<&&str> = all.iter().filter(|name| !rehearsed.ran.contains(name)).collect();
    assert_eq!(left_out, [&"open", &"register"], "they leave what they are for");
    assert_eq!(world.dump().await, before);
    let mut beside = world.sibling();
    beside.shard = beside.store.shard(world.shard.queue(), u32::MAX).unwrap();
    assert_eq!(beside.dump().await.0.len(), 0);
}

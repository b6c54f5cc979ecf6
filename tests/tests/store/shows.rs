//! done_list, running_list, workers, forecast, register and queues, and the marks that beats make: what operators look at.

use std::time::Duration;

use delayq::ErrorKind;
use delayq::store::ops::{DonePage, DoneRow, Mark, Report, Verdict};
use delayq_tests::store_kit::{HOUR_MS, LONG, With, World, id, job, kind};

delayq_tests::store_cases!(
    retained_jobs_are_listed_by_when_they_go,
    what_a_session_holds_is_listed_by_id,
    workers_are_shown_with_what_they_said,
    a_forecast_counts_what_falls_due,
    queues_are_listed_by_name,
    a_mark_is_made_once_a_minute,
    lists_keep_to_their_bounds,
    showing_changes_nothing,
);

async fn done(world: &World, page: &DonePage) -> Vec<DoneRow> {
    world.store.done_list(&world.shard, page).await.unwrap()
}

async fn retained_jobs_are_listed_by_when_they_go(world: &World) {
    let mut hand = world.open().await;
    for (n, hours) in [(1, 3), (2, 1), (3, 2)] {
        world.create(&[job(n).retain(hours * HOUR_MS)]).await;
        hand.run_one(Verdict::DoneExtended).await;
    }
    let first = done(world, &DonePage { after: None, limit: 2 }).await;
    assert_eq!(first.iter().map(|row| row.id.clone()).collect::<Vec<_>>(), [id(2).to_vec(), id(3).to_vec()]);
    assert!(first.iter().all(|row| !row.record.is_empty()));
    let last = |row: &DoneRow| Some((row.until_ms, row.id.clone()));
    let second = done(world, &DonePage { after: last(&first[1]), limit: 2 }).await;
    assert_eq!((second.len(), &second[0].id[..]), (1, &id(1)[..]));
    assert!(second[0].until_ms > first[1].until_ms);
    assert_eq!(done(world, &DonePage { after: last(&second[0]), limit: 2 }).await, []);
    // Its place is found even if it is gone.
    world.set_score("done", id(3), None).await;
    world.set_field("jobs", id(3), None).await;
    assert_eq!(done(world, &DonePage { after: last(&first[1]), limit: 2 }).await, second);
}

async fn what_a_session_holds_is_listed_by_id(world: &World) {
    let (mut hand, mut other) = (world.open().await, world.open().await);
    world.create(&(1..=5).rev().map(job).collect::<Vec<_>>()).await;
    let runs = hand.take(4).await;
    other.take_one().await;
    let page = |after: Vec<u8>| {
        let (store, shard, session) = (world.store.clone(), world.shard.clone(), hand.id);
        async move { store.running_list(&shard, &session, &after, 3).await.unwrap() }
    };
    let first = page(Vec::new()).await;
    let rest = page(first[2].member.clone()).await;
    let mut held: Vec<_> = runs.iter().map(|run| run.member).collect();
    held.sort_unstable();
    let listed: Vec<_> = first.iter().chain(&rest).map(|row| row.member().unwrap()).collect();
    assert_eq!((first.len(), rest.len()), (3, 1));
    assert_eq!(listed, held);
    assert!(first.iter().all(|row| !row.record.is_empty()));
    assert_eq!(page(rest[0].member.clone()).await, []);
}

async fn workers_are_shown_with_what_they_said(world: &World) {
    let (mut hand, silent) = (world.open().await, world.open().await);
    world.create(&[job(1), job(2)]).await;
    hand.take(2).await;
    let report = Report { name: "mail-1".to_owned(), runs: 7, late_us: Some((5, 9)), ..Report::default() };
    let beat = world.store.beat(&world.shard, &hand.id, LONG, 0, Some(&report)).await.unwrap().unwrap();
    assert_eq!(beat.held, 2);
    let sessions = [hand.id, silent.id, [9; 16]];
    let (now_ms, rows) = world.store.workers(&world.shard, &sessions).await.unwrap();
    assert_eq!(rows.len(), 2, "what is no session is left out");
    assert_eq!((rows[0].session, rows[0].held, rows[0].report.as_ref()), (hand.id, 2, Some(&report)));
    assert_eq!((rows[1].session, rows[1].held, rows[1].report.as_ref()), (silent.id, 0, None));
    assert!(rows.iter().all(|row| row.expires_ms > now_ms));
    // A sign of life without a word changes nothing of it; the end of the session does.
    hand.beat().await;
    let (_, rows) = world.store.workers(&world.shard, &sessions[..1]).await.unwrap();
    assert_eq!(rows[0].report.as_ref(), Some(&report));
    let runs: Vec<_> = world.store.running_list(&world.shard, &hand.id, &[], 10).await.unwrap();
    let back: Vec<_> = runs.iter().map(|row| (row.member().unwrap(), Verdict::HandBack)).collect();
    hand.try_settle(&back).await.unwrap();
    hand.close().await;
    assert_eq!(world.store.workers(&world.shard, &sessions[..1]).await.unwrap().1, []);
    let field = [&b"worker:"[..], &hand.id].concat();
    assert_eq!(world.field("stats", field).await, None, "nothing is left of it");
    // What is lost is shown as such until it is taken back, and leaves nothing either.
    world.store.beat(&world.shard, &silent.id, LONG, 0, Some(&report)).await.unwrap().unwrap();
    world.expire(&silent.id).await;
    world.store.rescue(&world.shard, &silent.id, 10).await.unwrap();
    assert_eq!(world.field("stats", [&b"worker:"[..], &silent.id].concat()).await, None);
}

async fn a_forecast_counts_what_falls_due(world: &World) {
    let mut jobs = vec![job(1), job(2).priority(0)];
    jobs.extend([job(3).due("+30000"), job(4).due("+90000").priority(9), job(5).due("+3600000")]);
    world.create(&jobs).await;
    let minutes: Vec<Duration> = [0, 1, 2, 59].iter().map(|n| Duration::from_secs(n * 60)).collect();
    let due = world.store.forecast(&world.shard, &minutes).await.unwrap();
    assert_eq!((due.waiting, &due.due_by[..]), (5, &[2, 3, 4, 4][..]));
    let wrong = vec![Duration::ZERO; 501];
    assert_eq!(kind(world.store.forecast(&world.shard, &wrong).await), ErrorKind::InvalidArgument);
    assert_eq!(kind(world.store.forecast(&world.shard, &[]).await), ErrorKind::InvalidArgument);
}

async fn queues_are_listed_by_name(world: &World) {
    // A prefix of its own: the list belongs to no queue, and other cases are on it too.
    let prefix = format!("p-{}", world.shard.queue());
    let names: Vec<String> = (0..2100).map(|n| format!("queue-{n:04}")).collect();
    for name in names.iter().rev() {
        let named = world.named(&prefix, name);
        named.store.register(&named.shard).await.unwrap();
    }
    let world = world.named(&prefix, "queue-0007");
    world.store.register(&world.shard).await.unwrap();
    let (mut listed, mut pages): (Vec<Vec<u8>>, u32) = (Vec::new(), 0);
    loop {
        let page = world.store.queues(listed.last().map_or(&[], Vec::as_slice)).await.unwrap();
        if page.is_empty() {
            break;
        }
        pages += 1;
        listed.extend(page);
    }
    let names: Vec<Vec<u8>> = names.into_iter().map(String::into_bytes).collect();
    assert_eq!((pages, &listed), (3, &names));
    assert_eq!(kind(world.raw("register", &[world.shard.key("queues")], &[]).await), ErrorKind::InvalidArgument);
    let args = [Vec::new(), b"1001".to_vec()];
    assert_eq!(kind(world.raw("queues", &[world.shard.key("queues")], &args).await), ErrorKind::InvalidArgument);
}

async fn a_mark_is_made_once_a_minute(world: &World) {
    let mut hand = world.open().await;
    let stats = |world: &World| {
        let (store, shard) = (world.store.clone(), world.shard.clone());
        async move { store.stats(&shard).await.unwrap() }
    };
    assert_eq!(stats(world).await.mark, None);
    world.create(&[job(1), job(2)]).await;
    hand.beat().await;
    let first = stats(world).await.mark.expect("the first beat makes one");
    assert_eq!((first.enqueued, first.done, first.retried, first.dead), (2, 0, 0, 0));
    for run in hand.take(2).await {
        hand.settle(&run, Verdict::Done).await;
    }
    hand.beat().await;
    assert_eq!(stats(world).await.mark, Some(first), "the minute is not over");
    // As if it were: the mark that is told is the older one still, until that minute is over too.
    let aged = |at_ms: u64| Some(format!("{at_ms} 2 0 0 0").into_bytes());
    let minute_ago = world.now_ms().await - 60_000;
    world.set_field("stats", "mark_new", aged(minute_ago)).await;
    hand.beat().await;
    assert_eq!(stats(world).await.mark, Some(Mark { at_ms: minute_ago, ..first }));
    let new = world.field("stats", "mark_new").await.unwrap();
    assert!(new.ends_with(b" 2 2 0 0"), "{}", new.escape_ascii());
    // The clock was set back, or a foreign hand was there: a new beginning.
    for odd in [format!("{} 1 1 1 1", world.now_ms().await + HOUR_MS), "garbage".to_owned(), String::new()] {
        world.set_field("stats", "mark_new", Some(odd.clone().into_bytes())).await;
        hand.beat().await;
        let mark = world.field("stats", "mark_new").await.unwrap();
        assert!(mark.ends_with(b" 2 2 0 0"), "{odd}: {}", mark.escape_ascii());
    }
}

async fn lists_keep_to_their_bounds(world: &World) {
    let hand = world.open().await;
    for limit in [0, 101] {
        let page = DonePage { after: None, limit };
        assert_eq!(kind(world.store.done_list(&world.shard, &page).await), ErrorKind::InvalidArgument);
        let running = world.store.running_list(&world.shard, &hand.id, &[], limit).await;
        assert_eq!(kind(running), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(world.store.workers(&world.shard, &[]).await), ErrorKind::InvalidArgument);
    let long = vec![b'x'; 1025];
    let args = [hand.id.to_vec(), b"1000".to_vec(), b"0".to_vec(), long];
    assert_eq!(kind(world.raw("beat", &world.all_keys(&hand.id), &args).await), ErrorKind::InvalidArgument);
}

async fn showing_changes_nothing(world: &World) {
    let mut hand = world.open().await;
    world.create(&[job(1), job(2).retain(HOUR_MS), job(3)]).await;
    hand.take(1).await;
    let before = world.dump().await;
    done(world, &DonePage { after: None, limit: 9 }).await;
    world.store.running_list(&world.shard, &hand.id, &[], 9).await.unwrap();
    world.store.workers(&world.shard, &[hand.id]).await.unwrap();
    world.store.forecast(&world.shard, &[Duration::ZERO]).await.unwrap();
    world.store.queues(b"").await.unwrap();
    assert_eq!(world.dump().await, before);
}

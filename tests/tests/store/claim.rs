//! claim: due -> running, and what it settles on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use delayq::ErrorKind;
use delayq::envelope::Record;
use delayq::limits::CLAIM_MAX;
use delayq::store::ops::{Claim, End, Found, NewJob, Place, Settled, Verdict};
use delayq::store::{Member, Refusal};
use delayq_tests::store_kit::{AGES_MS, HOUR_MS, Id, Runs, Value, With, World, ask, id, job, kind};

delayq_tests::store_cases!(
    u_clocks_that_are_no_numbers_heal,
    u_b03_scores_beyond_all_times_keep_nobody_from_the_rest,
    claimed_jobs_are_held_and_wait_no_more,
    u_a_priority_with_nothing_due_leaves_the_others_jobs_alone,
    h_no_job_is_ever_early,
    low_priority_numbers_go_first_then_earlier_due_times,
    a_what_is_no_session_gets_nothing,
    c_a_seq_that_is_not_newer_is_refused,
    c_a_lost_reply_is_handed_back_by_reconcile,
    more_than_a_thousand_are_refused_whole,
    malformed_verdicts_are_refused_whole,
    n_what_expired_counts_as_scanned,
    n_a_claim_that_scanned_less_than_it_asked_for_is_not_full,
    expired_jobs_end_as_expired,
    b15_u_what_is_no_job_is_put_aside_and_the_rest_goes_on,
    b49_u_an_unreadable_record_becomes_a_dead_letter_as_it_is,
    j_bytes_are_capped_but_one_job_always_comes,
    claims_settle_first_and_can_take_what_they_gave_back,
    b12_many_sessions_share_due_jobs_without_overlap,
    b17_ten_thousand_due_in_one_ms_are_drained_in_bounded_calls,
    lost_stats_hide_no_priority_for_longer_than_a_beat,
);

async fn u_a_priority_with_nothing_due_leaves_the_others_jobs_alone(world: &World) {
    // The first priority is in use and holds nothing that is due; the second one's jobs want a closer look.
    world.create(&[job(1).priority(2).due("+3600000"), job(2).priority(5).retain(60_000), job(3).priority(5)]).await;
    let mut hand = world.open().await;
    let mut taken: Vec<_> = hand.take(10).await.iter().map(|run| run.id).collect();
    taken.sort_unstable();
    assert_eq!(taken, [id(2), id(3)]);
    assert_eq!(world.stat("quarantined").await, 0);
}

async fn claimed_jobs_are_held_and_wait_no_more(world: &World) {
    world.create(&[job(1), job(2).due("+3600000")]).await;
    let mut hand = world.open().await;
    let claimed = hand.claim(10, 0).await;
    let run = &claimed.runs()[0];
    assert_eq!(claimed.jobs.len(), 1);
    assert!(!claimed.paused && claimed.solo.is_none() && claimed.settled.is_empty());
    assert_eq!(world.score("due:5", id(1)).await, None);
    assert_eq!(world.place(&id(1)).await, Some(Place::Running));
    assert_eq!(world.place(&id(2)).await, Some(Place::Due));
    let held = world.read(&hand.held_name()).await.unwrap();
    assert_eq!(held, delayq_tests::store_kit::Value::Set(BTreeSet::from([run.member.as_bytes().to_vec()])));
    let stored = world.record(&id(1)).await;
    assert!(stored.run <= run.record.run && run.record.run <= world.now_ms().await, "d: the clock is the floor");
    assert!(Record { run: run.record.run, ..stored } == run.record, "a claim writes no record");
}

async fn h_no_job_is_ever_early(world: &World) {
    let mut hand = world.open().await;
    let started = Instant::now();
    let (mut sent, mut ran) = (0, 0);
    while ran < 200 {
        assert!(started.elapsed() < Duration::from_secs(20), "{ran} ran");
        if sent < 200 {
            world.create(&[job(sent).due(format!("+{}", sent % 6))]).await;
            sent += 1;
        }
        let claimed = hand.claim(10, 0).await;
        for run in claimed.runs() {
            assert!(
                claimed.now_us >= run.record.due_ms * 1000,
                "{} us early",
                run.record.due_ms * 1000 - claimed.now_us
            );
            hand.settle(&run, Verdict::Done).await;
            ran += 1;
        }
    }
}

async fn low_priority_numbers_go_first_then_earlier_due_times(world: &World) {
    let mut jobs: Vec<NewJob> = Vec::new();
    for priority in (0..=9).rev() {
        jobs.push(job(u64::from(priority) * 10 + 1).priority(priority).due("@2000"));
        jobs.push(job(u64::from(priority) * 10).priority(priority).due("@1000"));
    }
    world.create(&jobs).await;
    let mut hand = world.open().await;
    let mut order = Vec::new();
    for count in [1, 2, 3, 20] {
        order.extend(hand.take(count).await.into_iter().map(|run| run.id));
    }
    let wanted: Vec<Id> = (0..=9).flat_map(|p| [id(p * 10), id(p * 10 + 1)]).collect();
    assert_eq!(order, wanted);
}

async fn a_what_is_no_session_gets_nothing(world: &World) {
    world.create(&[job(1)]).await;
    let mut gone = world.open().await;
    gone.close().await;
    let mut fenced = world.open().await;
    world.set_score("sessions", fenced.id, Some(0)).await;
    let before = world.dump().await;
    for hand in [&mut gone, &mut fenced] {
        assert_eq!(hand.try_claim(ask(5)).await.unwrap_err(), Refusal::Lost);
        assert_eq!(hand.try_settle(&[(Member::new(&id(1), 1), Verdict::Done)]).await, Err(Refusal::Lost));
        assert_eq!(hand.reconcile(&[]).await, Err(Refusal::Lost));
        assert_eq!(hand.try_beat(0).await, Err(Refusal::Lost), "a renewal brings nothing back");
    }
    assert_eq!(world.dump().await, before);
}

async fn c_a_seq_that_is_not_newer_is_refused(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    hand.seq = 10;
    let run = hand.take(1).await.remove(0);
    let before = world.dump().await;
    for late in [0, 1, 10, 11] {
        hand.seq = late - u64::from(late > 0);
        assert_eq!(hand.try_claim(ask(5)).await.unwrap_err(), Refusal::Stale);
        hand.seq = late - u64::from(late > 0);
        assert_eq!(hand.try_settle(&[(run.member, Verdict::Done)]).await, Err(Refusal::Stale));
        hand.seq = late - u64::from(late > 0);
        assert_eq!(hand.reconcile(&[]).await, Err(Refusal::Stale));
    }
    assert_eq!(world.dump().await, before);
    hand.seq = 11;
    assert_eq!(hand.settle(&run, Verdict::Done).await, Settled::Accepted);
}

async fn c_a_lost_reply_is_handed_back_by_reconcile(world: &World) {
    world.create(&[job(1), job(2), job(3)]).await;
    let mut hand = world.open().await;
    let known = hand.take(1).await.remove(0);
    // The answer to this one never arrives.
    let lost = hand.take(2).await;
    let reconciled = hand.reconcile(&[known.member]).await.unwrap();
    assert!(!reconciled.more && reconciled.missing.is_empty());
    for run in &lost {
        let record = world.record(&run.id).await;
        assert_eq!((record.attempts, record.crashes, record.free_returns), (0, 0, 0), "nothing is charged");
        assert!(record.run > run.record.run, "the token of the lost claim is worth nothing");
        assert_eq!(hand.settle(run, Verdict::Done).await, Settled::NotHeld);
    }
    assert_eq!(world.place(&known.id).await, Some(Place::Running));
    assert_eq!(hand.take(5).await.len(), 2);
}

async fn more_than_a_thousand_are_refused_whole(world: &World) {
    world.create(&[job(1)]).await;
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    let before = world.dump().await;
    let many = vec![(run.member, Verdict::Done); 1001];
    for claim in [ask(0), ask(CLAIM_MAX + 1), Claim { verdicts: &many, ..ask(1) }] {
        let seq = hand.next_seq();
        let answer = world.store.claim(&world.shard, &hand.id, seq, claim).await;
        assert_eq!(kind(answer), ErrorKind::InvalidArgument);
    }
    let seq = hand.next_seq();
    assert_eq!(kind(world.store.settle(&world.shard, &hand.id, seq, &many).await), ErrorKind::InvalidArgument);
    assert_eq!(world.dump().await, before);
    let settled = hand.try_settle(&many[..1000]).await.unwrap();
    assert_eq!(settled[0], Settled::Accepted);
    assert!(settled[1..].iter().all(|settled| *settled == Settled::NotHeld), "one run ends once");
    assert_eq!(world.stat("done").await, 1);
}

async fn malformed_verdicts_are_refused_whole(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    let runs = hand.take(2).await;
    let good = [b"d", &runs[0].member.as_bytes()[..]].concat();
    let member = &runs[1].member.as_bytes()[..];
    let malformed: [Vec<u8>; 14] = [
        vec![],
        b"d".to_vec(),
        [b"d", &member[..21]].concat(),
        [b"d", member, b"x"].concat(),
        [b"t", member, b" "].concat(),
        [b"x", member, b"1"].concat(),
        [b"h", member, b"1"].concat(),
        [b"?", member].concat(),
        [b"r", member].concat(),
        [b"r", member, b"5"].concat(),
        [b"r", member, b"-5 text"].concat(),
        [b"s", member, b"5 text"].concat(),
        [b"b", member, b" no code"].concat(),
        [b"b", member, b"code"].concat(),
    ];
    let before = world.dump().await;
    for verdict in malformed {
        for script in ["settle", "claim"] {
            let mut args = vec![hand.id.to_vec(), b"99".to_vec()];
            if script == "claim" {
                args.extend([b"1".to_vec(), b"1000".to_vec(), b"0".to_vec(), vec![]]);
            }
            args.extend([good.clone(), verdict.clone()]);
            let answer = world.raw(script, &world.all_keys(&hand.id), &args).await;
            assert_eq!(kind(answer), ErrorKind::InvalidArgument, "{script} {}", verdict.escape_ascii());
            assert_eq!(world.dump().await, before, "{script} {}", verdict.escape_ascii());
        }
    }
}

async fn n_what_expired_counts_as_scanned(world: &World) {
    world.create(&[job(1).due("@1000").expires(1), job(2).due("@1000").expires(1), job(3).due("@2000")]).await;
    let mut hand = world.open().await;
    let claimed = hand.claim(2, 0).await;
    assert!(claimed.jobs.is_empty());
    assert!(claimed.more, "two were asked for and two were looked at: there may be more");
    assert_eq!(world.marker().await, Some(2000), "the next idle session is told");
    assert_eq!(hand.take(2).await.len(), 1);
}

async fn n_a_claim_that_scanned_less_than_it_asked_for_is_not_full(world: &World) {
    world.create(&[job(1), job(2), job(3).due("+3600000")]).await;
    let mut hand = world.open().await;
    let claimed = hand.claim(3, 0).await;
    assert_eq!(claimed.jobs.len(), 2);
    assert!(!claimed.more);
    assert!(claimed.timer.is_some(), "nobody else watches for the third");
}

async fn expired_jobs_end_as_expired(world: &World) {
    let live = job(3).due("@1000").expires(world.now_ms().await + HOUR_MS);
    world
        .create(&[job(1).due("@1000").expires(5).unique("k").retain(HOUR_MS), job(2).due("@1000").expires(0), live])
        .await;
    let mut hand = world.open().await;
    let runs = hand.take(10).await;
    assert_eq!(runs.iter().map(|run| run.id).collect::<Vec<_>>(), [id(3)]);
    for n in [1, 2] {
        assert_eq!(world.find(&id(n)).await, Found::Ended(End::Expired));
    }
    assert_eq!(world.stat("expired").await, 2);
    assert_eq!(world.field("unique", "k").await, None);
}

async fn b15_u_what_is_no_job_is_put_aside_and_the_rest_goes_on(world: &World) {
    world.create(&[job(1), job(2)]).await;
    world.set_score("due:5", "no record, 16 b.", Some(5)).await;
    world.set_score("due:5", "not an id", Some(6)).await;
    world.set_score("due:5", "", Some(7)).await;
    let mut hand = world.open().await;
    let runs = hand.take(10).await;
    assert_eq!(runs.len(), 2);
    assert_eq!(world.stat("quarantined").await, 3);
    assert_eq!(world.read("due:5").await, None, "it won't be met again");
    assert_eq!(world.stat("dead").await, 0, "of what has no record nothing can be kept");
    assert!(world.read("error").await.is_none());
}

async fn b49_u_an_unreadable_record_becomes_a_dead_letter_as_it_is(world: &World) {
    let fine = world.now_ms().await;
    let mut priority = vec![1; 40];
    priority[1] = b':';
    let mut extension = vec![1; 40];
    (extension[1], extension[28]) = (b'5', 12);
    let damaged: [&[u8]; 6] = [b"", b"x", &[0; 29], &[2; 60], &priority, &extension];
    for (n, bytes) in damaged.iter().enumerate() {
        world.set_field("jobs", id(n as u64), Some(bytes.to_vec())).await;
        world.set_score("due:5", id(n as u64), Some(5)).await;
    }
    world.create(&[job(100)]).await;
    let mut hand = world.open().await;
    assert_eq!(hand.take(10).await.len(), 1);
    for (n, bytes) in damaged.iter().enumerate() {
        let n = id(n as u64);
        assert_eq!(world.field("jobs", n).await.as_deref(), Some(*bytes));
        assert!(world.score("dead", n).await.unwrap() >= fine);
        assert!(world.note(&n).await.starts_with("undecodable "));
    }
    assert_eq!((world.stat("quarantined").await, world.stat("dead").await), (6, 6));
}

async fn j_bytes_are_capped_but_one_job_always_comes(world: &World) {
    let big = |n: u64| job(n).due(format!("@{}", 1000 + n)).envelope(vec![b'x'; 100_000]);
    let jobs: Vec<NewJob> = (0..30).map(big).collect();
    world.create(&jobs).await;
    let mut hand = world.open().await;
    let one = hand.try_claim(Claim { bytes: 1, ..ask(10) }).await.unwrap();
    assert_eq!(one.runs()[0].id, id(0));
    assert_eq!((one.jobs.len(), one.more), (1, true));
    let some = hand.try_claim(Claim { bytes: 1_200_000, ..ask(100) }).await.unwrap();
    assert_eq!((some.jobs.len(), some.more), (12, true), "the one that reaches the cap is the last");
    assert_eq!(some.runs()[11].id, id(12));
    let rest = hand.claim(100, 0).await;
    assert_eq!((rest.jobs.len(), rest.more), (17, false));
}

async fn claims_settle_first_and_can_take_what_they_gave_back(world: &World) {
    world.create(&[job(1), job(2), job(3)]).await;
    let mut hand = world.open().await;
    let runs = hand.take(3).await;
    let retry = Verdict::Retry { delay_ms: 0, error: "again".to_owned() };
    let verdicts = [
        (runs[0].member, Verdict::Done),
        (runs[1].member, Verdict::HandBack),
        (runs[2].member, retry),
        (runs[0].member, Verdict::HandBack),
    ];
    let claimed = hand.try_claim(Claim { verdicts: &verdicts, ..ask(10) }).await.unwrap();
    assert_eq!(claimed.settled, [Settled::Accepted, Settled::Accepted, Settled::Accepted, Settled::NotHeld]);
    let back = claimed.runs();
    assert_eq!(back[0].id, id(2), "what was handed back is due as before");
    assert!(back[0].record.run > runs[1].record.run);
    // The retry is due at the next whole millisecond: in this claim or in a later one.
    let mut ids: BTreeSet<Id> = back.iter().map(|run| run.id).collect();
    while ids.len() < 2 {
        ids.extend(hand.take(10).await.iter().map(|run| run.id));
    }
    assert_eq!(ids, BTreeSet::from([id(2), id(3)]));
}

async fn b12_many_sessions_share_due_jobs_without_overlap(world: &World) {
    let jobs: Vec<NewJob> = (0..600).map(|n| job(n).due("@1000")).collect();
    world.create(&jobs).await;
    let mut hands = Vec::new();
    for _ in 0..6 {
        hands.push(world.open().await);
    }
    let mut claims = Vec::new();
    for mut hand in hands {
        claims.push(async move {
            let mut ids = Vec::new();
            loop {
                let runs = hand.take(7).await;
                if runs.is_empty() {
                    return ids;
                }
                ids.extend(runs.iter().map(|run| run.id));
            }
        });
    }
    let [a, b, c, d, e, f] = claims.try_into().unwrap_or_else(|_| panic!("six sessions"));
    let (a, b, c, d, e, f) = tokio::join!(a, b, c, d, e, f);
    let all: Vec<Id> = [a, b, c, d, e, f].concat();
    assert_eq!(all.len(), 600);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 600, "no job is given twice");
}

async fn b17_ten_thousand_due_in_one_ms_are_drained_in_bounded_calls(world: &World) {
    let due = world.now_ms().await + 100;
    let jobs: Vec<NewJob> = (0..12_000).map(|n| job(n).due(format!("@{due}")).expires(HOUR_MS)).collect();
    for batch in jobs.chunks(1000) {
        world.create(batch).await;
    }
    world.sleep_until(due).await;
    let mut hand = world.open().await;
    let (mut ran, mut verdicts) = (0, Vec::new());
    loop {
        let claimed = hand.try_claim(Claim { verdicts: &verdicts, ..ask(CLAIM_MAX) }).await.unwrap();
        // However many are due, a call has no more to do than it was asked for.
        assert!(claimed.jobs.len() <= CLAIM_MAX);
        ran += claimed.jobs.len();
        if claimed.jobs.is_empty() {
            break;
        }
        verdicts = claimed.runs().iter().map(|run| (run.member, Verdict::DoneExtended)).collect();
    }
    assert_eq!(ran, 12_000);
    assert_eq!(world.stat("done").await, 12_000);
}

async fn lost_stats_hide_no_priority_for_longer_than_a_beat(world: &World) {
    world.create(&[job(1).priority(0), job(2).priority(9)]).await;
    let mut hand = world.open().await;
    world.write("stats", None).await;
    assert_eq!(hand.take(1).await.len(), 1, "without a list, every priority is looked at");
    world.create(&[job(3).priority(4).due("+3600000")]).await;
    hand.beat().await;
    assert_eq!(world.field("stats", "priorities").await.unwrap(), b"49");
    assert_eq!(hand.take(5).await.len(), 1);
}

async fn u_clocks_that_are_no_numbers_heal(world: &World) {
    let mut hand = world.open().await;
    world.create(&[job(1), job(2).due(format!("@{AGES_MS}"))]).await;
    for field in ["timer_at", "last_beat", "lease_max", "hold_until", "cancelling"] {
        world.set_field("stats", field, Some(b"soon".to_vec())).await;
    }
    hand.beat().await;
    let run = hand.take_one().await;
    assert_eq!(hand.settle(&run, Verdict::Done).await, Settled::Accepted);
    hand.claim(10, 0).await;
    assert_eq!(world.timer_at().await, Some(AGES_MS), "the next due time is watched again");
    let mut other = world.open().await;
    assert!(other.take(1).await.is_empty());
    world.set_field("stats", "cancelling", None).await;
}

async fn u_b03_scores_beyond_all_times_keep_nobody_from_the_rest(world: &World) {
    let mut hand = world.open().await;
    for (n, score) in (1..).zip([f64::INFINITY, 1e300, 9_223_372_036_854_775_808.0, 9_007_199_254_740_992.0]) {
        world.create(&[job(n).due("+3600000")]).await;
        world.write("due:5", Some(Value::Sorted(BTreeMap::from([(id(n).to_vec(), score)])))).await;
        // Who watches is given an instant to watch, if a far one.
        let watched = hand.claim(10, world.timer_at().await.unwrap()).await.timer.map(|(_, due_ms)| due_ms);
        assert!(watched.is_some_and(|due_ms| due_ms > AGES_MS), "{score}: {watched:?}");
        world.store.pass(&world.shard).await.unwrap();
        world.create(&[job(100 + n)]).await;
        assert_eq!(hand.run_one(Verdict::Done).await.id, id(100 + n), "{score}");
        hand.try_beat(watched.unwrap()).await.unwrap();
        assert_eq!(world.store.stats(&world.shard).await.unwrap().waiting, 1);
        world.store.cancel(&world.shard, &id(n)).await.unwrap();
    }
}

//! settle: running -> done, retained, due, dead, or gone.

use delayq::limits::DUE_MAX_MS;
use delayq::store::ops::{Cancelled, End, Found, Place, Settled, Verdict};
use delayq::store::{Member, Refusal};
use delayq::{DeadReason, JobId};
use delayq_tests::store_kit::{AGES_MS, HOUR_MS, Value, With, World, id, job};

delayq_tests::store_cases!(
    done_leaves_nothing_but_a_count,
    i_done_young_leaves_a_tombstone,
    done_extended_forgets_the_error_and_the_key,
    done_extended_keeps_the_record_for_its_retention,
    retries_spend_an_attempt_and_are_due_after_their_delay,
    q_a_snooze_is_counted_and_spends_no_attempt,
    handing_back_is_as_if_nothing_had_been_claimed,
    discard_and_bury_end_a_job,
    far_delays_end_with_the_year_9999,
    counts_in_the_record_saturate,
    k_the_same_settle_twice_has_one_effect,
    d_only_the_very_run_that_is_held_can_be_settled,
    b15_u_a_job_without_a_record_is_told_apart,
    u_an_unreadable_record_becomes_a_dead_letter,
    b45_b46_payloads_come_back_byte_for_byte,
    an_empty_settle_is_an_event_of_its_own,
);

/// Every verdict that keeps nobody waiting.
pub(crate) fn verdicts() -> Vec<Verdict> {
    vec![
        Verdict::Done,
        Verdict::DoneYoung,
        Verdict::DoneExtended,
        Verdict::Retry { delay_ms: HOUR_MS, error: "it broke".to_owned() },
        Verdict::Snooze { delay_ms: HOUR_MS },
        Verdict::HandBack,
        Verdict::Discard,
        Verdict::Bury { reason: DeadReason::Buried, error: "enough".to_owned() },
    ]
}

async fn done_leaves_nothing_but_a_count(world: &World) {
    world.create(&[job(1)]).await;
    let mut hand = world.open().await;
    hand.run_one(Verdict::Done).await;
    assert_eq!(world.find(&id(1)).await, Found::None);
    for name in ["jobs", "error", "tombs", "dead", "done", &hand.held_name()] {
        assert_eq!(world.read(name).await, None, "{name}");
    }
    assert_eq!(world.stat("done").await, 1);
}

async fn i_done_young_leaves_a_tombstone(world: &World) {
    world.create(&[job(1)]).await;
    world.open().await.run_one(Verdict::DoneYoung).await;
    assert_eq!(world.find(&id(1)).await, Found::Ended(End::Done));
    assert_eq!(world.read("jobs").await, None);
    assert_eq!(world.stat("done").await, 1);
}

async fn done_extended_forgets_the_error_and_the_key(world: &World) {
    world.create(&[job(1).unique("k")]).await;
    let mut hand = world.open().await;
    hand.run_one(Verdict::Retry { delay_ms: 0, error: "it broke".to_owned() }).await;
    assert!(world.note(&id(1)).await.ends_with("it broke"));
    world.sleep_until(world.record(&id(1)).await.due_ms).await;
    hand.run_one(Verdict::DoneExtended).await;
    assert_eq!(world.find(&id(1)).await, Found::Ended(End::Done));
    assert_eq!((world.read("error").await, world.read("unique").await), (None, None));
}

async fn done_extended_keeps_the_record_for_its_retention(world: &World) {
    world.create(&[job(1).retain(HOUR_MS).unique("k"), job(2).due("+3600000")]).await;
    let mut hand = world.open().await;
    let before = world.now_ms().await;
    hand.run_one(Verdict::DoneExtended).await;
    let Found::Job { place: Place::Done, at_ms, record, .. } = world.find(&id(1)).await else { panic!("retained") };
    assert!((before + HOUR_MS..=world.now_ms().await + HOUR_MS).contains(&at_ms));
    assert_eq!(&record[..], world.field("jobs", id(1)).await.unwrap());
    assert_eq!(world.read("unique").await, None, "a job that is done keeps nobody out");
    // Its time comes.
    world.set_score("done", id(1), Some(before)).await;
    world.create(&[job(3)]).await;
    hand.run_one(Verdict::Done).await;
    assert_eq!((world.read("done").await, world.find(&id(1)).await), (None, Found::None));
}

async fn retries_spend_an_attempt_and_are_due_after_their_delay(world: &World) {
    world.create(&[job(1).expires(AGES_MS)]).await;
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    let before_us = world.now_us().await;
    let retry = Verdict::Retry { delay_ms: 5000, error: "line 1\nline 2\0 \u{1f600}".to_owned() };
    assert_eq!(hand.settle(&run, retry).await, Settled::Accepted);
    let record = world.record(&id(1)).await;
    assert_eq!((record.attempts, record.free_returns, record.crashes), (1, 0, 0));
    assert!(record.run > run.record.run);
    assert!(record.due_ms * 1000 >= before_us + 5_000_000 && record.due_ms <= world.now_ms().await + 5001);
    assert_eq!(world.score("due:5", id(1)).await, Some(record.due_ms));
    assert_eq!(record.envelope, run.record.envelope);
    assert_eq!(record.enqueued_ms, run.record.enqueued_ms);
    let note = world.note(&id(1)).await;
    let (head, text) = note.split_once('\n').unwrap();
    assert!(head.starts_with("retry ") && head.ends_with(" 1"), "{head}");
    assert_eq!(text, "line 1\nline 2\0 \u{1f600}");
    assert_eq!(world.stat("retried").await, 1);
}

async fn q_a_snooze_is_counted_and_spends_no_attempt(world: &World) {
    world.create(&[job(1)]).await;
    let mut hand = world.open().await;
    for times in 1..=3u16 {
        hand.run_one(Verdict::Snooze { delay_ms: 0 }).await;
        let record = world.record(&id(1)).await;
        assert_eq!((record.free_returns, record.attempts), (times, 0));
        world.sleep_until(record.due_ms).await;
    }
    assert_eq!(world.stat("snoozed").await, 3);
}

async fn handing_back_is_as_if_nothing_had_been_claimed(world: &World) {
    world.create(&[job(1).due("@1000")]).await;
    let before = world.record(&id(1)).await;
    let mut hand = world.open().await;
    hand.run_one(Verdict::HandBack).await;
    let mut after = world.record(&id(1)).await;
    assert!(after.run > before.run);
    after.run = before.run;
    assert_eq!(after, before, "only the token is another");
    assert_eq!(world.score("due:5", id(1)).await, Some(1000));
    assert_eq!(world.stat("returned").await, 1);
}

async fn discard_and_bury_end_a_job(world: &World) {
    world.create(&[job(1).unique("a"), job(2).unique("b")]).await;
    let mut hand = world.open().await;
    let runs = hand.take(2).await;
    assert_eq!(hand.settle(&runs[0], Verdict::Discard).await, Settled::Accepted);
    assert_eq!(world.find(&id(1)).await, Found::Ended(End::Discarded));
    let before = world.now_ms().await;
    let bury = Verdict::Bury { reason: DeadReason::RetriesExhausted, error: "the last one".to_owned() };
    assert_eq!(hand.settle(&runs[1], bury).await, Settled::Accepted);
    let Found::Job { place: Place::Dead, at_ms, note, .. } = world.find(&id(2)).await else { panic!("dead") };
    assert!((before..=world.now_ms().await).contains(&at_ms));
    let note = String::from_utf8(note).unwrap();
    assert_eq!(note, format!("retries_exhausted {at_ms} 1\nthe last one"));
    assert_eq!(world.record(&id(2)).await.attempts, 1);
    assert_eq!((world.stat("discarded").await, world.stat("dead").await), (1, 1));
    assert_eq!(world.read("unique").await, None);
}

async fn far_delays_end_with_the_year_9999(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    let runs = hand.take(2).await;
    hand.settle(&runs[0], Verdict::Retry { delay_ms: u64::MAX, error: String::new() }).await;
    hand.settle(&runs[1], Verdict::Snooze { delay_ms: DUE_MAX_MS }).await;
    for n in [1, 2] {
        assert_eq!(world.record(&id(n)).await.due_ms, DUE_MAX_MS);
        assert_eq!(world.score("due:5", id(n)).await, Some(DUE_MAX_MS));
    }
}

async fn counts_in_the_record_saturate(world: &World) {
    world.create(&[job(1).attempts(65_535)]).await;
    let mut hand = world.open().await;
    let mut bytes = world.field("jobs", id(1)).await.unwrap();
    bytes[4..8].fill(0xff);
    world.set_field("jobs", id(1), Some(bytes)).await;
    hand.run_one(Verdict::Snooze { delay_ms: 0 }).await;
    assert_eq!(world.record(&id(1)).await.free_returns, u16::MAX);
    world.sleep_until(world.record(&id(1)).await.due_ms).await;
    hand.run_one(Verdict::Retry { delay_ms: HOUR_MS, error: String::new() }).await;
    let record = world.record(&id(1)).await;
    assert_eq!((record.attempts, record.attempts_max), (65_534, None), "no limit stays no limit");
}

async fn k_the_same_settle_twice_has_one_effect(world: &World) {
    for (n, verdict) in verdicts().into_iter().enumerate() {
        let n = n as u64;
        world.create(&[job(n).unique(&n.to_string())]).await;
        let mut hand = world.open().await;
        let run = hand.take_one().await;
        assert_eq!(hand.settle(&run, verdict.clone()).await, Settled::Accepted);
        let before = world.dump().await;
        hand.seq -= 1;
        assert_eq!(hand.try_settle(&[(run.member, verdict.clone())]).await, Err(Refusal::Stale), "{verdict:?}");
        assert_eq!(world.dump().await, before, "{verdict:?}");
        assert_eq!(hand.settle(&run, verdict.clone()).await, Settled::NotHeld, "{verdict:?}");
        assert_eq!(world.dump().await.without_stats(&["seq:"]), before.without_stats(&["seq:"]), "{verdict:?}");
        if world.place(&id(n)).await == Some(Place::Due) {
            assert_eq!(world.store.cancel(&world.shard, &id(n)).await.unwrap(), Cancelled::Cancelled);
        }
        // Done without a look leaves the unique key to the next sender, who finds its owner gone.
        world.set_field("unique", n.to_string(), None).await;
    }
}

async fn d_only_the_very_run_that_is_held_can_be_settled(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let (mut mine, mut theirs) = (world.open().await, world.open().await);
    let my_run = mine.take(1).await.remove(0);
    let their_run = theirs.take(1).await.remove(0);
    let strange = [
        their_run.member,
        Member::new(&my_run.id, my_run.record.run + 1),
        Member::new(&my_run.id, my_run.record.run - 1),
        Member::new(&my_run.id, 0),
        Member::new(JobId::new().as_uuid().as_bytes(), my_run.record.run),
    ];
    let before = world.dump().await;
    for verdict in verdicts() {
        let refused: Vec<_> = strange.iter().map(|member| (*member, verdict.clone())).collect();
        assert_eq!(mine.try_settle(&refused).await.unwrap(), [Settled::NotHeld; 5]);
    }
    assert_eq!(world.dump().await.without_stats(&["seq:"]), before.without_stats(&["seq:"]));
}

async fn b15_u_a_job_without_a_record_is_told_apart(world: &World) {
    let mut hand = world.open().await;
    for (n, verdict) in verdicts().into_iter().enumerate() {
        let n = n as u64;
        world.create(&[job(n)]).await;
        let run = hand.take_one().await;
        world.set_field("jobs", id(n), None).await;
        let looked_up = !matches!(verdict, Verdict::Done | Verdict::DoneYoung);
        let wanted = if looked_up { Settled::Missing } else { Settled::Accepted };
        assert_eq!(hand.settle(&run, verdict.clone()).await, wanted, "{verdict:?}");
        assert_eq!(world.read("jobs").await, None, "{verdict:?} brings nothing back");
        assert_eq!(world.read(&hand.held_name()).await, None);
    }
    assert_eq!((world.stat("quarantined").await, world.stat("done").await), (6, 2));
}

async fn u_an_unreadable_record_becomes_a_dead_letter(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    let runs = hand.take(2).await;
    world.set_field("jobs", runs[0].id, Some(b"damaged".to_vec())).await;
    let verdicts = [(runs[0].member, Verdict::HandBack), (runs[1].member, Verdict::HandBack)];
    assert_eq!(hand.try_settle(&verdicts).await.unwrap(), [Settled::Missing, Settled::Accepted]);
    assert_eq!(world.place(&runs[0].id).await, Some(Place::Dead), "what exists of it can be looked at");
    assert_eq!((world.stat("quarantined").await, world.stat("dead").await), (1, 1));
}

async fn b45_b46_payloads_come_back_byte_for_byte(world: &World) {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let payloads: Vec<Vec<u8>> = vec![
        b"a 1\n{\"i\":9007199254740993,\"u\":18446744073709551615,\"m\":-9223372036854775808,\"f\":1.0}".to_vec(),
        b"a 1\n{\"v\":[],\"m\":{},\"o\":null,\"n\":[[],{}]}".to_vec(),
        b"".to_vec(),
        b"\xff\xfe".to_vec(),
        "a 1\n\0 \u{1f600} \u{202e}rtl\r\n".as_bytes().to_vec(),
        all_bytes,
        vec![b'x'; 1024 * 1024],
    ];
    for (n, bytes) in payloads.iter().enumerate() {
        let n = n as u64;
        world.create(&[job(n).unique("k").expires(AGES_MS).envelope(bytes.clone())]).await;
        let mut hand = world.open().await;
        let buried = Verdict::Bury { reason: DeadReason::Buried, error: String::new() };
        for verdict in [
            Verdict::Retry { delay_ms: 0, error: String::new() },
            Verdict::Snooze { delay_ms: 0 },
            Verdict::HandBack,
            buried,
        ] {
            let run = hand.run_one(verdict).await;
            assert!(run.record.envelope == bytes);
            world.sleep_until(world.record(&id(n)).await.due_ms).await;
        }
        world.store.dead_redrive(&world.shard, &[id(n).to_vec()]).await.unwrap();
        world.sleep_until(world.record(&id(n)).await.due_ms).await;
        assert!(hand.run_one(Verdict::DoneExtended).await.record.envelope == bytes);
    }
}

async fn an_empty_settle_is_an_event_of_its_own(world: &World) {
    let mut hand = world.open().await;
    hand.seq = 4;
    assert_eq!(hand.try_settle(&[]).await.unwrap(), []);
    hand.seq = 4;
    assert_eq!(hand.try_settle(&[]).await, Err(Refusal::Stale));
    assert!(matches!(world.read("stats").await, Some(Value::Hash(_))));
}

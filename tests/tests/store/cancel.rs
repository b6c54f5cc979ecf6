//! cancel: due -> none; a job that runs is flagged, and ends as cancelled unless it succeeds.

use delayq::ErrorKind;
use delayq::envelope::Record;
use delayq::store::ops::{Cancelled, End, Found, NewJob, Place, Rescue, Settled, Verdict};
use delayq_tests::store_kit::{Hand, Run, With, World, id, job, kind};

use super::settle::verdicts;

delayq_tests::store_cases!(
    waiting_jobs_are_gone_at_once,
    k_a_repeated_cancel_answers_the_same,
    jobs_that_ended_say_how,
    o_a_running_job_is_flagged_once,
    o_each_verdict_for_a_cancelled_run,
    o_done_through_the_short_form_counts_the_flag_down,
    o_handing_back_by_reconcile_cancels,
    o_rescue_cancels,
    o_a_flag_is_no_others_business,
    o_u_a_flagged_job_whose_record_is_gone,
    an_unreadable_record_is_said_to_be_one,
);

async fn cancel(world: &World, n: u64) -> Cancelled {
    world.store.cancel(&world.shard, &id(n)).await.unwrap()
}

async fn flagged(world: &World, new: NewJob) -> (Hand<'_>, Run) {
    world.create(&[new]).await;
    let mut hand = world.open().await;
    let run = hand.take_one().await;
    assert_eq!(world.store.cancel(&world.shard, &run.id).await.unwrap(), Cancelled::Running);
    (hand, run)
}

async fn waiting_jobs_are_gone_at_once(world: &World) {
    world.create(&[job(1).unique("k").due("+3600000"), job(2)]).await;
    for n in [1, 2] {
        assert_eq!(cancel(world, n).await, Cancelled::Cancelled);
        assert_eq!(world.find(&id(n)).await, Found::Ended(End::Cancelled));
    }
    for name in ["jobs", "due:5", "unique", "error"] {
        assert_eq!(world.read(name).await, None, "{name}");
    }
    assert_eq!(world.stat("cancelled").await, 2);
    assert!(world.open().await.take(5).await.is_empty());
}

async fn k_a_repeated_cancel_answers_the_same(world: &World) {
    world.create(&[job(1)]).await;
    assert_eq!(cancel(world, 1).await, Cancelled::Cancelled);
    let before = world.dump().await;
    assert_eq!(cancel(world, 1).await, Cancelled::Cancelled);
    assert_eq!(world.dump().await, before);
}

async fn jobs_that_ended_say_how(world: &World) {
    assert_eq!(cancel(world, 99).await, Cancelled::None);
    let ends = [
        (job(1), Verdict::DoneYoung, Cancelled::Ended(End::Done)),
        (job(2).retain(60_000), Verdict::DoneExtended, Cancelled::Done),
        (job(3), Verdict::Discard, Cancelled::Ended(End::Discarded)),
        (job(4), Verdict::Bury { reason: delayq::DeadReason::Buried, error: String::new() }, Cancelled::Dead),
        (job(5), Verdict::Done, Cancelled::None),
    ];
    let mut hand = world.open().await;
    for (new, verdict, wanted) in ends {
        world.create(std::slice::from_ref(&new)).await;
        hand.run_one(verdict).await;
        let before = world.dump().await;
        assert_eq!(world.store.cancel(&world.shard, &new.id).await.unwrap(), wanted);
        assert_eq!(world.dump().await, before, "{wanted:?}");
    }
}

async fn o_a_running_job_is_flagged_once(world: &World) {
    let (_hand, run) = flagged(world, job(1)).await;
    let before = world.dump().await;
    assert_eq!(cancel(world, 1).await, Cancelled::Running);
    assert_eq!(world.dump().await, before);
    let mut record = world.record(&id(1)).await;
    assert!(record.cancel_waits);
    record.cancel_waits = false;
    assert_eq!(Record { run: run.record.run, ..record }, run.record, "the flag is all that changed");
    assert_eq!(world.stat("cancelling").await, 1);
}

async fn o_each_verdict_for_a_cancelled_run(world: &World) {
    for (n, verdict) in verdicts().into_iter().enumerate() {
        let n = n as u64;
        let (mut hand, run) = flagged(world, job(n).unique("k")).await;
        let settled = hand.settle(&run, verdict.clone()).await;
        let (wanted, found) = match &verdict {
            // What succeeded has; whatever else came of the run, somebody wanted the job gone.
            Verdict::Done | Verdict::DoneYoung | Verdict::DoneExtended => (Settled::Accepted, Found::Ended(End::Done)),
            _ => (Settled::Cancelled, Found::Ended(End::Cancelled)),
        };
        assert_eq!((settled, world.find(&id(n)).await), (wanted, found), "{verdict:?}");
        assert_eq!(world.stat("cancelling").await, 0, "{verdict:?}");
        assert_eq!(world.read("unique").await, None, "{verdict:?}");
        world.assert_conserved().await;
    }
    assert_eq!((world.stat("cancelled").await, world.stat("done").await), (5, 3));
}

async fn o_done_through_the_short_form_counts_the_flag_down(world: &World) {
    world.create(&[job(1), job(2), job(3)]).await;
    let mut hand = world.open().await;
    let runs = hand.take(3).await;
    assert_eq!(cancel(world, 2).await, Cancelled::Running);
    // While any cancel waits, what else would need no look gets one.
    let verdicts: Vec<_> = runs.iter().map(|run| (run.member, Verdict::Done)).collect();
    assert_eq!(hand.try_settle(&verdicts).await.unwrap(), [Settled::Accepted; 3]);
    assert_eq!((world.stat("cancelling").await, world.stat("done").await), (0, 3));
}

async fn o_handing_back_by_reconcile_cancels(world: &World) {
    let (mut hand, run) = flagged(world, job(1).unique("k")).await;
    hand.reconcile(&[]).await.unwrap();
    assert_eq!(world.find(&run.id).await, Found::Ended(End::Cancelled));
    assert_eq!((world.stat("cancelling").await, world.stat("cancelled").await), (0, 1));
    assert_eq!(world.read("unique").await, None);
}

async fn o_rescue_cancels(world: &World) {
    let (hand, run) = flagged(world, job(1).unique("k")).await;
    world.expire(&hand.id).await;
    let rescue = world.store.rescue(&world.shard, &hand.id, 10).await.unwrap();
    assert_eq!(rescue, Rescue::Took { more: false, given_back: 0, buried: 0, cancelled: 1, quarantined: 0 });
    assert_eq!(world.find(&run.id).await, Found::Ended(End::Cancelled));
    assert_eq!((world.stat("cancelling").await, world.stat("cancelled").await), (0, 1));
    assert_eq!(world.read("unique").await, None);
}

async fn o_a_flag_is_no_others_business(world: &World) {
    world.create(&[job(1), job(2)]).await;
    let mut hand = world.open().await;
    let runs = hand.take(2).await;
    assert_eq!(cancel(world, 1).await, Cancelled::Running);
    assert_eq!(hand.settle(&runs[1], Verdict::HandBack).await, Settled::Accepted);
    assert_eq!(world.place(&id(2)).await, Some(Place::Due));
    assert_eq!(world.stat("cancelling").await, 1);
}

async fn o_u_a_flagged_job_whose_record_is_gone(world: &World) {
    let (mut hand, run) = flagged(world, job(1)).await;
    world.set_field("jobs", run.id, None).await;
    assert_eq!(hand.settle(&run, Verdict::HandBack).await, Settled::Missing);
    assert_eq!(cancel(world, 1).await, Cancelled::None);
    // Nothing can say that this one was flagged: the count is only ever too high, which costs a look, not a job.
    world.leaves_damage();
}

async fn an_unreadable_record_is_said_to_be_one(world: &World) {
    world.create(&[job(1)]).await;
    world.set_field("jobs", id(1), Some(b"damaged".to_vec())).await;
    let before = world.dump().await;
    assert_eq!(kind(world.store.cancel(&world.shard, &id(1)).await), ErrorKind::Corrupt);
    assert_eq!(kind(world.store.inspect(&world.shard, &id(1)).await), ErrorKind::Corrupt);
    assert_eq!(kind(world.store.reschedule(&world.shard, &id(1), "+5").await), ErrorKind::Corrupt);
    assert_eq!(world.dump().await, before);
    assert!(world.open().await.take(5).await.is_empty(), "the next claim puts it aside");
}

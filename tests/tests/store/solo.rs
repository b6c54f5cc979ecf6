//! Rule p: a job that takes its workers with it is found out, and its neighbours are not charged for it.

use delayq::store::ops::{Claim, NewJob, Place, Rescue, Verdict};
use delayq_tests::store_kit::{HOUR_MS, Hand, Runs, With, World, ask, id, job};

delayq_tests::store_cases!(
    p_the_first_crash_is_charged_and_the_second_only_remembered,
    p_a_second_crash_comes_back_apart_from_its_neighbours,
    p_only_a_crash_alone_buries_as_a_crash_loop,
    p_a_crash_on_the_last_attempt_buries,
    p_a_job_on_its_last_life_is_claimed_only_by_an_empty_session,
    p_it_comes_alone_even_where_more_is_due,
    p_others_go_on_while_it_waits_to_be_alone,
    p_a_worker_that_runs_something_else_is_not_given_what_must_run_alone,
    p_taken_alone_by_id,
    p_what_doesnt_want_to_be_alone_isnt_taken_by_id,
    h_p_a_job_that_was_put_off_meanwhile_is_not_taken_early,
    p_a_job_that_expired_meanwhile_is_not_taken,
    p_a_redriven_job_is_remembered,
    p_success_after_crashes_is_success,
);

/// The session's worker dies, and what it held is taken back.
async fn crash(world: &World, hand: Hand<'_>) -> Rescue {
    world.expire(&hand.id).await;
    world.store.rescue(&world.shard, &hand.id, 500).await.unwrap()
}

/// A job as two crashes leave it, due.
async fn on_its_last_life(world: &World, new: NewJob) {
    world.create(std::slice::from_ref(&new)).await;
    let mut bytes = world.field("jobs", new.id).await.unwrap();
    bytes[3] = 2;
    world.set_field("jobs", new.id, Some(bytes)).await;
}

async fn p_the_first_crash_is_charged_and_the_second_only_remembered(world: &World) {
    world.create(&[job(1).attempts(2), job(2).attempts(2), job(3).attempts(2)]).await;
    for crashes in 1..=2 {
        let mut hand = world.open().await;
        assert_eq!(hand.take(10).await.len(), 3);
        assert!(matches!(crash(world, hand).await, Rescue::Took { given_back: 3, buried: 0, .. }));
        for n in 1..=3 {
            let record = world.record(&id(n)).await;
            assert_eq!((record.attempts, record.crashes), (1, crashes), "neighbours pay for one crash, not for more");
        }
    }
    assert_eq!(world.stat("crashed").await, 6);
}

async fn p_a_second_crash_comes_back_apart_from_its_neighbours(world: &World) {
    let mut spread = job(2);
    spread.id[14..].fill(0xff);
    world.create(&[job(1), spread.clone()]).await;
    let mut before = 0;
    for _ in 0..2 {
        let mut hand = world.open().await;
        hand.take(10).await;
        before = world.now_ms().await;
        crash(world, hand).await;
    }
    let after = world.now_ms().await;
    let (first, second) = (world.record(&id(1)).await.due_ms, world.record(&spread.id).await.due_ms);
    assert!((before + 2000..=after + 2000).contains(&first), "{first}");
    assert_eq!(second - first, 2000, "the id's random bits spread them over two seconds");
    assert_eq!(world.score("due:5", spread.id).await, Some(second));
}

async fn p_only_a_crash_alone_buries_as_a_crash_loop(world: &World) {
    on_its_last_life(world, job(1).attempts(65_535).unique("k")).await;
    let mut hand = world.open().await;
    hand.take_one().await;
    assert!(matches!(crash(world, hand).await, Rescue::Took { given_back: 0, buried: 1, .. }));
    assert_eq!(world.place(&id(1)).await, Some(Place::Dead));
    assert!(world.note(&id(1)).await.starts_with("crash_loop "));
    assert_eq!(world.stat("dead").await, 1);
    assert_eq!(world.read("unique").await, None, "b74: a crashed job keeps no successor out");
}

async fn p_a_crash_on_the_last_attempt_buries(world: &World) {
    world.create(&[job(1).attempts(1).unique("k")]).await;
    let mut hand = world.open().await;
    hand.take_one().await;
    assert!(matches!(crash(world, hand).await, Rescue::Took { given_back: 0, buried: 1, .. }));
    assert!(world.note(&id(1)).await.starts_with("retries_exhausted "));
    assert_eq!(world.record(&id(1)).await.attempts, 1);
    assert_eq!(world.read("unique").await, None);
}

async fn p_a_job_on_its_last_life_is_claimed_only_by_an_empty_session(world: &World) {
    world.create(&[job(1).due("@1000")]).await;
    let mut hand = world.open().await;
    let busy = hand.take_one().await;
    on_its_last_life(world, job(2)).await;
    let before = world.now_ms().await;
    let claimed = hand.claim(10, 0).await;
    assert!(claimed.jobs.is_empty());
    assert_eq!(claimed.solo, Some(id(2)), "this session may empty itself for it");
    let put_off = world.score("due:5", id(2)).await.unwrap();
    assert!((before + 1000..=world.now_ms().await + 1000).contains(&put_off));
    assert!(world.record(&id(2)).await.due_ms <= before, "it is still due, and out of the way");
    hand.settle(&busy, Verdict::Done).await;
    assert_eq!(hand.take_alone(id(2)).await.len(), 1);
}

async fn p_it_comes_alone_even_where_more_is_due(world: &World) {
    on_its_last_life(world, job(1).due("@1000")).await;
    world.create(&[job(2).due("@2000"), job(3).due("@2000").priority(9)]).await;
    let mut hand = world.open().await;
    let claimed = hand.claim(10, 0).await;
    assert_eq!(claimed.runs()[0].id, id(1));
    assert_eq!((claimed.jobs.len(), claimed.more), (1, true));
    assert_eq!(world.marker().await, Some(2000), "what it left is for others");
}

async fn p_others_go_on_while_it_waits_to_be_alone(world: &World) {
    world.create(&[job(1).due("@1000")]).await;
    on_its_last_life(world, job(2).due("@2000")).await;
    on_its_last_life(world, job(3).due("@2000")).await;
    world.create(&[job(4).due("@3000")]).await;
    let mut hand = world.open().await;
    let claimed = hand.claim(10, 0).await;
    assert_eq!(claimed.runs().iter().map(|run| run.id).collect::<Vec<_>>(), [id(1), id(4)]);
    assert!(claimed.solo == Some(id(2)) || claimed.solo == Some(id(3)));
    assert!(hand.take(10).await.is_empty());
}

async fn p_a_worker_that_runs_something_else_is_not_given_what_must_run_alone(world: &World) {
    on_its_last_life(world, job(1).due("@1000")).await;
    world.create(&[job(2).due("@2000")]).await;
    let mut hand = world.open().await;
    // What it runs is another queue's: this session holds nothing.
    let claimed = hand.try_claim(Claim { in_company: true, ..ask(10) }).await.unwrap();
    assert_eq!(claimed.runs().iter().map(|run| run.id).collect::<Vec<_>>(), [id(2)]);
    assert_eq!(claimed.solo, Some(id(1)));
}

async fn p_taken_alone_by_id(world: &World) {
    on_its_last_life(world, job(1).due("@1000")).await;
    world.create(&[job(2).due("@1000")]).await;
    let mut hand = world.open().await;
    let claimed = hand.try_claim(Claim { alone: Some(id(1)), ..ask(10) }).await.unwrap();
    assert_eq!(claimed.runs()[0].id, id(1));
    assert_eq!((claimed.jobs.len(), claimed.more), (1, true));
    assert_eq!(world.marker().await, Some(1000), "somebody else sees to the others");
    assert_eq!(world.place(&id(1)).await, Some(Place::Running));
    // Asked again, it is not there a second time.
    let mut other = world.open().await;
    assert!(other.take_alone(id(1)).await.is_empty());
}

async fn p_what_doesnt_want_to_be_alone_isnt_taken_by_id(world: &World) {
    world.create(&[job(1), job(2).due("@1000")]).await;
    on_its_last_life(world, job(3)).await;
    let mut hand = world.open().await;
    assert!(hand.take_alone(id(1)).await.is_empty(), "it may have any company");
    assert!(hand.take_alone(id(99)).await.is_empty(), "there is no such job");
    hand.take(1).await;
    assert!(hand.take_alone(id(3)).await.is_empty(), "the session holds something");
}

async fn h_p_a_job_that_was_put_off_meanwhile_is_not_taken_early(world: &World) {
    // This session was told of it, and empties itself. Meanwhile another one runs the job, which asks for an hour more.
    on_its_last_life(world, job(1)).await;
    let (mut slow, mut quick) = (world.open().await, world.open().await);
    let run = quick.take_one().await;
    quick.settle(&run, Verdict::Snooze { delay_ms: HOUR_MS }).await;
    assert!(slow.take_alone(id(1)).await.is_empty(), "an hour early");
    // The same where somebody rescheduled it.
    on_its_last_life(world, job(2)).await;
    world.store.reschedule(&world.shard, &id(2), "+3600000").await.unwrap();
    assert!(slow.take_alone(id(2)).await.is_empty(), "an hour early");
}

async fn p_a_job_that_expired_meanwhile_is_not_taken(world: &World) {
    on_its_last_life(world, job(1).due("@1000").expires(5)).await;
    let mut hand = world.open().await;
    assert!(hand.take_alone(id(1)).await.is_empty());
    assert!(hand.take(10).await.is_empty());
    assert_eq!(world.stat("expired").await, 1);
}

async fn p_a_redriven_job_is_remembered(world: &World) {
    on_its_last_life(world, job(1)).await;
    let mut hand = world.open().await;
    hand.take_one().await;
    crash(world, hand).await;
    world.store.dead_redrive(&world.shard, &[id(1).to_vec()]).await.unwrap();
    let record = world.record(&id(1)).await;
    assert_eq!((record.crashes, record.attempts), (2, 0));
    world.sleep_until(record.due_ms).await;
    world.create(&[job(2)]).await;
    let mut fresh = world.open().await;
    assert_eq!(fresh.take(10).await.len(), 1, "it runs alone");
}

async fn p_success_after_crashes_is_success(world: &World) {
    on_its_last_life(world, job(1)).await;
    let mut hand = world.open().await;
    hand.run_one(Verdict::Done).await;
    assert_eq!((world.stat("done").await, world.read("jobs").await), (1, None));
}

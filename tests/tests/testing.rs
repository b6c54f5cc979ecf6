//! `delayq::testing`: what a user's test sees when it moves time.

#![allow(clippy::unwrap_used)] // In a case, an unwrap is an assertion.
#![allow(missing_docs)]

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq::testing::{Report, TestQueue};
use delayq::{DeadReason, ErrorKind, Job, JobContext, JobError, JobResult, JobStatus, Outcome, delayed_job};
use futures_util::FutureExt;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// What handlers did.
type Journal = Arc<Mutex<Vec<String>>>;

/// Writes down that it ran, and does what it is told.
#[delayed_job(name = "note", version = 1, queue = "notes")]
struct Note {
    text: String,
}

impl Note {
    fn new(text: &str) -> Note {
        Note { text: text.to_owned() }
    }
}

impl Job for Note {
    async fn run(self, cx: JobContext) -> JobResult {
        cx.data::<Journal>()?.lock().unwrap().push(format!("{} {}", self.text, cx.attempt()));
        match self.text.as_str() {
            "fails" => Err("no".into()),
            "fails once" if cx.attempt() == 1 => Err("no".into()),
            "buries" => Err(JobError::bury("never")),
            "snoozes" if cx.request().free_returns() == 0 => Err(JobError::snooze(HOUR)),
            "sleeps" => {
                tokio::time::sleep(10 * MINUTE).await;
                Ok(())
            }
            "waits for ever" => std::future::pending().await,
            "panics" => panic!("the ink is out"),
            _ => Ok(()),
        }
    }
}

/// Another queue.
#[delayed_job(name = "mail", version = 1, queue = "mail", priority = 2)]
struct Mail {
    to: u32,
}

impl Job for Mail {
    async fn run(self, cx: JobContext) -> JobResult {
        cx.data::<Journal>()?.lock().unwrap().push(format!("mail {}", self.to));
        Ok(())
    }
}

/// Schedules itself again, for ever or so many times.
#[delayed_job(name = "again", version = 1, queue = "notes")]
struct Again {
    left: u32,
}

impl Job for Again {
    async fn run(self, cx: JobContext) -> JobResult {
        let client = cx.data::<delayq::Client>()?;
        if self.left > 0 {
            client.schedule::<Again>(DAY).send(Again { left: self.left - 1 }).await?;
        }
        Ok(())
    }
}

fn queue() -> (TestQueue, Journal) {
    let journal = Journal::default();
    let kept = journal.clone();
    (TestQueue::with(|worker| worker.data(journal)), kept)
}

fn done(journal: &Journal) -> Vec<String> {
    journal.lock().unwrap().clone()
}

async fn note(queue: &TestQueue, delay: Duration, text: &str) -> delayq::JobHandle<Note> {
    queue.client().schedule::<Note>(delay).send(Note::new(text)).await.unwrap()
}

/// When runs started, counted from an instant.
fn starts(report: &Report, from: jiff::Timestamp) -> Vec<Duration> {
    report.runs().iter().map(|ran| ran.started_at().duration_since(from).unsigned_abs()).collect()
}

/// What a test that fails like this would say.
async fn failure<F: Future>(of: F) -> String {
    let Err(panicked) = AssertUnwindSafe(of).catch_unwind().await else { panic!("it ought to fail") };
    match panicked.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => (*other.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[tokio::test]
async fn a_job_runs_when_its_time_has_come_and_not_before() {
    let (queue, journal) = queue();
    let handle = note(&queue, 30 * MINUTE, "half an hour").await;
    assert!(queue.advance(30 * MINUTE - Duration::from_millis(1)).await.is_empty());
    assert!(matches!(handle.status().await.unwrap(), JobStatus::Waiting { .. }));
    let report = queue.advance(Duration::from_millis(1)).await;
    assert_eq!(report.count::<Note>(), 1);
    assert!(report.runs()[0].is_done() && report.runs()[0].started_at() == report.runs()[0].due());
    assert_eq!(done(&journal), ["half an hour 1"]);
    assert_eq!(handle.status().await.unwrap(), JobStatus::Done);
}

#[tokio::test]
async fn all_queues_run_in_the_order_of_due_times_each_at_its_own() {
    let (queue, journal) = queue();
    let started = queue.now();
    note(&queue, 7 * DAY, "week").await;
    queue.client().schedule::<Mail>(3 * HOUR).send(Mail { to: 1 }).await.unwrap();
    note(&queue, HOUR, "hour").await;
    queue.client().schedule::<Note>(2 * HOUR).queue("elsewhere").send(Note::new("elsewhere")).await.unwrap();
    let report = queue.advance(7 * DAY + MINUTE).await;
    assert_eq!(done(&journal), ["hour 1", "elsewhere 1", "mail 1", "week 1"]);
    for (start, due) in starts(&report, started).into_iter().zip([HOUR, 2 * HOUR, 3 * HOUR, 7 * DAY]) {
        assert_eq!(start, due);
    }
    assert_eq!(report.of::<Mail>()[0].job::<Mail>().unwrap().to, 1);
    assert!(report.of::<Mail>()[0].job::<Note>().is_none());
    // The clock stands where it was moved to, not where the last job ran.
    assert!(queue.now().duration_since(started).unsigned_abs() >= 7 * DAY + MINUTE);
}

#[tokio::test]
async fn retries_come_after_their_backoff_and_end_as_a_dead_letter() {
    let (queue, journal) = queue();
    note(&queue, MINUTE, "fails").await;
    let report = queue.advance(MINUTE).await;
    assert_eq!(report.len(), 1);
    let again = queue.assert_scheduled::<Note>().times(1).await;
    assert_eq!(again.attempts, 1);
    assert!(again.due_in > Duration::from_secs(3) && again.due_in < Duration::from_secs(7), "{:?}", again.due_in);
    let report = queue.advance(HOUR).await;
    assert_eq!(done(&journal), ["fails 1", "fails 2", "fails 3", "fails 4"]);
    let last = report.runs().last().unwrap();
    assert!(matches!(last.outcome(), Some(Outcome::Dead { reason: DeadReason::RetriesExhausted, .. })), "{report}");
    queue.refute_scheduled::<Note>().await;
    assert_eq!(queue.client().stats("notes").await.unwrap().dead, 1);

    // Redriven, it is worked on like any other.
    queue.client().dead_letters("notes").redrive_all().await.unwrap();
    assert_eq!(queue.advance(HOUR).await.len(), 4);
}

#[tokio::test]
async fn a_lost_worker_s_job_runs_again_after_its_lease() {
    let (queue, journal) = queue();
    let handle = note(&queue, 7 * DAY, "twice").await;
    queue.lose_worker_in_next_run();
    let report = queue.advance(7 * DAY + MINUTE / 4).await;
    assert_eq!((report.len(), report.runs()[0].outcome()), (1, None));
    assert!(matches!(handle.status().await.unwrap(), JobStatus::Running { .. }));
    let lost_at = report.runs()[0].started_at();
    let report = queue.advance(5 * MINUTE).await;
    assert_eq!(done(&journal), ["twice 1", "twice 2"]);
    let after = report.runs()[0].started_at().duration_since(lost_at).unsigned_abs();
    assert!(after >= Duration::from_secs(30) && after < Duration::from_secs(70), "{after:?}");
    assert!(report.runs()[0].is_done() && report.len() == 1);
    assert_eq!(queue.client().stats("notes").await.unwrap().crashed_total, 1);
}

#[tokio::test]
async fn a_job_that_costs_every_worker_its_life_becomes_a_dead_letter() {
    let (queue, _journal) = queue();
    note(&queue, Duration::ZERO, "deadly").await;
    for time in [Duration::from_millis(1), MINUTE, MINUTE] {
        queue.lose_worker_in_next_run();
        let report = queue.advance(time).await;
        assert_eq!((report.len(), report.runs()[0].outcome()), (1, None), "{report}");
    }
    assert!(queue.advance(HOUR).await.is_empty());
    let dead = queue.client().dead_letters("notes").newest_first(1, None).await.unwrap().letters;
    assert_eq!(dead[0].reason, Some(DeadReason::CrashLoop));
}

#[tokio::test]
async fn drain_goes_to_the_end_of_all_that_waits() {
    // What a handler schedules by another queue's client is not this one's.
    let elsewhere = TestQueue::new().client();
    let queue = TestQueue::with(|worker| worker.data(elsewhere));
    queue.client().schedule::<Again>(DAY).send(Again { left: 3 }).await.unwrap();
    assert_eq!(queue.drain().await.count::<Again>(), 1);

    let own = chain();
    own.client().schedule::<Again>(DAY).send(Again { left: 30 }).await.unwrap();
    let started = own.now();
    assert_eq!(own.drain().await.count::<Again>(), 31);
    assert!(own.now().duration_since(started).unsigned_abs() >= 31 * DAY);
    own.client().schedule::<Again>(DAY).send(Again { left: u32::MAX }).await.unwrap();
    own.limit_runs(100);
    let text = failure(own.drain()).await;
    assert!(text.contains("100 runs and no end"), "{text}");
}

/// A queue whose handlers have its own client, as an application would put it together.
fn chain() -> TestQueue {
    let queue = TestQueue::new();
    let client = queue.client();
    queue.configure(|worker| worker.data(client).data(Journal::default()))
}

#[tokio::test]
async fn a_panic_fails_the_test_and_names_the_job() {
    let (queue, journal) = queue();
    note(&queue, HOUR, "panics").await;
    let text = failure(queue.advance(DAY)).await;
    for part in ["tests/tests/testing.rs", "note", r#"{"text":"panics"}"#, "the ink is out", "attempt 1"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let text = failure(queue.run_now(Note::new("panics"))).await;
    assert!(text.contains("the ink is out"), "{text}");
    queue.allow_panics();
    queue.advance(DAY).await;
    assert_eq!(done(&journal).iter().filter(|line| line.starts_with("panics")).count(), 5);
    assert!(matches!(queue.run_now(Note::new("panics")).await, Outcome::Retry { .. }));
}

#[tokio::test]
async fn run_now_gives_the_outcome_and_leaves_the_queue_alone() {
    let (queue, journal) = queue();
    assert_eq!(queue.run_now(Note::new("well")).await, Outcome::Done);
    assert!(matches!(queue.run_now(Note::new("fails")).await, Outcome::Retry { error, .. } if error == "no"));
    assert!(matches!(
        queue.run_attempt(Note::new("fails"), 4).await,
        Outcome::Dead { reason: DeadReason::RetriesExhausted, .. }
    ));
    assert!(matches!(queue.run_now(Note::new("buries")).await, Outcome::Dead { reason: DeadReason::Buried, .. }));
    assert!(matches!(queue.run_now(Note::new("snoozes")).await, Outcome::Snooze { delay } if delay == HOUR));
    assert_eq!(done(&journal), ["well 1", "fails 1", "fails 4", "buries 1", "snoozes 1"]);
    assert_eq!(queue.client().stats("notes").await.unwrap().enqueued_total, 0);

    let own = chain();
    assert_eq!(own.run_now(Again { left: 1 }).await, Outcome::Done);
    own.assert_scheduled::<Again>().with(|job| job.left == 0).due_in(DAY).times(1).await;
}

#[tokio::test]
async fn expectations_say_what_there_is_instead() {
    let (queue, _journal) = queue();
    let text = failure(queue.assert_scheduled::<Note>().into_future()).await;
    assert!(text.contains("no note") && text.contains("nothing waits") && text.contains("testing.rs"), "{text}");
    note(&queue, HOUR, "one").await;
    queue.client().schedule::<Note>(2 * HOUR).queue("elsewhere").priority(1).send(Note::new("two")).await.unwrap();

    let found = queue.assert_scheduled::<Note>().with(|job| job.text == "two").await;
    assert_eq!((found.queue.as_str(), found.priority, found.job.text.as_str()), ("elsewhere", 1, "two"));
    assert!(found.due_in > HOUR && found.due_in <= 2 * HOUR + Duration::from_millis(1), "{:?}", found.due_in);
    assert_eq!(queue.assert_scheduled::<Note>().times(2).await.job.text, "one");
    queue.assert_scheduled::<Note>().due_in(HOUR).on_queue("notes").times(1).await;
    queue.assert_scheduled::<Note>().due_at(found.due).times(1).await;
    queue.refute_scheduled::<Note>().due_in(3 * HOUR).await;
    queue.refute_scheduled::<Note>().with(|job| job.text == "three").await;
    queue.refute_scheduled::<Mail>().await;

    queue.advance(MINUTE).await;
    queue.assert_scheduled::<Note>().due_in(HOUR - MINUTE).await;
    let text = failure(queue.assert_scheduled::<Note>().due_in(HOUR).into_future()).await;
    assert!(text.contains(r#"{"text":"one"}"#) && text.contains("elsewhere"), "{text}");
    let text = failure(queue.assert_scheduled::<Note>().times(3).into_future()).await;
    assert!(text.contains("3 wanted, 2 there are"), "{text}");
    let text = failure(queue.refute_scheduled::<Note>().on_queue("notes").into_future()).await;
    assert!(text.contains("there ought to be no note in the queue \"notes\""), "{text}");
    assert_eq!(queue.scheduled::<Note>().await.len(), 2);
}

#[tokio::test]
async fn what_a_handler_waits_for_takes_no_time() {
    let (queue, _journal) = queue();
    let before = queue.now();
    note(&queue, Duration::ZERO, "sleeps").await;
    assert!(queue.advance(Duration::from_millis(1)).await.runs()[0].is_done());
    let took = queue.now().duration_since(before).unsigned_abs();
    assert!(took >= 10 * MINUTE && took < 11 * MINUTE, "{took:?}");
    // Whoever waits for what never comes is stopped by its timeout: a test doesn't hang.
    note(&queue, Duration::ZERO, "waits for ever").await;
    let report = queue.advance(Duration::from_millis(1)).await;
    assert!(matches!(report.runs()[0].outcome(), Some(Outcome::Retry { error, .. }) if error.contains("timed out")));
}

#[tokio::test]
async fn cancelled_expired_and_paused_jobs_do_not_run() {
    let (queue, journal) = queue();
    let client = queue.client();
    note(&queue, HOUR, "cancelled").await.cancel().await.unwrap();
    client.schedule::<Note>(HOUR).expires_in(MINUTE).send(Note::new("expired")).await.unwrap();
    client.pause("notes").await.unwrap();
    assert!(queue.advance(DAY).await.is_empty());
    note(&queue, Duration::ZERO, "late").await;
    client.resume("notes").await.unwrap();
    queue.advance(Duration::from_millis(1)).await;
    assert_eq!(done(&journal), ["late 1"]);
    assert_eq!(client.stats("notes").await.unwrap().expired_total, 1);
}

#[tokio::test]
async fn unique_jobs_are_refused_and_free_again_as_in_production() {
    let (queue, _journal) = queue();
    let client = queue.client();
    client.schedule::<Mail>(HOUR).unique("ada").send(Mail { to: 1 }).await.unwrap();
    let refused = client.schedule::<Mail>(DAY).unique("ada").send(Mail { to: 2 }).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Duplicate);
    queue.advance(2 * HOUR).await;
    client.schedule::<Mail>(DAY).unique("ada").send(Mail { to: 2 }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stands_already_is_no_obstacle() {
    let (queue, journal) = queue();
    note(&queue, 7 * DAY, "week").await;
    queue.advance(8 * DAY).await;
    assert_eq!(done(&journal), ["week 1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_runtime_whose_clock_cannot_be_stopped_is_refused() {
    let text = failure(async { TestQueue::new() }).await;
    assert!(text.contains("#[tokio::test] without a flavor"), "{text}");
}

#[test]
fn no_runtime_at_all_is_refused() {
    let refused = std::panic::catch_unwind(|| drop(TestQueue::new())).unwrap_err();
    assert!(refused.downcast_ref::<String>().map_or_else(
        || refused.downcast_ref::<&str>().is_some_and(|text| text.contains("#[tokio::test]")),
        |text| text.contains("#[tokio::test]")
    ));
}

//! B33 to B39: jobs that can't succeed, what they say of it, and how long they are tried.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use delayq::limits::ERROR_BYTES_MAX;
use delayq::{
    Backoff, Client, DeadReason, Job, JobContext, JobError, JobHandle, JobResult, JobStatus, JobType, Worker,
    delayed_job,
};
use delayq_redis_fixture::RedisServer;
use delayq_tests::store_kit::Value;
use delayq_tests::{eventually, server_and_client};
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};

use crate::kit::{
    Act, FIELD, LEASE, Poison, Stage, child, conserved, dead, field, gate, letter, quiet_panics, send_all, steady,
    stored, tell, world,
};

/// A process that is started again whenever it dies, and a job that it dies of.
async fn supervised(server: &RedisServer, client: &Client, how: &str) {
    const NEIGHBOURS: u64 = 5;
    let queue = format!("poison-{how}");
    let poison = Poison { name: "poison".to_owned(), how: how.to_owned() };
    let poison = client.enqueue().queue(&queue).send(poison).await.unwrap();
    send_all(client.enqueue().queue(&queue), (0..NEIGHBOURS).map(|n| steady(n, 50))).await;
    let mut starts = Vec::new();
    let mut worker = child(&server.url(), &queue, LEASE);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < deadline, "{how}: no dead letter after {starts:?}");
        tokio::select! {
            line = worker.line() => match line {
                Some(line) => starts.extend(line.strip_prefix("start poison ").map(str::to_owned)),
                None => worker = child(&server.url(), &queue, LEASE),
            },
            () = tokio::time::sleep(Duration::from_millis(30)) => {
                let stats = client.stats(&queue).await.unwrap();
                if stats.dead == 1 && stats.done_total == NEIGHBOURS {
                    break;
                }
                let soon = Timestamp::now() + SignedDuration::from_millis(500);
                if stats.done_total == NEIGHBOURS && stats.next_due.is_some_and(|due| due > soon) {
                    // It was put off, away from those it crashed with. They are done: nobody wants to wait for it.
                    let _ = poison.reschedule(Duration::ZERO).await;
                }
            }
        }
    }
    assert_eq!(starts, ["1", "2", "2"], "{how}: a crash in company is charged once, whoever's fault it was");
    let letter = client.dead_letters(&queue).get(poison.id()).await.unwrap().expect("it is the dead one");
    assert_eq!(letter.reason, Some(DeadReason::CrashLoop));
    assert!(letter.error.contains("lost"), "{}", letter.error);
    let stats = client.stats(&queue).await.unwrap();
    assert_eq!((stats.waiting, stats.running), (0, 0), "{how}");
    conserved(server, &queue).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b33_a_job_that_kills_its_process_is_started_three_times_and_its_neighbours_are_done() {
    let (server, client) = server_and_client().await;
    join_all(["abort", "exit", "kill"].map(|how| supervised(&server, &client, how))).await;
}

/// How an error behaves when it is looked at.
#[delayq::payload]
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Nul,
    ForgedLine,
    IllFormedOrigin,
    Huge,
    HugeCause,
    PanicsWhenShown,
    FailsWhenShown,
    ItsOwnCause,
    HugePanic,
    PanicsTwice,
}

/// How often the error that is its own cause was asked for its cause; whoever never stops is stopped.
static FOLLOWED: AtomicU32 = AtomicU32::new(0);
const FOLLOWED_MAX: u32 = 10_000;

/// The error of a fault.
#[derive(Debug)]
struct Complaint(Fault);

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::Nul => f.write_str("before\0after"),
            Fault::ForgedLine => f.write_str("x\r\nERROR forged\u{1b}[31m\u{202e}"),
            Fault::IllFormedOrigin => f.write_str(&String::from_utf8_lossy(b"caf\xe9 \xff\xfe \xed\xa0\x80")),
            Fault::Huge => f.write_str(&"é".repeat(5 << 19)),
            Fault::HugeCause => f.write_str("outer"),
            Fault::PanicsWhenShown => panic!("on purpose, in Display"),
            Fault::FailsWhenShown => Err(fmt::Error),
            Fault::ItsOwnCause => f.write_str("round and round"),
            Fault::HugePanic | Fault::PanicsTwice => f.write_str("never shown"),
        }
    }
}

impl StdError for Complaint {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self.0 {
            Fault::HugeCause => Some(&Complaint(Fault::Huge)),
            Fault::ItsOwnCause if FOLLOWED.fetch_add(1, Ordering::Relaxed) < FOLLOWED_MAX => Some(self),
            _ => None,
        }
    }
}

/// A panic's payload that panics when it is thrown away.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("on purpose, in Drop");
        }
    }
}

/// Fails so that the failure does harm, if it can.
#[delayed_job(name = "complains", version = 1, queue = "field", max_retries = 1, backoff = fixed("1ms"))]
struct Complains {
    n: u64,
    fault: Fault,
}

impl Job for Complains {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(self.n, &cx)?;
        match self.fault {
            Fault::HugePanic => panic!("on purpose {}", "x".repeat(5 << 20)),
            Fault::PanicsTwice => std::panic::panic_any(Grenade),
            other => Err(Complaint(other))?,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b35_an_error_that_is_harmful_itself_costs_an_attempt_and_ends_in_a_dead_letter() {
    quiet_panics();
    let (server, client) = server_and_client().await;
    let mut stage = Stage::with(&client, |worker| worker.concurrency(2));
    let cut = "é".repeat(ERROR_BYTES_MAX / 2);
    let outer = format!("outer: {}", "é".repeat((ERROR_BYTES_MAX - "outer: ".len()) / 2));
    let panicked = "the run panicked: ";
    let on_purpose = format!("{panicked}on purpose {}", "x".repeat(ERROR_BYTES_MAX));
    let shown = [
        (Fault::Nul, "before\0after"),
        (Fault::ForgedLine, "x\r\nERROR forged\u{1b}[31m\u{202e}"),
        (Fault::IllFormedOrigin, "caf\u{fffd} \u{fffd}\u{fffd} \u{fffd}\u{fffd}\u{fffd}"),
        (Fault::Huge, cut.as_str()),
        (Fault::HugeCause, outer.as_str()),
        (Fault::PanicsWhenShown, "the error's own Display panicked"),
        (Fault::FailsWhenShown, "the error's own Display panicked"),
        (Fault::ItsOwnCause, "round and round"),
        (Fault::HugePanic, &on_purpose[..ERROR_BYTES_MAX]),
        (Fault::PanicsTwice, "the run panicked: on purpose, in Drop"),
    ];
    for (n, (fault, text)) in (0..).zip(shown) {
        let job = client.enqueue().send(Complains { n, fault }).await.unwrap();
        let attempts: Vec<(u64, u32)> = stage.take(2).await.iter().map(|ran| (ran.n, ran.attempt)).collect();
        assert_eq!(attempts, [(n, 1), (n, 2)], "{fault:?}");
        let letter = letter(&client, FIELD, job.id()).await;
        assert_eq!((letter.reason, letter.attempts), (Some(DeadReason::RetriesExhausted), 2), "{fault:?}");
        assert!(letter.error == text, "{fault:?}: {} bytes, {:.80?}", letter.error.len(), letter.error);
        let JobStatus::Dead { error, .. } = job.status().await.unwrap() else { panic!("{fault:?}: it is dead") };
        assert_eq!(error, letter.error);
        let shown = format!("{letter:?}");
        assert!(!shown.contains(['\0', '\n', '\r', '\u{1b}']), "{shown}: what is written to a log is one line");
        // The worker lives.
        client.enqueue().send(field(100, Act::Pass)).await.unwrap();
        assert_eq!(stage.next().await.n, 100);
    }
    assert!(FOLLOWED.load(Ordering::Relaxed) < FOLLOWED_MAX, "a cause was followed without end");
    assert!(stage.stop().await.is_empty());
    assert_eq!(client.stats(FIELD).await.unwrap().done_total, shown.len() as u64);
    conserved(&server, FIELD).await;
}

/// Always fails; it may be tried without end.
#[delayed_job(
    name = "persistent", version = 1, queue = "field", max_retries = 4294967295,
    backoff = exponential("5s", factor = 2, max = "1h", jitter = 0.0)
)]
struct Persistent {
    n: u64,
}

impl Job for Persistent {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(self.n, &cx)?;
        Err("not yet")?
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b36_waits_never_shrink_wrap_or_leave_their_bounds() {
    let hour = Duration::from_secs(3600);
    let attempts = [
        0,
        1,
        2,
        3,
        10,
        11,
        30,
        31,
        32,
        33,
        62,
        63,
        64,
        65,
        127,
        128,
        1023,
        1024,
        65_535,
        1 << 31,
        u32::MAX - 1,
        u32::MAX,
    ];
    let five = || Backoff::exponential(Duration::from_secs(5)).jitter(0.0);
    let settings = [
        (five().max(hour), hour),
        (five().factor(1.0).max(hour), hour),
        (five().factor(1.5).max(Duration::from_millis(7919)), Duration::from_millis(7919)),
        (five().factor(1e300).max(hour), hour),
        (five().factor(f64::INFINITY).max(hour), hour),
        (five().factor(f64::NAN).max(hour), hour),
        (five().factor(-2.0).max(hour), hour),
        (five().max(Duration::MAX), Duration::MAX),
        (Backoff::exponential(Duration::from_nanos(1)).jitter(0.0).max(hour), hour),
        (Backoff::exponential(Duration::ZERO).jitter(0.0).factor(f64::INFINITY).max(hour), hour),
        (Backoff::exponential(Duration::MAX).jitter(0.0).max(Duration::MAX), Duration::MAX),
        (Backoff::fixed(Duration::MAX), Duration::MAX),
        (Backoff::fixed(Duration::ZERO), Duration::ZERO),
    ];
    for (backoff, cap) in settings {
        let mut last = Duration::ZERO;
        for attempt in attempts {
            let wait = backoff.delay(attempt, 0.5);
            assert!(wait >= last && wait <= cap, "{backoff:?}, attempt {attempt}: {wait:?} after {last:?}");
            last = wait;
            // With jitter it stays around what it is without.
            let least = backoff.jitter(1.0).delay(attempt, 0.0);
            let most = backoff.jitter(1.0).delay(attempt, 1.0);
            assert!(least <= wait && most >= wait && least <= Duration::from_secs(1), "{backoff:?}, attempt {attempt}");
        }
    }
    // The same with stored jobs that have failed so often: what is written is the wait, and no wrapped one.
    let (server, client) = server_and_client().await;
    let world = world(&server, FIELD).await;
    for spent in [0_u16, 1, 9, 10, 30, 31, 32, 62, 63, 64, 1023, 32_767, 32_768, 65_533, 65_534] {
        let job = client.enqueue().send(Persistent { n: u64::from(spent) }).await.unwrap();
        let id = stored(job.id());
        let mut record = world.field("jobs", id).await.unwrap();
        record[6..8].copy_from_slice(&spent.to_be_bytes());
        world.set_field("jobs", id, Some(record)).await;
    }
    let mut stage = Stage::start(&client);
    let mut runs = stage.take(15).await;
    runs.sort_by_key(|ran| ran.n);
    eventually("all wait again", || async { (client.stats(FIELD).await.unwrap().retried_total == 15).then_some(()) })
        .await;
    let mut last_ms = 0;
    for ran in &runs {
        assert_eq!(u64::from(ran.attempt), ran.n + 1);
        let waits_ms = waited_ms(&world.note(&stored(ran.id)).await, world.record(&stored(ran.id)).await.due_ms);
        let wanted = five().max(hour).delay(ran.attempt, 0.5).as_millis() as u64;
        assert!((wanted..=wanted + 1).contains(&waits_ms), "attempt {}: {waits_ms} ms", ran.attempt);
        assert!(waits_ms + 1 >= last_ms);
        last_ms = waits_ms;
    }
    assert!(stage.stop().await.is_empty(), "an instant retry");
    conserved(&server, FIELD).await;
}

/// From a failure, as the store has noted it, to the next run.
fn waited_ms(note: &str, due_ms: u64) -> u64 {
    let failed_ms: u64 = note.split(' ').nth(1).unwrap().parse().unwrap();
    due_ms - failed_ms
}

/// Fails when all others do.
#[delayed_job(
    name = "batch", version = 1, queue = "field", max_retries = 3,
    backoff = exponential("1s", factor = 1, max = "1h", jitter = 0.5)
)]
struct Batch {
    n: u64,
}

impl Job for Batch {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(self.n, &cx)?;
        gate(&cx).await?;
        Err("the bank is closed")?
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b38_what_fails_together_does_not_come_back_together() {
    const JOBS: usize = 1000;
    // Short waits are spread as well: no jitter is rounded to nothing.
    for (wait_ms, jitter, values) in
        [(10_u64, 0.5, 8), (100, 0.1, 15), (3, 0.5, 2), (1000, 0.5, 400), (60_000, 0.01, 300)]
    {
        let backoff = Backoff::fixed(Duration::from_millis(wait_ms)).jitter(jitter);
        let waits: BTreeSet<u128> =
            (0..JOBS).map(|n| backoff.delay(1, n as f64 / (JOBS - 1) as f64).as_micros()).collect();
        let (least, most) = (wait_ms as f64 * 1e3 * (1.0 - jitter), wait_ms as f64 * 1e3 * (1.0 + jitter));
        assert!(waits.iter().all(|us| (least - 1.0..=most + 1.0).contains(&(*us as f64))), "{wait_ms} {jitter}");
        let ms: BTreeSet<u128> = waits.iter().map(|us| us.div_ceil(1000)).collect();
        assert!(ms.len() >= values, "{wait_ms} {jitter}: {} different waits", ms.len());
    }
    let (server, client) = server_and_client().await;
    let mut stage = Stage::with(&client, |worker| worker.concurrency(JOBS));
    send_all(client.enqueue(), (0..JOBS as u64).map(|n| Batch { n })).await;
    stage.take(JOBS).await;
    // None comes back before all have been looked at.
    client.pause(FIELD).await.unwrap();
    stage.open(JOBS);
    let all = || async { (client.stats(FIELD).await.unwrap().retried_total == JOBS as u64).then_some(()) };
    eventually("all have failed", all).await;
    let world = world(&server, FIELD).await;
    let (Some(Value::Sorted(due)), Some(Value::Hash(notes))) = (world.read("due:5").await, world.read("error").await)
    else {
        panic!("all wait, with a note")
    };
    assert_eq!((due.len(), notes.len()), (JOBS, JOBS));
    let waits = due.iter().map(|(id, due)| waited_ms(&String::from_utf8_lossy(&notes[id]), *due as u64));
    let waits: Vec<u64> = waits.collect();
    assert!(waits.iter().all(|ms| (500..=1501).contains(ms)), "{waits:?}");
    let different = waits.iter().collect::<BTreeSet<_>>().len();
    assert!(different > 200, "{different} different waits");
    // And what the store makes of them.
    let instants: BTreeSet<u64> = due.values().map(|due| *due as u64).collect();
    assert!(instants.len() > 200, "{} different instants", instants.len());
    assert!(stage.stop().await.is_empty());
    conserved(&server, FIELD).await;
}

/// Always fails, and may be retried so often.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Tries<const RETRIES: u32> {}

impl<const RETRIES: u32> JobType for Tries<RETRIES> {
    const NAME: &'static str = match RETRIES {
        0 => "tries-0",
        1 => "tries-1",
        2 => "tries-2",
        u32::MAX => "tries-max",
        _ => panic!("a further number needs a name"),
    };
    const VERSION: u32 = 1;
    const QUEUE: &'static str = FIELD;
    const MAX_RETRIES: u32 = RETRIES;
    const BACKOFF: Backoff = Backoff::fixed(Duration::from_millis(1));
}

fn tries(worker: Worker) -> Worker {
    async fn fail<const RETRIES: u32>(_: Tries<RETRIES>, cx: JobContext) -> JobResult {
        tell(u64::from(RETRIES), &cx)?;
        assert_eq!(cx.is_last_attempt(), cx.attempt() == RETRIES.saturating_add(1));
        Err(JobError::from("no"))
    }
    worker.handle(fail::<0>).handle(fail::<1>).handle(fail::<2>).handle(fail::<{ u32::MAX }>)
}

/// Sends one, and sees it start one time more than it may be retried.
async fn starts<const RETRIES: u32>(client: &Client, stage: &mut Stage) -> JobHandle<Tries<RETRIES>> {
    let job = client.enqueue().send(Tries::<RETRIES> {}).await.unwrap();
    let starts = RETRIES.saturating_add(1);
    let attempts: Vec<u32> = stage.take(starts as usize).await.iter().map(|ran| ran.attempt).collect();
    assert!(attempts.into_iter().eq(1..=starts), "{RETRIES} retries");
    let letter = letter(client, FIELD, job.id()).await;
    assert_eq!((letter.reason, letter.attempts), (Some(DeadReason::RetriesExhausted), starts));
    assert_eq!(letter.error, "no", "{RETRIES} retries");
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn b39_retries_are_what_comes_after_the_first_start() {
    let (server, client) = server_and_client().await;
    let world = world(&server, FIELD).await;
    let mut stage = Stage::with(&client, tries);
    for round in 1..=2 {
        starts::<0>(&client, &mut stage).await;
        starts::<1>(&client, &mut stage).await;
        let last = starts::<2>(&client, &mut stage).await;
        // A redrive gives them all back.
        client.dead_letters(FIELD).redrive(last.id()).await.unwrap();
        assert_eq!(stage.take(3).await.iter().map(|ran| ran.attempt).collect::<Vec<_>>(), [1, 2, 3]);
        dead(&client, FIELD, 3 * round).await;
    }
    // Without an end.
    let job = client.enqueue().send(Tries::<{ u32::MAX }> {}).await.unwrap();
    let attempts: Vec<u32> = stage.take(30).await.iter().map(|ran| ran.attempt).collect();
    assert!(attempts.into_iter().eq(1..=30));
    stage.stop().await;
    let id = stored(job.id());
    assert_eq!(world.record(&id).await.attempts_max, None);
    // Nor where what has been spent can be counted no further.
    let mut record = world.field("jobs", id).await.unwrap();
    record[6..8].copy_from_slice(&65_532_u16.to_be_bytes());
    world.set_field("jobs", id, Some(record)).await;
    let mut stage = Stage::with(&client, tries);
    let attempts: Vec<u32> = stage.take(6).await.iter().map(|ran| ran.attempt).collect();
    assert_eq!(attempts, [65_533, 65_534, 65_535, 65_535, 65_535, 65_535]);
    stage.stop().await;
    assert_eq!(client.stats(FIELD).await.unwrap().dead, 6, "it is none of them");
    assert_eq!(world.note(&id).await.split_once('\n').unwrap().1, "no");
    conserved(&server, FIELD).await;
}

//! Jobs that are moved, and unique keys that are not given back (B72, B74).

use std::process::Command;
use std::time::{Duration, Instant};

use delayq::{Client, DeadReason, ErrorKind, JobHandle, JobStatus, JobType};
use delayq_redis_fixture::RedisServer;
use delayq_tests::process::Process;
use delayq_tests::{Lag, eventually, server_and_client};

use crate::kit::{conserved, quiet_panics, settled};
use crate::kit_b::{Act, Deed, Hasty, QUEUE, Retried, Stage, does, pass};

#[tokio::test]
async fn b72_a_moved_job_starts_when_it_was_moved_to_and_not_at_once() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let lag = Lag::watch();
    let ms = Duration::from_millis;
    // Later, earlier, twice, to now, and to the time that it had. None is due before it is moved.
    let moves: [(&str, u64, &[u64]); 5] = [
        ("later", 3_000, &[3_500]),
        ("earlier", 60_000, &[400]),
        ("twice", 3_000, &[60_000, 500]),
        ("now", 60_000, &[0]),
        ("once more the same", 3_000, &[3_000]),
    ];
    let mut expected = Vec::new();
    for (n, (_, first, then)) in (0..).zip(moves) {
        let job = client.schedule(ms(first)).send(pass(n)).await.unwrap();
        for delay in then {
            let asked = Instant::now();
            let due = job.reschedule(ms(*delay)).await.unwrap();
            match job.status().await.unwrap() {
                JobStatus::Waiting { due: stored, attempts: 0, .. } => assert_eq!(stored, due),
                // What is due by now may have started.
                other => assert!(client.stats(QUEUE).await.unwrap().now >= due, "{n}: {other:?}"),
            }
            if delay == then.last().unwrap() {
                expected.push((n, asked + ms(*delay)));
            }
        }
    }
    for ran in stage.take(moves.len()).await {
        let (what, wanted) = (moves[ran.n as usize].0, expected[ran.n as usize].1);
        let early = wanted.saturating_duration_since(ran.at);
        // The store's clock and this one are read one after the other.
        assert!(early < ms(3), "{what}: {early:?} early");
        let late = ran.at.saturating_duration_since(wanted).max(ran.lateness);
        assert!(late < ms(1000) + lag.so_far(), "{what}: {late:?} late");
    }
    settled(&client, QUEUE, moves.len() as u64).await;
    assert!(stage.ended().await.is_empty(), "none ran twice");
    conserved(&server, QUEUE).await;
}

#[tokio::test]
async fn b72_a_job_that_does_not_wait_can_not_be_moved() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let running = client.enqueue().send(does(1, Act::Wait)).await.unwrap();
    let done = client.enqueue().send(pass(2)).await.unwrap();
    let retained = client.enqueue().retain_for(Duration::from_secs(60)).send(pass(3)).await.unwrap();
    let dead = client.enqueue().send(does(4, Act::Fail("no".to_owned()))).await.unwrap();
    let discarded = client.enqueue().send(does(5, Act::Discard("no".to_owned()))).await.unwrap();
    stage.take(5).await;
    let cancelled = client.schedule(Duration::from_secs(60)).send(pass(6)).await.unwrap();
    cancelled.cancel().await.unwrap();
    let never: JobHandle<Deed> = client.handle(delayq::JobId::new());
    eventually("only one runs", || async { (client.stats(QUEUE).await.unwrap().running == 1).then_some(()) }).await;
    for (what, job, kind, status) in [
        ("running", &running, ErrorKind::WrongState, JobStatus::Running { attempts: 0, cancelling: false }),
        ("done", &done, ErrorKind::NotFound, JobStatus::Done),
        ("done and retained", &retained, ErrorKind::WrongState, JobStatus::Done),
        ("discarded", &discarded, ErrorKind::NotFound, JobStatus::Discarded),
        ("cancelled", &cancelled, ErrorKind::NotFound, JobStatus::Cancelled),
        ("never sent", &never, ErrorKind::NotFound, JobStatus::Gone),
    ] {
        for delay in [Duration::ZERO, Duration::from_secs(60)] {
            let refused = job.reschedule(delay).await.unwrap_err();
            assert_eq!(refused.kind(), kind, "{what}: {refused:?}");
            assert!(refused.to_string().contains(&job.id().to_string()), "{what}: {refused}");
        }
        assert_eq!(job.status().await.unwrap(), status, "{what}: nothing was changed");
    }
    let refused = dead.reschedule(Duration::ZERO).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WrongState, "{refused:?}");
    assert!(refused.to_string().contains("redrive"), "it says what to do: {refused}");
    assert!(matches!(dead.status().await.unwrap(), JobStatus::Dead { .. }));
    stage.open(1);
    settled(&client, QUEUE, 3).await;
    assert!(stage.ended().await.is_empty(), "nothing was started by it");
    conserved(&server, QUEUE).await;
}

/// Waits until a key is free, and takes and gives it back.
async fn is_free(client: &Client, what: &str) {
    let send = || client.schedule::<Deed>(Duration::from_secs(60)).unique("k").send(pass(0));
    let sent = eventually(what, || async { send().await.ok() }).await;
    sent.cancel().await.unwrap();
}

/// The key is taken.
async fn is_taken(client: &Client, what: &str) {
    let refused = client.enqueue::<Deed>().unique("k").send(pass(0)).await.unwrap_err();
    assert!(refused.is_duplicate(), "{what}: {refused:?}");
}

#[tokio::test]
async fn b74_a_unique_key_is_free_after_every_end() {
    quiet_panics();
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let text = || "no".to_owned();
    for act in [
        Act::Pass,
        Act::Fail(text()),
        Act::Discard(text()),
        Act::Bury(text()),
        Act::Panic(text()),
        Act::PanicWithNumber,
        Act::PanicInDrop,
    ] {
        let what = format!("after {act:?}");
        client.enqueue().unique("k").send(does(1, act)).await.unwrap();
        stage.next().await;
        is_free(&client, &what).await;
    }
    client.enqueue().unique("k").send(Hasty { n: 2, act: Act::Wait }).await.unwrap();
    stage.next().await;
    is_free(&client, "after its timeout").await;
    client.enqueue().unique("k").send(Retried { n: 3, act: Act::WaitFail }).await.unwrap();
    stage.next().await;
    // While the queue is paused, the next attempt does not begin.
    client.pause(QUEUE).await.unwrap();
    stage.open(1);
    let waits = || async { (client.stats(QUEUE).await.unwrap().waiting == 1).then_some(()) };
    eventually("it waits for its next attempt", waits).await;
    is_taken(&client, "while it will be tried again").await;
    client.resume(QUEUE).await.unwrap();
    stage.open(3);
    stage.take(3).await;
    is_free(&client, "after its last attempt").await;
    let waiting = client.schedule::<Deed>(Duration::from_secs(60)).unique("k").send(pass(4)).await.unwrap();
    is_taken(&client, "while it waits").await;
    waiting.cancel().await.unwrap();
    is_free(&client, "once it is cancelled").await;
    let running = client.enqueue().unique("k").send(does(5, Act::Wait)).await.unwrap();
    stage.next().await;
    is_taken(&client, "while it runs").await;
    running.cancel().await.unwrap();
    is_taken(&client, "while a cancelled run goes on").await;
    stage.open(1);
    is_free(&client, "after its end").await;
    client.enqueue().unique("k").expires_in(Duration::from_millis(1)).send(pass(6)).await.ok();
    is_free(&client, "after an expiry or an end").await;
    // A dead letter has no claim on the key, and gets it back only where it is free.
    let letters = client.dead_letters(QUEUE);
    let dead = client.enqueue().unique("k").send(does(7, Act::Bury(text()))).await.unwrap();
    eventually("it is dead", || async { letters.get(dead.id()).await.unwrap() }).await;
    let other = client.schedule::<Deed>(Duration::from_secs(60)).unique("k").send(pass(8)).await.unwrap();
    assert_eq!(letters.redrive(dead.id()).await.unwrap_err().kind(), ErrorKind::Duplicate);
    letters.delete(dead.id()).await.unwrap();
    is_taken(&client, "by the other one, whatever becomes of the letter").await;
    other.cancel().await.unwrap();
    is_free(&client, "at last").await;
    stage.stop().await;
    conserved(&server, QUEUE).await;
}

/// What `crashing_worker` runs.
#[delayq::payload]
struct Steady {
    name: String,
    takes_ms: u64,
}

impl JobType for Steady {
    const NAME: &'static str = "steady";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "b-steady";
    const MAX_RETRIES: u32 = 1;
}

/// The same with one attempt: a crash spends it, and the job is dead.
#[delayq::payload]
struct Once {
    name: String,
    takes_ms: u64,
}

impl JobType for Once {
    const NAME: &'static str = "steady";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "b-steady";
    const MAX_RETRIES: u32 = 0;
}

fn worker_process(server: &RedisServer) -> Process {
    Process::start(Command::new(env!("CARGO_BIN_EXE_crashing_worker")).args([&server.url(), "b-steady", "600"]))
}

#[tokio::test]
async fn b74_a_unique_key_of_a_killed_worker_is_free_once_its_job_has_ended() {
    let (server, client) = server_and_client().await;
    let mut first = worker_process(&server);
    first.says("ready").await;
    let send = |name: &str, takes_ms: u64| {
        client.enqueue::<Steady>().unique("k").send(Steady { name: name.to_owned(), takes_ms })
    };
    let job = send("a", 3_000).await.unwrap();
    first.says("start a 1").await;
    // In the middle of its run.
    first.kill().await;
    assert_eq!(send("b", 1).await.unwrap_err().owner(), Some(job.id()), "the job has not ended");
    let mut second = worker_process(&server);
    second.says("start a 2").await;
    let sent = eventually("the key is free", || async { send("b", 1).await.ok() }).await;
    second.says("start b 1").await;
    eventually("it is done", || async { (sent.status().await.unwrap() == JobStatus::Done).then_some(()) }).await;
    second.signal("TERM");
    second.says("ended").await;
    conserved(&server, "b-steady").await;
}

#[tokio::test]
async fn b74_a_unique_key_of_a_job_that_dies_with_its_last_worker_is_free() {
    let (server, client) = server_and_client().await;
    let mut first = worker_process(&server);
    first.says("ready").await;
    let send = || client.enqueue::<Once>().unique("k").send(Once { name: "a".to_owned(), takes_ms: 60_000 });
    let job = send().await.unwrap();
    first.says("start a 1").await;
    let mut second = worker_process(&server);
    second.says("ready").await;
    first.kill().await;
    let letters = client.dead_letters("b-steady");
    let letter = eventually("it is dead", || async { letters.get(job.id()).await.unwrap() }).await;
    assert_eq!((letter.reason, letter.attempts), (Some(DeadReason::RetriesExhausted), 1));
    send().await.unwrap();
    second.says("start a 1").await;
}

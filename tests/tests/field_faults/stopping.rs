//! Workers that stop, handlers and layers that panic, runs that are dropped (B81 to B86).

use std::process::Command;
use std::time::{Duration, Instant};

use delayq::layer::JobService;
use delayq::{BoxError, DeadReason, JobRequest, JobStatus, JobType, PayloadError};
use delayq_redis_fixture::RedisServer;
use delayq_tests::process::Process;
use delayq_tests::{Lag, eventually, server_and_client, watched};
use tower::ServiceExt;
use tower::limit::ConcurrencyLimitLayer;
use tower::util::MapRequestLayer;

use crate::kit::{conserved, quiet_panics, settled};
use crate::kit_b::{Act, QUEUE, Retried, Stage, does, listens, pass};

/// What `crashing_worker` runs: its lease is 2 s, its grace period 10 s.
#[delayq::payload]
struct Steady {
    name: String,
    takes_ms: u64,
}

impl JobType for Steady {
    const NAME: &'static str = "steady";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "b-stops";
}

const STOPS: &str = "b-stops";

fn worker_process(server: &RedisServer) -> Process {
    Process::start(Command::new(env!("CARGO_BIN_EXE_crashing_worker")).args([&server.url(), STOPS]))
}

fn steady(name: &str, takes_ms: u64) -> Steady {
    Steady { name: name.to_owned(), takes_ms }
}

#[tokio::test]
async fn b81_sigterm_loses_nothing_that_runs_or_waits() {
    let (server, client) = server_and_client().await;
    let mut worker = worker_process(&server);
    worker.says("ready").await;
    for sent in client.schedule::<Steady>(Duration::from_secs(60)).send_all((0..200).map(|_| steady("later", 1))).await
    {
        sent.unwrap();
    }
    for sent in client.enqueue::<Steady>().send_all((0..20).map(|_| steady("now", 2000))).await {
        sent.unwrap();
    }
    let mut said: Vec<String> = Vec::new();
    let count = |said: &[String], wanted: &str| said.iter().filter(|line| *line == wanted).count();
    while count(&said, "start now 1") < 20 {
        said.push(worker.line().await.unwrap());
    }
    worker.signal("TERM");
    said.extend(worker.rest().await);
    assert_eq!(said.pop().as_deref(), Some("ended"));
    assert_eq!((said.len(), count(&said, "start now 1"), count(&said, "end now")), (40, 20, 20), "{said:?}");
    let stats = client.stats(STOPS).await.unwrap();
    assert_eq!((stats.done_total, stats.waiting, stats.running, stats.sessions), (20, 200, 0, 0));
    assert_eq!((stats.crashed_total, stats.retried_total, stats.dead_total), (0, 0, 0));
    conserved(&server, STOPS).await;
}

#[tokio::test]
async fn b81_what_does_not_end_within_the_grace_period_is_handed_back_at_no_cost() {
    let (server, client) = server_and_client().await;
    let grace = Duration::from_secs(2);
    let mut stage = Stage::with(&client, |worker| worker.grace(grace));
    let sent = client.enqueue().send_all((0..20).map(|n| does(n, Act::Wait))).await;
    let jobs: Vec<_> = sent.into_iter().map(Result::unwrap).collect();
    for sent in client.schedule(Duration::from_secs(60)).send_all((20..220).map(pass)).await {
        sent.unwrap();
    }
    let before = stage.take(20).await;
    // Ten of them end, and the others don't.
    stage.open(10);
    let (asked, lag) = (Instant::now(), Lag::watch());
    stage.stop().await;
    let took = asked.elapsed();
    assert!(took >= grace && took < grace + Duration::from_millis(1100) + lag.so_far(), "{took:?}");
    let mut stays = Vec::new();
    for job in &jobs {
        if matches!(job.status().await.unwrap(), JobStatus::Waiting { attempts: 0, .. }) {
            stays.push(job.id());
        }
    }
    let stats = client.stats(QUEUE).await.unwrap();
    assert_eq!((stats.done_total, stats.waiting, stats.running, stats.sessions), (10, 210, 0, 0));
    assert_eq!((stats.crashed_total, stats.retried_total, stats.dead_total), (0, 0, 0));
    conserved(&server, QUEUE).await;
    // Others run them, each with a higher number and none of its attempts spent.
    let mut stage = Stage::start(&client);
    for ran in stage.take(10).await {
        assert!(stays.contains(&ran.id) && ran.attempt == 1, "{ran:?}");
        let earlier = before.iter().find(|earlier| earlier.id == ran.id).unwrap();
        assert!(ran.token > earlier.token);
    }
    stage.open(10);
    eventually("they end", || async { (client.stats(QUEUE).await.unwrap().done_total == 20).then_some(()) }).await;
    stage.stop().await;
}

#[tokio::test]
async fn b82_a_worker_stops_at_once_when_it_is_idle_and_right_after_a_job() {
    let (server, client) = server_and_client().await;
    for what in ["idle", "idle, with a timer", "right after a job"] {
        let mut worker = worker_process(&server);
        worker.says("ready").await;
        eventually("it listens", || async { listens(&server).then_some(()) }).await;
        match what {
            "idle, with a timer" => {
                client.schedule::<Steady>(Duration::from_secs(60)).send(steady("later", 1)).await.unwrap();
                watched(&server, STOPS).await;
            }
            "right after a job" => {
                client.enqueue::<Steady>().send(steady("now", 1)).await.unwrap();
                worker.says("end now").await;
            }
            _ => {}
        }
        worker.signal("TERM");
        let asked = Instant::now();
        assert_eq!(worker.rest().await, ["ended"], "{what}");
        // It listens for 5 s at a time.
        assert!(asked.elapsed() < Duration::from_secs(4), "{what}: {:?}", asked.elapsed());
    }
    let stats = client.stats(STOPS).await.unwrap();
    assert_eq!((stats.done_total, stats.waiting, stats.sessions), (1, 1, 0));
    conserved(&server, STOPS).await;
}

/// A job whose payload can't be decoded without a panic.
#[delayq::payload]
struct Trap {
    n: u64,
}

impl JobType for Trap {
    const NAME: &'static str = "b_trap";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "b-deeds";
    const MAX_RETRIES: u32 = 0;

    fn decode(_: u32, _: &[u8]) -> Result<Trap, PayloadError> {
        panic!("on purpose: in decode")
    }
}

#[tokio::test]
async fn b84_a_panic_ends_its_run_and_nothing_else() {
    quiet_panics();
    let (server, client) = server_and_client().await;
    let middleware = MapRequestLayer::new(|request: JobRequest| {
        assert!(!says(&request, b"\"n\":777"), "on purpose: in a layer");
        request
    });
    let mut stage = Stage::with(&client, |worker| {
        worker
            .concurrency(1)
            .layer(middleware)
            .handle(|job: Trap, _| async move { Err(format!("{} was decoded", job.n))? })
    });
    let panics = |n: u64, act: Act| client.enqueue().send(does(n, act));
    let cases = [
        ("a text", panics(1, Act::Panic("a text".to_owned())).await.unwrap().id(), "on purpose: a text"),
        ("a number", panics(2, Act::PanicWithNumber).await.unwrap().id(), "a value that is not a text"),
        ("in Drop", panics(3, Act::PanicInDrop).await.unwrap().id(), "on purpose, in drop"),
        ("in decode", client.enqueue().send(Trap { n: 4 }).await.unwrap().id(), "on purpose: in decode"),
        ("in a layer", panics(777, Act::Pass).await.unwrap().id(), "on purpose: in a layer"),
    ];
    // One that panics until it is tried again, and one behind all of them.
    client.enqueue().send(Retried { n: 5, act: Act::Panic("again".to_owned()) }).await.unwrap();
    client.enqueue().send(pass(6)).await.unwrap();
    for (what, id, text) in cases {
        let letters = client.dead_letters(QUEUE);
        let letter = eventually(what, || async { letters.get(id).await.unwrap() }).await;
        assert_eq!(letter.reason, Some(DeadReason::RetriesExhausted), "{what}: {letter:?}");
        assert_eq!((letter.error, letter.attempts), (format!("the run panicked: {text}"), 1), "{what}");
    }
    eventually("the retried one is dead too", || async {
        (client.stats(QUEUE).await.unwrap().dead == 6).then_some(())
    })
    .await;
    settled(&client, QUEUE, 1).await;
    let runs = stage.rest();
    assert!(runs.iter().any(|ran| ran.n == 6) && runs.iter().filter(|ran| ran.n == 5).count() == 4, "{runs:?}");
    // The one place that there is is free, and the loop lives.
    client.enqueue().send(pass(8)).await.unwrap();
    assert_eq!(stage.next().await.n, 8);
    stage.stop().await;
    let stats = client.stats(QUEUE).await.unwrap();
    assert_eq!((stats.crashed_total, stats.running), (0, 0));
    conserved(&server, QUEUE).await;
}

/// Whether a payload has this text.
fn says(request: &JobRequest, text: &[u8]) -> bool {
    request.payload().windows(text.len()).any(|part| part == text)
}

#[tokio::test]
async fn b86_runs_that_are_dropped_give_their_places_and_permits_back() {
    let (server, client) = server_and_client().await;
    // It drops runs that hold one of the eight permits, and runs that wait for one.
    let impatient = tower::layer::layer_fn(|inner: JobService| {
        tower::service_fn(move |request: JobRequest| {
            let inner = inner.clone();
            async move {
                let patience = Duration::from_millis(if says(&request, b"Sleep") { 5 } else { 60_000 });
                match tokio::time::timeout(patience, inner.oneshot(request)).await {
                    Ok(ended) => ended,
                    Err(elapsed) => Err(BoxError::from(elapsed)),
                }
            }
        })
    });
    let limit = ConcurrencyLimitLayer::new(8);
    let mut stage = Stage::with(&client, |worker| worker.concurrency(16).layer(limit).layer(impatient));
    client.enqueue().send(pass(0)).await.unwrap();
    assert_eq!(stage.next().await.n, 0);
    settled(&client, QUEUE, 1).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for sent in client.enqueue().send_all((1..=500).map(|n| does(n, Act::Sleep { ms: 10_000 }))).await {
        sent.unwrap();
    }
    eventually("all are dead", || async { (client.stats(QUEUE).await.unwrap().dead == 500).then_some(()) }).await;
    stage.rest();
    // Eight at once, no more and no fewer.
    for sent in client.enqueue().send_all((501..513).map(|n| does(n, Act::Wait))).await {
        sent.unwrap();
    }
    stage.take(8).await;
    eventually("twelve are held", || async { (client.stats(QUEUE).await.unwrap().running == 12).then_some(()) }).await;
    assert!(stage.rest().is_empty(), "a ninth was let through");
    stage.open(12);
    stage.take(4).await;
    settled(&client, QUEUE, 13).await;
    // A few tasks serve connections that were not there before.
    eventually("no run's task is left over", || async { (tasks() < before + 8).then_some(()) }).await;
    // Nor does anything spin: an idle worker beats and listens. Time itself is what is measured.
    watched(&server, QUEUE).await;
    let commands = || server.info("total_commands_processed").unwrap();
    let (before, since) = (commands(), Instant::now());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let a_second = (commands() - before) / since.elapsed().as_secs_f64();
    assert!(a_second < 160.0, "{a_second} commands a second with nothing to do, those inside scripts included");
    stage.stop().await;
}

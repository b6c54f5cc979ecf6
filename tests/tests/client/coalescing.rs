//! Sends that are in flight at once share calls (rule j).

use std::future::Future;
use std::time::Duration;

use delayq::{ErrorKind, Job, JobContext, JobHandle, JobId, JobResult, delayed_job};
use delayq_tests::{eventually, server_and_client};

use crate::kit::{Act, Raw, Stage, TASKS, Task, calls, only, pass, settled};

#[delayed_job(name = "heavy", version = 1, queue = "tasks")]
struct Heavy {
    n: u64,
    weight: String,
}

impl Job for Heavy {
    async fn run(self, _: JobContext) -> JobResult {
        Ok(())
    }
}

/// How many calls enqueued something.
fn enqueues(server: &delayq_redis_fixture::RedisServer) -> u64 {
    calls(server, "evalsha") + calls(server, "eval")
}

#[tokio::test]
async fn j_a_thousand_sends_at_once_share_a_few_calls() {
    let (server, client) = server_and_client().await;
    client.enqueue().send(pass(0)).await.unwrap();
    let before = enqueues(&server);
    let sends: Vec<_> = (1..=1000)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.enqueue().send(pass(n)).await.unwrap().is_new() })
        })
        .collect();
    for send in sends {
        assert!(send.await.unwrap());
    }
    let shared = enqueues(&server) - before;
    assert!(shared <= 20, "{shared} calls for 1,000 jobs");
    assert_eq!(client.stats(TASKS).await.unwrap().waiting, 1001);
}

#[tokio::test]
async fn j_a_caller_that_goes_away_takes_nothing_with_it() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let mut stayed = Vec::new();
    let mut gone = Vec::new();
    for n in 0..600u64 {
        let id = JobId::new();
        let mut send = client.enqueue().id(id).send(pass(n));
        if n % 3 == 0 {
            // Polled once, so that it is on its way, and dropped then.
            std::future::poll_fn(|cx| {
                let _ = std::pin::Pin::new(&mut send).poll(cx);
                std::task::Poll::Ready(())
            })
            .await;
            gone.push(id);
            drop(send);
        } else {
            stayed.push((n, tokio::spawn(send)));
        }
        if n % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for (n, send) in stayed {
        let handle = send.await.unwrap().unwrap();
        let record = raw.record(handle.id()).await.unwrap();
        assert_eq!(record.envelope, format!("task 1\n{{\"n\":{n},\"act\":\"Pass\"}}"), "an answer is of its own job");
    }
    // Each of the others is there as a whole, or not at all. Some may be on their way still, and arrive while they are looked for.
    let mut whole = 0;
    for _ in 0..100 {
        whole = 0;
        for id in &gone {
            // One that has no record must not be counted below either.
            let Some(record) = raw.record(*id).await else { continue };
            assert_eq!(raw.due(5, *id).await, Some(record.due_ms));
            whole += 1;
        }
        if client.stats(TASKS).await.unwrap().waiting == 400 + whole {
            break;
        }
    }
    assert!(whole > 0, "what was on its way arrives");
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.waiting, stats.orphans), (400 + whole, 0));
    let mut stage = Stage::start(&client);
    stage.take(400 + whole as usize).await;
    settled(&client, 400 + whole).await;
    stage.stop().await;
}

#[tokio::test]
async fn j_a_send_that_was_never_awaited_sends_nothing() {
    let (server, client) = server_and_client().await;
    drop(client.enqueue().send(pass(1)));
    drop(client.enqueue().send_all([pass(1), pass(2)]));
    client.stats(TASKS).await.unwrap();
    assert_eq!(Raw::connect(&server).await.keys().await, 0);
}

#[tokio::test]
async fn j_a_call_stops_at_four_mebibytes() {
    let (server, client) = server_and_client().await;
    client.enqueue().send(pass(0)).await.unwrap();
    let before = enqueues(&server);
    let heavy = |n| Heavy { n, weight: "x".repeat(900 * 1024) };
    let sends: Vec<_> = (0..20).map(|n| tokio::spawn(client.enqueue().send(heavy(n)))).collect();
    for send in sends {
        send.await.unwrap().unwrap();
    }
    let one_by_one = enqueues(&server) - before;
    assert!((5..20).contains(&one_by_one), "{one_by_one} calls for 18 MB");
    let before = enqueues(&server);
    for answer in client.enqueue().send_all((0..20).map(heavy)).await {
        answer.unwrap();
    }
    assert_eq!(enqueues(&server) - before, 5, "four jobs of 900 KiB fit into a call of 4 MiB");
}

#[tokio::test]
async fn b17_twenty_thousand_jobs_at_once_are_answered_in_their_order() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let answers = client.schedule(Duration::from_secs(60)).send_all((0..20_000).map(pass)).await;
    assert_eq!(answers.len(), 20_000);
    for (n, answer) in answers.iter().enumerate() {
        let handle: &JobHandle<Task> = answer.as_ref().unwrap();
        assert!(handle.is_new());
        if n % 97 == 0 {
            let record = raw.record(handle.id()).await.unwrap();
            assert_eq!(record.envelope, format!("task 1\n{{\"n\":{n},\"act\":\"Pass\"}}"));
        }
    }
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.waiting, stats.enqueued_total, stats.orphans), (20_000, 20_000, 0));
}

#[tokio::test]
async fn j_a_bad_job_among_good_ones_fails_alone() {
    let (_server, client) = server_and_client().await;
    // In range for the client; that the due time isn't, only the store can tell.
    let too_far = Duration::from_millis(delayq::limits::DUE_MAX_MS - 1);
    let sends: Vec<_> = (0..300u64)
        .map(|n| {
            let schedule = if n % 100 == 50 { client.schedule(too_far) } else { client.enqueue() };
            tokio::spawn(schedule.send(pass(n)))
        })
        .collect();
    for (n, send) in sends.into_iter().enumerate() {
        match send.await.unwrap() {
            Ok(handle) => assert!(n % 100 != 50 && handle.is_new()),
            Err(error) => assert_eq!((n % 100, error.kind()), (50, ErrorKind::InvalidArgument)),
        }
    }
    assert_eq!(client.stats(TASKS).await.unwrap().waiting, 297);
    // One that is refused before it is sent keeps its place among the answers.
    let key = |n: usize| if n == 3 { "k".repeat(201) } else { n.to_string() };
    let answers = client.enqueue().send_all((0..7).map(|n| only(&key(n), Act::Pass))).await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.err().map(|error| error.kind()), (n == 3).then_some(ErrorKind::InvalidArgument), "{n}");
    }
    let answers = client.schedule(too_far).send_all((0..250).map(pass)).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap_err().kind() == ErrorKind::InvalidArgument));
    eventually("all good ones", || async { (client.stats(TASKS).await.unwrap().waiting == 303).then_some(()) }).await;
}

#[test]
fn a_client_outlives_the_runtime_that_made_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (_server, client) = first.block_on(async {
        let (server, client) = server_and_client().await;
        client.enqueue().send(pass(1)).await.unwrap();
        (server, client)
    });
    drop(first);
    runtime().block_on(async {
        client.enqueue().send(pass(2)).await.unwrap();
        assert_eq!(client.stats(TASKS).await.unwrap().waiting, 2);
    });
}

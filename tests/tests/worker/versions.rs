//! Payloads of several versions, and jobs that a worker doesn't know.

use std::time::Duration;

use delayq::layer::Unknown;
use delayq::store::ops::{NewJob, Options};
use delayq::{Backoff, Client, DeadReason, Job, JobContext, JobId, JobResult, JobType, Worker, delayed_job};
use delayq_redis_fixture::RedisServer;
use delayq_tests::{Running, eventually, server_and_client};
use tokio::sync::mpsc;

#[delayq::payload]
struct GreetV1 {
    name: String,
}

#[delayq::payload]
struct GreetV2 {
    first: String,
    last: String,
}

/// Today's version: the older ones are brought to it one step at a time.
#[delayed_job(name = "greet", version = 3, queue = "versions", max_retries = 0, from(1 = GreetV1, 2 = GreetV2))]
struct Greet {
    full_name: String,
    path: Vec<u32>,
}

impl From<GreetV1> for GreetV2 {
    fn from(old: GreetV1) -> GreetV2 {
        let (first, last) = old.name.split_once(' ').unwrap_or((&old.name, ""));
        GreetV2 { first: first.to_owned(), last: last.to_owned() }
    }
}

impl From<GreetV2> for Greet {
    fn from(old: GreetV2) -> Greet {
        Greet { full_name: format!("{} {}", old.first, old.last), path: vec![2] }
    }
}

type Told = mpsc::UnboundedSender<String>;

impl Job for Greet {
    async fn run(self, cx: JobContext) -> JobResult {
        cx.data::<Told>()?.send(format!("{} {:?}", self.full_name, self.path))?;
        Ok(())
    }
}

/// A job of another program: the type is here, not linked as a job of this one.
#[derive(Debug)]
#[delayq::payload]
struct Foreign {
    text: String,
}

impl JobType for Foreign {
    const NAME: &'static str = "foreign";
    const VERSION: u32 = 2;
    const QUEUE: &'static str = "versions";
}

/// Puts an envelope into the store as any program might.
async fn send_raw(server: &RedisServer, envelope: &[u8]) -> JobId {
    use delayq::engine::redis::{RedisEngine, Settings, Target};
    use delayq::store::{Prefix, Store};
    let target = Target::parse(&server.url(), Settings::default()).unwrap();
    let store = Store::new(std::sync::Arc::new(RedisEngine::connect(target).await.unwrap()), Prefix::default());
    let id = JobId::new();
    let job = NewJob {
        id: *id.as_uuid().as_bytes(),
        when: "+0".to_owned(),
        options: Options { priority: 5, attempts_max: 4, ..Options::default() },
        envelope: envelope.to_vec(),
    };
    store.enqueue(&store.shard("versions", 0).unwrap(), &[job]).await.unwrap();
    id
}

fn worker(client: &Client, told: Told) -> Worker {
    Worker::new(client.clone()).data(told).queues(["versions"])
}

async fn letter(client: &Client, id: JobId) -> delayq::DeadLetter {
    eventually("the dead letter", || async { client.dead_letters("versions").get(id).await.unwrap() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn older_payloads_are_brought_up_to_date_step_by_step() {
    let (server, client) = server_and_client().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = Running::start(worker(&client, told));
    send_raw(
        &server,
        br#"greet 1
{"name":"Ada Lovelace"}"#,
    )
    .await;
    assert_eq!(heard.recv().await.unwrap(), "Ada Lovelace [2]");
    send_raw(&server, b"greet 2\n{\"first\":\"Grace\",\"last\":\"Hopper\"}").await;
    assert_eq!(heard.recv().await.unwrap(), "Grace Hopper [2]");
    client.enqueue::<Greet>().send(Greet { full_name: "Alan Turing".to_owned(), path: vec![] }).await.unwrap();
    assert_eq!(heard.recv().await.unwrap(), "Alan Turing []");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unknown_is_a_dead_letter_with_its_bytes_and_can_be_redriven_to_who_knows_it() {
    let (server, client) = server_and_client().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let first = Running::start(worker(&client, told.clone()));
    let payload = r#"{"text":"9007199254740993 \u0000 😀"}"#;
    let unknown_job = send_raw(&server, format!("foreign 2\n{payload}").as_bytes()).await;
    let unknown_version = send_raw(&server, b"greet 4\n{}").await;
    let dead = letter(&client, unknown_job).await;
    assert_eq!(
        (dead.reason, dead.name.as_deref(), dead.version),
        (Some(DeadReason::UnknownJob), Some("foreign"), Some(2))
    );
    assert_eq!(dead.payload, payload);
    let newer = letter(&client, unknown_version).await;
    assert_eq!((newer.reason, newer.version), (Some(DeadReason::UnknownVersion), Some(4)));
    first.stop().await.unwrap();

    let second = worker(&client, told).handle(|job: Foreign, cx: JobContext| async move {
        cx.data::<Told>()?.send(job.text)?;
        Ok(())
    });
    let second = Running::start(second);
    client.dead_letters("versions").redrive(unknown_job).await.unwrap();
    assert_eq!(heard.recv().await.unwrap(), "9007199254740993 \0 😀");
    second.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b51_released_jobs_wait_for_a_worker_that_knows_them() {
    let (server, client) = server_and_client().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let release = Unknown::Release { backoff: Backoff::fixed(Duration::from_millis(50)), returns_max: 1000 };
    let old = Running::start(worker(&client, told.clone()).unknown(release));
    for n in 0..50 {
        send_raw(&server, format!("foreign 2\n{{\"text\":\"{n}\"}}").as_bytes()).await;
    }
    // The old worker has met each of them first, at least by number.
    eventually("fifty releases", || async {
        let released = server.command(&["HGET", "delayq:{versions/0}:stats", "snoozed"]).unwrap();
        let released: u64 = released.lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
        (released >= 50).then_some(())
    })
    .await;
    let new = worker(&client, told).unknown(release).handle(|job: Foreign, cx: JobContext| async move {
        assert_eq!(cx.attempt(), 1, "a release spends no attempt");
        cx.data::<Told>()?.send(job.text)?;
        Ok(())
    });
    let new = Running::start(new);
    for _ in 0..50 {
        delayq_tests::soon("a foreign job", heard.recv()).await.unwrap();
    }
    eventually("all done", || async { (client.stats("versions").await.unwrap().done_total == 50).then_some(()) }).await;
    old.stop().await.unwrap();
    new.stop().await.unwrap();
    assert_eq!(client.stats("versions").await.unwrap().dead, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_bounded() {
    let (server, client) = server_and_client().await;
    let (told, _heard) = mpsc::unbounded_channel();
    let release = Unknown::Release { backoff: Backoff::fixed(Duration::from_millis(10)), returns_max: 3 };
    let worker = Running::start(worker(&client, told).unknown(release));
    let id = send_raw(&server, b"greet 9\n{}").await;
    assert_eq!(letter(&client, id).await.reason, Some(DeadReason::UnknownVersion));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b49_b50_what_can_not_be_decoded_is_a_dead_letter_and_its_neighbours_run() {
    let (server, client) = server_and_client().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let deep = format!("greet 3\n{{\"full_name\":{}1{},\"path\":[]}}", "[".repeat(100_000), "]".repeat(100_000));
    let broken: Vec<Vec<u8>> = vec![
        b"greet 3\n\xff\xfe".to_vec(),
        b"greet 3\n".to_vec(),
        b"greet 3\n[1,2]".to_vec(),
        b"greet 3\n{\"full_name\":7,\"path\":[]}".to_vec(),
        b"greet 1\n{\"nom\":\"x\"}".to_vec(),
        b"no head line at all".to_vec(),
        b"[\"an\",\"array\"]\n".to_vec(),
        b"greet three\n{}".to_vec(),
        deep.into_bytes(),
    ];
    let mut ids = Vec::new();
    for envelope in &broken {
        ids.push(send_raw(&server, envelope).await);
    }
    client.enqueue::<Greet>().send(Greet { full_name: "well".to_owned(), path: vec![] }).await.unwrap();
    let worker = Running::start(worker(&client, told));
    assert_eq!(heard.recv().await.unwrap(), "well []");
    for (id, envelope) in ids.into_iter().zip(&broken) {
        let letter = letter(&client, id).await;
        assert_eq!(letter.reason, Some(DeadReason::Undecodable), "{letter:?}");
        let kept = if letter.name.is_some() { envelope.splitn(2, |b| *b == b'\n').nth(1).unwrap() } else { envelope };
        assert_eq!(&letter.payload[..], kept, "the bytes as they came");
    }
    worker.stop().await.unwrap();
    assert!(heard.try_recv().is_err(), "a handler was called for one of them");
}

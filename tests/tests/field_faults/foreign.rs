//! Producers that write what they like, and workers of two releases at once (B50, B51).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use delayq::layer::Unknown;
use delayq::store::ops::NewJob;
use delayq::{Backoff, Client, DeadReason, Job, JobContext, JobId, JobResult, JobType, Worker, delayed_job};
use delayq_tests::store_kit::{Value, With, World, id, job};
use delayq_tests::{Running, eventually, server_and_client, soon};
use tokio::sync::mpsc;

use crate::kit::conserved;
use crate::kit_b::{QUEUE, Stage, counter, pass};

/// As another program sends it: due now, its envelope whatever that program wrote.
fn foreign(n: u64, envelope: &[u8]) -> NewJob {
    job(n).due("+0").envelope(envelope.to_vec())
}

#[tokio::test]
async fn b50_a_payload_that_is_none_is_a_dead_letter_with_its_bytes_and_its_handler_is_not_called() {
    let (server, client) = server_and_client().await;
    let world = World::on(&server).await.named("delayq", QUEUE);
    // The payload, or the whole envelope where its head line can't be read, is what is kept.
    let cases: [(&str, &[u8], &[u8]); 14] = [
        ("invalid JSON", b"b_deed 1\n{\"n\":", b"{\"n\":"),
        ("two values", b"b_deed 1\n{\"n\":1,\"act\":\"Pass\"}{}", b"{\"n\":1,\"act\":\"Pass\"}{}"),
        ("no text", b"b_deed 1\n\xff\xfe\0", b"\xff\xfe\0"),
        ("nothing", b"b_deed 1\n", b""),
        ("an array", b"b_deed 1\n[[7]]", b"[[7]]"),
        ("a number in quotes", b"b_deed 1\n{\"n\":\"3\",\"act\":\"Pass\"}", b"{\"n\":\"3\",\"act\":\"Pass\"}"),
        ("a missing field", b"b_deed 1\n{\"act\":\"Pass\"}", b"{\"act\":\"Pass\"}"),
        ("an unknown variant", b"b_deed 1\n{\"n\":1,\"act\":\"Explode\"}", b"{\"n\":1,\"act\":\"Explode\"}"),
        ("an array envelope", b"[\"b_deed\",1,{}]\n{}", b"[\"b_deed\",1,{}]\n{}"),
        ("a JSON envelope", b"{\"class\":\"b_deed\",\"args\":[]}", b"{\"class\":\"b_deed\",\"args\":[]}"),
        ("no version", b"b_deed\n{}", b"b_deed\n{}"),
        ("a version in words", b"b_deed one\n{}", b"b_deed one\n{}"),
        ("version 0", b"b_deed 0\n{}", b"b_deed 0\n{}"),
        ("an empty envelope", b"", b""),
    ];
    for (n, (_, envelope, _)) in (1..).zip(&cases) {
        world.create(&[foreign(n, envelope)]).await;
    }
    let mut stage = Stage::start(&client);
    client.enqueue().send(pass(99)).await.unwrap();
    assert_eq!(stage.next().await.n, 99);
    for (n, (what, _, kept)) in (1..).zip(&cases) {
        let id = JobId::from(uuid::Uuid::from_bytes(id(n)));
        let dead = client.dead_letters(QUEUE);
        let letter = eventually(what, || async { dead.get(id).await.unwrap() }).await;
        assert_eq!(letter.reason, Some(DeadReason::Undecodable), "{what}: {letter:?}");
        assert_eq!(&letter.payload[..], *kept, "{what}");
        assert!(letter.attempts <= 1 && !letter.error.is_empty(), "{what}: {letter:?}");
    }
    stage.stop().await;
    let stats = client.stats(QUEUE).await.unwrap();
    assert_eq!((stats.dead_total, stats.done_total, stats.retried_total), (cases.len() as u64, 1, 0), "once each");
    conserved(&server, QUEUE).await;
}

#[tokio::test]
async fn b50_arguments_that_are_none_are_refused_and_nothing_of_the_call_is_written() {
    let (server, _) = server_and_client().await;
    let world = World::on(&server).await.named("delayq", QUEUE);
    world.create(&[job(1).due("+60000")]).await;
    let before = world.dump().await;
    let good: [&[u8]; 4] = [&id(2), b"+0", b"5 4", b"b_deed 1\n{}"];
    let cases: [(&str, usize, &[u8]); 15] = [
        ("no id", 0, b""),
        ("a short id", 0, b"123456789012345"),
        ("an id as text", 0, b"018f3c5e-0000-7000-8000-000000000000"),
        ("no time", 1, b""),
        ("a time without a sign", 1, b"5000"),
        ("a negative delay", 1, b"+-5"),
        ("a fraction", 1, b"+0.5"),
        ("a time beyond the year 9999", 1, b"@253402300800000"),
        ("attempts in quotes", 2, b"5 \"3\""),
        ("attempts in words", 2, b"5 three"),
        ("no attempts", 2, b"5"),
        ("attempts 0", 2, b"5 0"),
        ("an unknown option", 2, b"5 4 retries=3"),
        ("a priority that was not announced", 2, b"9 4"),
        ("a JSON array", 2, b"[5,4]"),
    ];
    for (what, at, wrong) in cases {
        let mut bad = good;
        bad[at] = wrong;
        // A neighbour before it and one after it.
        let mut args: Vec<Vec<u8>> = ["1", "1", "5"].map(|arg| arg.as_bytes().to_vec()).to_vec();
        for (n, part) in [(3, good), (4, bad), (5, good)] {
            let own = id(n);
            let first = if n == 4 { part[0] } else { &own[..] };
            args.extend([first, part[1], part[2], part[3]].map(<[u8]>::to_vec));
        }
        let refused = world.raw("enqueue", &world.enqueue_keys("5"), &args).await.unwrap_err();
        assert_eq!(refused.kind(), delayq::ErrorKind::InvalidArgument, "{what}: {refused:?}");
        assert!(refused.to_string().contains("BADARG job 2"), "{what}: it says which: {refused}");
        assert_eq!(world.dump().await, before, "{what}");
    }
    // An argument too many, or too few.
    for cut in [4, 6, 8] {
        let mut args: Vec<Vec<u8>> = ["1", "1", "5"].map(|arg| arg.as_bytes().to_vec()).to_vec();
        args.extend([&good[..], &good[..]].concat().iter().map(|arg| arg.to_vec()));
        args.truncate(cut);
        let refused = world.raw("enqueue", &world.enqueue_keys("5"), &args).await.unwrap_err();
        assert_eq!(refused.kind(), delayq::ErrorKind::InvalidArgument, "{cut}: {refused:?}");
    }
    assert_eq!(world.dump().await, before);
}

/// What was written: the member of the due set, the record if there is one, and whether something is left to look at.
type Written = (&'static str, Vec<u8>, Option<Vec<u8>>, bool);

#[tokio::test]
async fn b50_what_was_written_past_the_script_is_put_aside_once() {
    let (server, client) = server_and_client().await;
    let world = World::on(&server).await.named("delayq", QUEUE);
    world.create(&[job(1).envelope(b"b_deed 1\n{\"n\":1,\"act\":\"Pass\"}".to_vec())]).await;
    let Some(Value::Hash(records)) = world.read("jobs").await else { panic!("a record was written") };
    let sound = records[&id(1)[..]].clone();
    let changed = |at: usize, byte: u8| {
        let mut record = sound.clone();
        record[at] = byte;
        record
    };
    let cases: [Written; 8] = [
        ("no record", id(2).to_vec(), None, false),
        ("a short id", b"abc".to_vec(), None, false),
        ("an id as text", b"018f3c5e-0000-7000-8000-000000000000".to_vec(), None, false),
        ("an empty record", id(3).to_vec(), Some(Vec::new()), true),
        ("a JSON record", id(4).to_vec(), Some(b"{\"class\":\"b_deed\"}".to_vec()), true),
        ("another format", id(5).to_vec(), Some(changed(0, 2)), true),
        ("no priority", id(6).to_vec(), Some(changed(1, b'x')), true),
        ("an extension that is not there", id(7).to_vec(), Some(changed(28, 255)), true),
    ];
    for (_, member, record, _) in &cases {
        world.set_score("due:5", member, Some(1)).await;
        if let Some(record) = record {
            world.set_field("jobs", member, Some(record.clone())).await;
        }
    }
    let mut stage = Stage::start(&client);
    assert_eq!(stage.next().await.n, 1, "their neighbour runs");
    let left = cases.iter().filter(|case| case.3).count() as u64;
    let put_aside = || async {
        let stats = client.stats(QUEUE).await.unwrap();
        (stats.quarantined_total == cases.len() as u64 && stats.dead == left && stats.waiting == 0).then_some(())
    };
    eventually("all are put aside", put_aside).await;
    for (what, member, record, _) in cases.iter().filter(|case| case.3) {
        let id = JobId::from(uuid::Uuid::from_slice(member).unwrap());
        let letter = client.dead_letters(QUEUE).get(id).await.unwrap().expect(what);
        assert_eq!(letter.reason, Some(DeadReason::Undecodable), "{what}");
        assert_eq!(Some(&letter.payload[..]), record.as_deref(), "{what}: all its bytes");
    }
    // Once: further rounds find nothing more to put aside, and a redrive leaves it alone.
    let report = client.dead_letters(QUEUE).redrive_all().await.unwrap();
    assert_eq!((report.redriven, report.unreadable), (0, left));
    client.enqueue().send(pass(2)).await.unwrap();
    assert_eq!(stage.next().await.n, 2);
    put_aside().await.expect("as before");
    assert!(stage.rest().is_empty(), "no handler was called for them");
    stage.stop().await;
}

/// Today's release of a job, which every worker of this program knows.
#[delayed_job(name = "b_deploy", version = 1, queue = "b-deploys", max_retries = 0)]
struct DeployV1 {
    n: u64,
}

impl Job for DeployV1 {
    async fn run(self, _: JobContext) -> JobResult {
        panic!("no job of version 1 was sent, but one with {}", self.n)
    }
}

/// The next release's: only the workers that are given its handler know it.
#[delayq::payload]
struct DeployV2 {
    n: u64,
    colour: String,
}

impl JobType for DeployV2 {
    const NAME: &'static str = "b_deploy";
    const VERSION: u32 = 2;
    const QUEUE: &'static str = "b-deploys";
    const MAX_RETRIES: u32 = 0;
}

/// A job whose type was removed from all workers.
#[delayq::payload]
struct Removed {
    n: u64,
}

impl JobType for Removed {
    const NAME: &'static str = "b_removed";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = "b-deploys";
    const MAX_RETRIES: u32 = 0;
}

const DEPLOYS: &str = "b-deploys";

/// A worker of today's release. One job at a time, so that two workers share what comes.
fn old_worker(client: &Client) -> Worker {
    Worker::new(client.clone()).queues([DEPLOYS]).concurrency(1).claim_batch(1)
}

/// A worker of the next release.
fn new_worker(client: &Client, tell: mpsc::UnboundedSender<(u64, u32)>) -> Worker {
    old_worker(client).handle(move |job: DeployV2, cx: JobContext| {
        let tell = tell.clone();
        async move {
            assert_eq!(job.colour, "mauve");
            tell.send((job.n, cx.attempt()))?;
            Ok(())
        }
    })
}

async fn send(client: &Client, numbers: std::ops::Range<u64>) {
    let jobs = numbers.map(|n| DeployV2 { n, colour: "mauve".to_owned() });
    for sent in client.enqueue::<DeployV2>().send_all(jobs).await {
        sent.unwrap();
    }
}

/// The numbers that were run, each at its first attempt.
async fn all_ran(heard: &mut mpsc::UnboundedReceiver<(u64, u32)>, count: u64) {
    let mut numbers = BTreeSet::new();
    for _ in 0..count {
        let (n, attempt) = soon("a run of the new version", heard.recv()).await.unwrap();
        assert_eq!(attempt, 1, "nothing was charged");
        assert!(numbers.insert(n), "{n} ran twice");
    }
    assert_eq!(numbers, (0..count).collect());
}

#[tokio::test]
async fn b51_by_default_what_an_old_worker_meets_waits_in_the_dead_letters_and_can_be_redriven() {
    let (server, client) = server_and_client().await;
    let (tell, mut heard) = mpsc::unbounded_channel();
    let old = Running::start(old_worker(&client));
    // The old one is alone with the first ten; then both are at work.
    send(&client, 0..10).await;
    eventually("it met ten", || async { (client.stats(DEPLOYS).await.unwrap().dead == 10).then_some(()) }).await;
    let new = Running::start(new_worker(&client, tell));
    eventually("both are there", || async { (client.stats(DEPLOYS).await.unwrap().sessions == 2).then_some(()) }).await;
    for n in 10..50 {
        send(&client, n..n + 1).await;
    }
    let met = eventually("each was met", || async {
        let stats = client.stats(DEPLOYS).await.unwrap();
        (stats.dead + stats.done_total == 50).then_some(stats.dead)
    })
    .await;
    let dead = client.dead_letters(DEPLOYS);
    let letters = dead.oldest_first(100, None).await.unwrap().letters;
    assert_eq!(letters.len() as u64, met);
    for letter in letters {
        assert_eq!((letter.reason, letter.version), (Some(DeadReason::UnknownVersion), Some(2)), "{letter:?}");
        let payload: DeployV2 = serde_json::from_slice(&letter.payload).unwrap();
        assert_eq!(payload.colour, "mauve");
    }
    old.stop().await.unwrap();
    assert_eq!(dead.redrive_all().await.unwrap().redriven, met);
    all_ran(&mut heard, 50).await;
    new.stop().await.unwrap();
    let stats = client.stats(DEPLOYS).await.unwrap();
    assert_eq!((stats.done_total, stats.dead, stats.retried_total), (50, 0, 0));
    conserved(&server, DEPLOYS).await;
}

#[tokio::test]
async fn b51_with_release_an_old_worker_hands_back_uncharged_and_in_measure_what_it_does_not_know() {
    let (server, client) = server_and_client().await;
    let (tell, mut heard) = mpsc::unbounded_channel();
    let release =
        Unknown::Release { backoff: Backoff::fixed(Duration::from_millis(50)).jitter(0.0), returns_max: 1000 };
    let started = Instant::now();
    let old = Running::start(old_worker(&client).unknown(release));
    send(&client, 0..50).await;
    eventually("fifty releases", || async { (counter(&server, DEPLOYS, "snoozed") >= 50).then_some(()) }).await;
    let new = Running::start(new_worker(&client, tell).unknown(release));
    all_ran(&mut heard, 50).await;
    eventually("all done", || async { (client.stats(DEPLOYS).await.unwrap().done_total == 50).then_some(()) }).await;
    let rounds = started.elapsed().as_millis() as u64 / 50 + 1;
    let releases = counter(&server, DEPLOYS, "snoozed");
    assert!(releases <= 50 * rounds, "{releases} releases in {rounds} rounds of 50 ms: without a wait");
    old.stop().await.unwrap();
    new.stop().await.unwrap();
    let stats = client.stats(DEPLOYS).await.unwrap();
    assert_eq!((stats.dead_total, stats.retried_total, stats.waiting), (0, 0, 0));
    conserved(&server, DEPLOYS).await;
}

#[tokio::test]
async fn b51_a_type_that_nobody_knows_any_more_ends_as_a_dead_letter_not_in_a_loop() {
    let (server, client) = server_and_client().await;
    let release = Unknown::Release { backoff: Backoff::fixed(Duration::from_millis(10)), returns_max: 3 };
    for (n, unknown, returns) in [(1, Unknown::DeadLetter, 0), (2, release, 3)] {
        let before = counter(&server, DEPLOYS, "snoozed");
        let worker = Running::start(old_worker(&client).unknown(unknown));
        let job = client.enqueue::<Removed>().send(Removed { n }).await.unwrap();
        let dead = client.dead_letters(DEPLOYS);
        let letter = eventually("it is dead", || async { dead.get(job.id()).await.unwrap() }).await;
        assert_eq!(letter.reason, Some(DeadReason::UnknownJob), "{unknown:?}");
        assert_eq!(letter.payload, format!("{{\"n\":{n}}}"), "{unknown:?}");
        assert_eq!(counter(&server, DEPLOYS, "snoozed") - before, returns, "{unknown:?}");
        worker.stop().await.unwrap();
    }
    conserved(&server, DEPLOYS).await;
}

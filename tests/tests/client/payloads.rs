//! Payloads: the very bytes that were sent, through a retry, the dead letters and a redrive.

use std::collections::BTreeMap;

use bytes::Bytes;
use delayq::{Client, Job, JobContext, JobResult, Worker, delayed_job};
use delayq_tests::{Running, eventually, server_and_client, soon};
use tokio::sync::mpsc;

use crate::kit::Raw;

#[delayq::payload]
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Unit,
    Tuple(i64, u64),
    Struct { deep: Option<Box<Shape>> },
}

/// Fails in its two attempts; after a redrive it succeeds if the worker says so.
#[delayed_job(name = "parcel", version = 1, queue = "parcels", max_retries = 1, backoff = fixed("1ms"))]
#[derive(Debug, Clone, PartialEq)]
struct Parcel {
    odd: u64,
    least: i64,
    most: u64,
    beyond_double: i64,
    whole_float: f64,
    small_float: f64,
    minus_zero: f64,
    single: f32,
    no_list: Vec<u8>,
    no_map: BTreeMap<String, u8>,
    nothing: Option<u8>,
    nested: Vec<Vec<Option<Vec<u8>>>>,
    shapes: Vec<Shape>,
    map: BTreeMap<String, Vec<i64>>,
    nul: String,
    emoji: String,
    right_to_left: String,
    escapes: String,
    large: String,
    character: char,
    unit: (),
}

fn parcel() -> Parcel {
    Parcel {
        odd: (1 << 53) + 1,
        least: i64::MIN,
        most: u64::MAX,
        beyond_double: -9_007_199_254_740_993,
        whole_float: 1.0,
        small_float: 5e-324,
        minus_zero: -0.0,
        single: 0.1,
        no_list: Vec::new(),
        no_map: BTreeMap::new(),
        nothing: None,
        nested: vec![vec![], vec![None, Some(vec![])], vec![Some(vec![0, 255])]],
        shapes: vec![
            Shape::Unit,
            Shape::Tuple(i64::MAX, 0),
            Shape::Struct { deep: Some(Box::new(Shape::Struct { deep: None })) },
        ],
        map: BTreeMap::from([
            ("".to_owned(), vec![]),
            ("\u{0}".to_owned(), vec![1]),
            ("ключ".to_owned(), vec![i64::MIN]),
        ]),
        nul: "before\0after".to_owned(),
        emoji: "👩‍👩‍👧‍👦 🏳️‍🌈 \u{10ffff}".to_owned(),
        right_to_left: "مرحبا \u{202e}שלום".to_owned(),
        escapes: "\"\\/\u{8}\u{c}\n\r\t\u{7f}\u{2028}\u{2029}</script>".to_owned(),
        large: "é\0".repeat(50_000),
        character: '𝄞',
        unit: (),
    }
}

type Tell = mpsc::UnboundedSender<(u32, Parcel, Bytes)>;

/// Whether handlers succeed.
struct Succeed(bool);

impl Job for Parcel {
    async fn run(self, cx: JobContext) -> JobResult {
        cx.data::<Tell>()?.send((cx.attempt(), self, cx.request().payload().clone()))?;
        if cx.data::<Succeed>()?.0 { Ok(()) } else { Err("not this time")? }
    }
}

fn worker(client: &Client, succeed: bool) -> (Running, mpsc::UnboundedReceiver<(u32, Parcel, Bytes)>) {
    let (tell, told) = mpsc::unbounded_channel();
    let worker = Worker::new(client.clone()).queues(["parcels"]).data::<Tell>(tell).data(Succeed(succeed));
    (Running::start(worker), told)
}

async fn survives(sent: Parcel) {
    let (server, client) = server_and_client().await;
    let bytes = serde_json::to_vec(&sent).unwrap();
    let envelope = [b"parcel 1\n", bytes.as_slice()].concat();
    let (failing, mut told) = worker(&client, false);
    let handle = client.enqueue().send(sent.clone()).await.unwrap();
    for attempt in [1, 2] {
        let (nth, received, raw) = soon("an attempt", told.recv()).await.unwrap();
        assert_eq!(nth, attempt);
        assert!(received == sent && raw == bytes, "attempt {attempt} got something else");
    }
    let dead = client.dead_letters("parcels");
    let letter = eventually("it is dead", || async { dead.get(handle.id()).await.unwrap() }).await;
    assert!(letter.payload == bytes, "the dead letter holds something else");
    assert_eq!((letter.attempts, letter.name.as_deref(), letter.version), (2, Some("parcel"), Some(1)));
    let listed = dead.newest_first(1, None).await.unwrap().letters.remove(0);
    assert!(listed == letter, "the list shows something else");
    let mut raw = Raw::connect(&server).await;
    let record: Vec<u8> = raw.ask(&[b"HGET", b"delayq:{parcels/0}:jobs", handle.id().as_uuid().as_bytes()]).await;
    assert!(record.ends_with(&envelope), "the envelope itself was touched");
    failing.stop().await.unwrap();

    let (succeeding, mut told) = worker(&client, true);
    dead.redrive(handle.id()).await.unwrap();
    let (nth, received, raw) = soon("the redriven run", told.recv()).await.unwrap();
    assert_eq!(nth, 1, "a redrive gives all attempts back");
    assert!(received == sent && raw == bytes, "the redriven run got something else");
    succeeding.stop().await.unwrap();
}

#[tokio::test]
async fn b45_b46_b49_payload_bytes_are_the_same_through_retry_death_and_redrive() {
    survives(parcel()).await;
}

#[tokio::test]
async fn b49_a_payload_of_a_megabyte_is_the_same_too() {
    let mut large = parcel();
    large.large = "\u{1F600}".repeat(1 << 18);
    large.large.truncate((1 << 20) - 4096);
    survives(large).await;
}

#[tokio::test]
async fn b49_an_unreadable_neighbour_is_put_aside_with_its_bytes() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    client.pause("parcels").await.unwrap();
    let bad = client.enqueue().send(parcel()).await.unwrap();
    let key = b"delayq:{parcels/0}:jobs";
    let mut record: Vec<u8> = raw.ask(&[b"HGET", key, bad.id().as_uuid().as_bytes()]).await;
    let payload_at = record.windows(2).rposition(|pair| pair == b"1\n").unwrap() + 2;
    record.truncate(payload_at);
    record.extend_from_slice(b"\xff\xfe");
    let _: i64 = raw.ask(&[b"HSET", key, bad.id().as_uuid().as_bytes(), &record]).await;
    let mut good = Vec::new();
    for _ in 0..5 {
        good.push(client.enqueue().send(parcel()).await.unwrap().id());
    }
    client.resume("parcels").await.unwrap();
    let (running, mut told) = worker(&client, true);
    for _ in 0..5 {
        assert!(soon("a neighbour", told.recv()).await.unwrap().1 == parcel());
    }
    let dead = client.dead_letters("parcels");
    let letter = eventually("the bad one is dead", || async { dead.get(bad.id()).await.unwrap() }).await;
    assert_eq!(letter.payload, b"\xff\xfe".as_slice());
    assert_eq!(letter.reason, Some(delayq::DeadReason::Undecodable));
    assert!(told.try_recv().is_err());
    running.stop().await.unwrap();
}

//! B45 to B49: payloads come out as they went in, and what can't be read harms nobody.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use delayq::envelope::Record;
use delayq::store::ops::{Cancelled, Found, NewJob, Redriven, Rescue, Settled, Verdict};
use delayq::{Backoff, Client, DeadReason, JobContext, JobId, JobType, Worker};
use delayq_redis_fixture::RedisServer;
use delayq_tests::store_kit::{Hand, Run, World, job};
use delayq_tests::{Running, server_and_client, soon};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::kit::{FIELD, conserved, dead, letter, settled, stored, world};

/// Payloads go through every script that writes a record anew or hands it out, and their bytes are the same after each.
async fn travel(payloads: &[Vec<u8>]) {
    let server = RedisServer::start().unwrap();
    let world = World::on(&server).await;
    let count = payloads.len();
    let journey = Journey { world: &world, payloads };
    let new = |n: usize| NewJob { envelope: journey.envelope(n), ..job(n as u64) };
    for n in 0..count {
        world.create(&[new(n)]).await;
    }
    let mut hand = world.open().await;
    let retry = Verdict::Retry { delay_ms: 0, error: "9007199254740993 [] {}".to_owned() };
    for step in [Verdict::HandBack, retry, Verdict::Snooze { delay_ms: 0 }] {
        for run in journey.claim_all(&mut hand).await {
            assert_eq!(hand.settle(&run, step.clone()).await, Settled::Accepted);
        }
    }
    // Claimed in an answer that got lost.
    journey.claim_all(&mut hand).await;
    hand.reconcile(&[]).await.unwrap();
    // A cancel that waits is noted in a record; then the worker is lost.
    let first = journey.claim_all(&mut hand).await.remove(0);
    assert_eq!(world.store.cancel(&world.shard, &first.id).await.unwrap(), Cancelled::Running);
    journey.same(&first.id).await;
    world.expire(&hand.id).await;
    let rescue = world.store.rescue(&world.shard, &hand.id, 500).await.unwrap();
    assert!(matches!(rescue, Rescue::Took { more: false, cancelled: 1, .. }), "{rescue:?}");
    world.create(&[new(count)]).await;
    // The dead letters, and back.
    let mut hand = world.open().await;
    for run in journey.claim_all(&mut hand).await {
        let bury = Verdict::Bury { reason: DeadReason::Buried, error: "1.0".to_owned() };
        assert_eq!(hand.settle(&run, bury).await, Settled::Accepted);
        journey.same(&run.id).await;
        assert_eq!(world.store.dead_redrive(&world.shard, &[run.id.to_vec()]).await.unwrap(), [Redriven::Waits]);
        journey.same(&run.id).await;
        world.store.reschedule(&world.shard, &run.id, "@1000").await.unwrap();
    }
    journey.claim_all(&mut hand).await;
    world.assert_conserved().await;
}

struct Journey<'a> {
    world: &'a World,
    payloads: &'a [Vec<u8>],
}

impl Journey<'_> {
    /// What was sent as job number n.
    fn envelope(&self, n: usize) -> Vec<u8> {
        [b"parcel 1\n", self.payloads[n % self.payloads.len()].as_slice()].concat()
    }

    fn is_it(&self, id: &[u8; 16], envelope: &[u8]) {
        let n = u64::from_be_bytes(id[..8].try_into().unwrap()) as usize;
        assert!(envelope == self.envelope(n), "{n}: {:.200}", envelope.escape_ascii().to_string());
    }

    /// What is stored of this job is what was sent.
    async fn same(&self, id: &[u8; 16]) {
        let Found::Job { record, .. } = self.world.find(id).await else { panic!("it is there") };
        self.is_it(id, &Record::decode(&record).unwrap().envelope);
    }

    /// Claims all of them, each with the bytes that were sent.
    async fn claim_all(&self, hand: &mut Hand<'_>) -> Vec<Run> {
        let mut runs = Vec::new();
        // Some are due at the next whole millisecond, and large ones come a few at a time.
        while runs.len() < self.payloads.len() {
            for run in hand.take(1000).await {
                self.is_it(&run.id, &run.record.envelope);
                self.same(&run.id).await;
                runs.push(run);
            }
        }
        runs
    }
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Jobs go through a failed run, the dead letters and a redrive, and their handlers are given what was sent, each time.
async fn arrive<J: JobType + Clone + PartialEq + Debug + Sync>(jobs: &[J]) {
    let (server, client) = server_and_client().await;
    let succeed = Arc::new(AtomicBool::new(false));
    let (tell, mut told) = mpsc::unbounded_channel::<(JobId, J, Bytes)>();
    let worker = Worker::new(client.clone()).queues([FIELD]).handle({
        let succeed = succeed.clone();
        move |job: J, cx: JobContext| {
            let heard = tell.send((cx.id(), job, cx.request().payload().clone())).is_ok();
            let succeeds = heard && succeed.load(Ordering::SeqCst);
            async move { if succeeds { Ok(()) } else { Err("not this time")? } }
        }
    });
    let running = Running::start(worker);
    let mut sent = HashMap::new();
    for job in jobs {
        let bytes = serde_json::to_vec(job).unwrap();
        sent.insert(client.enqueue().send(job.clone()).await.unwrap().id(), (job, bytes));
    }
    let mut told_again = async |runs: usize| {
        for _ in 0..runs {
            let (id, job, bytes) = soon("a run", told.recv()).await.unwrap();
            assert!(job == *sent[&id].0 && bytes == sent[&id].1, "{job:?}, not {:?}", sent[&id].0);
        }
    };
    told_again(2 * jobs.len()).await;
    dead(&client, FIELD, jobs.len() as u64).await;
    for (id, (_, bytes)) in &sent {
        let letter = letter(&client, FIELD, *id).await;
        assert!(letter.payload == bytes && letter.attempts == 2, "{letter:?}");
    }
    succeed.store(true, Ordering::SeqCst);
    let report = client.dead_letters(FIELD).redrive_all().await.unwrap();
    assert_eq!(report.redriven, jobs.len() as u64);
    told_again(jobs.len()).await;
    settled(&client, FIELD, jobs.len() as u64).await;
    running.stop().await.unwrap();
    conserved(&server, FIELD).await;
}

/// Makes a type one that fails twice before it is a dead letter.
macro_rules! fails_twice {
    ($type:ty, $name:literal) => {
        impl JobType for $type {
            const NAME: &'static str = $name;
            const VERSION: u32 = 1;
            const QUEUE: &'static str = FIELD;
            const MAX_RETRIES: u32 = 1;
            const BACKOFF: Backoff = Backoff::fixed(Duration::from_millis(1));
        }
    };
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Numbers {
    signed: i64,
    unsigned: u64,
    float: f64,
    single: f32,
    list: Vec<i64>,
    map: BTreeMap<u64, i64>,
}

fails_twice!(Numbers, "numbers");

#[tokio::test(flavor = "multi_thread")]
async fn b45_numbers_keep_every_digit() {
    // As programs of any language may write them: beyond what a double holds, and in forms that a decoder would change.
    let written = texts(&[
        "9007199254740993",
        "-9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "123456789012345678901234567890.123456789012345678901234567890",
        "1.0",
        "1e0",
        "1E+2",
        "100000000000000",
        "-0",
        "-0.0",
        "0.1",
        "1e400",
        "5e-324",
        r#"{"id":9007199254740993,"list":[1.0,1,1e2,18446744073709551615],"id":1.0}"#,
    ]);
    let list = vec![(1 << 53) - 1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, i64::MIN, i64::MAX, 0, -1];
    let numbers = |signed: i64, unsigned: u64, float: f64, single: f32| Numbers {
        signed,
        unsigned,
        float,
        single,
        list: list.clone(),
        map: BTreeMap::from([(u64::MAX, i64::MIN), ((1 << 53) + 1, i64::MAX)]),
    };
    let typed = [
        numbers(i64::MIN, u64::MAX, 1.0, 1.0),
        numbers(i64::MAX, (1 << 53) + 1, -0.0, 0.1),
        numbers((1 << 53) + 1, 1 << 63, f64::MAX, f32::MAX),
        numbers(-(1 << 53) - 1, 1, f64::MIN_POSITIVE, f32::MIN_POSITIVE),
        numbers(0, 0, 0.1 + 0.2, 1e-45),
    ];
    tokio::join!(travel(&written), arrive(&typed));
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Empties {
    list: Vec<u8>,
    map: BTreeMap<String, u8>,
    nothing: Option<u8>,
    something: Option<Vec<u8>>,
    text: String,
    unit: (),
    lists: Vec<Vec<Option<Vec<u8>>>>,
    maps: Vec<BTreeMap<String, Vec<BTreeMap<String, u8>>>>,
}

fails_twice!(Empties, "empties");

#[tokio::test(flavor = "multi_thread")]
async fn b46_what_is_empty_stays_what_it_is() {
    let written = texts(&[
        "[]",
        "{}",
        "null",
        "\"\"",
        " [ ] ",
        "[[],{},null,[[]],[{}],{\"a\":[]},{\"a\":{}},{\"\":[]}]",
        r#"{"list":[],"map":{},"nothing":null,"nested":[[],[[]],[{}]]}"#,
        "[null,null]",
        "[1,null,3]",
        "{\"1\":1,\"2\":2}",
        "\n",
        "",
    ]);
    let none = Empties {
        list: vec![],
        map: BTreeMap::new(),
        nothing: None,
        something: None,
        text: String::new(),
        unit: (),
        lists: vec![],
        maps: vec![],
    };
    let nested = Empties {
        something: Some(vec![]),
        lists: vec![vec![], vec![None], vec![Some(vec![])], vec![None, Some(vec![0]), None]],
        maps: vec![
            BTreeMap::new(),
            BTreeMap::from([(String::new(), vec![])]),
            BTreeMap::from([("1".to_owned(), vec![BTreeMap::new(), BTreeMap::from([("2".to_owned(), 0)])])]),
        ],
        ..none.clone()
    };
    let typed = [none, nested];
    tokio::join!(travel(&written), arrive(&typed));
}

/// A worker that tells the size of what its handlers were given, by name.
fn reader(client: &Client) -> (Running, mpsc::UnboundedReceiver<(JobId, &'static str, Bytes)>) {
    let (tell, told) = mpsc::unbounded_channel();
    let given = move |name: &'static str, cx: &JobContext| {
        let _ = tell.send((cx.id(), name, cx.request().payload().clone()));
    };
    let (tree, value, text) = (given.clone(), given.clone(), given);
    let worker = Worker::new(client.clone())
        .queues([FIELD])
        .handle(move |_: Tree, cx: JobContext| {
            tree("tree", &cx);
            async { Ok(()) }
        })
        .handle(move |_: AnyValue, cx: JobContext| {
            value("value", &cx);
            async { Ok(()) }
        })
        .handle(move |_: Text, cx: JobContext| {
            text("text", &cx);
            async { Ok(()) }
        });
    (Running::start(worker), told)
}

/// Puts an envelope in as any program might.
async fn push(world: &World, envelope: &[u8]) -> JobId {
    let id = JobId::new();
    world.create(&[NewJob { id: stored(id), envelope: envelope.to_vec(), ..job(0) }]).await;
    id
}

/// It is a dead letter, with its bytes as they came.
async fn is_unreadable(client: &Client, id: JobId, bytes: &[u8]) {
    let letter = letter(client, FIELD, id).await;
    assert_eq!(letter.reason, Some(DeadReason::Undecodable), "{letter:?}");
    assert!(letter.payload == bytes, "{letter:?}: other bytes than those that came");
    assert!(letter.error.len() < 300, "what is wrong, and not what it holds: {}", letter.error);
}

/// A type that contains itself, its variants told apart by their form alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Tree {
    Leaf(u64),
    List(Vec<Tree>),
    Map(BTreeMap<String, Tree>),
}

fails_twice!(Tree, "tree");

/// Whatever is JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct AnyValue(serde_json::Value);

fails_twice!(AnyValue, "value");

#[tokio::test(flavor = "multi_thread")]
async fn b48_nesting_without_end_is_put_aside_by_a_process_that_lives() {
    let (server, client) = server_and_client().await;
    let world = world(&server, FIELD).await;
    let (running, mut told) = reader(&client);
    // What opens, what stands inside, what closes; the last never closes.
    let forms = [("[", "1", "]"), ("[", "", "]"), ("{\"a\":", "1", "}"), ("{\"a\":[", "1", "]}"), ("[", "", "")];
    let (mut read, mut aside) = (0, 0);
    for depth in [1_usize, 2, 126, 127, 128, 129, 130, 1001, 100_000] {
        for (open, inside, close) in forms {
            // Two levels in one.
            let times = if open.len() == 6 { depth.div_ceil(2) } else { depth };
            let levels = times * open.len().div_ceil(5);
            let payload = format!("{}{inside}{}", open.repeat(times), close.repeat(times)).into_bytes();
            for name in ["tree", "value"] {
                let id = push(&world, &[name.as_bytes(), b" 1\n", &payload].concat()).await;
                if levels <= 127 && !close.is_empty() {
                    let (ran, as_what, bytes) = soon("its run", told.recv()).await.unwrap();
                    assert!(ran == id && as_what == name && bytes == payload, "{depth} of {open}");
                    read += 1;
                } else {
                    is_unreadable(&client, id, &payload).await;
                    aside += 1;
                }
            }
        }
        push(&world, b"text 1\n\"a neighbour\"").await;
        assert_eq!(soon("a neighbour", told.recv()).await.unwrap().1, "text");
        read += 1;
    }
    settled(&client, FIELD, read).await;
    assert_eq!(client.stats(FIELD).await.unwrap().dead, aside);
    running.stop().await.unwrap();
    assert!(told.try_recv().is_err());
    conserved(&server, FIELD).await;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Text(String);

fails_twice!(Text, "text");

#[tokio::test(flavor = "multi_thread")]
async fn b49_texts_of_every_kind_come_through_and_what_is_no_text_is_kept_as_it_came() {
    let megabyte = (1 << 20) - 2;
    let valid: Vec<Text> = [
        "before\0after\0",
        "\u{1}\u{8}\u{c}\n\r\t\u{1b}[31m\u{7f}\u{2028}\u{2029}\u{feff}",
        "\"\\/</script>'",
        "👩‍👩‍👧‍👦 🏳️‍🌈 𝄞 \u{10ffff}\u{fffd}",
        "مرحبا \u{202e}שלום\u{202c} e\u{301}é",
        "",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain(["x".repeat(megabyte), "é".repeat(megabyte / 2), "\u{10ffff}".repeat(megabyte / 4)])
    .map(Text)
    .collect();
    let written: Vec<Vec<u8>> = valid.iter().map(|text| serde_json::to_vec(text).unwrap()).collect();
    let ill_formed: Vec<Vec<u8>> = vec![
        b"\xff\xfe".to_vec(),
        b"\"\xff\xfe\"".to_vec(),
        b"\"cut short \xe2\x82\"".to_vec(),
        b"\"overlong \xc0\x80\"".to_vec(),
        b"\"surrogate \xed\xa0\x80\"".to_vec(),
        b"\"lone \\ud800\"".to_vec(),
        b"\"lone \\udc00 \\ud800x\"".to_vec(),
        b"\"a raw \0 in it\"".to_vec(),
        b"\"a raw \n in it\"".to_vec(),
        b"\"no end".to_vec(),
        b"\"an end\" and more".to_vec(),
        b"\"\\x41\"".to_vec(),
        [b"\xff\xfe".to_vec(), "\"UTF-16\"".encode_utf16().flat_map(u16::to_le_bytes).collect()].concat(),
        b"\xef\xbb\xbf\"after a byte order mark\"".to_vec(),
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00".to_vec(),
        b"\x81\xa4text\xa3yes".to_vec(),
        b"".to_vec(),
        b"\0".to_vec(),
        b"7".to_vec(),
        b"[]".to_vec(),
        vec![0xff; 1 << 20],
    ];
    let among_each_other = async {
        let (server, client) = server_and_client().await;
        let world = world(&server, FIELD).await;
        let (running, mut told) = reader(&client);
        for payload in &ill_formed {
            let bad = push(&world, &[b"text 1\n", payload.as_slice()].concat()).await;
            push(&world, b"text 1\n\"a neighbour\"").await;
            let (id, _, bytes) = soon("the neighbour", told.recv()).await.unwrap();
            assert!(id != bad && bytes == b"\"a neighbour\""[..]);
            is_unreadable(&client, bad, payload).await;
        }
        // Not even a head line: the whole envelope is kept.
        let headless: [&[u8]; 5] = [b"\xff\xfe", b"text 1", b"\n\"x\"", b"te\xffxt 1\n\"x\"", b"text one\n\"x\""];
        for envelope in headless {
            let bad = push(&world, envelope).await;
            is_unreadable(&client, bad, envelope).await;
        }
        settled(&client, FIELD, ill_formed.len() as u64).await;
        running.stop().await.unwrap();
        assert!(told.try_recv().is_err(), "a handler was called with something else");
        let stats = client.stats(FIELD).await.unwrap();
        assert_eq!((stats.dead, stats.retried_total), ((ill_formed.len() + headless.len()) as u64, 0));
        conserved(&server, FIELD).await;
    };
    tokio::join!(among_each_other, travel(&ill_formed), travel(&written), arrive(&valid));
}

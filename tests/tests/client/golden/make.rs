//! What today's release writes, by a clock that stands still unless it is moved: the same bytes each time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use delayq::engine::embedded::{Clock, EmbeddedEngine};
use delayq::envelope::{Envelope, Record};
use delayq::store::Member;
use delayq::store::ops::{NewJob, Options, Verdict};
use delayq::{Client, DeadReason, JobId, JobType};
use delayq_tests::store_kit::{EmbeddedKeys, Run, Value, World};
use uuid::Uuid;

use super::{Filler, Golden, LONGEST, Payload, Place, Reads, Then, Unique, hex, set, sets};

/// The instant at which everything begins: the first of 2024, and a part of a millisecond.
const BEGIN_US: u64 = 1_704_067_200_000_700;
const BEGIN_MS: u64 = BEGIN_US / 1000;
const HOUR: Duration = Duration::from_secs(3600);
/// Three thousand years.
const AGES: Duration = Duration::from_secs(3000 * 8766 * 3600);
/// A payload of a megabyte, without what stands around the text.
const LARGE: usize = (1 << 20) - 64;

/// A payload of what is hard to carry.
#[derive(Debug, Clone)]
#[delayq::payload]
struct Parcel {
    n: u64,
    text: String,
    list: Vec<i64>,
    nothing: Option<u8>,
}

impl JobType for Parcel {
    const NAME: &'static str = "golden";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = super::QUEUE;
}

/// As many attempts as it wants.
#[delayq::payload]
struct Endless(u8);

impl JobType for Endless {
    const NAME: &'static str = "golden";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = super::QUEUE;
    const MAX_RETRIES: u32 = u32::MAX;
    const PRIORITY: u8 = 3;
}

/// The longest name, the highest version.
#[delayq::payload]
struct Longest;

impl JobType for Longest {
    const NAME: &'static str = LONGEST;
    const VERSION: u32 = u32::MAX;
    const QUEUE: &'static str = super::QUEUE;
}

fn parcel() -> Parcel {
    Parcel { n: 42, text: "unpaid".to_owned(), list: Vec::new(), nothing: None }
}

fn saying(text: &str) -> Parcel {
    Parcel { text: text.to_owned(), ..parcel() }
}

/// A queue of its own, a client on it, and the clock of both.
struct Scene {
    world: World,
    client: Client,
    now_us: Arc<AtomicU64>,
}

impl Scene {
    fn new() -> Scene {
        let now_us = Arc::new(AtomicU64::new(BEGIN_US));
        let clock = now_us.clone();
        let engine = EmbeddedEngine::in_memory(Clock::from(move || clock.load(Ordering::SeqCst))).unwrap();
        let world = World::new(Arc::new(engine.clone()), Arc::new(EmbeddedKeys(engine.clone())));
        Scene { world, client: Client::on(Arc::new(engine)), now_us }
    }

    fn pass(&self, time: Duration) {
        self.now_us.fetch_add(time.as_micros() as u64, Ordering::SeqCst);
    }

    fn queue(&self) -> String {
        self.world.shard.queue().to_owned()
    }

    /// Sends a job that is due at once.
    async fn send<J: JobType>(&self, id: JobId, job: J) {
        self.client.enqueue::<J>().queue(self.queue()).id(id).send(job).await.unwrap();
        self.pass(Duration::from_millis(1));
    }

    /// The same as a program in another language may do it.
    async fn send_raw(&self, id: JobId, envelope: &[u8]) {
        let options = Options { priority: 5, attempts_max: 4, ..Options::default() };
        let job = NewJob { id: id.as_uuid().into_bytes(), when: "+0".to_owned(), options, envelope: envelope.to_vec() };
        self.world.create(&[job]).await;
    }

    /// A run of the job that is due, ended so.
    async fn run(&self, verdict: Verdict) -> Run {
        let run = self.world.open().await.run_one(verdict).await;
        self.pass(Duration::from_millis(5));
        run
    }

    /// A worker takes the job and is lost.
    async fn crash(&self) {
        let mut hand = self.world.open().await;
        hand.take_one().await;
        self.pass(Duration::from_millis(5));
        self.world.expire(&hand.id).await;
        self.world.store.rescue(&self.world.shard, &hand.id, 10).await.unwrap();
        self.pass(Duration::from_secs(5));
    }
}

fn retry(error: &str) -> Verdict {
    Verdict::Retry { delay_ms: 5000, error: error.to_owned() }
}

fn bury(reason: DeadReason, error: &str) -> Verdict {
    Verdict::Bury { reason, error: error.to_owned() }
}

/// Every kind of record that this release writes: its name, what it is, what becomes of it.
const KINDS: &[(&str, &str, Then)] = &[
    ("never-run", "as it was sent", Then::Runs { attempt: 1 }),
    ("priority-0", "of the first priority", Then::Runs { attempt: 1 }),
    ("priority-1", "of priority 1", Then::Runs { attempt: 1 }),
    ("priority-2", "of priority 2", Then::Runs { attempt: 1 }),
    ("priority-3", "of priority 3", Then::Runs { attempt: 1 }),
    ("priority-4", "of priority 4", Then::Runs { attempt: 1 }),
    ("priority-6", "of priority 6", Then::Runs { attempt: 1 }),
    ("priority-7", "of priority 7", Then::Runs { attempt: 1 }),
    ("priority-8", "of priority 8", Then::Runs { attempt: 1 }),
    ("priority-9", "of the last priority", Then::Runs { attempt: 1 }),
    ("without-limit", "its attempts have no limit", Then::Runs { attempt: 1 }),
    ("longest-name", "the longest name and the highest version", Then::Runs { attempt: 1 }),
    ("unique", "with a unique key", Then::Runs { attempt: 1 }),
    ("traced", "with the sender's trace context", Then::Runs { attempt: 1 }),
    ("expiring", "with an expiry that has not come", Then::Runs { attempt: 1 }),
    ("expired", "with an expiry that is over", Then::Expires),
    ("retaining", "to be kept once it is done", Then::Runs { attempt: 1 }),
    ("everything", "with a unique key, an expiry, a retention and a trace", Then::Runs { attempt: 1 }),
    ("retried", "failed once", Then::Runs { attempt: 2 }),
    ("retried-twice", "failed twice, the last note kept", Then::Runs { attempt: 3 }),
    ("snoozed", "snoozed three times", Then::Runs { attempt: 1 }),
    ("handed-back", "claimed, and handed back", Then::Runs { attempt: 1 }),
    ("rescheduled", "moved, its expiry with it", Then::Runs { attempt: 1 }),
    ("crashed", "its worker was lost once", Then::Runs { attempt: 2 }),
    ("crashed-twice", "its workers were lost twice: it is run alone", Then::Runs { attempt: 2 }),
    ("redriven", "dead once, and sent to work again, its expiry over", Then::Runs { attempt: 1 }),
    ("running", "held by a session that is lost", Then::Runs { attempt: 2 }),
    ("cancelling", "held by a session that is lost, and cancelled meanwhile", Then::EndsAsCancelled),
    ("buried", "a dead letter by its handler", Then::IsDead),
    ("exhausted", "a dead letter by its last attempt", Then::IsDead),
    ("crash-loop", "a dead letter since it killed its workers", Then::IsDead),
    ("unknown-version", "a dead letter that no worker knew, with its bytes", Then::IsDead),
    ("retained", "done, and kept", Then::IsDone),
    ("far-due", "due at the end of the year 9999", Then::Waits),
    ("large", "a megabyte", Then::Runs { attempt: 1 }),
    ("nul", "NUL and other control characters in a text", Then::Runs { attempt: 1 }),
    ("emoji", "emoji, and text from right to left", Then::Runs { attempt: 1 }),
    ("large-integers", "integers above 2^53", Then::Runs { attempt: 1 }),
    ("foreign-bytes", "of another program: no JSON, no UTF-8, line feeds", Then::Runs { attempt: 1 }),
    ("foreign-tokens", "of another program: tokens that nobody knows", Then::Runs { attempt: 1 }),
    ("empty-payload", "of another program: no payload at all", Then::Runs { attempt: 1 }),
];

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Brings the job of this kind into being.
async fn make(scene: &Scene, name: &str, id: JobId) {
    let soon = || scene.client.enqueue::<Parcel>().queue(scene.queue()).id(id);
    let failed = "the card was refused\nline 2: \u{1f4b3}\0";
    match name {
        "never-run" => scene.send(id, parcel()).await,
        "without-limit" => scene.send(id, Endless(7)).await,
        "longest-name" => scene.send(id, Longest).await,
        "unique" => drop(soon().unique("golden:order-42 \u{1f511}").send(parcel()).await.unwrap()),
        "traced" => drop(soon().trace_parent(TRACE).send(parcel()).await.unwrap()),
        "expiring" => drop(soon().expires_in(AGES).send(parcel()).await.unwrap()),
        "expired" => drop(soon().expires_in(Duration::from_millis(1)).send(parcel()).await.unwrap()),
        "retaining" => drop(soon().retain_for(HOUR).send(parcel()).await.unwrap()),
        "everything" => {
            let all = soon().unique("k").expires_in(AGES).retain_for(HOUR).trace_parent(TRACE);
            all.priority(4).send(parcel()).await.unwrap();
        }
        "far-due" => {
            let end =
                jiff::Timestamp::from_millisecond(delayq::limits::DUE_MAX_MS as i64).unwrap_or(jiff::Timestamp::MAX);
            scene.client.schedule_at::<Parcel>(end).queue(scene.queue()).id(id).send(parcel()).await.unwrap();
        }
        "large" => scene.send(id, saying(&"x".repeat(LARGE))).await,
        "nul" => scene.send(id, saying("before\0after\u{1}\u{1f}\u{7f}\r\n\t\"\\")).await,
        "emoji" => {
            scene.send(id, saying("\u{1f469}\u{200d}\u{1f467} \u{10ffff} \u{202e}\u{5e9}\u{5dc}\u{5d5}\u{5dd}")).await;
        }
        "large-integers" => {
            let list = vec![(1 << 53) + 1, -(1 << 53) - 1, i64::MAX, i64::MIN];
            scene.send(id, Parcel { n: u64::MAX, list, nothing: Some(0), ..parcel() }).await;
        }
        "foreign-bytes" => scene.send_raw(id, b"golden 1\n\xff\xfe\0\n\r\n{not json\n").await,
        "foreign-tokens" => {
            scene.send_raw(id, format!("golden 1 tenant=7 traceparent={TRACE} \u{e9}=\n{{}}").as_bytes()).await;
        }
        "empty-payload" => scene.send_raw(id, b"golden 1\n").await,
        "retried" | "retried-twice" => {
            scene.send(id, parcel()).await;
            for error in [failed, "again"].iter().take(if name == "retried" { 1 } else { 2 }) {
                scene.run(retry(error)).await;
                scene.pass(Duration::from_secs(6));
            }
        }
        "snoozed" => {
            scene.send(id, parcel()).await;
            for _ in 0..3 {
                scene.run(Verdict::Snooze { delay_ms: 1000 }).await;
                scene.pass(Duration::from_secs(2));
            }
        }
        "handed-back" => {
            scene.send(id, parcel()).await;
            scene.run(Verdict::HandBack).await;
        }
        "rescheduled" => {
            let later = scene.client.schedule::<Parcel>(HOUR).queue(scene.queue()).id(id);
            let handle = later.expires_in(AGES).send(parcel()).await.unwrap();
            handle.reschedule(2 * HOUR).await.unwrap();
        }
        "crashed" | "crashed-twice" => {
            scene.send(id, parcel()).await;
            for _ in 0..if name == "crashed" { 1 } else { 2 } {
                scene.crash().await;
            }
        }
        "crash-loop" => {
            scene.send(id, parcel()).await;
            for _ in 0..3 {
                scene.crash().await;
            }
        }
        "running" | "cancelling" => {
            scene.send(id, parcel()).await;
            scene.pass(Duration::from_millis(20));
            scene.world.open().await.take_one().await;
            if name == "cancelling" {
                scene.client.handle_in::<Parcel>(&scene.queue(), id).cancel().await.unwrap();
            }
        }
        "redriven" => {
            soon().expires_in(HOUR).send(parcel()).await.unwrap();
            scene.pass(Duration::from_millis(1));
            scene.run(bury(DeadReason::Buried, failed)).await;
            scene.pass(HOUR);
            scene.client.dead_letters(&scene.queue()).redrive(id).await.unwrap();
        }
        "buried" => {
            scene.send(id, parcel()).await;
            scene.run(bury(DeadReason::Buried, failed)).await;
        }
        "exhausted" => {
            scene.send(id, parcel()).await;
            for _ in 0..3 {
                scene.run(retry(failed)).await;
                scene.pass(Duration::from_secs(6));
            }
            scene.run(bury(DeadReason::RetriesExhausted, failed)).await;
        }
        "unknown-version" => {
            scene.send_raw(id, b"golden 9\n\xff\xfe").await;
            scene.pass(Duration::from_millis(1));
            scene.run(bury(DeadReason::UnknownVersion, "the worker does not know this version of it")).await;
        }
        "retained" => {
            soon().retain_for(HOUR).send(parcel()).await.unwrap();
            scene.pass(Duration::from_millis(1));
            scene.run(Verdict::DoneExtended).await;
        }
        other => {
            let priority = other.strip_prefix("priority-").and_then(|digit| digit.parse().ok());
            soon().priority(priority.unwrap_or_else(|| panic!("{other} is not made"))).send(parcel()).await.unwrap();
        }
    }
}

/// What the store holds of the job.
async fn stored(scene: &Scene, name: &str, about: &str, then: Then) -> Golden {
    let id = JobId::named(name);
    make(scene, name, id).await;
    let id = id.as_uuid();
    let dump = scene.world.dump().await;
    let sorted = |name: &str| match dump.0.get(name) {
        Some(Value::Sorted(members)) => members.get(id.as_bytes().as_slice()).map(|score| *score as u64),
        _ => None,
    };
    let bytes = scene.world.field("jobs", id.as_bytes()).await.expect("it has a record");
    let record = Record::decode(&Bytes::from(bytes.clone())).unwrap();
    let envelope = Envelope::decode(&record.envelope).unwrap();
    let place = if let Some(score_ms) = sorted(&format!("due:{}", record.priority)) {
        Place::Due { score_ms }
    } else if let Some(since_ms) = sorted("dead") {
        Place::Dead { since_ms }
    } else if let Some(until_ms) = sorted("done") {
        Place::Done { until_ms }
    } else {
        Place::Held { run: held(&dump.0, id) }
    };
    let unique = match dump.0.get("unique") {
        Some(Value::Hash(entries)) => entries
            .iter()
            .next()
            .map(|(key, entry)| Unique { key: String::from_utf8(key.clone()).unwrap(), entry: hex(entry) }),
        _ => None,
    };
    let note = scene.world.field("error", id.as_bytes()).await.map(|note| String::from_utf8(note).unwrap());
    let (mut written, mut payload) = (bytes, record.envelope[envelope.payload_at..].to_vec());
    let filler = (payload.len() > LARGE).then(|| {
        cut(&mut written);
        Filler { byte: b'x', count: LARGE, before_end: cut(&mut payload) }
    });
    Golden {
        about: about.to_owned(),
        id,
        place,
        record: hex(&written),
        filler,
        note,
        unique,
        reads: Reads {
            name: envelope.name.to_owned(),
            version: envelope.version,
            trace_parent: envelope.trace_parent.map(str::to_owned),
            priority: record.priority,
            cancel_waits: record.cancel_waits,
            crashes: record.crashes,
            free_returns: record.free_returns,
            attempts: record.attempts,
            attempts_max: record.attempts_max,
            run: record.run,
            due_ms: record.due_ms,
            enqueued_ms: record.enqueued_ms,
            payload: match String::from_utf8(payload) {
                Ok(text) => Payload::Text(text),
                Err(error) => Payload::Hex(hex(error.as_bytes())),
            },
        },
        then,
    }
}

/// Takes the filler out; how many bytes stood behind it.
fn cut(bytes: &mut Vec<u8>) -> usize {
    let at = bytes.windows(LARGE).position(|part| part.iter().all(|byte| *byte == b'x')).expect("it is there");
    bytes.drain(at..at + LARGE);
    bytes.len() - at
}

/// The run by which a session holds the job.
fn held(all: &BTreeMap<String, Value>, id: Uuid) -> u64 {
    let members = all.iter().filter(|(name, _)| name.starts_with("held:")).filter_map(|(_, value)| match value {
        Value::Set(members) => Some(members),
        _ => None,
    });
    let member = members.flatten().find(|member| member.starts_with(id.as_bytes())).expect("a session holds it");
    let run = member[16..].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    assert_eq!(Member::new(id.as_bytes(), run).as_bytes().as_slice(), member.as_slice());
    run
}

#[tokio::test]
async fn todays_records_are_those_of_the_newest_set_byte_for_byte() {
    let mut today = BTreeMap::new();
    for (name, about, then) in KINDS {
        let scene = Scene::new();
        let golden = stored(&scene, name, about, *then).await;
        assert!(golden.reads.enqueued_ms == BEGIN_MS, "the clock is the test's own");
        today.insert((*name).to_owned(), golden);
    }
    if let Ok(folder) = std::env::var("DELAYQ_GOLDEN_WRITE") {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, golden) in &today {
            let text = serde_json::to_string_pretty(golden).unwrap() + "\n";
            std::fs::write(std::path::Path::new(&folder).join(format!("{name}.json")), text).unwrap();
        }
        return;
    }
    let (number, folder) = sets().pop_last().expect("a set");
    let wanted = set(&folder);
    let names = |of: &BTreeMap<String, Golden>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&today), names(&wanted), "the kinds of set {number}");
    for (name, golden) in today {
        let why =
            "this release stores it in another form: that is a new set, beside the old ones (tests/golden/README.md)";
        assert_eq!(golden, wanted[&name], "{name} of set {number}: {why}");
    }
}

//! Every set is read by today's release: put into the store by hand, and run by a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use delayq::envelope::{Envelope, Record};
use delayq::{Client, ErrorKind, JobContext, JobId, JobRequest, JobStatus, JobType, PayloadError, Worker};
use delayq_tests::{Running, eventually, server_and_client, soon};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{Golden, LONGEST, Place, QUEUE, Then, set, sets, unhex};
use crate::kit::Raw;

/// Takes whatever payload there is: its bytes are what is looked at.
#[delayq::payload]
struct Anything;

impl JobType for Anything {
    const NAME: &'static str = "golden";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = QUEUE;

    fn decode(_: u32, _: &[u8]) -> Result<Anything, PayloadError> {
        Ok(Anything)
    }
}

#[delayq::payload]
struct Longest;

impl JobType for Longest {
    const NAME: &'static str = LONGEST;
    const VERSION: u32 = u32::MAX;
    const QUEUE: &'static str = QUEUE;
}

type Tell = mpsc::UnboundedSender<JobRequest>;

fn worker(client: &Client, tell: Tell) -> Worker {
    async fn told(cx: JobContext) -> delayq::JobResult {
        cx.data::<Tell>()?.send(cx.request().clone())?;
        Ok(())
    }
    Worker::new(client.clone())
        .queues([QUEUE])
        .lease(Duration::from_secs(1))
        .data::<Tell>(tell)
        .handle(|_: Anything, cx: JobContext| told(cx))
        .handle(|_: Longest, cx: JobContext| told(cx))
}

fn key(name: &str) -> Vec<u8> {
    format!("delayq:{{{QUEUE}/0}}:{name}").into_bytes()
}

/// Puts what a release had stored where it had it. What was due by then is due now.
async fn put(raw: &mut Raw, golden: &Golden) {
    let id = golden.id.as_bytes().as_slice();
    let _: i64 = raw.ask(&[b"HSET", &key("jobs"), id, &golden.bytes()]).await;
    if let Some(note) = &golden.note {
        let _: i64 = raw.ask(&[b"HSET", &key("error"), id, note.as_bytes()]).await;
    }
    if let Some(unique) = &golden.unique {
        let _: i64 = raw.ask(&[b"HSET", &key("unique"), unique.key.as_bytes(), &unhex(&unique.entry)]).await;
    }
    let digit = golden.reads.priority.to_string();
    let (name, score) = match golden.place {
        Place::Due { score_ms } => (format!("due:{digit}"), score_ms),
        Place::Dead { since_ms } => ("dead".to_owned(), since_ms),
        // It is kept for as long as it is looked at.
        Place::Done { .. } => ("done".to_owned(), delayq::limits::DUE_MAX_MS),
        Place::Held { run } => {
            // Its session's lease ran out long ago.
            let session = Uuid::new_v5(&golden.id, b"session");
            let member = delayq::store::Member::new(golden.id.as_bytes(), run);
            let _: i64 = raw.ask(&[b"ZADD", &key("sessions"), b"1", session.as_bytes()]).await;
            let held = key(&format!("held:{}", session.simple()));
            let _: i64 = raw.ask(&[b"SADD", &held, member.as_bytes()]).await;
            if golden.reads.cancel_waits {
                let _: i64 = raw.ask(&[b"HINCRBY", &key("stats"), b"cancelling", b"1"]).await;
            }
            return;
        }
    };
    let _: i64 = raw.ask(&[b"ZADD", &key(&name), score.to_string().as_bytes(), id]).await;
}

/// What today's decoders read is what the set says.
fn reads_as_it_says(name: &str, golden: &Golden) {
    let record = Record::decode(&Bytes::from(golden.bytes())).unwrap_or_else(|error| panic!("{name}: {error}"));
    let envelope = Envelope::decode(&record.envelope).unwrap_or_else(|error| panic!("{name}: {error}"));
    let says = &golden.reads;
    assert_eq!(
        (envelope.name, envelope.version, envelope.trace_parent),
        (says.name.as_str(), says.version, says.trace_parent.as_deref()),
        "{name}"
    );
    assert_eq!(
        (record.priority, record.cancel_waits, record.crashes),
        (says.priority, says.cancel_waits, says.crashes)
    );
    assert_eq!((record.free_returns, record.attempts), (says.free_returns, says.attempts), "{name}");
    assert_eq!(record.attempts_max, says.attempts_max, "{name}");
    assert_eq!((record.run, record.due_ms, record.enqueued_ms), (says.run, says.due_ms, says.enqueued_ms), "{name}");
    assert!(record.envelope[envelope.payload_at..] == golden.payload(), "{name}: another payload");
}

/// What the handler was told is what the set says.
fn ran_as_it_says(name: &str, golden: &Golden, ran: &JobRequest, attempt: u32) {
    let says = &golden.reads;
    assert_eq!((ran.name(), ran.version()), (says.name.as_str(), says.version), "{name}");
    assert_eq!((ran.attempt(), ran.attempts_max()), (attempt, says.attempts_max), "{name}");
    assert_eq!(ran.free_returns(), u32::from(says.free_returns), "{name}");
    assert_eq!(ran.enqueued_at().as_millisecond() as u64, says.enqueued_ms, "{name}");
    assert_eq!(ran.trace_parent(), says.trace_parent.as_deref(), "{name}");
    assert!(ran.run_token() > says.run, "{name}: an old run token");
    assert!(ran.payload() == &golden.payload(), "{name}: another payload");
}

async fn all_is_read(number: u32, golden: &BTreeMap<String, Golden>) {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    for (name, golden) in golden {
        reads_as_it_says(name, golden);
        put(&mut raw, golden).await;
    }
    let stats = [b"HSET".as_slice(), &key("stats"), b"schema", b"1", b"shards", b"1", b"priorities", b"0123456789"];
    let _: i64 = raw.ask(&stats).await;
    let handle = |golden: &Golden| client.handle_in::<Anything>(QUEUE, JobId::from(golden.id));
    let with = |then: Then| golden.iter().filter(move |(_, golden)| golden.then == then);

    for (name, golden) in golden.iter().filter(|(_, golden)| golden.unique.is_some()) {
        let key = &golden.unique.as_ref().unwrap().key;
        let refused = client.enqueue::<Anything>().unique(key).send(Anything).await.unwrap_err();
        assert_eq!((refused.kind(), refused.owner()), (ErrorKind::Duplicate, Some(golden.id.into())), "{name}");
    }
    let (tell, mut told) = mpsc::unbounded_channel();
    let running = Running::start(worker(&client, tell));
    // What is far away is moved to now, what is dead is redriven: both are run then.
    for (name, golden) in with(Then::Waits) {
        let due = jiff::Timestamp::from_millisecond(golden.reads.due_ms as i64).unwrap_or(jiff::Timestamp::MAX);
        let waits = JobStatus::Waiting { due, attempts: 0, last_error: None };
        assert_eq!(handle(golden).status().await.unwrap(), waits, "{name}");
        handle(golden).reschedule(Duration::ZERO).await.unwrap();
    }
    let letters = client.dead_letters(QUEUE);
    for (name, golden) in with(Then::IsDead) {
        let letter = letters.get(golden.id.into()).await.unwrap().unwrap_or_else(|| panic!("{name} is no dead letter"));
        let (head, text) = golden.note.as_ref().unwrap().split_once('\n').unwrap();
        assert_eq!(letter.reason.unwrap().as_str(), head.split(' ').next().unwrap(), "{name}");
        assert_eq!((letter.error.as_str(), letter.attempts), (text, u32::from(golden.reads.attempts)), "{name}");
        assert_eq!((letter.name.as_deref(), letter.version), (Some(&*golden.reads.name), Some(golden.reads.version)));
        assert!(letter.payload == golden.payload(), "{name}: another payload");
    }
    for (name, golden) in with(Then::IsDone) {
        assert_eq!(handle(golden).status().await.unwrap(), JobStatus::Done, "{name}");
    }
    for (_, golden) in with(Then::IsDead).filter(|(_, golden)| golden.reads.version == 1) {
        letters.redrive(golden.id.into()).await.unwrap();
    }
    let mut awaited: BTreeMap<Uuid, (&str, &Golden, u32)> = BTreeMap::new();
    for (name, golden) in golden {
        let attempt = match golden.then {
            Then::Runs { attempt } => attempt,
            Then::Waits | Then::IsDead if golden.reads.version == 1 => 1,
            _ => continue,
        };
        awaited.insert(golden.id, (name, golden, attempt));
    }
    let done = awaited.len() as u64;
    while !awaited.is_empty() {
        let left: BTreeSet<&str> = awaited.values().map(|(name, ..)| *name).collect();
        let ran = soon(&format!("a run of {left:?} of set {number}"), told.recv()).await.unwrap();
        let (name, golden, attempt) = awaited.remove(&ran.id().as_uuid()).expect("it is run once, and was to be run");
        ran_as_it_says(name, golden, &ran, attempt);
    }
    let count = |then: Then| with(then).count() as u64;
    eventually("all have ended", || async {
        let stats = client.stats(QUEUE).await.unwrap();
        let ends = (stats.done_total, stats.expired_total, stats.cancelled_total);
        (ends == (done, count(Then::Expires), count(Then::EndsAsCancelled))).then_some(())
    })
    .await;
    let stats = client.stats(QUEUE).await.unwrap();
    let kept = golden.values().filter(|golden| golden.then == Then::Runs { attempt: 1 }).filter(|golden| keeps(golden));
    assert_eq!((stats.waiting, stats.running, stats.orphans, stats.quarantined_total), (0, 0, 0, 0));
    assert_eq!(stats.retained, count(Then::IsDone) + kept.count() as u64);
    running.stop().await.unwrap();
    assert!(told.try_recv().is_err(), "nothing is run twice");
}

/// Whether its record is kept once it is done: the second six bytes of the extension, by docs/wire-format.md.
fn keeps(golden: &Golden) -> bool {
    let bytes = golden.bytes();
    bytes[28] > 0 && bytes[35..41].iter().any(|byte| *byte > 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_records_of_every_release_are_read_and_run() {
    let sets = sets();
    assert!(!sets.is_empty());
    for (number, folder) in sets {
        let golden = set(&folder);
        assert!(golden.len() > 20, "set {number} has {} records", golden.len());
        all_is_read(number, &golden).await;
    }
}

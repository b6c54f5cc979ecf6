//! The decoders of what is stored and answered: the fuzz targets' checks over past findings, and over changes of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use delayq::envelope::Record;
use delayq::store::Member;
use delayq::store::ops::{DeadPage, DuePage, End, Found, Order, Place, Settled, Verdict};
use delayq::{DeadReason, ErrorKind};
use delayq_tests::store_kit::{Id, Value, World, id, job};
use futures_util::FutureExt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

#[path = "../../../fuzz/src/checks/mod.rs"]
mod checks;

/// The fuzz targets count the memory that a decoder takes. Here that would make every other case slower by half.
fn within<T>(_: usize, decode: impl FnOnce() -> T) -> T {
    decode()
}

/// How many changed inputs a decoder gets: so many, or as DELAYQ_DECODER_CASES says. They are the same ones in each run.
fn cases(usual: usize) -> usize {
    std::env::var("DELAYQ_DECODER_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// The inputs that were kept: one of each form, and what was found.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{} has {} inputs: did it move?", folder.display(), paths.len());
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// What becomes of an input.
#[derive(Debug, Clone)]
enum Change {
    Put(Index, u8),
    Insert(Index, Vec<u8>),
    Cut(Index, usize),
    Repeat(Index, usize),
    /// From here on it is another input's end.
    Cross(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let edge = prop_oneof![Just(0), Just(1), Just(b'0'), Just(b'\n'), Just(b'\r'), Just(0xff), any::<u8>()];
    prop_oneof![
        4 => (any::<Index>(), edge.clone()).prop_map(|(at, byte)| Change::Put(at, byte)),
        2 => (any::<Index>(), vec(edge, 1..9)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        2 => (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Change::Cut(at, length)),
        1 => (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Change::Repeat(at, length)),
        2 => (any::<Index>(), any::<Index>(), any::<Index>()).prop_map(|(at, other, from)| Change::Cross(at, other, from)),
    ]
}

fn changed(kept: &[(PathBuf, Vec<u8>)], which: Index, changes: &[Change]) -> Vec<u8> {
    let mut bytes = which.get(kept).1.clone();
    // Large ones are there to be looked at as they are.
    bytes.truncate(4096);
    for change in changes {
        let at = |index: &Index| index.index(bytes.len() + 1);
        match change {
            Change::Put(index, byte) if !bytes.is_empty() => {
                let at = index.index(bytes.len());
                bytes[at] = *byte;
            }
            Change::Put(_, byte) => bytes.push(*byte),
            Change::Insert(index, more) => {
                let at = at(index);
                bytes.splice(at..at, more.iter().copied());
            }
            Change::Cut(index, length) => {
                let at = at(index);
                bytes.drain(at..bytes.len().min(at + length));
            }
            Change::Repeat(index, length) => {
                let at = at(index);
                let part = bytes[at..bytes.len().min(at + length)].to_vec();
                bytes.splice(at..at, part);
            }
            Change::Cross(index, other, from) => {
                let end = &other.get(kept).1;
                let end = &end[..end.len().min(4096)];
                bytes.truncate(at(index));
                bytes.extend_from_slice(&end[from.index(end.len() + 1)..]);
            }
        }
    }
    bytes
}

/// The kept inputs, then changed ones. On a failure the input is printed: keep it in the corpus.
fn holds(target: &str, usual: usize, check: fn(&[u8])) {
    let kept = corpus(target);
    for (path, bytes) in &kept {
        // The name of the file is what one wants to know when a check fails.
        println_name(path);
        check(bytes);
    }
    let config = Config { cases: cases(usual) as u32, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let input = (any::<Index>(), vec(change(), 1..6)).prop_map(|(which, changes)| changed(&kept, which, &changes));
    let outcome = runner.run(&input, |bytes| {
        check(&bytes);
        Ok(())
    });
    if let Err(found) = outcome {
        panic!("{target}: {found}\nkeep this input as a file of tests/corpus/{target}");
    }
}

#[allow(clippy::print_stdout)] // Shown by a test that fails alone.
fn println_name(path: &Path) {
    println!("{}", path.display());
}

#[test]
fn a_record_reads_as_what_it_says_or_is_refused() {
    holds("record", 1000, checks::record);
}

#[test]
fn an_envelope_reads_as_what_it_says_or_is_refused() {
    holds("envelope", 1000, checks::envelope);
}

#[test]
fn an_answer_reads_as_what_it_says_or_is_refused() {
    holds("reply", 250, checks::reply);
}

/// The scripts have a reader of records of their own, in Lua: whatever one of the two takes for a record, the other does.
#[tokio::test]
async fn scripts_and_library_agree_on_what_a_record_is() {
    let world = World::in_memory().await;
    let kept = corpus("record");
    let records: BTreeMap<u64, &Vec<u8>> = (0..).zip(kept.iter().map(|(_, bytes)| bytes)).collect();
    let fields = records.iter().map(|(n, bytes)| (id(*n).to_vec(), (*bytes).clone())).collect();
    world.write("jobs", Some(Value::Hash(fields))).await;
    let (mut whole, mut broken) = (0, 0);
    for (n, bytes) in records {
        match (world.store.inspect(&world.shard, &id(n)).await, Record::decode(&Bytes::from(bytes.clone()))) {
            (Ok(Found::Job { at_ms, record, .. }), Ok(read)) => {
                assert_eq!((at_ms, record.as_ref()), (read.due_ms, bytes.as_slice()));
                whole += 1;
            }
            (Err(error), Err(_)) if error.kind() == ErrorKind::Corrupt => broken += 1,
            (script, library) => panic!("{}: {script:?}, and {library:?}", kept[n as usize].0.display()),
        }
    }
    assert!(whole > 5 && broken > 5, "{whole} whole, {broken} broken");
    world.forget().await;
}

/// The job beside which records are put.
const NEIGHBOUR: u64 = 2;

/// Where foreign records may be, and how they get there.
#[derive(Debug, Clone, PartialEq)]
enum Comes {
    /// They wait, and runs of them end so.
    Due(Verdict),
    /// A session that is lost holds them.
    Lost,
    /// A session holds them without knowing it.
    Unknown,
    Dead,
}

fn ways() -> Vec<Comes> {
    let verdicts = [
        Verdict::Retry { delay_ms: 0, error: "no".to_owned() },
        Verdict::Bury { reason: DeadReason::Buried, error: "no".to_owned() },
        Verdict::HandBack,
        Verdict::DoneExtended,
    ];
    verdicts.into_iter().map(Comes::Due).chain([Comes::Lost, Comes::Unknown, Comes::Dead]).collect()
}

/// Whatever stands in these records: each script answers, and the job beside them stays what it is.
async fn harm_nobody(world: &World, foreign: &[Vec<u8>], comes: &Comes) {
    let world = world.sibling();
    let neighbour = id(NEIGHBOUR);
    world.create(&[job(NEIGHBOUR)]).await;
    let strangers: Vec<Id> = (0..).map(|n| id(100 + n)).take(foreign.len()).collect();
    let Some(Value::Hash(mut records)) = world.read("jobs").await else { panic!("there is one") };
    records.extend(strangers.iter().map(|id| id.to_vec()).zip(foreign.iter().cloned()));
    world.write("jobs", Some(Value::Hash(records))).await;
    let set = if *comes == Comes::Dead { "dead" } else { "due:5" };
    let mut members = match world.read(set).await {
        Some(Value::Sorted(members)) => members,
        _ => BTreeMap::new(),
    };
    members.extend(strangers.iter().map(|id| (id.to_vec(), 1.0)));
    world.write(set, Some(Value::Sorted(members))).await;

    let mut hand = world.open().await;
    if *comes != Comes::Dead {
        let claimed = hand.claim(1000, 0).await;
        let held: Vec<Member> = claimed.jobs.iter().map(|taken| Member::new(&taken.id, taken.run)).collect();
        match comes {
            Comes::Due(verdict) => {
                // All in one call: what can't be carried out for one must not keep it from the others.
                let verdicts: Vec<_> = held.iter().map(|member| (*member, verdict.clone())).collect();
                let settled = hand.try_settle(&verdicts).await.unwrap();
                let ours = held.iter().position(|member| member.id() == neighbour);
                assert!(ours.is_none_or(|at| settled[at] == Settled::Accepted), "{settled:?}");
                if *verdict == Verdict::DoneExtended && ours.is_some() {
                    assert_eq!(world.find(&neighbour).await, Found::Ended(End::Done));
                    return;
                }
            }
            Comes::Lost => {
                world.expire(&hand.id).await;
                world.store.rescue(&world.shard, &hand.id, 500).await.unwrap();
            }
            _ => drop(hand.reconcile(&[]).await.unwrap()),
        }
    }
    for stranger in &strangers {
        // Asked for alone, an unreadable one is refused as such.
        for refused in [
            world.store.reschedule(&world.shard, stranger, "@1000").await.err(),
            world.store.inspect(&world.shard, stranger).await.err(),
        ] {
            assert!(refused.is_none_or(|error| error.kind() == ErrorKind::Corrupt));
        }
    }
    let all: Vec<Vec<u8>> = strangers.iter().chain([&neighbour]).map(|id| id.to_vec()).collect();
    world.store.dead_redrive(&world.shard, &all).await.unwrap();
    assert_eq!(world.place(&neighbour).await, Some(Place::Due), "{comes:?}");
    world.store.reschedule(&world.shard, &neighbour, "@1000").await.unwrap();
    let mut hand = world.open().await;
    // A job that says that it killed its workers comes alone: at most each of them comes before.
    for _ in 0..=strangers.len() {
        let claimed = hand.claim(1000, 0).await;
        let verdicts: Vec<_> =
            claimed.jobs.iter().map(|taken| (Member::new(&taken.id, taken.run), Verdict::DoneExtended)).collect();
        let settled = hand.try_settle(&verdicts).await.unwrap();
        if let Some(at) = claimed.jobs.iter().position(|taken| taken.id == neighbour) {
            assert_eq!(settled[at], Settled::Accepted, "{comes:?}");
            return;
        }
    }
    panic!("{comes:?}: the neighbour was not given out: {:?}", world.dump().await);
}

#[tokio::test]
async fn no_record_harms_its_neighbours_whatever_stands_in_it() {
    let (world, kept, ways) = (World::in_memory().await, corpus("record"), ways());
    let whole: Vec<Vec<u8>> = kept.iter().map(|(_, bytes)| bytes.clone()).collect();
    for comes in &ways {
        harm_nobody(&world, &whole, comes).await;
    }
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let changes = (any::<Index>(), vec(change(), 1..4));
    for comes in ways.iter().cycle().take(cases(140) / 10) {
        let mut some: Vec<Vec<u8>> = Vec::new();
        while some.len() < 10 {
            let (which, changes) = changes.new_tree(&mut runner).unwrap().current();
            some.push(changed(&kept, which, &changes));
        }
        let ended = std::panic::AssertUnwindSafe(harm_nobody(&world, &some, comes)).catch_unwind().await;
        if let Err(panic) = ended {
            let shown: Vec<String> = some.iter().map(|bytes| bytes.escape_ascii().to_string()).collect();
            eprintln!("{comes:?}: keep the one of these that does it as a file of tests/corpus/record: {shown:#?}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// A due time that no clock will show: nobody takes the job, and nobody else waits for it.
#[tokio::test]
async fn a_due_time_without_end_spoils_no_claim_and_no_page() {
    for world in [World::in_memory().await, World::on_shared_redis().await] {
        world.create(&[job(NEIGHBOUR)]).await;
        world.set_field("jobs", id(1), world.field("jobs", id(NEIGHBOUR)).await).await;
        for name in ["due:5", "dead", "done", "sessions", "wake"] {
            let mut members = match world.read(name).await {
                Some(Value::Sorted(members)) => members,
                _ => BTreeMap::new(),
            };
            members.insert(id(1).to_vec(), f64::INFINITY);
            members.insert(id(3).to_vec(), f64::NEG_INFINITY);
            world.write(name, Some(Value::Sorted(members))).await;
        }
        let mut hand = world.open().await;
        assert_eq!(hand.take(10).await.len(), 1);
        for _ in 0..2 {
            assert!(hand.take(10).await.is_empty());
            hand.beat().await;
        }
        let page = |order| DeadPage { order, after: None, limit: 10, until_ms: None, whole: true };
        for order in [Order::OldestFirst, Order::NewestFirst] {
            assert_eq!(world.store.dead_list(&world.shard, &page(order)).await.unwrap().len(), 2);
        }
        let page = DuePage { limit: 10, ..DuePage::default() };
        assert!(!world.store.due_list(&world.shard, &page).await.unwrap().is_empty());
        world.store.sessions(&world.shard).await.unwrap();
        world.store.stats(&world.shard).await.unwrap();
        world.store.inspect(&world.shard, &id(1)).await.unwrap();
        world.forget().await;
    }
}

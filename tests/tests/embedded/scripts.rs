//! A script happens whole or not at all, alone and in a transaction with others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delayq::ErrorKind;
use delayq::engine::embedded::{Clock, EmbeddedEngine, Stored};
use delayq::engine::{Engine, Reply, Script};
use delayq_tests::soon;
use delayq_tests::store_kit::{World, job, kind};

use super::{ASKS, Base, Gate};

/// Writes to the first three keys, then to the fourth, where it fails if that is no hash.
static WRITES: Script = Script::new(
    "test_writes",
    "redis.call('HINCRBY', KEYS[1], 'total', '1')
     redis.call('SADD', KEYS[2], ARGV[1])
     redis.call('ZADD', KEYS[3], ARGV[1], ARGV[1])
     redis.call('HDEL', KEYS[1], 'gone')
     redis.call('HSET', KEYS[4], ARGV[1], '1')
     return 1",
);
/// Writes, then fails in Lua itself.
static ERRS: Script = Script::new("test_errs", "redis.call('HSET', KEYS[1], 'a', '1') error('told to')");
static RECURSES: Script = Script::new(
    "test_recurses",
    "redis.call('HSET', KEYS[1], 'a', '1') local function f() return 1 + f() end return f()",
);
static REFUSES: Script =
    Script::new("test_refuses", "redis.call('HSET', KEYS[1], 'a', '1') return redis.error_reply('BADARG no')");
fn keys(names: [&str; 4]) -> Vec<Vec<u8>> {
    names.map(|name| name.as_bytes().to_vec()).to_vec()
}

async fn all(engine: &EmbeddedEngine) -> Vec<(Vec<u8>, Option<Stored>)> {
    let mut all = Vec::new();
    for name in engine.names(b"").await.unwrap() {
        let value = engine.read(&name).await.unwrap();
        all.push((name, value));
    }
    all
}

async fn fails_whole(engine: EmbeddedEngine) {
    engine.write(b"text", Some(Stored::Text(b"in the way".to_vec()))).await.unwrap();
    engine.write(b"hash", Some(Stored::Hash([(b"gone".to_vec(), b"1".to_vec())].into()))).await.unwrap();
    let before = all(&engine).await;
    for (script, expected) in [
        (&WRITES, ErrorKind::Corrupt),
        (&ERRS, ErrorKind::Corrupt),
        (&RECURSES, ErrorKind::Corrupt),
        (&REFUSES, ErrorKind::InvalidArgument),
    ] {
        let failed = engine.run(script, &keys(["hash", "set", "sorted", "text"]), &[b"7"]).await;
        assert_eq!(kind(failed), expected, "{}", script.name);
        assert_eq!(all(&engine).await, before, "{} left something", script.name);
    }
    let done = engine.run(&WRITES, &keys(["hash", "set", "sorted", "other"]), &[b"7"]).await;
    assert_eq!(done.unwrap(), Reply::Int(1));
    assert_eq!(all(&engine).await.len(), 5);
}

#[tokio::test]
async fn a_script_that_fails_midway_did_nothing_in_memory() {
    fails_whole(EmbeddedEngine::connect("sqlite::memory:", Clock::system()).await.unwrap()).await;
}

#[tokio::test]
async fn a_script_that_fails_midway_did_nothing_in_a_file() {
    let base = Base::new();
    fails_whole(base.engine().await).await;
    base.assert_whole();
}

#[tokio::test]
async fn arguments_are_strings_or_numbers_in_full() {
    static PUTS: Script = Script::new(
        "test_puts",
        "redis.call('HSET', KEYS[1], 'whole', 1700000000000001, 'part', 0.1, 'text', '1.7e+15', 'small', -3)
         return redis.call('HMGET', KEYS[1], 'whole', 'part', 'text', 'small', 'none')",
    );
    let engine = EmbeddedEngine::connect("sqlite::memory:", Clock::system()).await.unwrap();
    let key = [b"hash".to_vec()];
    let bytes = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
    let expected = vec![bytes("1700000000000001"), bytes("0.1"), bytes("1.7e+15"), bytes("-3"), Reply::Nil];
    assert_eq!(engine.run(&PUTS, &key, &[]).await.unwrap(), Reply::List(expected));
    static NIL_LAST: Script = Script::new("test_nil_last", "return redis.call('HDEL', KEYS[1], 'whole', nil)");
    static NIL_BETWEEN: Script = Script::new("test_nil_between", "return redis.call('HDEL', KEYS[1], nil, 'whole')");
    static BOOLEAN: Script = Script::new("test_boolean", "return redis.call('HDEL', KEYS[1], 'whole', true)");
    static TABLE: Script = Script::new("test_table", "return redis.call('HDEL', KEYS[1], 'whole', {})");
    for script in [&NIL_LAST, &NIL_BETWEEN, &BOOLEAN, &TABLE] {
        let error = engine.run(script, &key, &[]).await.unwrap_err();
        assert!(error.to_string().contains("arguments must be strings or integers"), "{}: {error}", script.name);
    }
    static LISTS: Script =
        Script::new("test_lists", "return { { 'a', '' }, { 'b', 12 }, { '12', '-' }, { 'c', false, 'd' }, {} }");
    let list = |parts: &[Reply]| Reply::List(parts.to_vec());
    let expected = [
        list(&[bytes("a"), bytes("")]),
        list(&[bytes("b"), Reply::Int(12)]),
        list(&[bytes("12"), bytes("-")]),
        list(&[bytes("c"), Reply::Nil, bytes("d")]),
        list(&[]),
    ];
    assert_eq!(engine.run(&LISTS, &key, &[]).await.unwrap(), list(&expected));
}

#[tokio::test]
async fn an_operation_that_meets_a_wrong_type_did_nothing() {
    let world = World::in_file().await;
    world.create(&[job(1)]).await;
    // The queue of the priority is the last thing that a send writes to.
    world.leaves_damage();
    world.write("due:7", Some(delayq_tests::store_kit::Value::Text(b"in the way".to_vec()))).await;
    let before = world.dump().await;
    let failed = world.raw("enqueue", &world.enqueue_keys("7"), &[]).await;
    assert!(failed.is_err(), "{failed:?}");
    let mut other = job(2);
    other.options.priority = 7;
    assert_eq!(kind(world.store.enqueue(&world.shard, &[other]).await), ErrorKind::Corrupt);
    assert_eq!(world.dump().await, before);
    world.finish().await;
}

async fn grouped(url: &str) -> EmbeddedEngine {
    let gate = Arc::new(Gate::default());
    let held = gate.clone();
    let engine = EmbeddedEngine::connect(url, Clock::from(move || held.pass())).await.unwrap();
    engine.write(b"text", Some(Stored::Text(b"in the way".to_vec()))).await.unwrap();
    // While this one waits, the others gather in the line: they go into one transaction.
    let (asking, other) = (engine.clone(), engine.clone());
    let first = tokio::spawn(async move { asking.run(&ASKS, &[], &[]).await });
    while !gate.reached.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let calls = (0..60u32).map(|n| {
        let (engine, gate) = (other.clone(), gate.clone());
        async move {
            // The last one to be put into the line lets all of them go.
            let fails = n % 3 == 1 || n == 0;
            let keys = keys(["hash", "set", "sorted", if fails { "text" } else { "other" }]);
            let number = n.to_string();
            let args = [number.as_bytes()];
            let mut call = engine.run(&WRITES, &keys, &args);
            let polled = futures_util::poll!(&mut call);
            assert!(polled.is_pending());
            if n == 59 {
                gate.open();
            }
            (fails, call.await)
        }
    });
    for (fails, answer) in soon("sixty answers", futures_util::future::join_all(calls)).await {
        match answer {
            Ok(reply) => assert!(!fails && reply == Reply::Int(1)),
            Err(error) => assert!(fails && error.kind() == ErrorKind::Corrupt, "{error:?}"),
        }
    }
    assert_eq!(soon("the first one's answer", first).await.unwrap().unwrap(), Reply::Bytes(b"1".to_vec()));
    engine
}

async fn each_took_back_its_own(engine: &EmbeddedEngine) {
    let good: Vec<u32> = (1..60).filter(|n| n % 3 != 1).collect();
    let texts = || good.iter().map(|n| n.to_string().into_bytes());
    let total = good.len().to_string().into_bytes();
    assert_eq!(engine.read(b"hash").await.unwrap(), Some(Stored::Hash([(b"total".to_vec(), total)].into())));
    assert_eq!(engine.read(b"set").await.unwrap(), Some(Stored::Set(texts().collect())));
    let scores = texts().zip(good.iter().map(|n| f64::from(*n)));
    assert_eq!(engine.read(b"sorted").await.unwrap(), Some(Stored::Sorted(scores.collect())));
    let ones = texts().map(|field| (field, b"1".to_vec()));
    assert_eq!(engine.read(b"other").await.unwrap(), Some(Stored::Hash(ones.collect())));
    // Counts are kept beside the elements: they must agree with them.
    static COUNTS: Script = Script::new(
        "test_counts",
        "return {redis.call('SCARD', KEYS[2]), redis.call('ZCARD', KEYS[3]), redis.call('HLEN', KEYS[4])}",
    );
    let counts = engine.run(&COUNTS, &keys(["hash", "set", "sorted", "other"]), &[]).await.unwrap();
    assert_eq!(counts, Reply::List(vec![Reply::Int(good.len() as i64); 3]));
}

#[tokio::test]
async fn in_one_transaction_each_takes_back_only_its_own_in_memory() {
    each_took_back_its_own(&grouped("sqlite::memory:").await).await;
}

#[tokio::test]
async fn in_one_transaction_each_takes_back_only_its_own_in_a_file() {
    let base = Base::new();
    let engine = grouped(&base.url()).await;
    each_took_back_its_own(&engine).await;
    // As it is stored, and as another process sees it.
    each_took_back_its_own(&base.engine().await).await;
    base.assert_whole();
}

#[tokio::test]
async fn a_panic_takes_its_transaction_with_it() {
    static PANICS: Script =
        Script::new("test_panics", "redis.call('HINCRBY', KEYS[1], 'n', '1') redis.call('TIME') return 1");
    let base = Base::new();
    let armed = Arc::new(AtomicBool::new(true));
    let clock = armed.clone();
    let clock = Clock::from(move || if clock.load(Ordering::SeqCst) { panic!("told to panic") } else { 1_000_000 });
    let engine = EmbeddedEngine::connect(&base.url(), clock).await.unwrap();
    let key = [b"hash".to_vec()];
    for _ in 0..2 {
        let failed = soon("an answer", engine.run(&PANICS, &key, &[])).await;
        assert_eq!(kind(failed), ErrorKind::Unknown);
    }
    armed.store(false, Ordering::SeqCst);
    assert_eq!(soon("an answer", engine.run(&PANICS, &key, &[])).await.unwrap(), Reply::Int(1));
    let stored = engine.read(b"hash").await.unwrap();
    assert_eq!(stored, Some(Stored::Hash([(b"n".to_vec(), b"1".to_vec())].into())));
}

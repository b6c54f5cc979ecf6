//! Runtimes and their clocks: a paused one stands still while the engine works, and one that ends leaves others alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use delayq::engine::embedded::{Clock, EmbeddedEngine};
use delayq::engine::{Engine, Reply, Script};
use delayq::{Client, ErrorKind};
use delayq_tests::{PATIENCE, eventually, soon};

use super::{ASKS, Base, Gate, send_cargo};

static COUNTS: Script = Script::new("test_counts", "return redis.call('HINCRBY', KEYS[1], 'n', '1')");

async fn count(engine: &EmbeddedEngine, key: &str) -> Result<Reply, delayq::Error> {
    engine.run(&COUNTS, &[key.as_bytes().to_vec()], &[]).await
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_stands_still_while_the_engine_works() {
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let from = tokio::time::Instant::now();
    // What would fire first if the clock were let go.
    let alarm = tokio::time::sleep(Duration::from_millis(1));
    tokio::pin!(alarm);
    for _ in 0..200 {
        tokio::select! {
            biased;
            () = &mut alarm => panic!("the clock went on"),
            sent = send_cargo(&client) => { sent.unwrap(); }
        }
    }
    assert_eq!(tokio::time::Instant::now(), from);
    assert_eq!(client.stats("cargo").await.unwrap().waiting, 200);
}

#[tokio::test(start_paused = true)]
async fn a_wait_on_a_paused_clock_ends_when_its_time_is_over() {
    let engine = EmbeddedEngine::connect("sqlite::memory:", Clock::system()).await.unwrap();
    let from = tokio::time::Instant::now();
    let heard = engine.wait(&[b"baton".to_vec()], Duration::from_secs(5)).await.unwrap();
    assert_eq!((heard, from.elapsed()), (None, Duration::from_secs(5)));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[tokio::test]
async fn a_runtime_that_ends_leaves_the_others_their_calls() {
    let base = Base::new();
    let engine = base.engine().await;
    let (other, stop) = (engine.clone(), Arc::new(AtomicBool::new(false)));
    let (stopped, rounds) = (stop.clone(), Arc::new(AtomicUsize::new(0)));
    let gone = rounds.clone();
    // It comes and goes, each time with calls in flight: before, while and after somebody works on them.
    let restless = std::thread::spawn(move || {
        while !stopped.load(Ordering::SeqCst) {
            let (runtime, round) = (runtime(), gone.load(Ordering::SeqCst));
            let in_flight: Vec<_> = (0..round % 4)
                .map(|_| {
                    let engine = other.clone();
                    runtime.spawn(async move { count(&engine, "restless").await })
                })
                .collect();
            runtime.block_on(async {
                if round.is_multiple_of(2) {
                    tokio::task::yield_now().await;
                } else {
                    count(&other, "restless").await.unwrap();
                }
            });
            runtime.shutdown_background();
            drop(in_flight);
            gone.fetch_add(1, Ordering::SeqCst);
        }
    });
    let (mut n, deadline) = (0, Instant::now() + PATIENCE);
    // For as long as it takes until enough of them came and went.
    while n < 400 || rounds.load(Ordering::SeqCst) <= 10 {
        let rounds = rounds.load(Ordering::SeqCst);
        assert!(n < 400 || Instant::now() < deadline, "only {rounds} runtimes came and went within {PATIENCE:?}");
        n += 1;
        let answer = soon("an answer", count(&engine, "steady")).await;
        assert_eq!(answer.unwrap(), Reply::Int(n));
    }
    stop.store(true, Ordering::SeqCst);
    restless.join().unwrap();
    // One that ended before its call began leaves the line to the next.
    assert_eq!(soon("an answer", count(&engine, "steady")).await.unwrap(), Reply::Int(n + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_can_end_while_others_keep_the_engine_busy() {
    let (gate, stop) = (Arc::new(Gate::default()), Arc::new(AtomicBool::new(false)));
    let held = gate.clone();
    let engine = EmbeddedEngine::connect("sqlite::memory:", Clock::from(move || held.pass())).await.unwrap();
    // It is this runtime's thread that works off the line.
    let short = runtime();
    let asking = engine.clone();
    let asked = short.spawn(async move { asking.run(&ASKS, &[], &[]).await });
    let waiting = gate.clone();
    // A runtime may be driven and dropped outside of another one only.
    let short = std::thread::spawn(move || {
        short.block_on(async {
            while !waiting.reached.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        });
        short
    });
    let short = tokio::task::spawn_blocking(|| short.join().unwrap()).await.unwrap();
    // More than fit into one transaction: there is always something in the line.
    let queued = Arc::new(AtomicUsize::new(0));
    let busy: Vec<_> = (0..600)
        .map(|_| {
            let (engine, stop, queued) = (engine.clone(), stop.clone(), queued.clone());
            tokio::spawn(async move {
                let mut first = Box::pin(count(&engine, "busy"));
                assert!(futures_util::poll!(&mut first).is_pending());
                queued.fetch_add(1, Ordering::SeqCst);
                first.await.unwrap();
                while !stop.load(Ordering::SeqCst) {
                    count(&engine, "busy").await.unwrap();
                }
            })
        })
        .collect();
    eventually("a long line", || async { (queued.load(Ordering::SeqCst) == 600).then_some(()) }).await;
    let (told, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        gate.open();
        short.block_on(asked).unwrap().unwrap();
        // Waits for what runs on its blocking threads.
        drop(short);
        told.send(())
    });
    // Without end where it is kept for others.
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    stop.store(true, Ordering::SeqCst);
    ended.expect("the runtime ends while others go on").unwrap();
    for task in busy {
        soon("a busy task's end", task).await.unwrap();
    }
}

#[test]
fn a_client_outlives_its_runtime() {
    let base = Base::new();
    let first = runtime();
    let client = first.block_on(base.client());
    first.block_on(send_cargo(&client)).unwrap();
    drop(first);
    let second = runtime();
    second.block_on(send_cargo(&client)).unwrap();
    let stats = second.block_on(client.stats("cargo")).unwrap();
    assert_eq!(stats.waiting, 2);
}

#[test]
fn a_call_cut_off_with_its_runtime_is_whole_or_not_there() {
    let base = Base::new();
    let engine = runtime().block_on(base.engine());
    for _ in 0..50 {
        let (runtime, engine) = (runtime(), engine.clone());
        runtime.spawn(async move { count(&engine, "cut").await });
        runtime.block_on(tokio::task::yield_now());
        runtime.shutdown_background();
    }
    let last = runtime();
    // Whoever asks next is answered, whatever stood in the line.
    let answer = last.block_on(async { soon("an answer", count(&engine, "cut")).await });
    match answer {
        Ok(Reply::Int(n)) => assert!((1..=51).contains(&n), "{n}"),
        other => panic!("{other:?}"),
    }
    let refused = last.block_on(async {
        static FAILS: Script = Script::new("test_fails", "return redis.error_reply('BADARG no')");
        engine.run(&FAILS, &[], &[]).await
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

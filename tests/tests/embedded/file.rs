//! The file and what stands beside it: opened by many at once, bounded while many write, let go at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use delayq::store::{Prefix, Store};
use delayq::{Client, Worker};
use delayq_tests::store_kit::{With, job};
use delayq_tests::{Running, eventually};

use super::{Base, send_cargo, steady};

#[test]
fn many_open_a_new_file_at_once() {
    for _ in 0..30 {
        let base = Base::new();
        let start = Arc::new(Barrier::new(8));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (url, start) = (base.url(), start.clone());
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(async {
                        start.wait();
                        let client = Client::connect(&url).await?;
                        send_cargo(&client).await
                    })
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let waiting = runtime.block_on(async { base.client().await.stats("cargo").await.unwrap().waiting });
        assert_eq!(waiting, 8);
        base.assert_whole();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_stays_bounded_while_three_write() {
    let base = Base::new();
    let mut writers = Vec::new();
    for writer in 0..3u64 {
        let store = Store::new(Arc::new(base.engine().await), Prefix::default());
        let shard = store.shard("log", 0).unwrap();
        writers.push(tokio::spawn(async move {
            for n in 0..1200 {
                let job = job(writer << 32 | n).due("+3600000").envelope(vec![b'x'; 300]);
                store.enqueue(&shard, &[job]).await.unwrap();
            }
            store
        }));
    }
    // At its end a log that was long is cut: it is watched all the time.
    let (log, longest) = (base.beside("-wal"), Arc::new(AtomicU64::new(0)));
    let seen = longest.clone();
    let watched = tokio::spawn(async move {
        loop {
            seen.fetch_max(std::fs::metadata(&log).map_or(0, |log| log.len()), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    // None lets go of the file before the others are done: the last one takes the log with it.
    let stores: Vec<Store> =
        futures_util::future::join_all(writers).await.into_iter().map(|writer| writer.unwrap()).collect();
    watched.abort();
    let longest = longest.load(Ordering::Relaxed);
    assert!(longest > 2 << 20 && longest < 32 << 20, "the log had {} MB", longest >> 20);
    let client = base.client().await;
    assert_eq!(client.stats("log").await.unwrap().waiting, 3600);
    drop((client, stores));
    base.assert_whole();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_reader_holds_nobody_up() {
    let base = Base::new();
    let client = base.client().await;
    send_cargo(&client).await.unwrap();
    // Somebody looks at the file for long, as a backup does.
    let reader = base.look();
    reader.execute_batch("BEGIN; SELECT count(*) FROM keys").unwrap();
    let from = Instant::now();
    let mut longest = Duration::ZERO;
    // Enough for a log that wants to begin anew.
    for _ in 0..700 {
        let sent = Instant::now();
        send_cargo(&client).await.unwrap();
        longest = longest.max(sent.elapsed());
    }
    // Who is held up waits for 5 s.
    assert!(longest < Duration::from_secs(4), "one send took {longest:?}, all of them {:?}", from.elapsed());
    let log = std::fs::metadata(base.beside("-wal")).unwrap().len();
    assert!(log > 9 << 20, "the log has {log} bytes: it never wanted to begin anew, so nothing was tested");
    reader.execute_batch("COMMIT").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_client_lets_go_of_the_file() {
    let base = Base::new();
    let client = base.client().await;
    let worker = Running::start(Worker::new(client.clone()).queues(["idle"]));
    eventually("a session", || async { (client.stats("idle").await.unwrap().sessions == 1).then_some(()) }).await;
    send_cargo(&client).await.unwrap();
    client.schedule(Duration::from_secs(60)).send(steady("a", 0)).await.unwrap();
    assert!(base.beside("-wal").exists());
    worker.stop().await.unwrap();
    drop(client);
    // SQLite does away with its log when the last connection closes.
    eventually("the log's end", || async { (!base.beside("-wal").exists()).then_some(()) }).await;
    let watches = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let of_ours = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        of_ours.filter(|target| target.starts_with(base.folder.path())).count()
    };
    eventually("no open file", || async { (watches() == 0).then_some(()) }).await;
    assert_eq!(base.client().await.stats("cargo").await.unwrap().waiting, 1);
}

//! Servers that are there and refuse: scripts forgotten, read-only, busy, asleep, loading, full, too many clients.

use std::time::{Duration, Instant};

use delayq::{Client, Error, ErrorKind, JobStatus};
use delayq_redis_fixture::RedisServer;
use delayq_tests::{Lag, PATIENCE, eventually, server_and_client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::{Act, Raw, Stage, TASKS, does, pass, settled};

const RESUMES: Duration = Duration::from_secs(5);

fn send_many(client: &Client, count: u64) -> Vec<tokio::task::JoinHandle<()>> {
    (0..count)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                client.enqueue().send(pass(n)).await.unwrap();
            })
        })
        .collect()
}

/// Why the store refuses a send. One whose time is over before its turn comes is sent again.
async fn refusal(client: &Client) -> Error {
    eventually("the store refuses it", || async {
        let error = client.enqueue().send(pass(99)).await.unwrap_err();
        (!error.to_string().starts_with("the sends before this one")).then_some(error)
    })
    .await
}

#[tokio::test]
async fn b54_forgotten_scripts_are_no_error_to_anybody() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let forgetting = tokio::spawn(async move {
        loop {
            let _: () = raw.ask(&[b"SCRIPT", b"FLUSH"]).await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    });
    let mut stage = Stage::with(&client, |worker| worker.concurrency(20));
    let mut sends = Vec::new();
    for n in 0..2000u64 {
        let client = client.clone();
        sends.push(tokio::spawn(async move {
            let handle = client.enqueue().send(pass(n)).await.unwrap();
            handle.status().await.unwrap();
        }));
        if n % 20 == 0 {
            // Spread out, so that many calls meet a server that forgot.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    for send in sends {
        send.await.unwrap();
    }
    let mut runs = stage.take(2000).await;
    settled(&client, 2000).await;
    forgetting.abort();
    assert!(stage.is_quiet());
    runs.sort_by_key(|ran| ran.n);
    assert!(runs.iter().zip(0..).all(|(ran, n)| ran.n == n && ran.attempt == 1));
    stage.stop().await;
}

#[tokio::test]
async fn b60_a_server_that_is_read_only_for_a_while_costs_no_attempt() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let held = client.enqueue().send(does(Act::WaitPass)).await.unwrap();
    stage.next().await;
    let nobody = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string() };
    server.command(&["REPLICAOF", "127.0.0.1", &nobody]).unwrap();
    let sends = send_many(&client, 50);
    let short = Client::builder().send_deadline(Duration::from_millis(300)).connect(&server.url()).await.unwrap();
    let refused = refusal(&short).await;
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
    assert!(refused.is_temporary() && !refused.is_unknown());
    // The run ends while nothing can be written. Three seconds of it are what is tested.
    stage.open(1);
    tokio::time::sleep(Duration::from_millis(2700)).await;
    assert!(matches!(held.status().await.unwrap(), JobStatus::Running { .. }), "reading works all along");
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let (healed, lag) = (Instant::now(), Lag::watch());
    for send in sends {
        send.await.unwrap();
    }
    let runs = stage.take(50).await;
    settled(&client, 51).await;
    let took = healed.elapsed();
    assert!(took < RESUMES + lag.so_far(), "{took:?}");
    assert!(runs.iter().all(|ran| ran.attempt == 1));
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.crashed_total, stats.retried_total, stats.dead_total), (0, 0, 0));
    assert!(stage.is_quiet());
    stage.stop().await;
}

#[tokio::test]
async fn b63_a_server_that_is_busy_with_a_foreign_script_is_waited_for() {
    let server = RedisServer::start_with(&["--busy-reply-threshold", "50"]).unwrap();
    let client = Client::builder().response_timeout(Duration::from_secs(1)).connect(&server.url()).await.unwrap();
    let short = Client::builder().send_deadline(Duration::from_millis(200)).connect(&server.url()).await.unwrap();
    let mut stage = Stage::start(&client);
    client.enqueue().send(pass(1000)).await.unwrap();
    stage.next().await;
    let mut raw = Raw::connect(&server).await;
    let endless = tokio::spawn(async move {
        let killed: Result<redis::Value, _> =
            redis::cmd("EVAL").arg("while true do end").arg(0).query_async(&mut raw.0).await;
        killed.unwrap_err();
    });
    let busy = || async { server.command(&["PING"]).unwrap().starts_with("-BUSY").then_some(()) };
    eventually("it is busy", busy).await;
    let refused = refusal(&short).await;
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
    let sends = send_many(&client, 50);
    // Longer than one answer may take: time itself is what is tested.
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.command(&["SCRIPT", "KILL"]).unwrap();
    let (healed, lag) = (Instant::now(), Lag::watch());
    endless.await.unwrap();
    for send in sends {
        send.await.unwrap();
    }
    assert!(stage.take(50).await.iter().all(|ran| ran.attempt == 1));
    let took = healed.elapsed();
    assert!(took < RESUMES + lag.so_far(), "{took:?}");
    settled(&client, 51).await;
    stage.stop().await;
}

#[tokio::test]
async fn b63_a_server_that_sleeps_for_three_seconds_is_waited_for() {
    let server = RedisServer::start_with(&["--enable-debug-command", "yes"]).unwrap();
    let client = Client::builder().response_timeout(Duration::from_secs(1)).connect(&server.url()).await.unwrap();
    let mut stage = Stage::start(&client);
    client.enqueue().send(pass(1000)).await.unwrap();
    stage.next().await;
    let mut bed = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    // Once it is written, it comes before whatever is sent from here on.
    bed.write_all(b"DEBUG SLEEP 3\r\n").await.unwrap();
    let sends = send_many(&client, 50);
    let mut awake = [0; 5];
    bed.read_exact(&mut awake).await.unwrap();
    assert_eq!(&awake, b"+OK\r\n");
    let (healed, lag) = (Instant::now(), Lag::watch());
    for send in sends {
        send.await.unwrap();
    }
    let mut runs = stage.take(50).await;
    let took = healed.elapsed();
    assert!(took < RESUMES + lag.so_far(), "{took:?}");
    settled(&client, 51).await;
    assert!(stage.is_quiet(), "sends that came in twice made one job each");
    runs.sort_by_key(|ran| ran.n);
    assert!(runs.iter().zip(0..).all(|(ran, n)| ran.n == n && ran.attempt == 1));
    stage.stop().await;
}

#[tokio::test]
async fn a_server_that_loads_is_waited_for() {
    // Loading is slowed down by so many µs a key.
    let settings = ["--appendonly", "yes", "--key-load-delay", "100", "--appendfsync", "always"];
    let mut server = RedisServer::start_with(&settings).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    client.schedule(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    let mut raw = Raw::connect(&server).await;
    let mut pipe = redis::pipe();
    for n in 0..10_000 {
        pipe.cmd("SET").arg(n).arg(n).ignore();
    }
    pipe.query_async::<()>(&mut raw.0).await.unwrap();
    server.kill();
    let restart = tokio::task::spawn_blocking(move || {
        server.restart().unwrap();
        server
    });
    client.schedule(Duration::from_secs(60)).send(pass(2)).await.unwrap();
    assert_eq!(client.stats(TASKS).await.unwrap().waiting, 2);
    drop(restart.await.unwrap());
}

#[tokio::test]
async fn b69_a_full_server_refuses_new_jobs_at_once_and_finishes_old_ones() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let mut stage = Stage::start(&client);
    client.enqueue().send(does(Act::WaitPass)).await.unwrap();
    stage.next().await;
    client.schedule(Duration::from_millis(300)).send(pass(1)).await.unwrap();
    let later = client.schedule(Duration::from_secs(60)).send(pass(2)).await.unwrap();
    let _: () = raw.ask(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).await;
    let started = Instant::now();
    let refused = client.enqueue().unique("k").send(pass(3)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused:?}");
    assert!(refused.is_temporary() && !refused.is_unknown());
    for answer in client.enqueue().send_all((0..500).map(pass)).await {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Full);
    }
    // Half of what a send is tried for.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.enqueued_total, stats.orphans), (3, 0), "nothing of it was written");
    assert_eq!(raw.ask::<u64>(&[b"EXISTS", crate::kit::key("unique").as_bytes()]).await, 0);
    stage.open(1);
    assert_eq!(stage.next().await.n, 1);
    later.reschedule(Duration::ZERO).await.unwrap();
    assert_eq!(stage.next().await.n, 2);
    settled(&client, 3).await;
    let _: () = raw.ask(&[b"CONFIG", b"SET", b"maxmemory", b"0"]).await;
    client.enqueue().unique("k").send(pass(4)).await.unwrap();
    assert_eq!(stage.next().await.n, 4);
    stage.stop().await;
}

/// How many connections the server has turned away.
async fn rejected(connection: &mut redis::aio::MultiplexedConnection) -> u64 {
    let told: String = redis::cmd("INFO").arg("stats").query_async(connection).await.unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix("rejected_connections:"));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn b64_a_server_with_too_many_clients_is_unavailable_and_then_works() {
    let started = Instant::now();
    let server = RedisServer::start_with(&["--maxclients", "6"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    client.schedule(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    let mut others = Vec::new();
    let open = redis::Client::open(server.url()).unwrap();
    while let Ok(connection) = open.get_multiplexed_async_connection().await {
        others.push(connection);
    }
    assert!(!others.is_empty());
    for _ in 0..5 {
        let refused = Client::connect(&server.url()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
        assert!(refused.to_string().contains("max number of clients"), "{refused}");
    }
    // A worker that finds no room waits for it.
    let mut stage = Stage::start(&client);
    client.enqueue().send(pass(2)).await.unwrap();
    let mut one = others.swap_remove(0);
    let turned_away = rejected(&mut one).await;
    while rejected(&mut one).await == turned_away {
        tokio::task::yield_now().await;
        assert!(started.elapsed() < PATIENCE, "nobody is turned away");
    }
    drop(one);
    others.clear();
    let (room, lag) = (Instant::now(), Lag::watch());
    assert_eq!(stage.next().await.n, 2);
    let took = room.elapsed();
    assert!(took < RESUMES + lag.so_far(), "{took:?}");
    stage.stop().await;
}

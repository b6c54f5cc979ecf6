//! Servers that go away and come back: the client and the worker are there again by themselves.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use delayq::Client;
use delayq::engine::redis::{RedisEngine, Settings, Target};
use delayq::store::{Prefix, Store};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::proxy::{Mode, Proxy};
use delayq_tests::{Lag, eventually, server_and_client, watched};

use crate::kit::{Act, Raw, Stage, TASKS, does, listens, pass, settled};

const RESUMES: Duration = Duration::from_secs(5);

#[tokio::test]
async fn b55_after_a_restart_that_lost_everything_work_goes_on_within_five_seconds() {
    let (mut server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    client.enqueue().send(pass(1)).await.unwrap();
    stage.next().await;
    client.schedule(Duration::from_secs(60)).send(pass(2)).await.unwrap();
    for n in 3..5 {
        server.restart().unwrap();
        let (back, lag) = (Instant::now(), Lag::watch());
        client.enqueue().send(pass(n)).await.unwrap();
        assert_eq!(stage.next().await.n, n);
        let took = back.elapsed();
        assert!(took < RESUMES + lag.so_far(), "{took:?}");
    }
    settled(&client, 1).await;
    assert!(stage.is_quiet());
    stage.stop().await;
}

#[tokio::test]
async fn b23_after_a_restart_from_the_log_every_job_runs_once() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut stage = Stage::start(&client);
    client.enqueue().send(does(Act::WaitPass)).await.unwrap();
    assert_eq!(stage.next().await.n, 0);
    let answers = client.schedule(Duration::from_millis(1500)).send_all((1..=100).map(pass)).await;
    assert!(answers.into_iter().all(|answer| answer.is_ok()));
    server.kill();
    // One run ends while nobody can be told of it.
    stage.open(1);
    stage.passed().await;
    server.restart().unwrap();
    let (back, lag) = (Instant::now(), Lag::watch());
    let mut runs = stage.take(100).await;
    let took = back.elapsed();
    assert!(took < Duration::from_millis(1500) + RESUMES + lag.so_far(), "{took:?}");
    settled(&client, 101).await;
    assert!(stage.is_quiet(), "none ran twice");
    runs.sort_by_key(|ran| ran.n);
    assert!(runs.iter().zip(1..).all(|(ran, n)| ran.n == n && ran.attempt == 1));
    stage.stop().await;
}

#[tokio::test]
async fn b59_a_worker_whose_connections_were_killed_ten_times_hears_the_next_job() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    eventually("it listens", || async { listens(&server).then_some(()) }).await;
    for _ in 0..10 {
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
        // A little, so that it is killed in different states.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let (killed, lag) = (Instant::now(), Lag::watch());
    eventually("it listens again", || async { listens(&server).then_some(()) }).await;
    let took = killed.elapsed();
    assert!(took < RESUMES + lag.so_far(), "{took:?}");
    let (sent, lag) = (Instant::now(), Lag::watch());
    client.enqueue().send(pass(1)).await.unwrap();
    let took = stage.next().await.at - sent;
    assert!(took < Duration::from_millis(500) + lag.so_far(), "{took:?}");
    settled(&client, 1).await;
    assert_eq!(client.stats(TASKS).await.unwrap().crashed_total, 0);
    stage.stop().await;
}

#[tokio::test]
async fn a_broken_connection_costs_one_call() {
    let (server, client) = server_and_client().await;
    client.stats(TASKS).await.unwrap();
    let engine = RedisEngine::connect(Target::parse(&server.url(), Settings::default()).unwrap()).await.unwrap();
    let store = Store::new(Arc::new(engine), Prefix::default()).in_order();
    let shard = store.shard(TASKS, 0).unwrap();
    for _ in 0..5 {
        store.pass(&shard).await.unwrap();
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
        // Whoever is the first to use it finds out; from then on nobody is given it again.
        assert!(store.pass(&shard).await.is_err());
        store.pass(&shard).await.unwrap();
    }
}

#[tokio::test]
async fn b61_a_reconnect_stays_in_its_db() {
    let server = RedisServer::start().unwrap();
    let client = Client::connect(&format!("{}5", server.url())).await.unwrap();
    let mut stage = Stage::start(&client);
    for n in 0..8 {
        client.schedule(Duration::from_millis(5)).send(pass(n)).await.unwrap();
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
        assert_eq!(stage.next().await.n, n);
    }
    settled(&client, 8).await;
    stage.stop().await;
    let keyspace = server.command(&["INFO", "keyspace"]).unwrap();
    assert!(keyspace.contains("db5:") && !keyspace.contains("db0:"), "{keyspace}");
}

#[tokio::test]
async fn b60_a_demoted_server_is_left_for_the_new_one() {
    let (old, direct) = server_and_client().await;
    let new = RedisServer::start().unwrap();
    let proxy = Proxy::start(old.port(), 1).await.unwrap();
    let client = Client::connect(&proxy.url()).await.unwrap();
    let mut stage = Stage::start(&client);
    client.enqueue().send(pass(1)).await.unwrap();
    assert_eq!(stage.next().await.n, 1);
    settled(&direct, 1).await;
    // A failover: new connections lead to the new primary, and the old ones stay, on what is now a replica.
    proxy.redirect(new.port());
    old.command(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]).unwrap();
    let (over, lag) = (Instant::now(), Lag::watch());
    client.enqueue().send(pass(2)).await.unwrap();
    assert_eq!(stage.next().await.n, 2);
    let took = over.elapsed();
    assert!(took < RESUMES + lag.so_far(), "{took:?}");
    let on_new = Client::connect(&new.url()).await.unwrap();
    settled(&on_new, 1).await;
    stage.stop().await;
}

#[tokio::test]
async fn b63_a_worker_without_a_store_backs_off() {
    let (server, client) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let behind = Client::connect(&proxy.url()).await.unwrap();
    let mut stage = Stage::start(&behind);
    eventually("it listens", || async { listens(&server).then_some(()) }).await;
    proxy.set(Mode::Refuse);
    let before = proxy.accepted();
    // An outage: time itself is what is tested.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let tried = proxy.accepted() - before;
    assert!((2..60).contains(&tried), "{tried} connections in 3 s");
    client.enqueue().send(pass(1)).await.unwrap();
    proxy.set(Mode::Pass);
    let (healed, lag) = (Instant::now(), Lag::watch());
    assert_eq!(stage.next().await.n, 1);
    let took = healed.elapsed();
    assert!(took < RESUMES + lag.so_far(), "{took:?}");
    stage.stop().await;
}

/// With `DELAYQ_OUTAGE_S=600` it lasts ten minutes, and the lease is the default.
#[tokio::test]
async fn an_outage_of_many_leases_loses_no_run_and_no_job() {
    let seconds = std::env::var("DELAYQ_OUTAGE_S").map_or(6, |text| text.parse().unwrap());
    let (outage, lease) = (Duration::from_secs(seconds), Duration::from_secs(if seconds < 120 { 1 } else { 30 }));
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut stage = Stage::with(&client, |worker| worker.lease(lease));
    for _ in 0..2 {
        client.enqueue().send(does(Act::WaitPass)).await.unwrap();
        stage.next().await;
    }
    // They fall due towards its end: it may begin a while after this.
    let amid = client.schedule(outage - Duration::from_secs(1)).send_all((1..=20).map(pass)).await;
    assert!(amid.into_iter().all(|sent| sent.is_ok()));
    server.kill();
    // Time itself, many times the lease.
    tokio::time::sleep(outage / 2).await;
    // One of the runs ends while nobody can be told, the other goes on beyond the outage.
    stage.open(1);
    tokio::time::sleep(outage / 2).await;
    assert!(stage.is_quiet());
    server.restart().unwrap();
    let (back, lag) = (Instant::now(), Lag::watch());
    let runs = stage.take(20).await;
    let took = back.elapsed();
    assert!(took < RESUMES + lag.so_far(), "{took:?}");
    stage.open(1);
    settled(&client, 22).await;
    assert!(stage.is_quiet(), "none ran twice");
    assert!(runs.iter().all(|ran| ran.attempt == 1));
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.crashed_total, stats.retried_total, stats.dead_total), (0, 0, 0));
    stage.stop().await;
}

#[tokio::test]
async fn b63_an_idle_worker_asks_little_and_without_a_store_its_processor_is_idle() {
    let (mut server, client) = server_and_client().await;
    let mut child = Command::new(env!("CARGO_BIN_EXE_client_child"))
        .args(["work", &server.url()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    eventually("it listens", || async { listens(&server).then_some(()) }).await;
    client.schedule(Duration::from_secs(600)).send(pass(1)).await.unwrap();
    watched(&server, TASKS).await;
    let mut raw = Raw::connect(&server).await;
    // What nothing to do costs in this time, and then an outage of that: time itself is what is tested.
    let (asked, cpu, since) = (processed(&mut raw).await, cpu_ms(child.id()), Instant::now());
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (asked, cpu, idle) = (processed(&mut raw).await - asked, cpu_ms(child.id()) - cpu, since.elapsed());
    let per_second = asked as f64 / idle.as_secs_f64();
    assert!(per_second < 50.0, "{per_second} commands a second, those inside scripts included");
    assert!(cpu < idle.as_millis() as u64 / 5, "{cpu} ms of processor in {idle:?} of nothing to do");
    server.kill();
    let (cpu, since) = (cpu_ms(child.id()), Instant::now());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (cpu, outage) = (cpu_ms(child.id()) - cpu, since.elapsed());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(cpu < outage.as_millis() as u64 / 5, "{cpu} ms of processor in {outage:?} without a store");
}

async fn processed(raw: &mut Raw) -> u64 {
    let info: String = raw.ask(&[b"INFO", b"stats"]).await;
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.unwrap().parse().unwrap()
}

/// The processor time of a process, in its kernel's ticks of 10 ms.
fn cpu_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name in brackets, which may hold anything: user and system time are the 12th and 13th.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}

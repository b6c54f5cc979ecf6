//! Servers and networks that forget, cut, refuse, block and fall silent (B54 to B64).

use std::process::Command;
use std::time::{Duration, Instant};

use delayq::{Client, ErrorKind, JobId};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::proxy::{Mode, Proxy};
use delayq_tests::process::Process;
use delayq_tests::{Lag, eventually, server_and_client, soon};
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::{conserved, key, settled};
use crate::kit_b::{Act, Deed, QUEUE, RESUMES, Raw, Stage, does, listens, pass};

#[tokio::test]
async fn b54_noscript() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let forgetting = tokio::spawn(async move {
        loop {
            let _: () = raw.ask(&["SCRIPT", "FLUSH"]).await;
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
    });
    let mut stage = Stage::with(&client, |worker| worker.concurrency(50).claim_batch(20));
    // Sends that share calls, and every other call of a client, each of which may be the first after a flush.
    let lives = (0..15).map(|lane| {
        let client = client.clone();
        async move {
            for n in 0..10 {
                let n = lane * 100 + n;
                client.enqueue().send(pass(n)).await.unwrap();
                let later = client.schedule(Duration::from_secs(60)).send(pass(9_999)).await.unwrap();
                later.reschedule(Duration::from_secs(90)).await.unwrap();
                later.status().await.unwrap();
                client.stats(QUEUE).await.unwrap();
                later.cancel().await.unwrap();
            }
            for sent in client.enqueue().send_all((10..20).map(|n| pass(lane * 100 + n))).await {
                sent.unwrap();
            }
        }
    });
    join_all(lives).await;
    let mut runs = stage.take(300).await;
    settled(&client, QUEUE, 300).await;
    forgetting.abort();
    stage.stop().await;
    runs.sort_by_key(|ran| ran.n);
    runs.dedup_by_key(|ran| ran.n);
    assert!(runs.len() == 300 && runs.iter().all(|ran| ran.attempt == 1 && ran.n < 9_999), "each once");
    let stats = client.stats(QUEUE).await.unwrap();
    assert_eq!((stats.cancelled_total, stats.crashed_total), (150, 0));
    conserved(&server, QUEUE).await;
}

#[tokio::test]
async fn b55_a_lost_registration() {
    let (mut server, client) = server_and_client().await;
    let mut stage = Stage::with(&client, |worker| worker.lease(Duration::from_secs(1)));
    client.enqueue().send(does(0, Act::Wait)).await.unwrap();
    stage.next().await;
    let ways = [(1, 1, "a restart without persistence"), (2, 1, "FLUSHALL"), (3, 2, "its session is deleted")];
    for (n, done, how) in ways {
        match n {
            1 => server.restart().unwrap(),
            2 => assert_eq!(server.command(&["FLUSHALL"]).unwrap(), "+OK\r\n"),
            _ => assert_eq!(server.command(&["DEL", &key(QUEUE, "sessions")]).unwrap(), ":1\r\n"),
        }
        let (lost, lag) = (Instant::now(), Lag::watch());
        client.enqueue().send(pass(n)).await.unwrap();
        assert_eq!(stage.next().await.n, n, "{how}");
        assert!(lost.elapsed() < RESUMES + lag.so_far(), "{how}: {:?}", lost.elapsed());
        let there = || async { (client.stats(QUEUE).await.unwrap().sessions == 1).then_some(()) };
        eventually("it is registered", there).await;
        settled(&client, QUEUE, done).await;
    }
    // The run that was under way when all was lost can settle nothing.
    stage.open(1);
    assert!(stage.rest().is_empty());
    stage.stop().await;
}

/// Timeouts as short as the tests' patience wants them.
async fn quick(url: &str) -> Client {
    let builder = Client::builder()
        .connect_timeout(Duration::from_millis(400))
        .response_timeout(Duration::from_millis(400))
        .send_deadline(Duration::from_secs(1));
    eventually("a client", || async { builder.clone().connect(url).await.ok() }).await
}

/// A worker whose connections go dead for a while without a word, whatever it does at that time.
async fn half_open(while_it: &str) {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let (direct, client) = (Client::connect(&server.url()).await.unwrap(), quick(&proxy.url()).await);
    let mut stage = Stage::start(&client);
    direct.enqueue().send(does(1, Act::Wait)).await.unwrap();
    stage.next().await;
    if while_it == "listens" {
        stage.open(1);
        settled(&direct, QUEUE, 1).await;
        eventually("it listens", || async { listens(&server).then_some(()) }).await;
    }
    proxy.set(Mode::Swallow);
    let (begun, lag) = (Instant::now(), Lag::watch());
    if while_it == "settles" {
        stage.open(1);
    }
    // A command ends in time, and says that its outcome is open.
    let asked = client.enqueue().id(JobId::named("2")).send(pass(2)).await.unwrap_err();
    assert!(matches!(asked.kind(), ErrorKind::Unknown | ErrorKind::Unreachable), "{while_it}: {asked:?}");
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(2200) + lag.so_far(), "{while_it}: {took:?}");
    // The hole is as long as a worker needs to notice and a little more: time itself is what is tested.
    tokio::time::sleep(Duration::from_millis(1300).saturating_sub(begun.elapsed())).await;
    proxy.set(Mode::Pass);
    let (healed, lag) = (Instant::now(), Lag::watch());
    direct.enqueue().send(pass(3)).await.unwrap();
    assert_eq!(stage.next().await.n, 3, "{while_it}");
    assert!(healed.elapsed() < RESUMES + lag.so_far(), "{while_it}: {:?}", healed.elapsed());
    if while_it == "runs" {
        stage.open(1);
    }
    let again = || async { client.enqueue().id(JobId::named("2")).send(pass(2)).await.ok() };
    eventually("it is sent", again).await;
    assert_eq!(stage.next().await.n, 2, "{while_it}");
    settled(&direct, QUEUE, 3).await;
    let stats = direct.stats(QUEUE).await.unwrap();
    assert_eq!((stats.crashed_total, stats.retried_total, stats.dead_total), (0, 0, 0), "{while_it}");
    assert!(stage.rest().is_empty(), "{while_it}: each ran once");
    stage.stop().await;
}

#[tokio::test]
async fn b56_half_open() {
    tokio::join!(half_open("listens"), half_open("settles"), half_open("runs"));
}

#[tokio::test]
async fn b59_reconnected_but_deaf() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    eventually("it listens", || async { listens(&server).then_some(()) }).await;
    for kind in ["normal", "pubsub"].repeat(10) {
        server.command(&["CLIENT", "KILL", "TYPE", kind]).unwrap();
        // A little, so that it is killed in different states.
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    eventually("it listens again", || async { listens(&server).then_some(()) }).await;
    // Idle for more than a beat: time itself is what is tested.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    for n in 0..3 {
        let (sent, lag) = (Instant::now(), Lag::watch());
        client.enqueue().send(pass(n)).await.unwrap();
        let ran = stage.next().await;
        assert!(ran.at - sent < Duration::from_millis(500) + lag.so_far(), "{n}: {:?}", ran.at - sent);
    }
    settled(&client, QUEUE, 3).await;
    stage.stop().await;
    assert_eq!(client.stats(QUEUE).await.unwrap().crashed_total, 0);
}

#[tokio::test]
async fn b60_readonly() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    for n in 0..3 {
        client.enqueue().send(does(n, Act::Wait)).await.unwrap();
    }
    stage.take(3).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    server.command(&["REPLICAOF", "127.0.0.1", &nobody]).unwrap();
    // Three runs end meanwhile, thirty jobs are sent, one is cancelled and one moved.
    stage.open(3);
    let handle = client.handle::<Deed>(JobId::new());
    let work = async {
        let sends = join_all((10..40).map(|n| client.enqueue().send(pass(n)))).await;
        assert!(sends.iter().all(Result::is_ok), "they wait for the end of it: {sends:?}");
        assert_eq!(handle.cancel().await.unwrap_err().kind(), ErrorKind::NotFound);
    };
    let outage = async {
        // Time itself is what is tested.
        tokio::time::sleep(Duration::from_millis(1200)).await;
        assert_eq!(client.stats(QUEUE).await.unwrap().running, 3, "reading works all along");
        server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
        (Instant::now(), Lag::watch())
    };
    let ((), (healed, lag)) = tokio::join!(work, outage);
    let mut runs = stage.take(30).await;
    settled(&client, QUEUE, 33).await;
    assert!(healed.elapsed() < RESUMES + lag.so_far(), "{:?}", healed.elapsed());
    runs.sort_by_key(|ran| ran.n);
    assert!(runs.iter().zip(10..).all(|(ran, n)| ran.n == n && ran.attempt == 1));
    stage.stop().await;
    let stats = client.stats(QUEUE).await.unwrap();
    assert_eq!((stats.crashed_total, stats.retried_total, stats.dead_total), (0, 0, 0));
    conserved(&server, QUEUE).await;
}

#[tokio::test]
async fn b60_a_demoted_primary() {
    let settings = ["--repl-diskless-sync-delay", "0"];
    let (old, new) = (RedisServer::start_with(&settings).unwrap(), RedisServer::start_with(&settings).unwrap());
    let proxy = Proxy::start(old.port(), 1).await.unwrap();
    let client = Client::connect(&proxy.url()).await.unwrap();
    let mut stage = Stage::start(&client);
    new.command(&["REPLICAOF", "127.0.0.1", &old.port().to_string()]).unwrap();
    // The first comes with the whole of the data, the second by itself: from then on the replica is up to date.
    for key in ["first", "second"] {
        old.command(&["SET", key, "1"]).unwrap();
        let there = || async { new.command(&["EXISTS", key]).is_ok_and(|said| said == ":1\r\n").then_some(()) };
        eventually("the replica follows", there).await;
    }
    client.enqueue().send(does(0, Act::Wait)).await.unwrap();
    assert_eq!(stage.next().await.n, 0);
    // They are due when the failover is over.
    let (sent, wait) = (Instant::now(), Duration::from_secs(5));
    for sent in client.schedule(wait).send_all((1..30).map(pass)).await {
        sent.unwrap();
    }
    let all = || async { (new.command(&["HLEN", &key(QUEUE, "jobs")]).unwrap() == ":30\r\n").then_some(()) };
    eventually("the replica has them all", all).await;
    // The failover: new connections lead to the new primary, those that are there stay on what is a replica now.
    new.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    old.command(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]).unwrap();
    proxy.redirect(new.port());
    let (over, lag) = (Instant::now(), Lag::watch());
    stage.open(1);
    client.enqueue().send(pass(30)).await.unwrap();
    let mut runs = stage.take(30).await;
    let direct = Client::connect(&new.url()).await.unwrap();
    settled(&direct, QUEUE, 31).await;
    assert!(sent.elapsed() < wait + RESUMES + lag.so_far(), "{:?}", sent.elapsed());
    runs.sort_by_key(|ran| ran.n);
    assert!(runs.iter().zip(1..).all(|(ran, n)| ran.n == n && ran.attempt == 1), "each once, uncharged: {runs:?}");
    // The last was due at once: it tells when the worker went on.
    let resumed = runs[29].at - over;
    assert!(resumed < RESUMES + lag.so_far(), "{resumed:?}");
    let stats = direct.stats(QUEUE).await.unwrap();
    assert_eq!((stats.crashed_total, stats.retried_total, stats.dead_total), (0, 0, 0));
    stage.stop().await;
    conserved(&new, QUEUE).await;
}

#[tokio::test]
async fn b61_wrong_db() {
    let settings = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = RedisServer::start_with(&settings).unwrap();
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let client = Client::connect(&format!("{}5", proxy.url())).await.unwrap();
    let mut stage = Stage::start(&client);
    for n in 0..8 {
        client.schedule(Duration::from_millis(5)).send(pass(n)).await.unwrap();
        match n % 4 {
            0 | 1 => drop(server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap()),
            2 => proxy.cut(),
            _ => server.restart().unwrap(),
        }
        assert_eq!(stage.next().await.n, n);
    }
    settled(&client, QUEUE, 8).await;
    stage.stop().await;
    let keyspace = server.command(&["INFO", "keyspace"]).unwrap();
    assert!(keyspace.contains("db5:") && !keyspace.contains("db0:"), "{keyspace}");
}

#[tokio::test]
async fn b62_bad_settings_do_not_hang() {
    const SECRET: &str = "s3cret/p@ss";
    let server = RedisServer::start_with(&["--requirepass", SECRET]).unwrap();
    let (port, socket) = (server.port(), server.socket().display().to_string());
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let encoded = "s3cret%2Fp%40ss";
    let timeout = Duration::from_secs(3);
    let connect = |url: String| async move {
        let (started, lag) = (Instant::now(), Lag::watch());
        let connected = Client::builder().connect_timeout(timeout).response_timeout(timeout).connect(&url).await;
        let took = started.elapsed();
        assert!(took < timeout + Duration::from_secs(2) + lag.so_far(), "{url}: {took:?}");
        connected
    };
    let works = [
        format!("redis+unix://{socket}?pass={encoded}"),
        format!("unix://{socket}?pass={encoded}&db=3"),
        format!("redis://:{encoded}@127.0.0.1:{port}/"),
    ];
    for url in works {
        let client = connect(url.clone()).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        client.enqueue().send(pass(1)).await.unwrap();
    }
    let refused = [
        ("TLS at a plain port", format!("rediss://:{encoded}@127.0.0.1:{port}/"), ErrorKind::Unreachable),
        ("a wrong password", format!("redis://:{encoded}x@127.0.0.1:{port}/"), ErrorKind::Denied),
        ("no password", format!("redis://127.0.0.1:{port}/"), ErrorKind::Denied),
        ("a socket and no password", format!("redis+unix://{socket}"), ErrorKind::Denied),
        ("a socket and a wrong password", format!("redis+unix://{socket}?pass={encoded}x"), ErrorKind::Denied),
        ("a password as in other URLs", format!("redis+unix://:{encoded}@{socket}"), ErrorKind::Config),
        ("no socket", format!("redis+unix://{socket}.not?pass={encoded}"), ErrorKind::Unreachable),
        ("nobody there", format!("redis://:{encoded}@127.0.0.1:{nobody}/"), ErrorKind::Unreachable),
        ("silence", format!("redis://127.0.0.1:{}/", silent.local_addr().unwrap().port()), ErrorKind::Unreachable),
        // An address for documents, which leads nowhere.
        ("a black hole", "redis://192.0.2.1/".to_owned(), ErrorKind::Unreachable),
    ];
    let asked = refused.map(|(what, url, kind)| {
        let connected = connect(url);
        async move { (what, kind, connected.await.unwrap_err()) }
    });
    for (what, kind, error) in join_all(asked).await {
        assert_eq!(error.kind(), kind, "{what}: {error:?}");
        assert!(!format!("{error:?}").contains("s3cret"), "{what}: {error:?}");
        let text = error.to_string();
        let says = [": give", ": correct", "; "].iter().any(|words| text.contains(words));
        assert!(says, "{what}: it says what to do: {error}");
    }
}

/// The processor time of a process, in its kernel's ticks of 10 ms.
fn cpu_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name in brackets, which may hold anything: user and system time are the 12th and 13th.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}

/// A worker's processor time over a while, which has to be little.
async fn is_quiet(what: &str, pid: u32, while_ms: u64) {
    let before = cpu_ms(pid);
    tokio::time::sleep(Duration::from_millis(while_ms)).await;
    let spent = cpu_ms(pid) - before;
    assert!(spent < while_ms / 5, "{what}: {spent} ms of processor in {while_ms} ms");
}

#[tokio::test]
async fn b63_a_poll_loop_that_dies_or_spins() {
    let settings = ["--busy-reply-threshold", "50", "--enable-debug-command", "yes", "--appendonly", "yes"];
    let mut server = RedisServer::start_with(&settings).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut worker = Process::start(Command::new(env!("CARGO_BIN_EXE_client_child")).args(["work", &server.url()]));
    worker.says("ready").await;
    eventually("it listens", || async { listens(&server).then_some(()) }).await;
    let mut done = 0;
    for trouble in ["an empty queue", "a busy script", "a sleeping server", "no server", "no right to wait"] {
        match trouble {
            "a busy script" => {
                let mut raw = Raw::connect(&server).await;
                let endless = tokio::spawn(async move {
                    let killed: Result<redis::Value, _> =
                        redis::cmd("EVAL").arg("while true do end").arg(0).query_async(&mut raw.0).await;
                    killed.unwrap_err();
                });
                let busy = || async { server.command(&["PING"]).unwrap().starts_with("-BUSY").then_some(()) };
                eventually("it is busy", busy).await;
                is_quiet(trouble, worker.pid(), 700).await;
                server.command(&["SCRIPT", "KILL"]).unwrap();
                endless.await.unwrap();
            }
            "a sleeping server" => {
                let mut bed = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
                bed.write_all(b"DEBUG SLEEP 0.9\r\n").await.unwrap();
                is_quiet(trouble, worker.pid(), 700).await;
                let mut awake = [0; 5];
                bed.read_exact(&mut awake).await.unwrap();
            }
            "no server" => {
                server.kill();
                is_quiet(trouble, worker.pid(), 1000).await;
                server.restart().unwrap();
            }
            "no right to wait" => {
                server.command(&["ACL", "SETUSER", "default", "-bzpopmin"]).unwrap();
                server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
                is_quiet(trouble, worker.pid(), 1500).await;
                server.command(&["ACL", "SETUSER", "default", "+bzpopmin"]).unwrap();
            }
            _ => is_quiet(trouble, worker.pid(), 700).await,
        }
        // It is there again, and works.
        let mut pinger = Process::start(Command::new(env!("CARGO_BIN_EXE_client_child")).args(["ping", &server.url()]));
        pinger.says("ok").await;
        let (healed, lag) = (Instant::now(), Lag::watch());
        done += 1;
        settled(&client, "tasks", done).await;
        assert!(healed.elapsed() < RESUMES + lag.so_far(), "{trouble}: {:?}", healed.elapsed());
    }
    worker.kill().await;
}

#[tokio::test]
async fn b64_too_many_clients() {
    let server = RedisServer::start_with(&["--maxclients", "10"]).unwrap();
    let mut raw = Raw::connect(&server).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(Client::builder().pool_size(10).connect(&server.url()).await.unwrap());
    }
    // Three pools of ten, and much to do for each.
    let sends = clients.iter().zip(0..).flat_map(|(client, c)| {
        (0..30).map(move |n| {
            let n = c * 30 + n;
            async move { (n, client.enqueue().id(JobId::named(&n.to_string())).send(pass(n)).await) }
        })
    });
    for (n, sent) in join_all(sends).await {
        if let Err(error) = sent {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
            assert!(error.to_string().contains("max number of clients"), "{error}");
            let again = || async { clients[0].enqueue().id(JobId::named(&n.to_string())).send(pass(n)).await.ok() };
            eventually("room", again).await;
        }
    }
    let mut stages: Vec<Stage> =
        clients.iter().map(|client| Stage::with(client, |worker| worker.lease(Duration::from_secs(20)))).collect();
    soon("somebody is turned away", async {
        while raw.ask::<String>(&["INFO", "stats"]).await.contains("rejected_connections:0\r") {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    })
    .await;
    raw.set("maxclients", "1000").await;
    let (room, lag) = (Instant::now(), Lag::watch());
    eventually("all three are there", || async { (clients[0].stats(QUEUE).await.ok()?.sessions == 3).then_some(()) })
        .await;
    assert!(room.elapsed() < RESUMES + lag.so_far(), "{:?}", room.elapsed());
    settled(&clients[0], QUEUE, 90).await;
    let mut ran: Vec<u64> = Vec::new();
    for stage in &mut stages {
        ran.extend(stage.rest().into_iter().inspect(|ran| assert_eq!(ran.attempt, 1)).map(|ran| ran.n));
    }
    ran.sort_unstable();
    assert_eq!(ran, (0..90).collect::<Vec<u64>>());
    for stage in stages {
        stage.stop().await;
    }
}

#[tokio::test]
async fn b64_a_lost_notification() {
    let (server, client) = server_and_client().await;
    server.command(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1 1 1"]).unwrap();
    // Somebody who is served before the worker takes its marker, and does nothing with it.
    let mut thief = Raw::connect(&server).await;
    let wake = key(QUEUE, "wake");
    let theft = tokio::spawn(async move { thief.ask::<Vec<String>>(&["BZPOPMIN", wake.as_str(), "0"]).await });
    eventually("the thief waits", || async { listens(&server).then_some(()) }).await;
    let mut stage = Stage::with(&client, |worker| worker.lease(Duration::from_secs(1)));
    let both =
        || async { (server.command(&["CLIENT", "LIST"]).unwrap().matches("cmd=bzpopmin").count() == 2).then_some(()) };
    eventually("both wait", both).await;
    client.enqueue().send(pass(1)).await.unwrap();
    let stolen = soon("the theft", theft).await.unwrap();
    assert_eq!(stolen[1], "m");
    let (sent, lag) = (Instant::now(), Lag::watch());
    assert_eq!(stage.next().await.n, 1);
    // The beat, a quarter of the lease, finds what is overdue.
    assert!(sent.elapsed() < Duration::from_millis(1500) + lag.so_far(), "{:?}", sent.elapsed());
    settled(&client, QUEUE, 1).await;
    stage.stop().await;
    // Nor is there anything that a small buffer for subscribers could cut off.
    let told = server.command(&["INFO", "commandstats"]).unwrap();
    assert!(!told.contains("subscribe") && !told.contains("publish"), "{told}");
}

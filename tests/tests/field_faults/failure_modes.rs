//! The modes in which a store fails, each with what docs/failure-modes.md says of it: the errors, the worker, its log.

use std::time::{Duration, Instant};

use delayq::store::SCRIPTS;
use delayq::{Client, Error, ErrorKind, JobId};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::cluster::Cluster;
use delayq_redis_fixture::proxy::{Mode, Proxy};
use delayq_redis_fixture::sentinel::Sentinels;
use delayq_tests::{Lag, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::Level;

use crate::kit::settled;
use crate::kit_b::{Act, Event, Logged, QUEUE, RESUMES, Raw, Stage, does, pass};

const DOCUMENT: &str = include_str!("../../../docs/failure-modes.md");
const SECRET: &str = "s3cret";
/// Of connecting and of answers, longer than a crowded machine needs; the document has the default.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The same where it has to run out.
const SHORT: Duration = Duration::from_millis(400);
/// How long a mode lasts once it was noticed: a few tries of the worker's.
const LASTS: Duration = Duration::from_millis(300);

/// The modes in which connecting works: calls alone are refused.
const CONNECTS: [&str; 8] = [
    "Redis is loading",
    "Redis is read-only",
    "Redis is busy",
    "Redis can't save",
    "Too few replicas are in touch",
    "The user lacks a right",
    "A part of the cluster is missing",
    "A slot is being moved",
];

/// A section of the document, and the address that its messages stand for.
#[derive(Clone, Copy)]
struct Section {
    heading: &'static str,
    port: u16,
}

impl Section {
    /// The message as the document has it.
    fn general(self, text: &str) -> String {
        let mut text = text.replace(&format!("127.0.0.1:{}", self.port), "redis.example:6379");
        for timeout in [TIMEOUT, SHORT] {
            text = text.replace(&format!("within {timeout:?}"), "within 3s");
        }
        for operation in SCRIPTS.iter().map(|file| file.script.name).chain(["wait"]) {
            for before in ["to ", "refuses ", "allow "] {
                text = text.replace(&format!("{before}{operation}"), &format!("{before}enqueue"));
            }
        }
        // Redis says it with the user's name from 7.2 on.
        text = text.replace("User default has no permissions", "this user has no permissions");
        // What the operating system calls a cut depends on the moment.
        if let (Some(start), Some(end)) = (text.find("was lost ("), text.find("): it may")) {
            text.replace_range(start + "was lost (".len()..end, "…");
        }
        text
    }

    /// The document's lines of this section.
    fn lines(self) -> Vec<&'static str> {
        let heading = format!("## {}", self.heading);
        let lines = DOCUMENT.lines().skip_while(|line| *line != heading);
        let section: Vec<&str> = lines.skip(1).take_while(|line| !line.starts_with("## ")).collect();
        assert!(!section.is_empty(), "docs/failure-modes.md has no section {heading:?}");
        section
    }

    /// The section has this message, and it says what to do. What was on its way when a connection broke, and what met nobody
    /// there, is said in sections of its own.
    fn has(self, text: &str) {
        let general = self.general(text);
        // A send that was tried several times says so first.
        let message = general.rsplit_once("and the last failed: ").map_or(general.as_str(), |(first, last)| {
            let first = format!("{first}and the last failed: …");
            assert!(DOCUMENT.lines().any(|line| line == first), "docs/failure-modes.md lacks:\n{first}");
            last
        });
        let broken =
            ["the answer of", "no answer from", "can't connect"].iter().any(|words| message.starts_with(words));
        let elsewhere = ["Redis is down", "Nothing is answered"].map(|heading| Section { heading, ..self });
        let there = self.lines().contains(&message)
            || (broken && elsewhere.iter().any(|section| section.lines().contains(&message)));
        assert!(there, "{} in docs/failure-modes.md lacks:\n{message}", self.heading);
        let says = [": give", ": correct", ": set", ": delayq needs", "; "].iter().any(|words| message.contains(words));
        assert!(says, "what is to be done? {message}");
        assert!(!text.contains(SECRET) && !text.contains('\n'), "{text}");
    }

    /// The error is of this kind, and the document has its message.
    fn is(self, kind: ErrorKind, error: &Error) {
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(!format!("{error:?}").contains(SECRET));
        self.has(&error.to_string());
        assert!(self.lines().contains(&&*self.general(&error.to_string())), "its own section has it: {error}");
    }
}

/// A client that doesn't try for long.
async fn connect_within(timeout: Duration, url: &str) -> Result<Client, Error> {
    let deadline = Duration::from_millis(150);
    let builder = Client::builder().connect_timeout(timeout).response_timeout(timeout).send_deadline(deadline);
    builder.connect(url).await
}

async fn connect(url: &str) -> Result<Client, Error> {
    connect_within(TIMEOUT, url).await
}

/// A client and a worker on a server that is still well, and a run that is under way.
struct Case {
    section: Section,
    url: String,
    timeout: Duration,
    client: Client,
    stage: Stage,
    logged: Logged,
}

impl Case {
    async fn on(heading: &'static str, url: &str) -> Case {
        Case::within(TIMEOUT, heading, url).await
    }

    async fn within(timeout: Duration, heading: &'static str, url: &str) -> Case {
        let port = url.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        let logged = Logged::from_now();
        let client = eventually("it is well", || async { connect_within(timeout, url).await.ok() }).await;
        let mut stage = Stage::with(&client, |worker| worker.lease(Duration::from_secs(10)));
        let first = || client.enqueue().id(JobId::named("1")).send(does(1, Act::Wait));
        eventually("a job is sent", || async { first().await.ok() }).await;
        assert_eq!(stage.next().await.n, 1);
        Case { section: Section { heading, port }, url: url.to_owned(), timeout, client, stage, logged }
    }

    /// What the worker said of the store.
    fn trouble(&self, level: Level) -> Vec<Event> {
        let mut said = self.logged.of(level);
        said.retain(|event| event.message.starts_with("the store can't be worked with"));
        said
    }

    /// Why a send fails that was tried: one whose time is over before knows nothing of the store.
    async fn refused(&self) -> Error {
        let untried = |error: &Error| error.to_string().starts_with("the sends before this one");
        let send = || self.client.enqueue().id(JobId::named("2")).send(pass(2));
        let tried = || async { Some(send().await.unwrap_err()).filter(|error| !untried(error)) };
        eventually("a send is tried", tried).await
    }

    /// While the store fails: sends are refused with this kind, the worker says why once a cause and goes on trying.
    async fn fails(&self, kind: ErrorKind) {
        // The first may meet a connection that is dead and not known to be; from then on it is clear.
        let first = self.refused().await;
        self.section.has(&first.to_string());
        let then = self.refused().await;
        self.section.is(kind, &then);
        assert_eq!(then.is_temporary(), kind != ErrorKind::Denied, "{then:?}");
        // A new connection is refused for the same reason, unless it is only calls that are.
        match connect_within(self.timeout, &self.url).await {
            Ok(_) => assert!(CONNECTS.contains(&self.section.heading)),
            Err(error) => {
                assert!(!CONNECTS.contains(&self.section.heading), "{error:?}");
                self.section.is(kind, &error);
            }
        }
        // The run ends, and nobody can be told.
        self.stage.open(1);
        eventually("the worker says so", || async { (!self.trouble(Level::WARN).is_empty()).then_some(()) }).await;
        eventually("it tries on", || async { (self.trouble(Level::DEBUG).len() > 1).then_some(()) }).await;
        // Time itself is what is tested: it doesn't say the same again.
        tokio::time::sleep(LASTS).await;
        let (warned, tries) = (self.trouble(Level::WARN), self.trouble(Level::DEBUG).len());
        assert!((2..20).contains(&tries), "{tries} tries");
        let mut causes: Vec<&String> = warned.iter().map(|event| &event.fields["error"]).collect();
        causes.iter().for_each(|cause| self.section.has(cause));
        causes.sort_unstable();
        causes.dedup();
        assert!(causes.len() == warned.len() && causes.len() <= 8, "{warned:#?}");
        let others = self.logged.of(Level::WARN).len() - warned.len();
        assert_eq!(others, 0, "{:#?}", self.logged.of(Level::WARN));
    }

    /// Once the store is well again: the worker goes on by itself, and no job was charged an attempt.
    async fn recovers(mut self) {
        let (healed, lag) = (Instant::now(), Lag::watch());
        let send = || self.client.enqueue().id(JobId::named("2")).send(pass(2));
        eventually("a send succeeds", || async { send().await.ok() }).await;
        let ran = self.stage.next().await;
        assert_eq!((ran.n, ran.attempt), (2, 1));
        settled(&self.client, QUEUE, 2).await;
        assert!(healed.elapsed() < RESUMES + lag.so_far(), "{:?}", healed.elapsed());
        let stats = eventually("the counts", || async { self.client.stats(QUEUE).await.ok() }).await;
        assert_eq!((stats.crashed_total, stats.retried_total, stats.dead_total), (0, 0, 0));
        if !self.trouble(Level::WARN).is_empty() {
            let over = |event: &Event| event.message == "the store can be worked with again";
            let told = || async { self.logged.of(Level::INFO).iter().any(over).then_some(()) };
            eventually("its end is told", told).await;
        }
        assert!(self.stage.ended().await.is_empty(), "no job ran twice");
    }
}

const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

#[tokio::test]
async fn mode_down_at_start() {
    let mut server = RedisServer::start_with(&DURABLE).unwrap();
    let (url, port) = (server.url(), server.port());
    let section = Section { heading: "Redis is down", port };
    let client = connect(&url).await.unwrap();
    let send = || client.enqueue().id(JobId::named("1")).send(pass(1));
    eventually("a job is sent", || async { send().await.ok() }).await;
    // With the connect timeout that there is unless another is set: it is the longest wait, not the shortest.
    let usual = Client::builder().send_deadline(Duration::from_millis(1)).connect(&url).await.unwrap();
    usual.stats(QUEUE).await.unwrap();
    server.kill();
    usual.stats(QUEUE).await.unwrap_err();
    let asked = Instant::now();
    section.is(ErrorKind::Unreachable, &usual.stats(QUEUE).await.unwrap_err());
    assert!(asked.elapsed() < Duration::from_millis(2500), "a refusal is told when it comes: {:?}", asked.elapsed());
    section.is(ErrorKind::Unreachable, &connect(&url).await.unwrap_err());
    section.is(ErrorKind::Unreachable, &connect(&format!("redis://:{SECRET}@127.0.0.1:{port}/")).await.unwrap_err());
    let no_socket = connect(&format!("redis+unix:///nowhere/redis.sock?pass={SECRET}")).await.unwrap_err();
    section.is(ErrorKind::Unreachable, &no_socket);
    // A worker that starts meanwhile waits for it.
    let logged = Logged::from_now();
    let mut stage = Stage::start(&client);
    let warned = eventually("it says so", || async { logged.of(Level::WARN).pop() }).await;
    section.has(&warned.fields["error"]);
    server.restart().unwrap();
    let (back, lag) = (Instant::now(), Lag::watch());
    assert_eq!(stage.next().await.n, 1);
    assert!(back.elapsed() < RESUMES + lag.so_far(), "{:?}", back.elapsed());
    settled(&client, QUEUE, 1).await;
    stage.stop().await;
}

#[tokio::test]
async fn mode_down_and_back() {
    let mut server = RedisServer::start_with(&DURABLE).unwrap();
    let case = Case::on("Redis is down", &server.url()).await;
    server.kill();
    case.fails(ErrorKind::Unreachable).await;
    server.restart().unwrap();
    case.recovers().await;
}

#[tokio::test]
async fn mode_loading() {
    // Loading is slowed down by so many µs a key: it lasts until all has been looked at.
    let mut server = RedisServer::start_with(&[&DURABLE[..], &["--key-load-delay", "60"]].concat()).unwrap();
    let mut raw = Raw::connect(&server).await;
    let mut pipe = redis::pipe();
    for n in 0..60_000 {
        pipe.cmd("SET").arg(n).arg(n).ignore();
    }
    pipe.query_async::<()>(&mut raw.0).await.unwrap();
    let case = Case::on("Redis is loading", &server.url()).await;
    server.launch().unwrap();
    let ping = |answer: &'static str| {
        let server = &server;
        move || async move { server.command(&["PING"]).is_ok_and(|said| said.starts_with(answer)).then_some(()) }
    };
    eventually("it loads", ping("-LOADING")).await;
    case.fails(ErrorKind::Unavailable).await;
    server.command(&["CONFIG", "SET", "key-load-delay", "0"]).unwrap();
    eventually("it has loaded", ping("+PONG")).await;
    case.recovers().await;
}

#[tokio::test]
async fn mode_readonly() {
    let server = RedisServer::start().unwrap();
    let case = Case::on("Redis is read-only", &server.url()).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    server.command(&["REPLICAOF", "127.0.0.1", &nobody]).unwrap();
    case.fails(ErrorKind::Unavailable).await;
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    case.recovers().await;
}

#[tokio::test]
async fn mode_busy() {
    let server = RedisServer::start_with(&["--busy-reply-threshold", "50"]).unwrap();
    let mut raw = Raw::connect(&server).await;
    let case = Case::on("Redis is busy", &server.url()).await;
    let endless = tokio::spawn(async move {
        let killed: Result<redis::Value, _> =
            redis::cmd("EVAL").arg("while true do end").arg(0).query_async(&mut raw.0).await;
        killed.unwrap_err();
    });
    let busy = || async { server.command(&["PING"]).unwrap().starts_with("-BUSY").then_some(()) };
    eventually("it is busy", busy).await;
    case.fails(ErrorKind::Unavailable).await;
    server.command(&["SCRIPT", "KILL"]).unwrap();
    endless.await.unwrap();
    case.recovers().await;
}

#[tokio::test]
async fn mode_full() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]).unwrap();
    let mut raw = Raw::connect(&server).await;
    let case = Case::on("Redis is full", &server.url()).await;
    let deadline = Duration::from_secs(5);
    let patient = Client::builder().send_deadline(deadline).connect(&server.url()).await.unwrap();
    raw.set("maxmemory", "1").await;
    let started = Instant::now();
    let refused = patient.enqueue().send(pass(9)).await.unwrap_err();
    case.section.is(ErrorKind::Full, &refused);
    assert!(refused.is_temporary() && started.elapsed() < deadline / 2, "at once: it may stay full");
    // The worker has no trouble at all.
    case.stage.open(1);
    settled(&case.client, QUEUE, 1).await;
    assert!(case.logged.of(Level::WARN).is_empty(), "{:#?}", case.logged.of(Level::WARN));
    raw.set("maxmemory", "0").await;
    case.recovers().await;
}

#[tokio::test]
async fn mode_no_password() {
    let server = RedisServer::start_with(&["--requirepass", SECRET]).unwrap();
    let section = Section { heading: "Redis wants a password", port: server.port() };
    for url in [
        format!("redis://127.0.0.1:{}/", server.port()),
        format!("redis://127.0.0.1:{}/?protocol=resp3", server.port()),
    ] {
        section.is(ErrorKind::Denied, &connect(&url).await.unwrap_err());
    }
}

#[tokio::test]
async fn mode_wrong_password() {
    let server = RedisServer::start_with(&["--requirepass", SECRET]).unwrap();
    let section = Section { heading: "Redis refuses the password", port: server.port() };
    for login in [format!(":{SECRET}-not"), format!("default:{SECRET}-not"), format!("nobody:{SECRET}")] {
        let error = connect(&format!("redis://{login}@127.0.0.1:{}/", server.port())).await.unwrap_err();
        section.is(ErrorKind::Denied, &error);
        assert!(!error.is_temporary());
    }
    // One where none is needed is refused by Redis as well.
    let open = RedisServer::start().unwrap();
    let section = Section { heading: "Redis refuses the password", port: open.port() };
    let error = connect(&format!("redis://:{SECRET}@127.0.0.1:{}/", open.port())).await.unwrap_err();
    section.is(ErrorKind::Denied, &error);
}

#[tokio::test]
async fn mode_password_changed() {
    let server = RedisServer::start_with(&["--requirepass", SECRET]).unwrap();
    let mut raw = Raw::connect(&server).await;
    let case = Case::on("Redis refuses the password", &server.url()).await;
    raw.set("requirepass", "another").await;
    let _: i64 = raw.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    case.fails(ErrorKind::Denied).await;
    raw.set("requirepass", SECRET).await;
    case.recovers().await;
}

#[tokio::test]
async fn mode_no_permission() {
    let server = RedisServer::start().unwrap();
    let mut raw = Raw::connect(&server).await;
    let case = Case::on("The user lacks a right", &server.url()).await;
    let _: () = raw.ask(&["ACL", "SETUSER", "default", "-evalsha", "-eval"]).await;
    case.fails(ErrorKind::Denied).await;
    let _: () = raw.ask(&["ACL", "SETUSER", "default", "+evalsha", "+eval"]).await;
    case.recovers().await;
}

#[tokio::test]
async fn mode_too_few_replicas() {
    let server = RedisServer::start().unwrap();
    let mut raw = Raw::connect(&server).await;
    let case = Case::on("Too few replicas are in touch", &server.url()).await;
    raw.set("min-replicas-to-write", "1").await;
    case.fails(ErrorKind::Unavailable).await;
    raw.set("min-replicas-to-write", "0").await;
    case.recovers().await;
}

#[tokio::test]
async fn mode_misconf() {
    let server = RedisServer::start().unwrap();
    let mut raw = Raw::connect(&server).await;
    let case = Case::on("Redis can't save", &server.url()).await;
    raw.set("save", "3600 1000000").await;
    // Where its file belongs there is a folder.
    let file = server.folder().join("dump.rdb");
    std::fs::create_dir(&file).unwrap();
    let saved = |status: &'static str| {
        let server = &server;
        move || async move {
            let told = server.command(&["INFO", "persistence"]).unwrap();
            let done = told.contains("rdb_bgsave_in_progress:0");
            (done && told.contains(&format!("rdb_last_bgsave_status:{status}\r"))).then_some(())
        }
    };
    let _: redis::Value = raw.ask(&["BGSAVE"]).await;
    eventually("a save fails", saved("err")).await;
    case.fails(ErrorKind::Unavailable).await;
    std::fs::remove_dir(&file).unwrap();
    let _: redis::Value = raw.ask(&["BGSAVE"]).await;
    eventually("a save succeeds", saved("ok")).await;
    case.recovers().await;
}

#[tokio::test]
async fn mode_wrong_db() {
    let server = RedisServer::start().unwrap();
    let section = Section { heading: "There is no such db", port: server.port() };
    section.is(ErrorKind::Config, &connect(&format!("{}99", server.url())).await.unwrap_err());
    let only_one = RedisServer::start_with(&["--databases", "1"]).unwrap();
    let error = connect(&format!("{}1", only_one.url())).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("/1 has no db"), "{error:?}");
}

#[tokio::test]
async fn mode_max_clients() {
    let server = RedisServer::start().unwrap();
    let mut raw = Raw::connect(&server).await;
    let case = Case::on("Redis has too many clients", &server.url()).await;
    raw.set("maxclients", "1").await;
    let _: i64 = raw.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    case.fails(ErrorKind::Unavailable).await;
    raw.set("maxclients", "100").await;
    case.recovers().await;
}

#[tokio::test]
async fn mode_half_open() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let case = Case::within(SHORT, "Nothing is answered", &proxy.url()).await;
    proxy.set(Mode::Swallow);
    case.fails(ErrorKind::Unreachable).await;
    proxy.set(Mode::Pass);
    case.recovers().await;
}

#[tokio::test]
async fn mode_not_redis() {
    for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", "-ERR unknown command 'HELLO'\r\n"] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let section = Section { heading: "It is no Redis, or an old one", port: listener.local_addr().unwrap().port() };
        let answering = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut heard = vec![0; 4096];
                    while let Ok(read @ 1..) = stream.read(&mut heard).await {
                        // An answer to each command that came.
                        let asked = heard[..read].split(|byte| *byte == b'*').count() - 1;
                        let _ = stream.write_all(answer.repeat(asked).as_bytes()).await;
                    }
                });
            }
        });
        let error = connect(&format!("redis://127.0.0.1:{}/", section.port)).await.unwrap_err();
        section.is(ErrorKind::Unsupported, &error);
        answering.abort();
    }
}

#[tokio::test]
async fn mode_cluster_down() {
    let cluster = Cluster::start(1, 0, &[]).unwrap();
    let case = Case::on("A part of the cluster is missing", &cluster.url()).await;
    let queues = cluster.slot(&format!("{{{QUEUE}/0}}")).unwrap();
    let other = (queues ^ 1).to_string();
    cluster.node(0).command(&["CLUSTER", "DELSLOTS", &other]).unwrap();
    let down = || async { cluster.node(0).command(&["CLUSTER", "INFO"]).unwrap().contains("state:fail").then_some(()) };
    eventually("it is down", down).await;
    case.fails(ErrorKind::Unavailable).await;
    cluster.node(0).command(&["CLUSTER", "ADDSLOTS", &other]).unwrap();
    cluster.await_ok(Duration::from_secs(20)).unwrap();
    case.recovers().await;
    // The queue's own slot.
    let client = connect(&cluster.url()).await.unwrap();
    cluster.node(0).command(&["CLUSTER", "DELSLOTS", &queues.to_string()]).unwrap();
    eventually("nobody has it", || async {
        let error = client.enqueue().send(pass(3)).await.err()?;
        error.to_string().contains("no node of").then(|| {
            let text = error.to_string().replace(&format!("slot {queues}"), "slot 4711");
            Section { heading: "A part of the cluster is missing", port: cluster.node(0).port() }.has(&text);
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        })
    })
    .await;
}

#[tokio::test]
async fn mode_slot_moving() {
    let cluster = Cluster::start(2, 0, &[]).unwrap();
    let slot = cluster.slot(&format!("{{{QUEUE}/0}}")).unwrap();
    let from = cluster.owner(slot).unwrap();
    // The one host of the URL is the one that the messages name.
    let url = format!("redis-cluster://127.0.0.1:{}", cluster.node(from).port());
    let case = Case::on("A slot is being moved", &url).await;
    cluster.begin_move(slot, from, 1 - from).unwrap();
    case.fails(ErrorKind::Unavailable).await;
    for node in 0..2 {
        cluster.node(node).command(&["CLUSTER", "SETSLOT", &slot.to_string(), "STABLE"]).unwrap();
    }
    case.recovers().await;
}

#[tokio::test]
async fn mode_of_another_kind() {
    let heading = "It is of another kind";
    let (plain, cluster) = (RedisServer::start().unwrap(), Cluster::start(2, 0, &[]).unwrap());
    let sentinels = Sentinels::start(&plain, "main", 1, Duration::from_secs(5)).unwrap();
    let refused = async |url: String, port: u16| {
        Section { heading, port }.is(ErrorKind::Config, &connect(&url).await.unwrap_err());
    };
    refused(format!("redis-cluster://127.0.0.1:{}", plain.port()), plain.port()).await;
    refused(format!("redis-sentinel://127.0.0.1:{}/main", plain.port()), plain.port()).await;
    refused(cluster.node(0).url(), cluster.node(0).port()).await;
    let [port] = sentinels.ports()[..] else { panic!("one was started") };
    refused(format!("redis://127.0.0.1:{port}/"), port).await;
    let another = connect(&format!("redis-sentinel://127.0.0.1:{port}/another")).await.unwrap_err();
    Section { heading, port }.is(ErrorKind::Unreachable, &another);
}

#[tokio::test]
async fn mode_evicting() {
    let server = RedisServer::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).unwrap();
    let section = Section { heading: "Redis deletes what it has no room for", port: server.port() };
    let logged = Logged::from_now();
    connect(&server.url()).await.unwrap();
    let warned = logged.of(Level::WARN);
    assert_eq!(warned.len(), 1, "{warned:#?}");
    section.has(&warned[0].message);
}

#[test]
fn the_document_has_a_row_in_its_table_for_each_of_its_sections() {
    let sections = DOCUMENT.lines().filter_map(|line| line.strip_prefix("## "));
    let mut count = 0;
    for heading in sections {
        let anchor: String = heading
            .to_lowercase()
            .chars()
            .filter_map(|c| if c == ' ' { Some('-') } else { (c.is_alphanumeric() || c == '-').then_some(c) })
            .collect();
        let row = format!("| [{heading}](#{anchor}) |");
        assert!(DOCUMENT.lines().any(|line| line.starts_with(&row)), "no row begins with {row}");
        count += 1;
    }
    assert!(count >= 14, "{count} sections");
}

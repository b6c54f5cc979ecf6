//! Texts that others chose, in logs and lists, and what listens (B105, and what of B101 to B103 concerns the library).

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Arc, Mutex};

use delayq::engine::redis::{RedisEngine, Settings, Target};
use delayq::{Client, DeadReason, JobId};
use delayq_redis_fixture::RedisServer;
use delayq_tests::process::Process;
use delayq_tests::store_kit::{With, World, id, job};
use delayq_tests::{eventually, server_and_client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing_subscriber::layer::SubscriberExt;

use crate::kit::{quiet_panics, settled};
use crate::kit_b::{Act, QUEUE, Retried, Stage, does, keep_listening, listens, pass};

/// What somebody would write who wants a line of the log to be his.
const HOSTILE: [&str; 6] = [
    "x\r\n2026-01-01T00:00:00Z ERROR delayq: forged",
    "x\n2026-01-01T00:00:00Z ERROR delayq: forged",
    "x\rERROR forged",
    "x\u{1b}[2K\u{1b}[1GERROR forged\u{1b}[31m",
    "x\0\u{8}\u{7f}\u{9b}31mERROR forged",
    "x\u{2028}\u{2029}\u{85}ERROR forged\u{202e}",
];

/// What ends a line, moves a cursor or turns a text round, wherever it is shown.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What was written as text.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Text {
    /// The lines that were logged; each begins with its time, and none has a character that a terminal obeys.
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let mut lines: Vec<String> = Vec::new();
        for line in text.split_inclusive('\n') {
            let line = line.trim_end_matches('\n');
            // The table at a worker's start is the one record of several lines, and it has only names that were compiled in.
            if !(line.starts_with("  ") && line.contains(" version ") && line.contains(".rs:")) {
                assert!(line.starts_with("20") && line.contains("Z "), "no record begins like this: {line:?}");
                assert!(!line.contains(is_obeyed), "{line:?}");
            }
            lines.push(line.to_owned());
        }
        lines
    }
}

#[tokio::test]
async fn b105_a_text_of_others_is_one_escaped_record() {
    quiet_panics();
    let text = Text::default();
    let writer = text.clone();
    let subscriber = tracing_subscriber::registry()
        .with(tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone()))
        .with(tracing_subscriber::EnvFilter::new("delayq=trace"));
    keep_listening();
    let _logging = tracing::subscriber::set_default(subscriber);
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let world = World::on(&server).await.named("delayq", QUEUE);
    let mut dead = 0;
    for (n, hostile) in (0..).zip(HOSTILE) {
        let said = || format!("{hostile} #{n}");
        for act in [Act::Fail(said()), Act::Bury(said()), Act::Discard(said()), Act::Panic(said())] {
            client.enqueue().send(does(n, act)).await.unwrap();
        }
        client.enqueue().send(Retried { n, act: Act::Fail(said()) }).await.unwrap();
        // A name, a version and a trace of somebody's own, and a payload that serde quotes.
        let envelopes = [
            format!("{hostile} 1\n{{}}"),
            format!("b_deed {hostile}\n{{}}"),
            format!("b_deed 1 traceparent={hostile}\n{{\"n\":1,\"act\":\"Fly\"}}"),
            format!("b_deed 1\n{{\"n\":{},\"act\":\"Pass\"}}", serde_json::to_string(&said()).unwrap()),
            format!("b_deed 1\n{{\"n\":1,\"act\":{}}}", serde_json::to_string(&said()).unwrap()),
        ];
        for (m, envelope) in (0..).zip(envelopes) {
            let job = job(n * 10 + m).due("+0").envelope(envelope.into_bytes());
            world.create(&[job]).await;
        }
        for refused in [
            client.stats(hostile).await.unwrap_err(),
            client.enqueue().queue(hostile).send(pass(1)).await.unwrap_err(),
            client.enqueue().trace_parent(hostile).send(pass(1)).await.unwrap_err(),
            Client::connect(hostile).await.unwrap_err(),
            Client::connect(&format!("redis://{hostile}/")).await.unwrap_err(),
            Client::builder().prefix(hostile).connect(&server.url()).await.unwrap_err(),
        ] {
            for shown in [refused.to_string(), format!("{refused:?}")] {
                assert!(!shown.contains(is_obeyed), "{shown:?}");
            }
        }
        // Fail, Bury, Panic and the retried one; and five that can't be read.
        dead += 4 + 5;
    }
    eventually("all have ended", || async { (client.stats(QUEUE).await.unwrap().dead == dead).then_some(()) }).await;
    settled(&client, QUEUE, 0).await;
    stage.rest();
    stage.stop().await;
    let lines = text.lines();
    for event in ["dead", "discarded", "retried"] {
        let told = lines.iter().filter(|line| line.contains(event) && line.contains("forged")).count();
        assert!(told >= HOSTILE.len(), "{event}: {told} of {} lines", lines.len());
    }
}

#[tokio::test]
async fn b105_what_a_server_says_is_one_line_of_bounded_length() {
    for hostile in HOSTILE.into_iter().chain([&*"long ".repeat(1000)]) {
        // Whoever answers at that port chooses the words.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        let words = hostile.replace(['\r', '\n'], "\u{1b}");
        let answering = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let words = words.clone();
                tokio::spawn(async move {
                    let mut heard = [0; 4096];
                    while let Ok(1..) = stream.read(&mut heard).await {
                        let _ = stream.write_all(format!("-BUSY {words}\r\n").repeat(3).as_bytes()).await;
                    }
                });
            }
        });
        let refused = Client::connect(&url).await.unwrap_err();
        for shown in [refused.to_string(), format!("{refused:?}")] {
            assert!(!shown.contains(is_obeyed) && shown.len() < 600, "{shown:?}");
        }
        answering.abort();
    }
    let target = Target::parse("redis://user:s3cret@127.0.0.1:1/", Settings::default()).unwrap();
    let refused = RedisEngine::connect(target).await.err().unwrap();
    assert!(!format!("{refused:?}").contains("s3cret"), "{refused:?}");
}

#[tokio::test]
async fn b101_texts_are_kept_as_they_came_for_whoever_shows_them() {
    let (server, client) = server_and_client().await;
    let world = World::on(&server).await.named("delayq", QUEUE);
    let mut stage = Stage::start(&client);
    let scripts = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\"><svg/onload=alert(1)>",
        "{{7*7}}",
        "javascript:alert(1)",
    ];
    for (n, script) in (0..).zip(scripts) {
        let sent = client.enqueue().send(does(n, Act::Bury(script.to_owned()))).await.unwrap();
        let letters = client.dead_letters(QUEUE);
        let letter = eventually("it is dead", || async { letters.get(sent.id()).await.unwrap() }).await;
        assert_eq!(letter.error, script);
        assert!(String::from_utf8_lossy(&letter.payload).contains(&script.replace('"', "\\\"")), "{letter:?}");
        // In a name there is no such text: that job has no name at all.
        world.create(&[job(n).due("+0").envelope(format!("{script} 1\n{{}}").into_bytes())]).await;
        let unnamed = JobId::from(uuid::Uuid::from_bytes(id(n)));
        let letter = eventually("it is dead", || async { letters.get(unnamed).await.unwrap() }).await;
        assert_eq!((letter.name, letter.reason), (None, Some(DeadReason::Undecodable)));
        assert!(client.stats(script).await.is_err() && client.enqueue().queue(script).send(pass(1)).await.is_err());
    }
    stage.rest();
    stage.stop().await;
}

/// The sockets of a process that listen, as the kernel numbers them.
fn listening(pid: u32) -> Vec<String> {
    let mut listen = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        // The fourth column is the state, 0A for one that listens; the tenth the socket's number.
        let columns = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        listen.extend(columns.filter(|c| c[3] == "0A").map(|c| format!("socket:[{}]", c[9])));
    }
    let held = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    held.filter_map(|entry| Some(std::fs::read_link(entry.ok()?.path()).ok()?.display().to_string()))
        .filter(|link| listen.contains(link))
        .collect()
}

#[tokio::test]
async fn b103_a_worker_listens_on_no_port() {
    let server = RedisServer::start().unwrap();
    let worker = Process::start(Command::new(env!("CARGO_BIN_EXE_client_child")).args(["work", &server.url()]));
    eventually("it works", || async { listens(&server).then_some(()) }).await;
    assert_eq!(listening(worker.pid()), Vec::<String>::new());
    assert_eq!(listening(server.pid().unwrap()).len(), 1, "one that does is seen");
}

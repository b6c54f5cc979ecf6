//! The diagnosis of servers that are well and of ones that aren't, the repair of a queue, and what a worker's start makes of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq::{Client, Diagnosis, ErrorKind, JobStatus, Level, Worker};
use delayq_redis_fixture::RedisServer;
use delayq_tests::store_kit::{World, id, job};
use delayq_tests::{Running, eventually, server_and_client, soon};
use tracing_subscriber::layer::SubscriberExt;

use crate::kit::{RIGHTS, Raw, Stage, TASKS, key, listens, pass};

/// How a check came out, the first finding of it.
#[track_caller]
fn level(diagnosis: &Diagnosis, check: &str) -> Level {
    let found = diagnosis.of(check).next();
    found.unwrap_or_else(|| panic!("nothing is said of {check}: {diagnosis:#?}")).level
}

#[track_caller]
fn says(diagnosis: &Diagnosis, check: &str, level: Level, words: &str) {
    let found: Vec<String> = diagnosis.of(check).map(ToString::to_string).collect();
    assert!(
        diagnosis.of(check).any(|found| found.level == level && found.to_string().contains(words)),
        "{check} is not {level} with {words:?}: {found:?}"
    );
    let finding = diagnosis.of(check).find(|found| found.level == level).unwrap();
    assert!(matches!(level, Level::Good | Level::Note) || finding.advice.is_some(), "what is to be done? {finding}");
}

async fn keys(raw: &mut Raw) -> BTreeSet<String> {
    raw.ask::<Vec<String>>(&[b"KEYS", b"*"]).await.into_iter().collect()
}

async fn set(raw: &mut Raw, setting: &str, value: &str) {
    raw.ask::<()>(&[b"CONFIG", b"SET", setting.as_bytes(), value.as_bytes()]).await;
}

#[tokio::test]
async fn a_server_and_a_queue_that_are_well_are_found_so() {
    let server = RedisServer::start_with(&["--appendonly", "yes", "--maxmemory", "200mb"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut stage = Stage::start(&client);
    client.enqueue().send(pass(1)).await.unwrap();
    stage.next().await;
    eventually("the worker is idle", || async { listens(&server).then_some(()) }).await;
    client.schedule(Duration::from_secs(3600)).send(pass(2)).await.unwrap();
    let mut raw = Raw::connect(&server).await;
    let before = keys(&mut raw).await;
    let diagnosis = client.diagnose(&[TASKS]).await.unwrap();
    for check in [
        "version",
        "maxmemory-policy",
        "memory",
        "aof",
        "appendfsync",
        "rdb",
        "role",
        "clock",
        "rights",
        "scripts",
        "orphans",
        "sessions",
        "workers",
    ] {
        assert_eq!(level(&diagnosis, check), Level::Good, "{diagnosis:#?}");
    }
    says(&diagnosis, "memory", Level::Good, "room for");
    says(&diagnosis, "replicas", Level::Note, "no replica");
    assert!(diagnosis.is_sound(), "{diagnosis:#?}");
    assert!(matches!(level(&diagnosis, "security"), Level::Good | Level::Warning));
    let of_queue = diagnosis.of("orphans").next().unwrap();
    assert_eq!(of_queue.queue.as_deref(), Some(TASKS));
    assert!(
        of_queue.to_string().starts_with("orphans of tasks: good: none, records and entries looked at: "),
        "{of_queue}"
    );
    // The baton's marker comes and goes by itself.
    let wake = key("wake");
    let after = keys(&mut raw).await;
    assert!(before.symmetric_difference(&after).all(|name| *name == wake), "{before:?} {after:?}");
    assert!(client.diagnose(&[]).await.unwrap().is_sound());
    assert_eq!(client.diagnose(&["no queue"]).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    stage.stop().await;
}

#[tokio::test]
async fn settings_that_lose_jobs_are_told_with_what_to_do() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let bare = client.diagnose(&[TASKS]).await.unwrap();
    says(&bare, "aof", Level::Warning, "appendonly yes");
    says(&bare, "memory", Level::Note, "no maxmemory");
    says(&bare, "workers", Level::Note, "none; nothing is due");
    for (setting, value, check, level, words) in [
        ("maxmemory-policy", "allkeys-lru", "maxmemory-policy", Level::Wrong, "noeviction"),
        ("maxmemory-policy", "volatile-lru", "maxmemory-policy", Level::Wrong, "noeviction"),
        ("maxmemory-policy", "noeviction", "maxmemory-policy", Level::Good, "noeviction"),
        ("appendonly", "yes", "aof", Level::Good, ""),
        ("appendfsync", "everysec", "appendfsync", Level::Good, "second"),
        ("appendfsync", "always", "appendfsync", Level::Good, "on the disk"),
        ("appendfsync", "no", "appendfsync", Level::Warning, "everysec"),
        ("maxmemory", "1", "memory", Level::Wrong, "new jobs are refused"),
        ("maxmemory", "1", "rights", Level::Good, ""),
        ("maxmemory", "0", "memory", Level::Note, ""),
        ("min-replicas-to-write", "1", "min-replicas-to-write", Level::Wrong, "new jobs are refused"),
        ("min-replicas-to-write", "0", "replicas", Level::Note, ""),
    ] {
        set(&mut raw, setting, value).await;
        let diagnosis = client.diagnose(&[TASKS]).await.unwrap();
        says(&diagnosis, check, level, words);
        assert_eq!(diagnosis.is_sound(), level != Level::Wrong && value != "1", "{setting} {value}: {diagnosis:#?}");
    }
}

#[tokio::test]
async fn a_snapshot_that_failed_is_told() {
    let server = RedisServer::start_with(&["--dbfilename", "taken.rdb"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let mut raw = Raw::connect(&server).await;
    // Of that name there is a folder, with something in it.
    std::fs::create_dir(server.folder().join("taken.rdb")).unwrap();
    std::fs::write(server.folder().join("taken.rdb/full"), "").unwrap();
    set(&mut raw, "save", "3600 1000000").await;
    raw.ask::<String>(&[b"BGSAVE"]).await;
    eventually("it failed", || async {
        let info = server.command(&["INFO", "persistence"]).unwrap();
        info.contains("rdb_last_bgsave_status:err").then_some(())
    })
    .await;
    says(&client.diagnose(&[]).await.unwrap(), "rdb", Level::Wrong, "BGSAVE");
    set(&mut raw, "stop-writes-on-bgsave-error", "no").await;
    says(&client.diagnose(&[]).await.unwrap(), "rdb", Level::Warning, "BGSAVE");
}

#[tokio::test]
async fn what_a_user_may_not_is_wrong_where_it_is_needed_and_unknown_where_it_is_not() {
    let (server, owner) = server_and_client().await;
    owner.schedule(Duration::from_secs(3600)).send(pass(1)).await.unwrap();
    server.command(&["CONFIG", "SET", "appendonly", "yes"]).unwrap();
    use Level::{Good, Unknown, Wrong};
    for (user, rules, found) in [
        ("whole", "+info +config|get", vec![("rights", Good, ""), ("appendfsync", Good, "")]),
        (
            "bare",
            "",
            vec![("info", Unknown, "+info"), ("maxmemory-policy", Unknown, "+config|get"), ("rights", Good, "")],
        ),
        ("sane", "", vec![("scripts", Good, ""), ("orphans", Good, "")]),
        ("informed", "+info", vec![("maxmemory-policy", Good, ""), ("appendfsync", Unknown, "+config|get")]),
        ("configured", "+config|get", vec![("info", Unknown, ""), ("maxmemory-policy", Good, "")]),
        ("hashless", "-hset", vec![("rights", Wrong, "SECURITY.md")]),
        ("deaf", "-bzpopmin", vec![("rights", Wrong, "bzpopmin")]),
        ("shaless", "-evalsha", vec![("rights", Wrong, "evalsha"), ("queue", Unknown, "SECURITY.md")]),
        (
            "scanless",
            "-hscan",
            vec![
                ("rights", Good, ""),
                ("scripts", Unknown, "audit can't be run"),
                ("orphans", Unknown, "+hscan"),
                ("sessions", Good, ""),
            ],
        ),
        ("elsewhere", "resetkeys ~other:*", vec![("rights", Wrong, "SECURITY.md")]),
    ] {
        let mut command = vec!["ACL", "SETUSER", user, "reset", "on", ">secret"];
        command.extend(RIGHTS.split_whitespace().chain(rules.split_whitespace()));
        assert_eq!(server.command(&command).unwrap(), "+OK\r\n", "{user}");
        let client = Client::connect(&format!("redis://{user}:secret@127.0.0.1:{}/", server.port())).await.unwrap();
        let diagnosis = client.diagnose(&[TASKS]).await.unwrap();
        for (check, level, words) in found {
            says(&diagnosis, check, level, words);
        }
        assert!(!format!("{diagnosis:?}").contains("secret"), "{diagnosis:?}");
        if user == "whole" {
            assert_eq!(diagnosis.at(Unknown).next(), None);
            assert_eq!(server.command(&["ACL", "LOG"]).unwrap(), "*0\r\n", "nothing else was tried either");
        }
    }
}

#[tokio::test]
async fn replicas_are_told_from_both_sides() {
    let (primary, client) = server_and_client().await;
    let replica = RedisServer::start().unwrap();
    let port = primary.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    eventually("it follows", || async {
        let info = primary.command(&["INFO", "replication"]).unwrap();
        info.contains("state=online").then_some(())
    })
    .await;
    let diagnosis = client.diagnose(&[TASKS]).await.unwrap();
    says(&diagnosis, "replicas", Level::Good, "1 in touch");
    says(&diagnosis, "min-replicas-to-write", Level::Warning, "min-replicas-to-write 1");
    primary.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).unwrap();
    says(&client.diagnose(&[]).await.unwrap(), "min-replicas-to-write", Level::Good, "1");

    let follower = Client::connect(&replica.url()).await.unwrap();
    let diagnosis = follower.diagnose(&[TASKS]).await.unwrap();
    says(&diagnosis, "role", Level::Wrong, &format!("replica of 127.0.0.1:{port}"));
    says(&diagnosis, "scripts", Level::Wrong, "primary");
    let strict = Worker::new(follower).queues([TASKS]).strict(true);
    let refused = soon("a refusal", strict.run_until(std::future::pending())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused:?}");
    assert!(refused.to_string().contains("it takes no jobs"), "{refused}");
}

#[tokio::test]
async fn what_lies_in_a_queue_is_found_and_a_repair_mends_it() {
    let (server, client) = server_and_client().await;
    let world = World::on(&server).await.named("delayq", TASKS);
    // Two jobs that are in no place, an entry without a record, and a lost session with a job.
    let mut sent = Vec::new();
    for n in 1..=2 {
        sent.push(client.schedule(Duration::from_millis(1)).send(pass(n)).await.unwrap());
    }
    world.write("due:5", None).await;
    world.set_score("due:5", id(7), Some(1000)).await;
    world.create(&[job(8)]).await;
    let mut lost = world.open().await;
    assert_eq!(lost.take(1).await.len() + lost.take(1).await.len(), 1, "the entry is put aside, the job is taken");
    world.expire(&lost.id).await;
    world.set_score("due:5", id(9), Some(1000)).await;

    let diagnosis = client.diagnose(&[TASKS]).await.unwrap();
    says(&diagnosis, "orphans", Level::Wrong, "which nothing runs: 2");
    says(&diagnosis, "entries", Level::Warning, "without a record, so that there is nothing to run: 1");
    says(&diagnosis, "sessions", Level::Wrong, "lost: 1, and there is no worker");
    says(&diagnosis, "workers", Level::Wrong, "none; due: 1, the first for");
    assert!(!diagnosis.is_sound());
    client.pause(TASKS).await.unwrap();
    says(&client.diagnose(&[TASKS]).await.unwrap(), "paused", Level::Note, "resume");
    client.resume(TASKS).await.unwrap();

    let report = client.repair(TASKS).await.unwrap();
    assert_eq!((report.given_back, report.removed, report.sessions, report.rescued), (2, 1, 1, 1), "{report:?}");
    assert!(!report.incomplete && report.looked >= 4, "{report:?}");
    assert_eq!(client.stats(TASKS).await.unwrap().repaired_total, 2);
    let again = client.repair(TASKS).await.unwrap();
    assert_eq!((again.given_back, again.removed, again.sessions), (0, 0, 0), "{again:?}");
    world.assert_conserved().await;

    let mut stage = Stage::start(&client);
    let ran: BTreeSet<u64> = stage.take(2).await.iter().map(|ran| ran.n).collect();
    assert_eq!(ran, BTreeSet::from([1, 2]));
    for handle in sent {
        eventually("it is done", || async { (handle.status().await.unwrap() == JobStatus::Done).then_some(()) }).await;
    }
    let diagnosis = client.diagnose(&[TASKS]).await.unwrap();
    for check in ["orphans", "sessions", "workers"] {
        assert_eq!(level(&diagnosis, check), Level::Good, "{diagnosis:#?}");
    }
    stage.stop().await;
}

#[tokio::test]
async fn a_key_of_another_program_is_told_of_and_ends_no_diagnosis() {
    let (server, client) = server_and_client().await;
    server.command(&["SET", &key("jobs"), "of another program"]).unwrap();
    let diagnosis = client.diagnose(&[TASKS]).await.unwrap();
    says(&diagnosis, "queue", Level::Wrong, "WRONGTYPE");
}

#[tokio::test]
async fn a_store_without_a_server_is_looked_at_too() {
    let client = Client::connect("sqlite::memory:").await.unwrap();
    client.schedule(Duration::from_secs(3600)).send(pass(1)).await.unwrap();
    let diagnosis = client.diagnose(&[TASKS]).await.unwrap();
    for check in ["server", "clock", "rights", "scripts", "orphans", "sessions"] {
        assert_eq!(level(&diagnosis, check), Level::Good, "{diagnosis:#?}");
    }
    assert_eq!(client.repair(TASKS).await.unwrap().looked, 2, "the record and its entry");
}

/// What the library warns of on this thread.
fn warnings() -> (Arc<Mutex<Vec<String>>>, tracing::subscriber::DefaultGuard) {
    struct Warnings(Arc<Mutex<Vec<String>>>);
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Warnings {
        fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            struct Text(String);
            impl tracing::field::Visit for Text {
                fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                    self.0.push_str(&format!("{}={value:?} ", field.name()));
                }
            }
            if *event.metadata().level() <= tracing::Level::WARN && event.metadata().target().starts_with("delayq") {
                let mut text = Text(String::new());
                event.record(&mut text);
                self.0.lock().unwrap().push(text.0);
            }
        }
    }
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let subscriber = tracing_subscriber::registry().with(Warnings(heard.clone()));
    (heard, tracing::subscriber::set_default(subscriber))
}

#[tokio::test]
async fn b70_a_worker_warns_at_its_start_of_a_policy_that_deletes_and_a_strict_one_refuses() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "volatile-lru", "--maxmemory", "100mb"]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let (heard, _guard) = warnings();
    let mut stage = Stage::start(&client);
    client.enqueue().send(pass(1)).await.unwrap();
    assert_eq!(stage.next().await.n, 1, "it warns, and works");
    eventually("a warning", || async { (!heard.lock().unwrap().is_empty()).then_some(()) }).await;
    stage.stop().await;
    let said = heard.lock().unwrap().clone();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("volatile-lru") && said[0].contains("noeviction"), "{said:?}");

    let strict = || Worker::new(client.clone()).queues([TASKS]).strict(true);
    let refused = soon("a refusal", strict().run_until(std::future::pending())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused:?}");
    assert!(refused.to_string().contains("volatile-lru") && refused.to_string().contains("noeviction"), "{refused}");
    assert_eq!(client.workers(TASKS).await.unwrap().len(), 0, "it did not even begin");

    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).unwrap();
    let running = Running::start(strict());
    eventually("it works", || async { (client.workers(TASKS).await.unwrap().len() == 1).then_some(()) }).await;
    running.stop().await.unwrap();
    assert_eq!(heard.lock().unwrap().len(), 1, "{heard:?}");
}

#[tokio::test]
async fn a_strict_worker_wants_its_rights_and_nothing_that_it_can_do_without() {
    let (server, _owner) = server_and_client().await;
    let client = async |user: &str, rules: &str| {
        let mut command = vec!["ACL", "SETUSER", user, "reset", "on", ">secret"];
        command.extend(RIGHTS.split_whitespace().chain(rules.split_whitespace()));
        assert_eq!(server.command(&command).unwrap(), "+OK\r\n", "{user}");
        Client::connect(&format!("redis://{user}:secret@127.0.0.1:{}/", server.port())).await.unwrap()
    };
    let shaless = Worker::new(client("shaless", "-evalsha").await).queues([TASKS]).strict(true);
    let refused = soon("a refusal", shaless.run_until(std::future::pending())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused:?}");
    assert!(refused.to_string().contains("SECURITY.md") && !refused.to_string().contains("secret"), "{refused}");
    // INFO and CONFIG are denied, and HSCAN, which only a repair needs.
    let bare = client("bare", "-hscan").await;
    let running = Running::start(Worker::new(bare.clone()).queues([TASKS]).strict(true));
    eventually("it works", || async { (bare.workers(TASKS).await.unwrap().len() == 1).then_some(()) }).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn b55_a_strict_worker_waits_for_a_server_that_is_not_there_yet() {
    let (mut server, client) = server_and_client().await;
    server.kill();
    let running = Running::start(Worker::new(client.clone()).queues([TASKS]).strict(true));
    // Long enough to have given up, if it did: time itself is what is tested.
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.restart().unwrap();
    eventually("it works", || async { client.workers(TASKS).await.ok().filter(|all| all.len() == 1) }).await;
    running.stop().await.unwrap();
    // Asked to stop while it waits, it stops.
    server.kill();
    let waiting = Running::start(Worker::new(client).queues([TASKS]).strict(true));
    waiting.stop().await.unwrap();
}

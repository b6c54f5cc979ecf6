//! Stores that are there, aren't there, or are files; exit codes; completions.

use std::time::{Duration, Instant};

use delayq::Client;
use delayq_redis_fixture::RedisServer;

use crate::kit::{Folder, ended, program, run, shown};

#[tokio::test]
async fn a_store_that_cant_be_reached_is_code_3() {
    let server = RedisServer::start_with(&["--requirepass", "right"]).unwrap();
    let wrong = server.url().replace("right", "wrong");
    for url in ["redis://127.0.0.1:1/", "redis://no-such-host.invalid/", "redis+unix:///no/such/socket", &wrong] {
        let ask = async |args: &[&str]| {
            let started = Instant::now();
            let ran = run(url, &[args, &["--timeout", "500ms"]].concat()).await;
            assert_eq!(ran.code, 3, "{url} {args:?}: {ran:#?}");
            assert!(ran.out.is_empty() && ran.err.starts_with("delayq: ") && ran.err.lines().count() == 1, "{ran:#?}");
            assert!(started.elapsed() < Duration::from_secs(10));
        };
        tokio::join!(
            ask(&["queues"]),
            ask(&["enqueue", "a", "{}"]),
            ask(&["cancel", "--queue", "a", "--all", "--yes"])
        );
    }
    for url in ["http://127.0.0.1/", "jobs.db", "sqlite:", "sqlite::memory:"] {
        let ran = run(url, &["queues"]).await;
        assert_eq!(ran.code, 2, "{url}: {ran:#?}");
    }
}

#[tokio::test]
async fn a_file_is_a_store_like_any_other() {
    let folder = Folder::new();
    let (path, url) = (folder.file("jobs.db"), format!("sqlite://{}", shown(&folder.file("jobs.db"))));
    // A name that was mistyped makes no empty database.
    for args in [&["queues"][..], &["jobs"], &["pause", "a"], &["serve", "--listen", "127.0.0.1:0"]] {
        run(&url, args).await.fails(1, "there is no database");
    }
    assert!(!path.exists());
    let sent = run(&url, &["enqueue", "cancel_order", r#"{"order_id":42}"#, "--queue", "orders", "--in", "30m"]).await;
    let id = sent.ok().trim().to_owned();
    let queues = run(&url, &["queues", "--json"]).await.json();
    assert_eq!((queues["queue"].as_str(), queues["waiting"].as_u64()), (Some("orders"), Some(1)));
    let job = run(&url, &["job", &id, "--json"]).await.json();
    assert_eq!((job["payload"]["order_id"].as_u64(), job["state"].as_str()), (Some(42), Some("waiting")));
    run(&url, &["reschedule", &id, "--in", "1h"]).await.ok();
    let counted = run(&url, &["cancel", "--queue", "orders", "--name", "cancel_order"]).await;
    counted.fails(1, "1 job of the queue orders matches");
    assert_eq!(run(&url, &["cancel", &id]).await.ok(), format!("{id} cancelled\n"));
    assert_eq!(run(&url, &["jobs", "--json"]).await.ok(), "");
}

#[tokio::test]
async fn the_whole_usage_is_code_2_and_help_is_code_0() {
    for (args, code) in [
        (&[][..], 2),
        (&["nonsense"], 2),
        (&["queues", "--nonsense"], 2),
        (&["--help"], 0),
        (&["--version"], 0),
        (&["dead"], 2),
        (&["dead", "retry", "--help"], 0),
        (&["completions", "powershell"], 0),
        (&["completions", "csh"], 2),
    ] {
        // None of them needs a store.
        let mut command = program("", args);
        command.env_remove("DELAYQ_URL");
        let ran = ended(command).await;
        assert_eq!(ran.code, code, "{args:?}: {ran:#?}");
    }
    let help = run("", &["--help"]).await;
    for part in ["Examples:", "Exit codes: 0 ok", "enqueue", "forecast", "completions"] {
        assert!(help.ok().contains(part), "{part}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = run("", &["completions", shell]).await;
        assert!(script.ok().contains("delayq") && script.out.contains("reschedule"), "{shell}");
    }
}

#[tokio::test]
async fn what_no_replica_confirms_is_no_success() {
    let server = RedisServer::start().unwrap();
    let send = ["enqueue", "a", "{}", "--in", "1h", "--timeout", "5s"];
    let waits = [&send[..], &["--wait-replicas", "1"]].concat();
    let (folder, client) = (Folder::new(), Client::connect(&server.url()).await.unwrap());
    let log = shown(&folder.file("audit"));
    let unsure = run(&server.url(), &[&waits[..], &["--audit-log", &log]].concat()).await;
    unsure.fails(3, "only 0 of 1 replicas confirmed");
    // It may be there, and is: by the id that is said, sent again, it is still one job.
    let id = unsure.err.rsplit_once("add --id ").unwrap().1.trim();
    let audit = std::fs::read_to_string(&log).unwrap();
    assert!(audit.lines().count() == 2 && audit.lines().all(|line| line.contains(id)), "{audit}");
    let again = run(&server.url(), &[&send[..], &["--id", id, "--json"]].concat()).await.json();
    assert_eq!((&again["id"], &again["new"]), (&id.into(), &false.into()));
    assert_eq!(client.stats("default").await.unwrap().waiting, 1);
    run("sqlite://jobs.db", &["enqueue", "a", "{}", "--wait-replicas", "1"]).await.fails(2, "a file has no replicas");
}

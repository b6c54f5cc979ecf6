//! `enqueue`: one job, or one a line.

use std::fmt::Write;
use std::time::{Duration, Instant};

use delayq::{JobId, JobQuery, JobState};

use crate::kit::{Folder, HOUR, run, run_with_input, server_and_client};

#[tokio::test]
async fn a_job_is_sent_with_all_its_terms_and_its_payload_byte_for_byte() {
    let (server, client) = server_and_client().await;
    let id = JobId::new().to_string();
    let payload = r#"{"a": 1.0e0,  "b":[ ],"a":2,"text":"\u001b é"}"#;
    let args = [
        "enqueue",
        "cancel_order",
        payload,
        "--queue",
        "orders",
        "--version",
        "3",
        "--in",
        "1h",
        "--priority",
        "2",
        "--max-retries",
        "7",
        "--unique",
        "order:42",
        "--expires-in",
        "30m",
        "--retain",
        "7d",
        "--id",
        &id,
    ];
    assert_eq!(run(&server.url(), &args).await.ok(), format!("{id}\n"));
    let job = client.jobs("orders").get(id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((job.name.as_deref(), job.version, job.priority), (Some("cancel_order"), Some(3), Some(2)));
    assert_eq!((job.attempts_max, job.unique_key.as_deref()), (Some(8), Some("order:42")));
    assert_eq!((job.retain_for, job.payload.as_ref()), (Some(HOUR * 24 * 7), payload.as_bytes()));
    let due = job.due.unwrap();
    let ahead = due.duration_since(job.enqueued_at.unwrap()).unsigned_abs();
    assert!(ahead >= HOUR && ahead < HOUR + Duration::from_millis(5), "{ahead:?}");
    assert_eq!(job.expires_at.unwrap().duration_since(due).unsigned_abs(), HOUR / 2);

    // Once more with its id: there is one job. Another one with its unique key is refused, and its owner named.
    let again = run(&server.url(), &[&args[..], &["--json"]].concat()).await;
    let said = again.json();
    assert_eq!(
        (said["id"].as_str(), said["new"].as_bool(), said["queue"].as_str()),
        (Some(&*id), Some(false), Some("orders"))
    );
    run(&server.url(), &["enqueue", "other", "--queue", "orders", "--unique", "order:42"]).await.fails(1, &id);
    assert_eq!(client.stats("orders").await.unwrap().waiting, 1);
    // The program doesn't end before operators can find the queue.
    assert_eq!(client.queues().await.unwrap(), ["orders"]);
}

#[tokio::test]
async fn a_payload_comes_from_standard_input_or_is_an_empty_object() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let at = "2999-12-24T18:00:00+01:00";
    let piped = run_with_input(&url, &["enqueue", "remind", "-", "--at", at], b" {\"guest\": \"Ada\"}\n").await;
    let plain = run(&url, &["enqueue", "plain"]).await;
    let get = async |text: &str| client.jobs("default").get(text.trim().parse().unwrap()).await.unwrap().unwrap();
    let job = get(piped.ok()).await;
    assert_eq!(job.payload.as_ref(), b"{\"guest\": \"Ada\"}", "the value, without the space around it");
    assert_eq!(job.due.unwrap().to_string(), "2999-12-24T17:00:00Z");
    let job = get(plain.ok()).await;
    assert_eq!((job.payload.as_ref(), job.version, job.attempts_max), (&b"{}"[..], Some(1), Some(4)));
}

#[tokio::test]
async fn what_is_no_job_is_refused_and_nothing_is_sent() {
    let (server, client) = server_and_client().await;
    for (args, saying) in [
        (&["enqueue", "a", "{no JSON"][..], "the payload is no JSON"),
        (&["enqueue", "a", "{} {}"], "the payload is no JSON"),
        (&["enqueue", "a", "{}", "--in", "30"], "always with a unit"),
        (&["enqueue", "a", "{}", "--in=-5m"], "before now"),
        (&["enqueue", "a", "{}", "--at", "tomorrow"], "no instant"),
        (&["enqueue", "a", "{}", "--in", "1m", "--at", "2999-12-24T18:00:00Z"], "cannot be used with"),
        (&["enqueue", "a", "{}", "--priority", "10"], "priority 10 is out of range"),
        (&["enqueue", "no name!", "{}"], "not a name"),
        (&["enqueue", "a", "{}", "--queue", "x}:dead"], "not a name"),
        (&["enqueue", "a", "{}", "--version", "0"], "version 0"),
        (&["enqueue", "a", "{}", "--expires-in", "0s"], "expires_in"),
        (&["enqueue", "a", "{}", "--id", "7"], "not a job id"),
        (&["enqueue", "a", "{}", "--lines"], "cannot be used with"),
        (&["enqueue"], "required"),
        (&["enqueue", "--lines", "--priority", "1"], "cannot be used with"),
    ] {
        run(&server.url(), args).await.fails(2, saying);
    }
    assert!(client.queues().await.unwrap().is_empty());
    assert!(server.command(&["DBSIZE"]).unwrap().starts_with(":0"), "nothing was written");
}

#[tokio::test]
async fn a_wrong_line_is_told_by_its_number_and_the_rest_goes_on() {
    let (server, client) = server_and_client().await;
    let id = JobId::new().to_string();
    let lines = format!(
        "{}\n\nno JSON\n{}\n{}\n{}\n{}",
        r#"{"name":"a","version":1,"payload":{"n": 1}}"#,
        r#"{"name":"a b","version":1,"payload":{}}"#,
        r#"{"name":"b","version":2,"payload_base64":"/wA=","queue":"others","at":"2999-01-01T00:00:00Z"}"#,
        r#"{"name":"c","version":1,"payload":null,"in":"1h","priority":11}"#,
        format_args!(r#"{{"name":"c","version":1,"payload":null,"in":"1h","id":"{id}","unique":"k","max_retries":0}}"#),
    );
    let args = ["enqueue", "--lines", "--queue", "mail", "--print-ids", "--json"];
    let ran = run_with_input(&server.url(), &args, lines.as_bytes()).await;
    ran.fails(1, "line 3: expected");
    for saying in ["line 4: job \"a b\" is not a name", "line 6: priority 11 is out of range"] {
        assert!(ran.err.contains(saying), "{ran:#?}");
    }
    let said: Vec<serde_json::Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = said.iter().filter_map(|line| Some((line["line"].as_u64()?, line["queue"].as_str()?))).collect();
    assert_eq!(told, [(1, "mail"), (5, "others"), (7, "mail")]);
    let summary = said.last().unwrap();
    assert_eq!((&summary["sent"], &summary["existing"], &summary["wrong"]), (&3.into(), &0.into(), &3.into()));
    let job = client.jobs("others").get(said[1]["id"].as_str().unwrap().parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((job.payload.as_ref(), job.version), (&b"\xff\x00"[..], Some(2)));
    let job = client.jobs("mail").get(id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((job.payload.as_ref(), job.attempts_max, job.unique_key.as_deref()), (&b"null"[..], Some(1), Some("k")));
    assert_eq!(client.queues().await.unwrap(), ["mail", "others"]);
}

#[tokio::test]
async fn blank_lines_are_no_end_however_many() {
    let (server, client) = server_and_client().await;
    let line = r#"{"name":"a","version":1,"payload":1,"in":"1h"}"#;
    // More than is read at once.
    let blank = format!("{}\n", " ".repeat(64 * 1024)).repeat(9 * 16);
    let ran = run_with_input(&server.url(), &["enqueue", "--lines"], format!("{blank}{line}\n").as_bytes()).await;
    assert!(ran.ok().is_empty() && ran.err.contains("1 sent"), "{ran:#?}");
    assert_eq!(client.stats("default").await.unwrap().waiting, 1);
}

#[tokio::test]
async fn the_same_lines_again_make_no_second_job() {
    let (server, client) = server_and_client().await;
    let folder = Folder::new();
    let mut lines = String::new();
    for n in 0..2500 {
        let id = JobId::new();
        writeln!(lines, r#"{{"name":"a","version":1,"payload":{{"n":{n}}},"in":"1h","id":"{id}"}}"#).unwrap();
    }
    let file = folder.write("jobs.jsonl", &lines);
    for (sent, existing) in [(2500, 0), (0, 2500)] {
        let ran = run(&server.url(), &["enqueue", "--lines", &file, "--json"]).await;
        assert_eq!((&ran.json()["sent"], &ran.json()["existing"]), (&sent.into(), &existing.into()));
        assert_eq!(client.stats("default").await.unwrap().waiting, 2500);
    }
    run(&server.url(), &["enqueue", "--lines", "/no/such/file"]).await.fails(1, "can't be read");
}

/// `DELAYQ_CLI_LINES=100000` is the size of the published claim.
#[tokio::test]
async fn lines_are_sent_in_batches_in_seconds() {
    let (server, client) = server_and_client().await;
    let count: usize = std::env::var("DELAYQ_CLI_LINES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let mut lines = String::new();
    for n in 0..count {
        writeln!(lines, r#"{{"name":"cancel_order","version":1,"payload":{{"order_id":{n}}},"in":"30m"}}"#).unwrap();
    }
    let before = server.info("total_commands_processed").unwrap();
    let started = Instant::now();
    let ran = run_with_input(&server.url(), &["enqueue", "--lines", "--print-ids"], lines.as_bytes()).await;
    let took = started.elapsed();
    assert_eq!(ran.ok().lines().count(), count);
    assert!(ran.err.contains(&format!("{count} sent")), "{}", ran.err);
    assert_eq!(client.stats("default").await.unwrap().waiting, count as u64);
    // The ids are in the order of the lines.
    let last: JobId = ran.out.lines().last().unwrap().parse().unwrap();
    let job = client.jobs("default").get(last).await.unwrap().unwrap();
    assert_eq!(job.payload.as_ref(), format!("{{\"order_id\":{}}}", count - 1).as_bytes());
    // A script's own commands count as well: those that came over the wire are few.
    let calls = server.command(&["INFO", "commandstats"]).unwrap();
    let calls = calls.lines().filter(|line| line.starts_with("cmdstat_evalsha") || line.starts_with("cmdstat_eval:"));
    let asked: usize =
        calls.filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<usize>().ok()).sum();
    assert!(asked < count / 50 + 100, "{asked} calls for {count} lines");
    eprintln!("{count} lines in {took:?}, {asked} calls, {before} commands before");
    assert!(took < Duration::from_secs(20) * (1 + count as u32 / 100_000), "{took:?}");
}

#[tokio::test]
async fn a_store_that_is_lost_ends_the_lines() {
    let (mut server, client) = server_and_client().await;
    let url = server.url();
    let page = JobQuery::new(JobState::Waiting);
    assert!(client.jobs("default").list(&page).await.unwrap().jobs.is_empty());
    server.kill();
    let line = br#"{"name":"a","version":1,"payload":1}"#;
    run_with_input(&url, &["enqueue", "--lines", "--timeout", "300ms"], line).await.fails(3, "127.0.0.1");
}

//! What is shown of queues, jobs and workers, as tables and as JSON.

use std::process::Stdio;
use std::time::Duration;

use delayq::{Client, JobId, RawJob};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::kit::{
    HOUR, ORDERS, Running, bury, charge, eventually, ids, program, run, server_and_client, soon, texts, waiting,
};

/// A job in each state: what waits, runs, died, is retained.
struct Jobs {
    waiting: Vec<JobId>,
    running: JobId,
    dead: Vec<JobId>,
    retained: JobId,
}

async fn prepared(client: &Client) -> (Jobs, Running) {
    let dead = bury(client, &["the bank says no", "timeout", "bury"]).await;
    let worker = Running::start(client, "mail-1");
    let running = client.enqueue().send(charge("wait")).await.unwrap().id();
    let retained = client.enqueue().retain_for(HOUR).send(charge("pass")).await.unwrap().id();
    eventually("one runs, one is done, and the worker has said who it is", || async {
        let stats = client.stats(ORDERS).await.unwrap();
        let is_known = client.workers(ORDERS).await.unwrap().iter().any(|worker| worker.name.is_some());
        (stats.running == 1 && stats.retained == 1 && is_known).then_some(())
    })
    .await;
    let waiting = waiting(client, ORDERS, "cancel_order", 3).await;
    (Jobs { waiting, running, dead, retained }, worker)
}

#[tokio::test]
async fn queues_are_counted_and_jobs_listed_by_state() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let empty = run(&url, &["queues"]).await;
    assert_eq!(empty.ok(), "");
    assert!(empty.err.contains("no queue was used yet"));
    let (jobs, worker) = prepared(&client).await;
    waiting(&client, "mail", "newsletter", 2).await;
    client.pause("mail").await.unwrap();

    let table = run(&url, &["queues"]).await;
    let rows: Vec<Vec<&str>> = table.ok().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows[0][0], rows[1][0], rows[2][0]), ("QUEUE", "mail", ORDERS), "{rows:?}");
    assert_eq!((rows[1][1], *rows[1].last().unwrap()), ("2", "paused"));
    assert_eq!(rows[2][1..5], ["3", "0", "1", "3"], "waiting, due, running, dead");
    let json = run(&url, &["queues", ORDERS, "--json"]).await.json();
    for (field, count) in [("waiting", 3), ("due", 0), ("running", 1), ("dead", 3), ("retained", 1), ("sessions", 1)] {
        assert_eq!(json[field], count, "{field} in {json}");
    }
    assert_eq!((json["totals"]["dead"].as_u64(), json["paused"].as_bool()), (Some(3), Some(false)));

    for (state, expected) in [
        ("waiting", texts(&jobs.waiting)),
        ("running", texts(&[jobs.running])),
        ("dead", texts(&jobs.dead)),
        ("retained", texts(&[jobs.retained])),
    ] {
        let found = run(&url, &["jobs", "--queue", ORDERS, "--state", state, "--json"]).await.json_lines();
        assert_eq!(ids(&found), expected);
        assert!(found.iter().all(|job| job["state"] == state && job["queue"] == ORDERS), "{found:?}");
    }
    let all = run(&url, &["jobs", "--json"]).await;
    assert_eq!(all.json_lines().len(), 10, "of all queues and states");
    assert!(all.err.contains("10 shown"));
    let table = run(&url, &["jobs", "--queue", ORDERS]).await;
    for part in
        ["ID ", "LAST FAILURE", "retries_exhausted: the bank says no", "charge_card", "due in ", "0/4", "goes in 59m"]
    {
        assert!(table.ok().contains(part), "{part} in {}", table.out);
    }
    assert!(!table.out.contains('\u{1b}'), "no colours in a pipe");
    worker.stop().await;
}

#[tokio::test]
async fn a_job_is_found_in_whatever_queue_and_state_it_is() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let (jobs, worker) = prepared(&client).await;
    for (id, parts) in [
        (jobs.waiting[0], &["state       waiting due in ", "sent", "due", "{\"n\":0}", "queue       orders"][..]),
        (jobs.running, &["state       running for ", "attempts    0 of 1", "runs, attempt 1, on mail-1"]),
        (jobs.dead[0], &["state       dead ", "died: retries_exhausted after attempt 1: the bank says no"]),
        (jobs.retained, &["state       retained goes in", "its record goes"]),
    ] {
        let shown = run(&url, &["job", &id.to_string()]).await;
        for part in parts {
            assert!(shown.ok().contains(part), "{part:?} in {}", shown.out);
        }
        let json = run(&url, &["job", &id.to_string(), "--queue", ORDERS, "--json"]).await.json();
        assert_eq!(json["id"], id.to_string());
        assert!(json["payload"].is_object() && json["due"].is_string(), "{json}");
    }
    let running = run(&url, &["job", &jobs.running.to_string(), "--json"]).await.json();
    assert!(running["running_since"].is_string() && running["session"].is_string(), "{running}");

    client.job(ORDERS, jobs.waiting[1]).cancel().await.unwrap();
    let ended = run(&url, &["job", &jobs.waiting[1].to_string()]).await;
    assert!(ended.ok().contains("of the queue orders is cancelled"), "{}", ended.out);
    run(&url, &["job", &JobId::new().to_string()]).await.fails(1, "there is no job");
    run(&url, &["job", &jobs.dead[0].to_string(), "--queue", "ordres"])
        .await
        .fails(1, "there is no queue ordres; there are orders");
    run(&url, &["job", "42"]).await.fails(2, "not a job id");
    worker.stop().await;
}

#[tokio::test]
async fn a_list_says_how_far_it_looked_and_goes_on_there() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let all = waiting(&client, ORDERS, "cancel_order", 230).await;
    let needle = RawJob::new("rare", 1, r#"{"text":"needle"}"#).at(HOUR * 2);
    let needle = client.send_raw(ORDERS, vec![needle]).await.remove(0).unwrap().id();
    let (mut seen, mut after, mut pages) = (std::collections::BTreeSet::new(), None::<String>, 0);
    loop {
        let mut args = vec!["jobs", "--queue", ORDERS, "--state", "waiting", "--limit", "90", "--json"];
        args.extend(after.iter().flat_map(|cursor| ["--after", cursor.as_str()]));
        let page = run(&url, &args).await;
        seen.extend(ids(&page.json_lines()));
        pages += 1;
        match page.err.split_once("--after ") {
            Some((_, rest)) => after = Some(rest.split(',').next().unwrap().to_owned()),
            None => break,
        }
    }
    assert_eq!((seen.len(), pages), (231, 3));
    assert!(seen.is_superset(&texts(&all)));
    assert_eq!(run(&url, &["jobs", "--all", "--json"]).await.json_lines().len(), 231);
    assert_eq!(run(&url, &["jobs", "--all"]).await.ok().lines().count(), 232, "one head for all pages");

    for filter in [&["--name", "rare"][..], &["--payload", "needle"], &["--due-from", "+90m"]] {
        let found = run(&url, &[&["jobs", "--json"], filter].concat()).await;
        assert_eq!(ids(&found.json_lines()), texts(&[needle]), "{filter:?}");
    }
    let soon = run(&url, &["jobs", "--due-before", "+90m", "--limit", "1000", "--json"]).await;
    assert_eq!(ids(&soon.json_lines()), texts(&all));
    let bounded = run(&url, &["jobs", "--queue", ORDERS, "--payload", "needle", "--scan", "120"]).await;
    assert_eq!(bounded.ok(), "");
    assert!(
        bounded.err.contains(
            "0 shown, 120 looked at; there may be more: delayq jobs --queue orders --state waiting --after w-"
        ),
        "{}",
        bounded.err
    );

    run(&url, &["jobs", "--after", "w-1-5-00"]).await.fails(2, "--after goes on in one list");
    run(&url, &["jobs", "--after", "nonsense"]).await.fails(2, "no cursor");
    run(&url, &["jobs", "--limit", "0"]).await.fails(2, "0 is not in");
    run(&url, &["jobs", "--state", "lost"]).await.fails(2, "possible values: waiting, running, dead, retained");
    run(&url, &["jobs", "--due-from", "10m"]).await.fails(2, "with its sign");
}

#[tokio::test]
async fn a_list_that_ends_says_which_ones_it_did_not_come_to() {
    let (server, client) = server_and_client().await;
    for queue in ["a", "b", "c"] {
        waiting(&client, queue, "cancel_order", 2).await;
    }
    let by = async |args: &[&str]| {
        let ran = run(&server.url(), args).await;
        ran.ok();
        ran.err
    };
    let first = by(&["jobs", "--limit", "1"]).await;
    assert!(first.contains("delayq jobs --queue a --state waiting --after "), "{first}");
    assert!(first.contains("; not looked at: the dead and retained jobs of a; the queues b, c\n"), "{first}");
    let page = by(&["jobs", "--queue", "b", "--queue", "c", "--state", "waiting", "--limit", "2"]).await;
    assert!(page.contains("--after ") && page.ends_with("not looked at: the queue c\n"), "{page}");
    let last = by(&["jobs", "--state", "waiting", "--limit", "5"]).await;
    assert!(last.contains("--after ") && !last.contains("not looked at"), "{last}");
}

#[tokio::test]
async fn workers_and_what_they_run_are_shown() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    waiting(&client, ORDERS, "cancel_order", 1).await;
    let none = run(&url, &["workers"]).await;
    assert_eq!(none.ok(), "");
    assert!(none.err.contains("no worker serves orders"));
    let worker = Running::start(&client, "mail-1");
    let id = client.enqueue().send(charge("wait")).await.unwrap().id();
    let shown = eventually("its first sign of life", || async {
        let shown = run(&url, &["workers", "--running"]).await;
        (shown.ok().contains(&id.to_string()) && shown.out.contains("mail-1")).then_some(shown)
    })
    .await;
    let pid = std::process::id().to_string();
    assert!(shown.out.lines().nth(1).unwrap().contains(&pid) && shown.out.contains("charge_card"), "{}", shown.out);
    let json = run(&url, &["workers", ORDERS, "--running", "--json"]).await.json();
    assert_eq!(
        (json["name"].as_str(), json["running"].as_u64(), json["pid"].as_u64()),
        (Some("mail-1"), Some(1), pid.parse().ok())
    );
    assert_eq!(
        (json["jobs"][0]["id"].as_str(), &json["jobs"][0]["session"]),
        (Some(&*id.to_string()), &json["session"])
    );
    worker.stop().await;
}

#[tokio::test]
async fn a_forecast_is_a_chart_and_json() {
    let (server, client) = server_and_client().await;
    for (minutes, count) in [(0, 3), (2, 8), (4, 4), (600, 5)] {
        let at = Duration::from_secs(minutes * 60).saturating_sub(Duration::from_secs(30));
        let job = || RawJob::new("a", 1, "{}").at(at);
        client
            .send_raw(ORDERS, (0..count).map(|_| job()).collect())
            .await
            .into_iter()
            .for_each(|sent| drop(sent.unwrap()));
    }
    crate::kit::listed(&client, ORDERS).await;
    let chart = run(&server.url(), &["forecast", "--steps", "10"]).await;
    let lines: Vec<&str> = chart.ok().lines().collect();
    assert_eq!(lines[0], "orders: 3 due now, 12 within 10m, 5 later");
    assert_eq!(lines.len(), 3, "steps without jobs are passed over: {lines:?}");
    assert!(lines[1].contains("1m to 2m") && lines[1].contains(" 8 █"), "{}", lines[1]);
    let bar = |line: &str| line.chars().filter(|c| *c == '█').count();
    assert_eq!(bar(lines[1]), bar(lines[2]) * 2);
    let json = run(&server.url(), &["forecast", ORDERS, "--step", "2m", "--steps", "3", "--json"]).await.json();
    assert_eq!((&json["due"], &json["steps"], &json["later"]), (&3.into(), &serde_json::json!([8, 4, 0]), &5.into()));
    run(&server.url(), &["forecast", "--steps", "500"]).await.fails(2, "500 is not in 1..500");
    run(&server.url(), &["forecast", "--step", "0s"]).await.fails(2, "out of range");
}

#[tokio::test]
async fn watching_shows_them_again_and_again() {
    let (server, client) = server_and_client().await;
    waiting(&client, ORDERS, "cancel_order", 1).await;
    let mut child = program(&server.url(), &["queues", "--watch=100ms", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || -> serde_json::Value {
        serde_json::from_str(&soon(lines.next_line()).await.unwrap().unwrap()).unwrap()
    };
    assert_eq!(next().await["waiting"], 1);
    waiting(&client, ORDERS, "cancel_order", 1).await;
    while next().await["waiting"] != 2 {}
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_pipe_that_breaks_is_no_error() {
    let (server, client) = server_and_client().await;
    // More than a pipe holds.
    let payload = format!("\"{}\"", "x".repeat(2000));
    let job = || RawJob::new("a", 1, payload.clone()).at(HOUR);
    client.send_raw(ORDERS, (0..300).map(|_| job()).collect()).await.into_iter().for_each(|sent| drop(sent.unwrap()));
    crate::kit::listed(&client, ORDERS).await;
    for args in [&["jobs", "--all", "--json"][..], &["jobs", "--json", "--limit", "1000"]] {
        let mut child = program(&server.url(), args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(soon(lines.next_line()).await.unwrap().unwrap().starts_with('{'));
        drop(lines);
        let output = soon(child.wait_with_output()).await.unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && err.is_empty(), "{:?}: {err}", output.status);
    }
}

#[tokio::test]
async fn colours_are_used_where_they_are_wanted() {
    let (server, client) = server_and_client().await;
    waiting(&client, ORDERS, "cancel_order", 1).await;
    let url = server.url();
    for (args, env, coloured) in [
        (&["queues"][..], None, false),
        (&["queues", "--color", "always"], None, true),
        (&["queues", "--color", "never"], Some("CLICOLOR_FORCE"), false),
        (&["queues"], Some("CLICOLOR_FORCE"), true),
        (&["queues", "--color", "always", "--json"], None, false),
    ] {
        let mut command = program(&url, args);
        if let Some(name) = env {
            command.env(name, "1");
        }
        let ran = crate::kit::ended(command).await;
        assert_eq!(ran.ok().contains("\x1b["), coloured, "{args:?} {env:?}: {:?}", ran.out);
    }
}

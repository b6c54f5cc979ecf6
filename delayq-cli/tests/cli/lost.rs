//! A store that is lost midway: what was done is told and written down, and what isn't known is not told as if it were.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use delayq::{Client, JobQuery, JobState, RawJob};
use delayq_redis_fixture::proxy::{Blow, End, Mode, Proxy};
use serde_json::Value;

use crate::kit::{Folder, HOUR, ORDERS, bury, run, run_with_input, server_and_client, shown, waiting};

/// What is asked is carried out, and its answer never comes.
const UNANSWERED: Blow = Blow::Reply { keep: 0, end: End::Silence };

fn audit(path: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (line["event"].as_str().unwrap().to_owned(), line["what"].as_str().unwrap().to_owned())).collect()
}

/// The numbers of the lines that are told of with these words.
fn lines_told(err: &str, what: &str) -> BTreeSet<u64> {
    let told = err.lines().find_map(|line| line.strip_prefix(&format!("{what}: line"))).unwrap_or_default();
    let spans = told.trim_start_matches('s').split(',').map(str::trim).filter(|span| !span.is_empty());
    let span = |span: &str| {
        let (first, last) = span.split_once(" to ").unwrap_or((span, span));
        first.parse::<u64>().unwrap()..=last.parse().unwrap()
    };
    spans.flat_map(span).collect()
}

#[tokio::test]
async fn lines_without_an_answer_are_not_told_as_not_sent() {
    let (server, client) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let (folder, mut lines) = (Folder::new(), String::new());
    for n in 1..=6000 {
        writeln!(lines, r#"{{"name":"unheard","version":1,"payload":{n},"in":"1h"}}"#).unwrap();
    }
    let log = shown(&folder.file("audit"));
    // The server knows the script: it runs at the first asking.
    waiting(&client, ORDERS, "cancel_order", 1).await;
    proxy.strike(UNANSWERED, &["unheard"], u64::MAX);
    let args = ["enqueue", "--lines", "--timeout", "4s", "--json", "--audit-log", &log];
    let ran = run_with_input(&proxy.url(), &args, lines.as_bytes()).await;
    assert_eq!(ran.code, 3, "{ran:#?}");
    let summary: Value = serde_json::from_str(&ran.out).unwrap();
    let (unsure, unsent) = (lines_told(&ran.err, "may have been sent"), lines_told(&ran.err, "not sent"));
    assert_eq!((&summary["sent"], &summary["wrong"]), (&0.into(), &0.into()));
    assert_eq!(
        (summary["unsure"].as_u64(), summary["unsent"].as_u64()),
        (Some(unsure.len() as u64), Some(unsent.len() as u64))
    );
    // Whatever is there is among those that may have been sent, also what was under way behind the first.
    let mut query = JobQuery::new(JobState::Waiting).limit(100);
    let mut there = BTreeSet::new();
    loop {
        let page = client.jobs("default").list(&query).await.unwrap();
        there.extend(page.jobs.iter().map(|job| std::str::from_utf8(&job.payload).unwrap().parse::<u64>().unwrap()));
        match page.next {
            Some(next) => query = query.after(next),
            None => break,
        }
    }
    let untold: Vec<&u64> = there.difference(&unsure).collect();
    assert!(
        !there.is_empty() && untold.is_empty(),
        "{} are there, of which {untold:?} are told as not sent",
        there.len()
    );
    let last: u64 = unsure.union(&unsent).copied().max().unwrap();
    assert!(ran.err.contains(&format!("nothing beyond line {last} was sent")), "{}", ran.err);
    assert_eq!(unsure.len() + unsent.len(), last as usize, "each of them is told");
    assert!(last < 6000, "it goes no further");
    let audit = audit(&log);
    assert_eq!(audit.len(), 2, "{audit:?}");
    assert!(audit[1].0 == "ends" && audit[1].1.contains("may have been sent"), "{audit:?}");
}

#[tokio::test]
async fn a_bulk_cancel_that_is_cut_off_tells_what_it_did() {
    let (server, client) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let folder = Folder::new();
    let log = shown(&folder.file("audit"));
    let ids = waiting(&client, ORDERS, "cancel_order", 400).await;
    proxy.strike(UNANSWERED, &[ids[150].as_uuid().into_bytes()], u64::MAX);
    let args = ["cancel", "--queue", ORDERS, "--all", "--yes", "--timeout", "4s", "--json", "--audit-log", &log];
    let ran = run(&proxy.url(), &args).await;
    assert_eq!(ran.code, 3, "{ran:#?}");
    let many: Value = serde_json::from_str(ran.out.lines().last().unwrap()).unwrap();
    let count = |field: &str| many[field].as_u64().unwrap();
    let (cancelled, unsure) = (count("cancelled"), count("unsure"));
    assert!(count("matched") == 400 && unsure >= 1, "{many}");
    let gone = 400 - client.stats(ORDERS).await.unwrap().waiting;
    assert!(cancelled >= 80 && cancelled <= gone && gone <= cancelled + unsure, "{gone} are gone: {many}");
    let audit = audit(&log);
    assert_eq!(audit.len(), 2, "{audit:?}");
    assert_eq!(audit[0].1, "400 jobs: all, state=waiting");
    assert!(audit[1].0 == "ends" && audit[1].1.starts_with(&format!("{cancelled} cancelled, ")), "{audit:?}");
    assert!(audit[1].1.contains(&format!("{} are as they were", 400 - cancelled - unsure)), "{audit:?}");
}

#[tokio::test]
async fn changes_that_fail_are_written_down_too() {
    let (server, client) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let folder = Folder::new();
    bury(&client, &["timeout", "timeout"]).await;
    // Not the last one: the list goes on behind that.
    let dead = client.jobs(ORDERS).list(&JobQuery::new(JobState::Dead)).await.unwrap().jobs[0].id;
    let waits = waiting(&client, ORDERS, "cancel_order", 1).await[0];
    proxy.strike(UNANSWERED, &[dead, waits].map(|id| id.as_uuid().into_bytes()), u64::MAX);
    let ended = async |name: &str, args: &[&str], saying: &str| {
        let log = shown(&folder.file(name));
        let common = ["--queue", ORDERS, "--timeout", "4s", "--audit-log", &log];
        let ran = run(&proxy.url(), &[args, &common].concat()).await;
        assert_eq!(ran.code, 3, "{ran:#?}");
        let audit = audit(&log);
        assert_eq!(audit.len(), 2, "{args:?}: {audit:?}");
        assert!(audit[1].0 == "ends" && audit[1].1.contains(saying), "{args:?}: {audit:?}");
    };
    let id = waits.to_string();
    let not_known = "0 deleted; of 2 it is not known, 0 were not tried";
    let (cancel, reschedule) = (["cancel", &id], ["reschedule", &id, "--in", "2h"]);
    tokio::join!(
        ended("one", &cancel, "no answer"),
        ended("two", &reschedule, "no answer"),
        ended("three", &["dead", "delete", "--all", "--yes"], not_known),
    );
}

#[tokio::test]
async fn counting_ends_while_others_send() {
    let (server, client) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    waiting(&client, ORDERS, "cancel_order", 120).await;
    // Each look takes as long as some more jobs need to come, behind all that are there.
    proxy.set(Mode::Delay { least_ms: 5, jitter_ms: 0 });
    let sender = Client::connect(&server.url()).await.unwrap();
    let sending = tokio::spawn(async move {
        loop {
            let jobs = (0..20).map(|_| RawJob::new("newsletter", 1, "{}").at(HOUR * 2)).collect();
            sender.send_raw(ORDERS, jobs).await.into_iter().for_each(|sent| drop(sent.unwrap()));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let url = proxy.url();
    let all = ["cancel", "--queue", ORDERS, "--all"];
    let named = ["cancel", "--queue", ORDERS, "--name", "cancel_order"];
    let (all, named) = tokio::join!(run(&url, &all), run(&url, &named));
    sending.abort();
    named.fails(1, "120 jobs of the queue orders match");
    all.fails(1, "jobs of the queue orders match");
    let counted: u64 = all.err.split_once(" jobs").unwrap().0.parse().unwrap();
    let sent = client.stats(ORDERS).await.unwrap().enqueued_total;
    assert!(counted >= 120 && counted < sent, "those that were there when it began: {counted} of {sent}");
}

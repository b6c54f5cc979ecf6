//! What the service says where a queue is damaged, where nobody can tell what was sent, and where payloads are large.

use std::time::Duration;

use delayq::{JobId, RawJob};
use futures_util::future::join_all;
use serde_json::Value;

use super::kit::Serving;
use crate::kit::{HOUR, ORDERS, eventually, server_and_client, waiting};

const JOBS: &str = "/api/v1/jobs";
/// Waits for a replica where there is none: the server has what is sent, and that it counts is never known.
const UNCONFIRMED: [&str; 2] = ["--wait-replicas", "1"];

fn job(name: &str, queue: &str) -> String {
    format!(r#"{{"name":"{name}","version":1,"payload":{{}},"queue":"{queue}","in":"1h"}}"#)
}

/// The status of each job of a list.
fn statuses(problem: &Value) -> Vec<u64> {
    problem["jobs"].as_array().unwrap().iter().map(|job| job["problem"]["status"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_damaged_queue_hides_no_other() {
    let (server, client) = server_and_client().await;
    for queue in ["junk", "mail", ORDERS] {
        waiting(&client, queue, "a", 2).await;
    }
    server.command(&["SET", "delayq:{junk/0}:dead", "x"]).unwrap();
    let service = Serving::start(&server.url(), &[]).await;
    let all = service.get("/api/v1/queues").await.is(200);
    let [junk, mail, orders] = all["queues"].as_array().unwrap().as_slice() else { panic!("{all}") };
    assert!(junk["queue"] == "junk" && junk["error"].is_string() && junk.get("waiting").is_none(), "{junk}");
    assert_eq!((&mail["waiting"], &orders["waiting"]), (&2.into(), &2.into()));
    let first = service.get("/api/v1/queues?limit=1").await.is(200);
    assert_eq!((&first["queues"][0], &first["next"]), (junk, &"junk".into()));
    service.get("/api/v1/queues/junk").await.fails(500, "internal");

    let text = service.get("/metrics").await.body;
    for line in [
        "delayq_store_up 1\n",
        "delayq_queue_readable{queue=\"junk\"} 0\n",
        "delayq_queue_readable{queue=\"mail\"} 1\n",
        "delayq_jobs{queue=\"orders\",state=\"scheduled\"} 2\n",
        "delayq_due_next_seconds{queue=\"mail\",window=\"3600\"} ",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert_eq!(text.matches("queue=\"junk\"").count(), 1, "no old figure, and none that is made up: {text}");
    service.get("/readyz").await.is(200);
    server.command(&["DEL", "delayq:{junk/0}:dead"]).unwrap();
    eventually("it is readable again", || async {
        service.get("/metrics").await.body.contains("delayq_queue_readable{queue=\"junk\"} 1\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_may_have_been_sent_is_not_said_to_be_unsent() {
    let (mut server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &UNCONFIRMED).await;
    let (refused, good) = (job("no name", ORDERS), job("a", ORDERS));
    for (list, told) in [(format!("[{refused},{good}]"), [400, 504]), (format!("[{good},{good}]"), [504, 504])] {
        let problem = service.post(JOBS, &list).await.fails(504, "unknown-outcome");
        let text = problem["detail"].as_str().unwrap();
        assert!(text.contains("may have been sent") && !text.contains("no job was sent"), "{problem}");
        assert!(!problem["action"].as_str().unwrap().contains("Nothing was changed"), "{problem}");
        assert_eq!(statuses(&problem), told, "{problem}");
    }
    assert_eq!(client.stats(ORDERS).await.unwrap().enqueued_total, 3, "they were");
    let said = service.said.clone();
    eventually("so does the log", || async {
        let said = said.lock().unwrap();
        (said.matches("may have been sent: Unknown").count() == 3).then_some(())
    })
    .await;
    // What can be sent later isn't told of as what can't be sent at all.
    server.kill();
    let answer = service.post(JOBS, &format!("[{refused},{good}]")).await;
    assert!(matches!(answer.status, 503 | 504), "{answer:#?}");
    assert_eq!(statuses(&answer.is(answer.status)), [400, u64::from(answer.status)]);
}

#[tokio::test]
async fn a_store_that_gives_no_answer_is_waited_for_once_and_not_for_each_queue() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &UNCONFIRMED).await;
    let jobs: Vec<String> = (10..30).map(|n| job("a", &format!("queue-{n}"))).collect();
    let problem = service.post(JOBS, &format!("[{}]", jobs.join(","))).await.fails(504, "unknown-outcome");
    assert!(problem["detail"].as_str().unwrap().contains("of 20 jobs 1 may have been sent"), "{problem}");
    let told = statuses(&problem);
    assert_eq!((told[0], told.iter().filter(|status| **status == 503).count()), (504, 19), "{problem}");
    assert!(problem["jobs"][19]["problem"]["detail"].as_str().unwrap().contains("not sent"), "{problem}");
    for (queue, sent) in [("queue-10", 1), ("queue-11", 0), ("queue-29", 0)] {
        assert_eq!(client.stats(queue).await.unwrap().enqueued_total, sent, "{queue}");
    }
}

#[tokio::test]
async fn whoever_waits_for_replicas_holds_up_no_look_and_no_probe() {
    let (server, _client) = server_and_client().await;
    // Looks follow each other as fast as they can.
    let service = Serving::start(&server.url(), &[&UNCONFIRMED[..], &["--rate", "0"]].concat()).await;
    // In queues of their own, since sends of one queue share a call: each waits for a second, and on a shared connection for the others too.
    let jobs: Vec<String> = (0..12).map(|n| job("a", &format!("queue-{n}"))).collect();
    let mut looks = 0;
    // Where the machine was busy with other things meanwhile, once more.
    for _ in 0..5 {
        let sends = join_all(jobs.iter().map(|job| service.post(JOBS, job)));
        tokio::pin!(sends);
        looks = 0;
        let answers = loop {
            let look = async {
                service.get("/readyz").await.is(200);
                service.get("/api/v1/queues").await.is(200);
                let metrics = service.get("/metrics").await;
                assert!(metrics.body.contains("delayq_store_up 1\n"), "{metrics:#?}");
            };
            tokio::select! {
                answers = &mut sends => break answers,
                () = look => looks += 1,
            }
        };
        for answer in answers {
            answer.fails(504, "unknown-outcome");
        }
        if looks > 1 {
            break;
        }
    }
    assert!(looks > 1, "{looks}");
}

/// All pages of a list of jobs: how many jobs each looked at, and the ids.
async fn pages(service: &Serving, query: &str) -> (Vec<u64>, Vec<JobId>) {
    let (mut after, mut scanned, mut ids) = (String::new(), Vec::new(), Vec::new());
    loop {
        let page = service.get(&format!("{JOBS}?{query}{after}")).await.is(200);
        scanned.push(page["scanned"].as_u64().unwrap());
        let id = |job: &Value| job["id"].as_str().unwrap().parse::<JobId>().unwrap();
        ids.extend(page["jobs"].as_array().unwrap().iter().map(id));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (scanned, ids),
        }
    }
}

#[tokio::test]
async fn a_page_of_large_payloads_is_read_in_bounds() {
    const COUNT: u64 = 40;
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    // 40 MB in all, where one request reads 32 MiB.
    let payload = "x".repeat(1_000_000);
    let large = |n| RawJob::new("a", 1, payload.clone()).at(HOUR + Duration::from_secs(n));
    let sent = client.send_raw(ORDERS, (0..COUNT).map(large).collect()).await;
    let ids: Vec<JobId> = sent.into_iter().map(|sent| sent.unwrap().id()).collect();
    for (query, found) in [("", ids.as_slice()), ("&payload=nowhere", &ids[..0])] {
        let (scanned, seen) = pages(&service, &format!("queue={ORDERS}&limit=100{query}")).await;
        assert_eq!(seen, found, "{query}");
        assert_eq!(scanned.iter().sum::<u64>(), COUNT, "{query}: {scanned:?}");
        assert!(scanned[0] < COUNT, "{query}: {scanned:?}");
    }
}

#[tokio::test]
async fn a_search_goes_on_where_its_page_ended() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    // Their due times alternate.
    let ids = waiting(&client, "mail", "newsletter", 120).await;
    waiting(&client, "mail", "invoice", 120).await;
    for query in ["name=newsletter&limit=7", "name=newsletter&limit=100", "name=newsletter&limit=50&due_from=now"] {
        let (scanned, seen) = pages(&service, &format!("queue=mail&{query}")).await;
        assert_eq!(seen, ids, "{query}");
        assert_eq!(scanned.iter().sum::<u64>(), 240, "{query}: {scanned:?}");
    }
}

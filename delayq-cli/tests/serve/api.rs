//! What each route does.

use std::collections::BTreeSet;

use delayq::{JobId, JobState};
use serde_json::{Value, json};

use super::kit::{OPERATOR, Serving};
use crate::kit::{ORDERS, Running, bury, charge, eventually, listed, server_and_client, waiting};

fn id_of(value: &Value) -> JobId {
    value["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn k_the_same_job_sent_twice_is_there_once() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let id = JobId::new();
    let payload = r#"{ "order_id":9007199254740993,"note":"\u00e4 🎉","empty":[] }"#;
    let body = format!(
        r#"{{"name":"cancel_order","version":2,"payload":{payload},"queue":"orders","in":"30m","id":"{id}","priority":1,
            "max_retries":7,"unique":"order 42","expires_in":"1h","retain_for":"PT1H"}}"#
    );
    let first = service.post("/api/v1/jobs", &body).await;
    assert_eq!(first.is(201), json!({ "id": id.to_string(), "queue": "orders", "created": true }));
    assert_eq!(first.field("location"), Some(format!("/api/v1/jobs/{id}?queue=orders").as_str()));
    let second = service.post("/api/v1/jobs", &body).await;
    assert_eq!(second.is(200), json!({ "id": id.to_string(), "queue": "orders", "created": false }));

    let job = client.jobs("orders").get(id).await.unwrap().unwrap();
    assert_eq!(job.payload, payload.as_bytes(), "byte for byte");
    assert_eq!((job.name.as_deref(), job.version, job.priority), (Some("cancel_order"), Some(2), Some(1)));
    assert_eq!((job.attempts_max, job.unique_key.as_deref()), (Some(8), Some("order 42")));
    assert_eq!(client.stats("orders").await.unwrap().waiting, 1);

    // The place that the answer names has it.
    let shown = service.get(&format!("/api/v1/jobs/{id}?queue=orders")).await;
    assert!(shown.body.contains(payload), "{shown:#?}");
    assert_eq!(shown.is(200)["state"], "waiting");
    // Another job of its key is refused, and says whose it is.
    let other = r#"{"name":"cancel_order","version":2,"payload":{},"queue":"orders","unique":"order 42"}"#;
    let refused = service.post("/api/v1/jobs", other).await.fails(409, "duplicate");
    assert_eq!(refused["owner"], id.to_string());
    assert_eq!(client.stats("orders").await.unwrap().waiting, 1);
}

#[tokio::test]
async fn a_list_is_sent_in_its_order_and_each_job_has_its_own_answer() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let ids = [JobId::new(), JobId::new(), JobId::new()];
    let job = |nth: usize, name: &str, queue: &str| {
        format!(r#"{{"name":"{name}","version":1,"payload":{nth},"queue":"{queue}","in":"1h","id":"{}"}}"#, ids[nth])
    };
    let all = format!("[{},{},{}]", job(0, "a", "one"), job(1, "b", "two"), job(2, "c", "one"));
    let sent = service.post("/api/v1/jobs", &all).await.is(201);
    let got: Vec<JobId> = sent["jobs"].as_array().unwrap().iter().map(id_of).collect();
    assert_eq!(got, ids);
    assert_eq!(client.stats("one").await.unwrap().waiting + client.stats("two").await.unwrap().waiting, 3);
    assert_eq!(service.post("/api/v1/jobs", &all).await.is(200)["jobs"][2]["created"], false);

    // One that can't be sent doesn't hold up its neighbours.
    let mixed = format!("[{},{}]", job(0, "a", "one"), job(1, "no name", "one"));
    let answers = service.post("/api/v1/jobs", &mixed).await.is(207);
    assert_eq!(answers["jobs"][0]["created"], false);
    assert_eq!(answers["jobs"][1]["problem"]["status"], 400);
    // What can't be read is refused as a whole, and names its place.
    let wrong = r#"[{"name":"a","version":1,"payload":1,"queue":"none"},{"name":"b","version":1,"queue":"none"}]"#;
    let problem = service.post("/api/v1/jobs", wrong).await.fails(400, "invalid-request");
    assert!(problem["detail"].as_str().unwrap().contains("job 1 of the list"), "{problem}");
    assert_eq!(client.stats("none").await.unwrap().enqueued_total, 0);
    // Where none is sent, the status says so.
    let none = r#"[{"name":"no name","version":1,"payload":1},{"name":"a","version":0,"payload":1}]"#;
    let problem = service.post("/api/v1/jobs", none).await.fails(400, "invalid-request");
    assert_eq!(problem["jobs"].as_array().unwrap().len(), 2);
    service.post("/api/v1/jobs", "[]").await.fails(400, "invalid-request");
}

#[tokio::test]
async fn a_job_is_found_moved_and_cancelled() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let ids = waiting(&client, "mail", "newsletter", 120).await;
    // A foreign hand's entry among the queues is in nobody's way.
    server.command(&["ZADD", "delayq:queues", "0", "<script>x}:dead"]).unwrap();
    let path = format!("/api/v1/jobs/{}", ids[0]);
    assert_eq!(service.get(&path).await.is(200)["payload"], json!({ "n": 0 }));

    let moved = service.post(&format!("{path}/reschedule"), r#"{"in":"2h"}"#).await.is(200);
    let due = client.jobs("mail").get(ids[0]).await.unwrap().unwrap().due.unwrap();
    assert_eq!(moved["due"], format!("{due:.3}"));
    let moved =
        service.post(&format!("{path}/reschedule?queue=mail"), r#"{"at":"2126-01-01T00:00:00Z"}"#).await.is(200);
    assert_eq!(moved["due"], "2126-01-01T00:00:00.000Z");
    for wrong in [r#"{}"#, r#"{"in":"1h","at":"2126-01-01T00:00:00Z"}"#, r#"{"in":"soon"}"#, r#"{"at":"tomorrow"}"#] {
        service.post(&format!("{path}/reschedule"), wrong).await.fails(400, "invalid-request");
    }

    assert_eq!(service.delete(&path).await.is(200)["outcome"], "cancelled");
    assert_eq!(service.get(&path).await.is(200)["state"], "cancelled", "for a while it is known how it ended");
    assert_eq!(service.delete(&path).await.is(200)["outcome"], "cancelled", "it may be sent again");
    service.post(&format!("{path}/reschedule"), r#"{"in":"2h"}"#).await.fails(404, "not-found");
    service.delete(&format!("/api/v1/jobs/{}", JobId::new())).await.fails(404, "not-found");
    service.get(&format!("/api/v1/jobs/{}", JobId::new())).await.fails(404, "not-found");
    service.get("/api/v1/jobs/7").await.fails(400, "invalid-request");

    // Pages cover all, and no page has payloads.
    let (mut after, mut seen) = (String::new(), Vec::new());
    loop {
        let page = service.get(&format!("/api/v1/jobs?queue=mail&limit=50{after}")).await.is(200);
        let jobs = page["jobs"].as_array().unwrap();
        assert!(jobs.iter().all(|job| job.get("payload").is_none() && job["payload_bytes"].as_u64() > Some(0)));
        seen.extend(jobs.iter().map(id_of));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ids[1..]);
    let found =
        service.get("/api/v1/jobs?queue=mail&name=newsletter&payload=%22n%22%3A7%7D&due_from=now").await.is(200);
    assert_eq!(found["jobs"].as_array().unwrap().iter().map(id_of).collect::<Vec<_>>(), [ids[7]]);
    service.get("/api/v1/jobs?queue=mail&state=lost").await.fails(400, "invalid-request");
    service.get("/api/v1/jobs?queue=mail&after=x").await.fails(400, "invalid-request");
    service.get("/api/v1/jobs").await.fails(400, "invalid-request");
}

#[tokio::test]
async fn dead_letters_are_found_retried_and_deleted() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let ids = bury(&client, &["timeout", "refused", "timeout"]).await;
    let listed = service.get("/api/v1/dead?queue=orders&error=timeout&reason=retries_exhausted").await.is(200);
    let found: BTreeSet<JobId> = listed["jobs"].as_array().unwrap().iter().map(id_of).collect();
    assert_eq!(found, BTreeSet::from([ids[0], ids[2]]));
    let times = |listed: &Value| -> Vec<String> {
        listed["jobs"].as_array().unwrap().iter().map(|job| job["dead_since"].as_str().unwrap().to_owned()).collect()
    };
    let newest_first = times(&service.get("/api/v1/dead?queue=orders").await.is(200));
    assert!(newest_first.is_sorted_by(|a, b| a >= b), "{newest_first:?}");
    let oldest = times(&service.get("/api/v1/dead?queue=orders&oldest_first=true&limit=1").await.is(200));
    assert_eq!(oldest, newest_first[2..]);
    service.get("/api/v1/dead?queue=orders&reason=boredom").await.fails(400, "invalid-request");

    let path = format!("/api/v1/dead/{}", ids[1]);
    let shown = service.get(&path).await.is(200);
    assert_eq!((&shown["failure"]["text"], &shown["payload"]), (&"refused".into(), &json!({ "says": "refused" })));
    service.delete(&format!("/api/v1/jobs/{}", ids[1])).await.fails(409, "wrong-state");
    assert_eq!(service.post(&format!("{path}/retry"), "").await.is(200)["outcome"], "retried");
    assert_eq!(client.jobs(ORDERS).get(ids[1]).await.unwrap().unwrap().state, JobState::Waiting);
    service.post(&format!("{path}/retry"), "").await.fails(409, "wrong-state");
    let path = format!("/api/v1/dead/{}?queue=orders", ids[0]);
    assert_eq!(service.delete(&path).await.is(200)["outcome"], "deleted");
    service.delete(&path).await.fails(404, "not-found");
    assert_eq!(client.stats(ORDERS).await.unwrap().dead, 1);
}

#[tokio::test]
async fn queues_are_counted_paused_and_foreseen() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    waiting(&client, ORDERS, "cancel_order", 3).await;
    let all = service.get("/api/v1/queues").await.is(200);
    assert_eq!((&all["queues"][0]["queue"], &all["queues"][0]["waiting"]), (&ORDERS.into(), &3.into()));
    assert_eq!(service.get("/api/v1/queues/orders").await.is(200)["totals"]["enqueued"], 3);
    service.get("/api/v1/queues/oders").await.fails(404, "not-found");
    waiting(&client, "mail", "newsletter", 1).await;
    let first = service.get("/api/v1/queues?limit=1").await.is(200);
    assert_eq!((&first["queues"][0]["queue"], &first["next"]), (&"mail".into(), &"mail".into()));
    let rest = service.get("/api/v1/queues?limit=1&after=mail").await.is(200);
    assert_eq!((&rest["queues"][0]["queue"], &rest["next"]), (&ORDERS.into(), &Value::Null));
    assert_eq!(service.get("/api/v1/queues").await.is(200)["queues"].as_array().unwrap().len(), 2);

    let pause = service.post("/api/v1/queues/orders/pause", "").await.is(200);
    assert_eq!(pause, json!({ "queue": "orders", "paused": true, "changed": true }));
    assert!(client.stats(ORDERS).await.unwrap().paused);
    assert_eq!(service.post("/api/v1/queues/orders/pause", "").await.is(200)["changed"], false);
    assert_eq!(service.post("/api/v1/queues/orders/resume", "").await.is(200)["changed"], true);
    service.post("/api/v1/queues/oders/pause", "").await.fails(404, "not-found");
    assert!(!client.stats("oders").await.unwrap().paused);
    service.post("/api/v1/queues/oders/pause?new=true", "").await.is(200);
    assert!(client.stats("oders").await.unwrap().paused);

    let ahead = service.get("/api/v1/queues/orders/forecast?step=45m&steps=2").await.is(200);
    assert_eq!((&ahead["steps"], &ahead["step_ms"], &ahead["later"]), (&json!([0, 3]), &2_700_000.into(), &0.into()));
}

#[tokio::test]
async fn autoscalers_learn_what_is_due_and_what_comes() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let idle = service.get("/api/v1/queues/orders/scale").await.is(200);
    assert_eq!((&idle["value"], &idle["workers"]), (&0.into(), &0.into()), "a queue that nobody used yet");
    let worker = Running::start(&client, "one");
    for says in ["wait", "wait"] {
        client.enqueue().send(charge(says)).await.unwrap();
    }
    client.schedule(std::time::Duration::from_secs(30)).send(charge("pass")).await.unwrap();
    waiting(&client, ORDERS, "cancel_order", 4).await;
    eventually("both run", || async { (client.stats(ORDERS).await.unwrap().running == 2).then_some(()) }).await;
    let busy = service.get("/api/v1/queues/orders/scale").await.is(200);
    assert_eq!(
        busy,
        json!({
            "queue": "orders", "backlog": 5, "due": 0, "oldest_due_seconds": 0.0, "due_next_minute": 1, "running": 2,
            "workers": 1, "paused": false, "value": 3,
        })
    );
    let who = eventually("the worker says who it is", || async {
        let who = service.get("/api/v1/queues/orders/workers").await.is(200);
        who["workers"][0]["name"].is_string().then_some(who)
    })
    .await;
    assert_eq!((&who["workers"][0]["name"], &who["workers"][0]["running"]), (&"one".into(), &2.into()));
    client.pause(ORDERS).await.unwrap();
    assert_eq!(service.get("/api/v1/queues/orders/scale").await.is(200)["value"], 2, "of a paused one what runs");
    worker.stop().await;
    eventually("what ran is due again", || async {
        let late = service.get("/api/v1/queues/orders/scale").await.is(200);
        (late["due"] == 2 && late["oldest_due_seconds"].as_f64() > Some(0.0)).then_some(())
    })
    .await;
    listed(&client, ORDERS).await;
}

#[tokio::test]
async fn what_is_under_way_is_finished_when_the_service_is_told_to_end() {
    use super::kit::answer;
    use tokio::io::AsyncWriteExt;

    let (server, client) = server_and_client().await;
    let mut service = Serving::start(&server.url(), &[]).await;
    let body = r#"{"name":"a","version":1,"payload":{},"queue":"orders"}"#;
    let mut stream = service.connect().await;
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {OPERATOR}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // Once it asks for the body, the request is under way.
    let mut asked = [0; 25];
    crate::kit::soon(tokio::io::AsyncReadExt::read_exact(&mut stream, &mut asked)).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    service.terminate();
    eventually("nobody else gets in", || async {
        tokio::net::TcpStream::connect(&service.address).await.is_err().then_some(())
    })
    .await;
    stream.write_all(body.as_bytes()).await.unwrap();
    answer(&mut stream).await.is(201);
    assert_eq!(service.ended().await, Some(0));
    assert_eq!(client.stats("orders").await.unwrap().enqueued_total, 1);
}

#[tokio::test]
async fn a_change_whose_client_left_is_finished_and_written_down() {
    use tokio::io::AsyncWriteExt;

    let (server, client) = server_and_client().await;
    let mut service = Serving::start(&server.url(), &[]).await;
    // The store's answers wait for this long.
    server.command(&["CLIENT", "PAUSE", "700", "ALL"]).unwrap();
    let body = r#"{"name":"a","version":1,"payload":{},"queue":"orders"}"#;
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {OPERATOR}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = service.connect().await;
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let said = service.said.clone();
    let hears = |word: &'static str| said.lock().unwrap().contains(word).then_some(());
    eventually("the change begins", || async { hears("\"begins\"") }).await;
    drop(stream);
    service.terminate();
    assert_eq!(service.ended().await, Some(0));
    eventually("the change has ended", || async { hears("\"ends\"") }).await;
    assert_eq!(client.stats("orders").await.unwrap().enqueued_total, 1);
}

#[tokio::test]
async fn a_store_that_is_gone_is_told_and_one_that_comes_back_is_used() {
    let (mut server, _client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    service.get("/readyz").await.is(200);
    server.kill();
    let body = r#"{"name":"a","version":1,"payload":{}}"#;
    let gone = service.post("/api/v1/jobs", body).await;
    assert!(matches!(gone.status, 503 | 504), "{gone:#?}");
    assert!(serde_json::from_str::<Value>(&gone.body).unwrap()["id"].is_string(), "to send it again with: {gone:#?}");
    service.get("/healthz").await.is(200);
    eventually("it is not ready", || async { (service.get("/readyz").await.status == 503).then_some(()) }).await;
    let metrics = service.get("/metrics").await;
    assert!(metrics.body.contains("delayq_store_up 0\n") && !metrics.body.contains("delayq_jobs{"), "{metrics:#?}");
    server.restart().unwrap();
    eventually("it is ready", || async { (service.get("/readyz").await.status == 200).then_some(()) }).await;
    service.post("/api/v1/jobs", body).await.is(201);
}

//! The document held to the service: each operation called by each role, each answer held to its schema.

use delayq::JobId;
use jiff::Timestamp;
use serde_json::Value;

use super::kit::{OPERATOR, READER, Serving};
use crate::kit::{ORDERS, Running, bury, charge, eventually, server_and_client, waiting};

/// An operation of the document.
pub(super) struct Operation<'a> {
    pub(super) method: String,
    path: &'a str,
    pub(super) name: &'a str,
    role: &'a str,
    responses: &'a Value,
}

pub(super) fn operations(document: &Value) -> Vec<Operation<'_>> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            all.push(Operation {
                method: method.to_uppercase(),
                path,
                name: operation["operationId"].as_str().unwrap(),
                role: operation["x-role"].as_str().unwrap(),
                responses: &operation["responses"],
            });
        }
    }
    all
}

/// What is wrong with a value by a schema of the document: the part of JSON Schema that the document uses.
fn wrong(document: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return wrong(document, document.pointer(reference.trim_start_matches('#')).unwrap(), value, place);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = choices.iter().filter(|choice| wrong(document, choice, value, place).is_empty()).count();
        return if fits == 1 { Vec::new() } else { vec![format!("{place}: {value} fits {fits} of the choices")] };
    }
    let mut found = Vec::new();
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is = |kind: &str| match kind {
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        other => panic!("{place}: an unknown type {other}"),
    };
    if !types.is_empty() && !types.iter().any(|kind| is(kind)) {
        found.push(format!("{place}: {value} is none of {types:?}"));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        found.push(format!("{place}: {value} is none of {allowed:?}"));
    }
    if let Some(text) = value.as_str() {
        match schema["format"].as_str() {
            Some("uuid") if text.parse::<JobId>().is_err() => found.push(format!("{place}: {text} is no UUID")),
            Some("date-time") if !text.ends_with('Z') => found.push(format!("{place}: {text} is no instant")),
            _ => {}
        }
    }
    if let Some(fields) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                found.push(format!("{place}: {name} is missing"));
            }
        }
        for (name, field) in fields {
            match schema["properties"].get(name) {
                Some(schema) => found.extend(wrong(document, schema, field, &format!("{place}.{name}"))),
                None if schema["additionalProperties"] == false => {
                    found.push(format!("{place}: {name} is not told of"));
                }
                None => {}
            }
        }
    }
    for item in value.as_array().into_iter().flatten() {
        found.extend(wrong(document, &schema["items"], item, &format!("{place}[]")));
    }
    found
}

/// A request of each operation that can be done, with what its path, query and body take. A new one has to be put here.
pub(super) fn request(name: &str, waits: &JobId, cancels: &JobId, dead: &[JobId]) -> (String, &'static str) {
    const JOB: &str = r#"{"name":"a","version":1,"payload":{},"queue":"orders","in":"1h"}"#;
    let (path, body) = match name {
        "enqueue" => ("/api/v1/jobs".to_owned(), JOB),
        "listJobs" => ("/api/v1/jobs?queue=orders&state=running".to_owned(), ""),
        "getJob" => (format!("/api/v1/jobs/{waits}?queue=orders"), ""),
        "cancelJob" => (format!("/api/v1/jobs/{cancels}"), ""),
        "rescheduleJob" => (format!("/api/v1/jobs/{waits}/reschedule"), r#"{"in":"2h"}"#),
        "listQueues" => ("/api/v1/queues".to_owned(), ""),
        "getQueue" => ("/api/v1/queues/orders".to_owned(), ""),
        "pauseQueue" => ("/api/v1/queues/orders/pause".to_owned(), ""),
        "resumeQueue" => ("/api/v1/queues/orders/resume".to_owned(), ""),
        "forecastQueue" => ("/api/v1/queues/orders/forecast".to_owned(), ""),
        "listWorkers" => ("/api/v1/queues/orders/workers".to_owned(), ""),
        "scaleQueue" => ("/api/v1/queues/orders/scale".to_owned(), ""),
        "listDead" => ("/api/v1/dead?queue=orders".to_owned(), ""),
        "getDead" => (format!("/api/v1/dead/{}", dead[0]), ""),
        "deleteDead" => (format!("/api/v1/dead/{}", dead[1]), ""),
        "retryDead" => (format!("/api/v1/dead/{}/retry", dead[2]), ""),
        "getDocument" => ("/api/v1/openapi.json".to_owned(), ""),
        "getMetrics" => ("/metrics".to_owned(), ""),
        "isAlive" => ("/healthz".to_owned(), ""),
        "isReady" => ("/readyz".to_owned(), ""),
        other => panic!("the operation {other} is new: say how it is called"),
    };
    (path, body)
}

#[tokio::test]
async fn s06_each_operation_is_for_its_role_and_answers_as_the_document_says() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let dead = bury(&client, &["timeout", "timeout", "timeout"]).await;
    let ids = waiting(&client, ORDERS, "cancel_order", 2).await;
    let worker = Running::start(&client, "one");
    client.enqueue().send(charge("wait")).await.unwrap();
    eventually("the worker says who it is", || async {
        let workers = client.workers(ORDERS).await.unwrap();
        workers.iter().any(|worker| worker.name.is_some() && worker.running == 1).then_some(())
    })
    .await;
    let document = service.call("GET", "/api/v1/openapi.json", None, "").await.is(200);
    let operations = operations(&document);
    assert!(operations.len() >= 20);
    let before = changes(&client).await;
    for operation in &operations {
        let (path, body) = request(operation.name, &ids[0], &ids[1], &dead);
        let call = |token| service.call(&operation.method, &path, token, body);
        // Who may not is told so, and nothing is done.
        if operation.role != "open" {
            let nobody = call(None).await;
            nobody.fails(401, "unauthorized");
            assert!(nobody.field("www-authenticate").is_some_and(|how| how.starts_with("bearer")));
            call(Some("stranger-0123456789abcdef0123456789")).await.fails(401, "unauthorized");
            call(Some(&READER[1..])).await.fails(401, "unauthorized");
        }
        if operation.role == "operator" {
            call(Some(READER)).await.fails(403, "forbidden");
            assert_eq!(changes(&client).await, before, "{}", operation.name);
        } else if operation.role == "reader" {
            assert_eq!(call(Some(READER)).await.status, 200, "{}", operation.name);
        }
    }
    for operation in &operations {
        let (path, body) = request(operation.name, &ids[0], &ids[1], &dead);
        let answer = service.call(&operation.method, &path, Some(OPERATOR), body).await;
        let said = &operation.responses[answer.status.to_string()];
        assert!(said.is_object(), "{} {}: {answer:#?}", operation.method, operation.path);
        let (kind, schema) = said["content"].as_object().unwrap().iter().next().unwrap();
        assert!(answer.field("content-type").is_some_and(|is| is.starts_with(kind.as_str())), "{answer:#?}");
        if kind == "application/json" {
            let found = wrong(&document, &schema["schema"], &answer.is(answer.status), operation.name);
            assert!(found.is_empty(), "{found:#?}");
        }
    }
    assert_ne!(changes(&client).await, before);
    // Other shapes of the same answers.
    for (name, path) in [
        ("getJob", format!("/api/v1/jobs/{}", ids[1])),
        ("listJobs", "/api/v1/jobs?queue=orders".to_owned()),
        ("listQueues", "/api/v1/queues".to_owned()),
    ] {
        if name == "listQueues" {
            // One of them is damaged.
            waiting(&client, "junk", "a", 1).await;
            server.command(&["SET", "delayq:{junk/0}:dead", "x"]).unwrap();
        }
        let operation = operations.iter().find(|operation| operation.name == name).unwrap();
        let schema = &operation.responses["200"]["content"]["application/json"]["schema"];
        let found = wrong(&document, schema, &service.get(&path).await.is(200), name);
        assert!(found.is_empty(), "{found:#?}");
    }
    let problem = service.get("/api/v1/jobs?queue=orders&x=1").await.fails(400, "invalid-request");
    let schema = &document["components"]["schemas"]["Problem"];
    assert_eq!(wrong(&document, schema, &problem, "a problem"), [""; 0]);
    worker.stop().await;
}

#[tokio::test]
async fn s08_no_get_and_no_head_writes_to_the_store() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let dead = bury(&client, &["timeout", "timeout", "timeout"]).await;
    let ids = waiting(&client, ORDERS, "cancel_order", 2).await;
    let document = service.call("GET", "/api/v1/openapi.json", None, "").await.is(200);
    // The server counts each change of a key.
    let written = || server.info("rdb_changes_since_last_save").unwrap();
    let before = written();
    for operation in operations(&document).iter().filter(|operation| operation.method == "GET") {
        let (path, _) = request(operation.name, &ids[0], &ids[1], &dead);
        for method in ["GET", "HEAD"] {
            let answer = service.call(method, &path, Some(OPERATOR), "").await;
            assert_eq!(answer.status, 200, "{method} {path}: {answer:#?}");
            assert_eq!(written(), before, "{method} {path}");
        }
    }
    service.post("/api/v1/queues/orders/pause", "").await.is(200);
    assert!(written() > before, "a change is seen");
}

/// All that a change would change.
async fn changes(client: &delayq::Client) -> (u64, u64, u64, bool, Option<Timestamp>) {
    let stats = client.stats(ORDERS).await.unwrap();
    // A later due time moves the first one.
    (stats.enqueued_total, stats.cancelled_total, stats.dead, stats.paused, stats.next_due)
}

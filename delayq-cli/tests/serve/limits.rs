//! What the service withstands: bodies that are too large, too deep or too odd, clients that are too slow or too many.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::kit::{OPERATOR, PATIENCE, READER, Serving, answer, rest};
use crate::kit::{eventually, server_and_client, soon};

const PATH: &str = "/api/v1/jobs";

fn head(fields: &str) -> String {
    format!(
        "POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {OPERATOR}\r\ncontent-type: application/json\r\n\
         connection: close\r\n{fields}\r\n\r\n"
    )
}

#[tokio::test]
async fn s13_a_body_that_is_too_large_is_refused_before_it_is_there() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &["--body-limit", "2000"]).await;
    // The length alone is enough: not a byte of this body is ever sent.
    let mut stream = service.connect().await;
    stream.write_all(head("content-length: 2001").as_bytes()).await.unwrap();
    answer(&mut stream).await.fails(413, "too-large");
    // Where none is said, it is counted.
    let mut stream = service.connect().await;
    stream.write_all(head("transfer-encoding: chunked").as_bytes()).await.unwrap();
    for _ in 0..3 {
        stream.write_all(format!("3e8\r\n{}\r\n", " ".repeat(1000)).as_bytes()).await.unwrap();
    }
    answer(&mut stream).await.fails(413, "too-large");
    // Who has no token isn't listened to at all.
    let mut stream = service.connect().await;
    let nobody = head("content-length: 2000").replace(OPERATOR, "nobody");
    stream.write_all(nobody.as_bytes()).await.unwrap();
    answer(&mut stream).await.fails(401, "unauthorized");
    let fits = format!(r#"{{"name":"a","version":1,"payload":"{}"}}"#, "x".repeat(1900));
    service.post(PATH, &fits).await.is(201);
    assert_eq!(client.stats("default").await.unwrap().enqueued_total, 1);
    for args in [&["--body-limit", "10"][..], &["--body-limit", "100000000"], &["--connections", "0"]] {
        crate::kit::run(&server.url(), &[&["serve"], args].concat()).await.fails(2, args[0]);
    }
}

#[tokio::test]
async fn s13_lists_and_depths_have_an_end() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let job = r#"{"name":"a","version":1,"payload":{},"in":"1h"}"#;
    let list = |count| format!("[{}]", vec![job; count].join(","));
    let refused = service.post(PATH, &list(1001)).await.fails(400, "invalid-request");
    assert!(refused["detail"].as_str().unwrap().contains("1 to 1000"), "{refused}");
    assert_eq!(service.post(PATH, &list(1000)).await.is(201)["jobs"].as_array().unwrap().len(), 1000);
    for depth in [127, 1001, 100_000] {
        let deep = format!(r#"{{"name":"a","version":1,"payload":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        service.post(PATH, &deep).await.fails(400, "invalid-request");
    }
    let deep = format!(r#"{{"name":"a","version":1,"payload":{}{},"in":"1h"}}"#, "[".repeat(126), "]".repeat(126));
    service.post(PATH, &deep).await.is(201);
    assert_eq!(client.stats("default").await.unwrap().enqueued_total, 1001);
    // A payload over the library's own bound, in a body within the service's.
    let service = Serving::start(&server.url(), &["--body-limit", "30000000"]).await;
    let large = format!(r#"{{"name":"a","version":1,"payload":"{}"}}"#, "x".repeat(17 * 1024 * 1024));
    service.post(PATH, &large).await.fails(413, "payload");
}

#[tokio::test]
async fn s14_odd_bodies_are_refused_with_nothing_written() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let token = format!("authorization: Bearer {OPERATOR}");
    let job = r#"{"name":"a","version":1,"payload":{}}"#;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"] {
        let fields = [token.as_str(), &format!("content-type: {kind}")];
        service.send("POST", PATH, &fields, job).await.fails(415, "not-json");
    }
    service.send("POST", PATH, &[&token], job).await.fails(415, "not-json");
    let both = [&token, "content-type: application/json", "content-type: text/plain"];
    service.send("POST", PATH, &both, job).await.fails(415, "not-json");
    for odd in [
        "null",
        "7",
        "{",
        "\u{feff}{}",
        r#"{"name":"a","version":1,"payload":{},"extra":1}"#,
        r#"{"name":"a","name":"b","version":1,"payload":{}}"#,
        r#"{"name":"a","version":1,"payload":{"a":1,"a":2}}"#,
        r#"{"name":"a","version":1,"payload":{"a":[{"b":1,"\u0062":2}]}}"#,
        r#"{"name":"a","version":1,"payload":{}} {}"#,
        r#"{"name":"a","version":1.5,"payload":{}}"#,
        r#"{"name":"a","version":1,"payload":{},"priority":10}"#,
        r#"{"name":"a","version":1,"payload":{},"priority":256}"#,
        r#"{"name":"a","version":1,"payload":{},"id":"7"}"#,
        r#"{"name":"a","version":1,"payload":{},"expires_in":"0s"}"#,
        r#"{"name":"a","version":1,"payload":{},"trace_parent":"x\r\ny"}"#,
        r#"{"name":"a","version":1,"payload":{},"in":"9999999w"}"#,
    ] {
        service.post(PATH, odd).await.fails(400, "invalid-request");
    }
    service.post(&format!("{PATH}?queue=orders"), "").await.fails(415, "not-json");
    for query in ["x=1", "queue=a&queue=b", "queue=orders&limit=1&limit=2"] {
        service.get(&format!("{PATH}?{query}")).await.fails(400, "invalid-request");
    }
    assert_eq!(client.stats("default").await.unwrap().enqueued_total, 0);
}

#[tokio::test]
async fn s15_slow_clients_are_given_up() {
    /// A little less than the patience: timers are rounded.
    const ENDURED: Duration = Duration::from_millis(1950);
    let (server, _client) = server_and_client().await;
    let service = Serving::start(&server.url(), &["--patience", "2s"]).await;
    let begins = async |begun: &str| {
        let since = Instant::now();
        let mut stream = service.connect().await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        let said = rest(&mut stream).await;
        assert!(!said.starts_with(b"HTTP/1.1 2"), "{:?}", String::from_utf8_lossy(&said));
        assert!(since.elapsed() >= ENDURED, "{:?}", since.elapsed());
    };
    let without_body = async {
        let mut stream = service.connect().await;
        stream.write_all(format!("{}{{", head("content-length: 100")).as_bytes()).await.unwrap();
        answer(&mut stream).await.fails(408, "too-slow");
    };
    // A head that never ends; nothing at all; and a body that doesn't come.
    tokio::join!(begins("GET /healthz HTTP/1.1\r\nhost: x\r\na"), begins(""), without_body);
    service.get("/healthz").await.is(200);
}

#[tokio::test]
async fn s15_a_connection_too_many_waits_for_its_place() {
    let (server, _client) = server_and_client().await;
    let service = Serving::start(&server.url(), &["--connections", "2"]).await;
    let (first, second) = (service.connect().await, service.connect().await);
    // Both have their places once they are answered on.
    let mut open = Vec::new();
    for mut stream in [first, second] {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut begun = [0; 12];
        soon(stream.read_exact(&mut begun)).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        open.push(stream);
    }
    let waits = service.get("/healthz");
    tokio::pin!(waits);
    assert!(tokio::time::timeout(PATIENCE, &mut waits).await.is_err(), "there is no third place");
    open.pop();
    waits.await.is(200);
}

#[tokio::test]
async fn s15_too_many_requests_are_told_to_wait() {
    let (server, _client) = server_and_client().await;
    let service = Serving::start(&server.url(), &["--rate", "5"]).await;
    let (mut served, mut refused) = (0, service.get("/api/v1/queues").await);
    while refused.status == 200 && served < 1000 {
        served += 1;
        refused = service.get("/api/v1/queues").await;
    }
    assert!(served >= 10, "the bucket holds twice the rate: {served}");
    refused.fails(429, "too-many-requests");
    assert!(refused.field("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    // Probes are always answered, and those who wait are let in again.
    for _ in 0..20 {
        service.call("GET", "/healthz", None, "").await.is(200);
    }
    eventually("it is let in again", || async {
        (service.call("GET", "/api/v1/queues", Some(READER), "").await.status == 200).then_some(())
    })
    .await;
    let any = Serving::start(&server.url(), &["--rate", "0"]).await;
    for _ in 0..30 {
        any.get("/api/v1/queues").await.is(200);
    }
}

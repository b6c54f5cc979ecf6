//! The security checks that touch the service, by their numbers: who gets in, and what is harmless. `document.rs` has number 6,
//! `limits.rs` 13 to 15, `users.rs` 20; docs/security-checks.md lists them all.

use delayq::RawJob;
use delayq_redis_fixture::RedisServer;
use futures_util::future::join_all;
use serde_json::Value;

use super::kit::{OPERATOR, READER, Serving};
use crate::kit::{
    Folder, HOUR, ORDERS, bury, ended, eventually, listed, program, run, server_and_client, shown, waiting,
};

const JOB: &str = r#"{"name":"a","version":1,"payload":{"card":"s3cret-payload"},"queue":"orders","in":"1h"}"#;

#[tokio::test]
async fn s01_without_a_token_nothing_beyond_this_machine_is_listened_on() {
    // It refuses before it looks for the store.
    let nowhere = "redis://127.0.0.1:1/";
    for beyond in ["0.0.0.0:0", "[::]:0", "10.0.0.1:0", "[::ffff:127.0.0.1]:0"] {
        run(nowhere, &["serve", "--listen", beyond]).await.fails(2, "there is no token");
        run(nowhere, &["serve", "--listen", beyond, "--metrics-open"]).await.fails(2, "there is no token");
    }
    let server = RedisServer::start().unwrap();
    let mut open = program(&server.url(), &["serve", "--listen", "0.0.0.0:0"]);
    let mut child = open.env("DELAYQ_OPERATOR_TOKENS", OPERATOR).spawn().unwrap();
    let mut line = String::new();
    let mut out = tokio::io::BufReader::new(child.stdout.take().unwrap());
    crate::kit::soon(tokio::io::AsyncBufReadExt::read_line(&mut out, &mut line)).await.unwrap();
    assert!(line.starts_with("listening on http://0.0.0.0:"), "{line}");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn s02_who_has_no_token_gets_nothing_but_the_probes() {
    let (server, _client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    for path in ["/healthz", "/readyz"] {
        service.call("GET", path, None, "").await.is(200);
    }
    for path in ["/metrics", "/api/v1/queues", "/api/v1/dead?queue=orders"] {
        service.call("GET", path, None, "").await.fails(401, "unauthorized");
    }
    service.call("GET", "/", None, "").await.fails(404, "no-such-path");
    let open = Serving::start(&server.url(), &["--metrics-open"]).await;
    assert_eq!(open.call("GET", "/metrics", None, "").await.status, 200);
    open.call("GET", "/api/v1/queues", None, "").await.fails(401, "unauthorized");

    // Without any token this machine is served, and only by its own names: a page's name may lead here.
    let local = Serving::start_with(&server.url(), &[], &[]).await;
    let warned = || async { local.said.lock().unwrap().contains("there is no token").then_some(()) };
    eventually("it warns", warned).await;
    local.call("POST", "/api/v1/jobs", None, JOB).await.is(201);
    local.send("GET", "/api/v1/queues", &["host: evil.example"], "").await.fails(403, "cross-site");
    local.send("GET", "/healthz", &["host: evil.example"], "").await.is(200);
}

#[tokio::test]
async fn s03_what_a_request_says_of_its_address_grants_nothing() {
    let (server, _client) = server_and_client().await;
    let service = Serving::start(&server.url(), &["--rate", "2"]).await;
    let mut nth = 0;
    // Addresses of their own would have a bucket each, and none would ever be empty.
    eventually("the one bucket is empty", || {
        nth += 1;
        let forwarded = format!("x-forwarded-for: 127.0.0.{nth}");
        let service = &service;
        async move {
            let fields = [forwarded.as_str(), "x-real-ip: 127.0.0.1", "forwarded: for=127.0.0.1"];
            let answer = service.send("GET", "/api/v1/queues", &fields, "").await;
            assert!(matches!(answer.status, 401 | 429), "{answer:#?}");
            assert!(nth < 200, "each address has its own");
            (answer.status == 429).then_some(())
        }
    })
    .await;
}

#[tokio::test]
async fn s04_weak_tokens_are_refused_and_none_is_built_in() {
    let folder = Folder::new();
    let nowhere = "redis://127.0.0.1:1/";
    for weak in ["secret", &"a".repeat(40), "0123456789abcdef"] {
        let file = folder.write("tokens", &format!("# readers\n\n{weak}\n"));
        let refused = run(nowhere, &["serve", "--reader-tokens", &file]).await;
        refused.fails(2, "too easy to guess");
        assert!(!refused.err.contains(weak), "{refused:#?}");
        let mut by_environment = program(nowhere, &["serve"]);
        by_environment.env("DELAYQ_OPERATOR_TOKENS", format!("{OPERATOR},{weak}"));
        ended(by_environment).await.fails(2, "token 2 of DELAYQ_OPERATOR_TOKENS is too easy to guess");
    }
    // Whoever names a place for tokens doesn't mean to have none.
    let empty = folder.write("empty", "# none yet\n");
    run(nowhere, &["serve", "--reader-tokens", &empty]).await.fails(2, "has no token");
    let mut by_environment = program(nowhere, &["serve"]);
    by_environment.env("DELAYQ_READER_TOKENS", " ");
    ended(by_environment).await.fails(2, "DELAYQ_READER_TOKENS has no token");
    run(nowhere, &["serve", "--operator-tokens", "/no/such/file"]).await.fails(2, "can't be read");
    let same = folder.write("same", READER);
    let both = ["serve", "--reader-tokens", &same, "--operator-tokens", &same];
    run(nowhere, &both).await.fails(2, "both roles");
    let mut help = program(nowhere, &["serve", "--help"]);
    help.env("DELAYQ_READER_TOKENS", READER);
    assert!(!ended(help).await.ok().contains(READER));

    // Several tokens of a role, from a file.
    let server = RedisServer::start().unwrap();
    let file = folder.write("several", &format!("{OPERATOR}-1\r\n  {OPERATOR}-2  \n"));
    let service = Serving::start_with(&server.url(), &["--operator-tokens", &file], &[]).await;
    for nth in ["1", "2"] {
        service.call("GET", "/api/v1/queues", Some(&format!("{OPERATOR}-{nth}")), "").await.is(200);
    }
    service.call("GET", "/api/v1/queues", Some(OPERATOR), "").await.fails(401, "unauthorized");
}

/// As of `--operator-tokens <(vault read ...)`.
#[cfg(unix)]
#[tokio::test]
async fn tokens_from_a_pipe_are_read_once() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    let server = RedisServer::start().unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--operator-tokens", "/dev/stdin"];
    let mut child = program(&server.url(), &args).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(format!("{OPERATOR}\n").as_bytes()).await.unwrap();
    drop(pipe);
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    crate::kit::soon(out.read_line(&mut line)).await.unwrap();
    assert!(line.starts_with("listening on http://127.0.0.1:"), "{line:?}");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn s05_a_token_comes_as_a_bearer_token_and_once() {
    let (server, _client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let right = format!("authorization: bEARER {READER}");
    service.send("GET", "/api/v1/queues", &[&right], "").await.is(200);
    for wrong in [
        vec![format!("authorization: Basic {READER}")],
        vec![format!("authorization: {READER}")],
        vec!["authorization: Bearer".to_owned()],
        vec![format!("authorization: Bearer {READER}, Bearer {OPERATOR}")],
        vec![right.clone(), right.clone()],
        vec![format!("cookie: token={READER}")],
    ] {
        let fields: Vec<&str> = wrong.iter().map(String::as_str).collect();
        service.send("GET", "/api/v1/queues", &fields, "").await.fails(401, "unauthorized");
    }
    let in_query = format!("/api/v1/queues?token={READER}");
    service.call("GET", &in_query, None, "").await.fails(401, "unauthorized");
}

#[tokio::test]
async fn s07_pages_of_other_sites_change_nothing() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let token = format!("authorization: Bearer {OPERATOR}");
    let origin = format!("origin: http://{}", service.address);
    let json = "content-type: application/json";
    for fields in [
        vec!["sec-fetch-site: cross-site"],
        vec!["sec-fetch-site: same-site"],
        vec!["sec-fetch-site: cross-site", &origin],
        vec!["origin: http://evil.example"],
        vec!["origin: null"],
    ] {
        let fields = [&[token.as_str(), json][..], &fields].concat();
        service.send("POST", "/api/v1/jobs", &fields, JOB).await.fails(403, "cross-site");
        service.send("POST", "/api/v1/queues/orders/pause?new=true", &fields, "").await.fails(403, "cross-site");
    }
    let stats = client.stats(ORDERS).await.unwrap();
    assert_eq!((stats.enqueued_total, stats.paused), (0, false));
    service.send("POST", "/api/v1/jobs", &[&token, json, &origin], JOB).await.is(201);
    service.send("POST", "/api/v1/jobs", &[&token, json, "sec-fetch-site: same-origin"], JOB).await.is(201);
    // To look is no change, and no other site may read the answer.
    let looked = service.send("GET", "/api/v1/queues", &[&token, "origin: http://evil.example"], "").await;
    looked.is(200);
    assert_eq!(looked.field("access-control-allow-origin"), None);
}

/// What a page of another site could make a browser send: a form, a link, whatever cookie is there.
#[tokio::test]
async fn b102_forged_requests_and_odd_cookies_change_nothing_and_are_no_fault_of_the_service() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let token = format!("authorization: Bearer {OPERATOR}");
    let json = "content-type: application/json";
    let cookies =
        ["cookie: session=%00%ff; =;;", "cookie: session", "cookie: \"", "cookie: a=b=c; session=e30.e30.e30"];
    for cookie in cookies {
        service.send("POST", "/api/v1/jobs", &[json, cookie], JOB).await.fails(401, "unauthorized");
        let forged = [token.as_str(), json, cookie, "origin: http://evil.example"];
        service.send("POST", "/api/v1/jobs", &forged, JOB).await.fails(403, "cross-site");
        let linked = service.send("GET", "/api/v1/queues/orders/pause", &[&token, cookie], "").await;
        linked.fails(405, "method-not-allowed");
    }
    for form in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let field = format!("content-type: {form}");
        let sent = service.send("POST", "/api/v1/jobs", &[&token, &field], JOB).await;
        sent.fails(415, "not-json");
    }
    let stats = client.stats(ORDERS).await.unwrap();
    assert_eq!((stats.enqueued_total, stats.paused), (0, false));
    // It is not for its cookie that a request is refused.
    service.send("POST", "/api/v1/jobs", &[&token, json, cookies[0]], JOB).await.is(201);
}

#[tokio::test]
async fn s08_get_and_head_change_nothing() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let dead = bury(&client, &["timeout"]).await[0];
    let id = waiting(&client, ORDERS, "a", 1).await[0];
    for path in [
        format!("/api/v1/jobs/{id}/reschedule"),
        "/api/v1/queues/orders/pause".to_owned(),
        "/api/v1/queues/orders/resume".to_owned(),
        format!("/api/v1/dead/{dead}/retry"),
    ] {
        let answer = service.call("GET", &path, Some(OPERATOR), "").await;
        answer.fails(405, "method-not-allowed");
        assert_eq!(answer.field("allow"), Some("post"), "{answer:#?}");
        assert_eq!(service.call("HEAD", &path, Some(OPERATOR), "").await.status, 405);
    }
    let head = service.call("HEAD", "/api/v1/queues", Some(READER), "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    service.call("PUT", "/api/v1/jobs", Some(OPERATOR), JOB).await.fails(405, "method-not-allowed");
    let stats = client.stats(ORDERS).await.unwrap();
    assert_eq!((stats.waiting, stats.dead, stats.paused), (1, 1, false));
}

#[tokio::test]
async fn s09_s10_answers_are_inert_and_kept_by_nobody() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let hostile = "<script>alert(1)</script>\r\nset-cookie: a=b\u{0}\u{1b}[2J";
    let job = RawJob::new("a", 1, hostile).unique(hostile.replace('\0', "")).at(HOUR);
    let id = client.send_raw(ORDERS, vec![job]).await.remove(0).unwrap().id();
    bury(&client, &[hostile]).await;
    server.command(&["ZADD", "delayq:queues", "0", "<script>alert(1)</script>"]).unwrap();
    let encoded = "%3Cscript%3Ealert(1)%3C/script%3E%0D%0Aset-cookie:%20a=b%00";
    for path in [
        format!("/api/v1/jobs/{id}"),
        format!("/api/v1/jobs/{encoded}"),
        format!("/api/v1/jobs?queue={encoded}"),
        format!("/api/v1/jobs?queue=orders&name={encoded}"),
        format!("/api/v1/jobs?queue=orders&{encoded}=1"),
        format!("/api/v1/queues/{}/scale", encoded.replace('/', "%2F")),
        "/api/v1/dead?queue=orders".to_owned(),
        "/api/v1/queues".to_owned(),
        "/metrics".to_owned(),
        "/healthz".to_owned(),
        format!("/{encoded}"),
    ] {
        let answer = service.get(&path).await;
        assert!(matches!(answer.status, 200 | 400 | 404), "{answer:#?}");
        let kind = answer.field("content-type").unwrap_or_default();
        assert!(kind.starts_with("application/") || kind.starts_with("text/plain"), "{answer:#?}");
        assert_eq!(answer.field("set-cookie"), None, "{answer:#?}");
        assert!(!answer.body.contains(['\0', '\u{1b}']), "{answer:#?}");
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("x-frame-options", "deny"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.field(name), Some(value), "{answer:#?}");
        }
        assert!(answer.field("x-request-id").is_some());
    }
}

#[tokio::test]
async fn s12_pages_and_forecasts_are_drawn_into_their_range() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    waiting(&client, ORDERS, "a", 150).await;
    for (limit, rows) in [("0", 1), ("100000", 100), ("18446744073709551615", 100)] {
        let page = service.get(&format!("/api/v1/jobs?queue=orders&limit={limit}")).await.is(200);
        assert_eq!(page["jobs"].as_array().unwrap().len(), rows, "{limit}");
    }
    for wrong in ["limit=-1", "limit=many", "limit=1&limit=2"] {
        service.get(&format!("/api/v1/jobs?queue=orders&{wrong}")).await.fails(400, "invalid-request");
    }
    let path = "/api/v1/queues/orders/forecast";
    let far = service.get(&format!("{path}?steps=1000000&step=5200w")).await.is(200);
    assert_eq!((far["steps"].as_array().unwrap().len(), &far["step_ms"]), (499, &5_184_000_000_u64.into()));
    let near = service.get(&format!("{path}?steps=0&step=0s")).await.is(200);
    assert_eq!((near["steps"].as_array().unwrap().len(), &near["step_ms"]), (1, &1.into()));
    service.get(&format!("{path}?step=-1h")).await.fails(400, "invalid-request");
}

#[tokio::test]
async fn s16_s17_what_is_no_name_reaches_nothing() {
    let (server, _client) = server_and_client().await;
    let service = Serving::start(&server.url(), &[]).await;
    let before = server.command(&["DBSIZE"]).unwrap();
    for name in ["a\\r\\nb", "a\\nb", "a\\u0000b", "x}:dead", "{", "{}", "*?[", "", "ä"] {
        for (job, queue) in [(name, "orders"), ("a", name)] {
            let body = format!(r#"{{"name":"{job}","version":1,"payload":{{}},"queue":"{queue}"}}"#);
            service.post("/api/v1/jobs", &body).await.fails(400, "invalid-request");
        }
    }
    for queue in ["x%7D:dead", "%7B", "%7B%7D", "*%3F%5B", "a%0D%0Ab", "a%00b", "a%2Fb", "%FF"] {
        for (method, path) in [
            ("GET", format!("/api/v1/queues/{queue}")),
            ("GET", format!("/api/v1/queues/{queue}/scale")),
            ("GET", format!("/api/v1/jobs?queue={queue}")),
            ("GET", format!("/api/v1/dead?queue={queue}")),
            ("POST", format!("/api/v1/queues/{queue}/pause?new=true")),
            ("DELETE", format!("/api/v1/jobs/0197a3c2-5e1f-7d3a-9c4b-2f6e8d1a0b5c?queue={queue}")),
        ] {
            service.call(method, &path, Some(OPERATOR), "").await.fails(400, "invalid-request");
        }
    }
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), before);
}

#[tokio::test]
async fn s18_what_is_no_http_ends_nothing() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&server.url(), &["--patience", "2s"]).await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(200_000));
    let many = format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(1000));
    let garbage = [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\nhello",
        b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\na: b\0c\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ];
    // At once: some are waited for, since more of them might come.
    for answer in join_all(garbage.iter().map(|bytes| service.raw(bytes))).await {
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{:?}", String::from_utf8_lossy(&answer));
    }
    // A record that is none doesn't hurt either.
    waiting(&client, ORDERS, "a", 1).await;
    let id = "0123456789abcdef";
    server.command(&["HSET", "delayq:{orders/0}:jobs", id, "garbage"]).unwrap();
    server.command(&["ZADD", "delayq:{orders/0}:due:5", "1", id]).unwrap();
    server.command(&["ZADD", "delayq:{orders/0}:due:5", "2", "no id"]).unwrap();
    server.command(&["ZADD", "delayq:{orders/0}:dead", "1", "fedcba9876543210"]).unwrap();
    for path in ["/api/v1/jobs?queue=orders", "/api/v1/dead?queue=orders", "/api/v1/queues", "/metrics", "/readyz"] {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
    // A list of the wrong type is an error of that list alone.
    server.command(&["SET", "delayq:{mail/0}:dead", "garbage"]).unwrap();
    let answer = service.get("/api/v1/dead?queue=mail").await;
    assert!(answer.status >= 400, "{answer:#?}");
    service.get("/healthz").await.is(200);
}

#[tokio::test]
async fn s22_no_answer_log_or_metric_has_a_secret() {
    const PASSWORD: &str = "s3cret-password";
    let mut server = RedisServer::start_with(&["--requirepass", PASSWORD]).unwrap();
    let service = Serving::start(&server.url(), &[]).await;
    service.post("/api/v1/jobs", JOB).await.is(201);
    service.post("/api/v1/jobs", &JOB.replace("\"a\"", "\"no name\"")).await.fails(400, "invalid-request");
    service.post("/api/v1/jobs", &JOB.replace(r#""in":"1h""#, r#""in":1"#)).await.fails(400, "invalid-request");
    let mut told = service.get("/metrics").await.body;
    server.kill();
    for path in ["/api/v1/queues", "/api/v1/jobs?queue=orders", "/readyz", "/metrics"] {
        told += &service.get(path).await.body;
    }
    told += &service.post("/api/v1/jobs", JOB).await.body;
    let said = service.said.lock().unwrap().clone();
    assert!(said.contains("\"operation\":\"enqueue\""), "{said}");
    for text in [&told, &said] {
        for secret in [PASSWORD, "s3cret-payload", READER, OPERATOR] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[tokio::test]
async fn s23_each_change_is_written_down_before_and_after() {
    let (server, client) = server_and_client().await;
    let folder = Folder::new();
    let log = shown(&folder.file("audit.jsonl"));
    let service = Serving::start(&server.url(), &["--audit-log", &log]).await;
    let dead = bury(&client, &["timeout", "timeout"]).await;
    let job = JOB.replace("\"in\"", "\"id\":\"0197a3c2-5e1f-7d3a-9c4b-2f6e8d1a0b5c\",\"in\"");
    let path = "/api/v1/jobs/0197a3c2-5e1f-7d3a-9c4b-2f6e8d1a0b5c";
    let sent = service.post("/api/v1/jobs", &job).await;
    sent.is(201);
    service.post(&format!("{path}/reschedule"), r#"{"in":"2h"}"#).await.is(200);
    service.delete(path).await.is(200);
    service.post(&format!("/api/v1/dead/{}/retry", dead[0]), "").await.is(200);
    service.delete(&format!("/api/v1/dead/{}", dead[1])).await.is(200);
    service.post("/api/v1/queues/orders/pause", "").await.is(200);
    service.post("/api/v1/queues/orders/resume", "").await.is(200);
    // What only looks, or is refused before it is tried, is not there.
    service.get("/api/v1/queues").await.is(200);
    service.call("POST", "/api/v1/jobs", Some(READER), JOB).await.fails(403, "forbidden");
    // What is refused by the store is.
    service.post(&format!("{path}/reschedule?queue=orders"), r#"{"in":"2h"}"#).await.fails(404, "not-found");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("s3cret") && !text.contains(OPERATOR), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut operations = Vec::new();
    for pair in lines.chunks(2) {
        let [begins, ends] = pair else { panic!("{text}") };
        assert_eq!((&begins["event"], &ends["event"]), (&"begins".into(), &"ends".into()), "{text}");
        for same in ["operation", "user", "from", "request", "queue", "pid", "command"] {
            assert_eq!(begins[same], ends[same], "{text}");
        }
        assert!(begins["user"].as_str().unwrap().starts_with("operator "), "{text}");
        assert_eq!((&begins["from"], &begins["queue"]), (&"127.0.0.1".into(), &ORDERS.into()));
        operations.push(begins["operation"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        operations,
        [
            "enqueue",
            "rescheduleJob",
            "cancelJob",
            "retryDead",
            "deleteDead",
            "pauseQueue",
            "resumeQueue",
            "rescheduleJob"
        ]
    );
    assert_eq!(lines[0]["request"].as_str(), sent.field("x-request-id"));
    listed(&client, ORDERS).await;

    // What can't be written down isn't done: a log that takes no more.
    if std::path::Path::new("/dev/full").exists() {
        let full = Serving::start(&server.url(), &["--audit-log", "/dev/full"]).await;
        full.post("/api/v1/queues/orders/pause", "").await.fails(503, "no-audit-log");
        full.post("/api/v1/jobs", JOB).await.fails(503, "no-audit-log");
        let stats = client.stats(ORDERS).await.unwrap();
        assert_eq!((stats.paused, stats.enqueued_total), (false, 3));
    }
}

//! What is refused before anything is sent.

use std::collections::HashMap;
use std::time::Duration;

use delayq::limits::{PAYLOAD_BYTES_CEILING, PAYLOAD_BYTES_DEFAULT};
use delayq::{Client, ErrorKind, Job, JobContext, JobId, JobResult, Schedule, delayed_job};
use delayq_redis_fixture::RedisServer;
use delayq_tests::server_and_client;

use crate::kit::{Raw, TASKS, Task, only, pass};

/// JSON objects have no keys of this type.
#[delayed_job(name = "unwritable", version = 1)]
struct Unwritable {
    map: HashMap<Vec<u8>, u8>,
}

#[delayed_job(name = "text", version = 1, queue = "tasks")]
struct Text(String);

impl Job for Unwritable {
    async fn run(self, _: JobContext) -> JobResult {
        Ok(())
    }
}

impl Job for Text {
    async fn run(self, _: JobContext) -> JobResult {
        Ok(())
    }
}

#[tokio::test]
async fn arguments_out_of_range_are_refused_and_leave_no_key() {
    type Change = fn(Schedule<Task>) -> Schedule<Task>;
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let cases: [(&str, Change); 14] = [
        ("priority 10", |schedule| schedule.priority(10)),
        ("priority 255", |schedule| schedule.priority(255)),
        ("unique key has 0 bytes", |schedule| schedule.unique("")),
        ("unique key has 201 bytes", |schedule| schedule.unique("x".repeat(201))),
        ("unique key has 202 bytes", |schedule| schedule.unique("é".repeat(101))),
        ("expires_in", |schedule| schedule.expires_in(Duration::ZERO)),
        ("expires_in", |schedule| schedule.expires_in(Duration::MAX)),
        ("retain_for", |schedule| schedule.retain_for(Duration::ZERO)),
        ("retain_for", |schedule| schedule.retain_for(Duration::MAX)),
        ("traceparent", |schedule| schedule.trace_parent("")),
        ("traceparent", |schedule| schedule.trace_parent("00-00-00-00")),
        ("traceparent", |schedule| {
            schedule.trace_parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 x=1")
        }),
        ("traceparent", |schedule| schedule.trace_parent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n")),
        ("queue", |schedule| schedule.queue("a b")),
    ];
    for (says, change) in cases {
        let refused = change(client.enqueue()).send(pass(1)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused:?}");
        assert!(refused.to_string().contains(says), "{says}: {refused}");
    }
    let refused = client.enqueue().send(only(&"k".repeat(300), crate::kit::Act::Pass)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("hash"), "it says what to do: {refused}");
    assert_eq!(raw.keys().await, 0);
    // The limits themselves are fine.
    let most = client.enqueue().priority(9).unique("k".repeat(200)).expires_in(Duration::from_millis(1));
    most.send(pass(1)).await.unwrap();
}

#[tokio::test]
async fn b96_b97_odd_queue_names_are_refused_everywhere() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    for odd in
        ["", "a b", "a:b", "a{b}", "x}:dead", "*?[", "a%2Fb", "a/0", "ä", "😀", ".a", "a\r\nb", "a\0", &"a".repeat(65)]
    {
        let invalid = |what: &str, error: delayq::Error| {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what} {odd:?}: {error:?}");
            assert!(!error.to_string().contains(['\r', '\n', '\0']), "a name can't break a line: {error}");
        };
        invalid("send", client.enqueue().queue(odd).send(pass(1)).await.unwrap_err());
        let all = client.enqueue().queue(odd).send_all([pass(1), pass(2)]).await;
        assert_eq!(all.len(), 2);
        all.into_iter().for_each(|answer| invalid("send_all", answer.unwrap_err()));
        let handle = client.handle_in::<Task>(odd, JobId::new());
        invalid("status", handle.status().await.unwrap_err());
        invalid("cancel", handle.cancel().await.unwrap_err());
        invalid("reschedule", handle.reschedule(Duration::ZERO).await.unwrap_err());
        invalid("pause", client.pause(odd).await.unwrap_err());
        invalid("resume", client.resume(odd).await.unwrap_err());
        invalid("stats", client.stats(odd).await.unwrap_err());
        invalid("list", client.dead_letters(odd).oldest_first(1, None).await.unwrap_err());
        invalid("redrive_all", client.dead_letters(odd).redrive_all().await.unwrap_err());
        invalid("delete", client.dead_letters(odd).delete(JobId::new()).await.unwrap_err());
        let prefixed = Client::builder().prefix(odd).connect(&server.url()).await;
        invalid("prefix", prefixed.unwrap_err());
    }
    assert_eq!(raw.keys().await, 0);
}

#[tokio::test]
async fn one_id_for_two_jobs_is_refused_for_both() {
    let (server, client) = server_and_client().await;
    let answers = client.enqueue().id(JobId::new()).send_all([pass(1), pass(2)]).await;
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(Raw::connect(&server).await.keys().await, 0);
    let id = JobId::new();
    let answers = client.enqueue().id(id).send_all([pass(1)]).await;
    assert_eq!(answers[0].as_ref().unwrap().id(), id);
    assert!(client.enqueue::<Task>().send_all([]).await.is_empty());
}

#[tokio::test]
async fn a_payload_that_can_not_be_encoded_is_refused_without_showing_it() {
    let (server, client) = server_and_client().await;
    let map = HashMap::from([(b"s3cret".to_vec(), 1)]);
    let refused = client.enqueue().send(Unwritable { map }).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Payload, "{refused:?}");
    assert!(refused.to_string().contains("unwritable"), "{refused}");
    assert!(std::error::Error::source(&refused).is_some());
    assert!(!format!("{refused:?}").contains("s3cret"));
    assert_eq!(Raw::connect(&server).await.keys().await, 0);
}

#[tokio::test]
async fn a_payload_over_the_limit_is_refused_before_anything_is_sent() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let of = |bytes: usize| Text("x".repeat(bytes - 2));
    let refused = client.enqueue().send(of(PAYLOAD_BYTES_DEFAULT + 1)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Payload, "{refused:?}");
    assert!(refused.to_string().contains("1048577") && refused.to_string().contains("1048576"), "{refused}");
    assert!(!format!("{refused:?}").contains("xxx"));
    assert_eq!(raw.keys().await, 0);
    client.enqueue().send(of(PAYLOAD_BYTES_DEFAULT)).await.unwrap();

    let small = Client::builder().payload_limit(100).connect(&server.url()).await.unwrap();
    small.enqueue().send(of(100)).await.unwrap();
    assert_eq!(small.enqueue().send(of(101)).await.unwrap_err().kind(), ErrorKind::Payload);
    // One that fills several calls' worth goes alone, whole.
    let large = Client::builder().payload_limit(PAYLOAD_BYTES_CEILING).connect(&server.url()).await.unwrap();
    let handle = large.enqueue().send(of(PAYLOAD_BYTES_CEILING)).await.unwrap();
    let record = raw.record(handle.id()).await.unwrap();
    assert_eq!(record.envelope.len(), PAYLOAD_BYTES_CEILING + "text 1\n".len());
    assert_eq!(client.stats(TASKS).await.unwrap().waiting, 3);
}

#[tokio::test]
async fn settings_out_of_range_are_refused_without_connecting() {
    let mut server = RedisServer::start().unwrap();
    let url = server.url();
    server.kill();
    for (what, builder) in [
        ("payload limit", Client::builder().payload_limit(0)),
        ("payload limit", Client::builder().payload_limit(PAYLOAD_BYTES_CEILING + 1)),
        ("send deadline", Client::builder().send_deadline(Duration::ZERO)),
        ("send deadline", Client::builder().send_deadline(Duration::from_millis(10_001))),
        ("pool size", Client::builder().pool_size(0)),
        ("connect timeout", Client::builder().connect_timeout(Duration::ZERO)),
        ("response timeout", Client::builder().response_timeout(Duration::ZERO)),
        ("pool size", Client::builder().pool_size(1001)),
        ("connect timeout", Client::builder().connect_timeout(Duration::from_secs(301))),
        ("response timeout", Client::builder().response_timeout(Duration::MAX)),
    ] {
        let refused = builder.connect(&url).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config, "{what}: {refused:?}");
        assert!(refused.to_string().contains(what), "{what}: {refused}");
    }
}

//! What the service's user in the store may do, and what it may not.

use delayq_redis_fixture::RedisServer;

use super::document::{operations, request};
use super::kit::{OPERATOR, Serving};
use crate::kit::{ORDERS, bury, documented_user, eventually, server_and_client, waiting};

#[tokio::test]
async fn s20_each_operation_works_for_the_documented_user() {
    let (server, client) = server_and_client().await;
    let service = Serving::start(&documented_user(&server), &[]).await;
    let dead = bury(&client, &["timeout", "timeout", "timeout"]).await;
    let ids = waiting(&client, ORDERS, "cancel_order", 2).await;
    let document = service.call("GET", "/api/v1/openapi.json", None, "").await.is(200);
    for operation in operations(&document) {
        let (path, body) = request(operation.name, &ids[0], &ids[1], &dead);
        let answer = service.call(&operation.method, &path, Some(OPERATOR), body).await;
        assert!(matches!(answer.status, 200 | 201), "{}: {answer:#?}", operation.name);
    }
    assert_eq!(server.command(&["ACL", "LOG"]).unwrap(), "*0\r\n", "nothing else was tried");
}

#[tokio::test]
async fn b91_a_server_that_denies_scripts_is_not_ready() {
    let server = RedisServer::start().unwrap();
    let acl = ["ACL", "SETUSER", "app", "on", ">a-password", "~delayq:*", "resetchannels", "+@all"];
    server.command(&acl).unwrap();
    let url = server.url().replace("redis://", "redis://app:a-password@");
    let service = Serving::start(&url, &[]).await;
    service.call("GET", "/readyz", None, "").await.is(200);
    server.command(&["ACL", "SETUSER", "app", "-evalsha", "-eval"]).unwrap();
    eventually("it is not ready", || async {
        (service.call("GET", "/readyz", None, "").await.status == 503).then_some(())
    })
    .await;
    let problem = service.call("GET", "/readyz", None, "").await.fails(503, "not-ready");
    assert!(!problem.to_string().contains("6379") && !problem.to_string().contains("redis"), "{problem}");
    service.call("GET", "/healthz", None, "").await.is(200);
    let metrics = service.get("/metrics").await;
    assert!(metrics.body.contains("delayq_store_up 0\n"), "{metrics:#?}");
    server.command(&["ACL", "SETUSER", "app", "+evalsha", "+eval"]).unwrap();
    eventually("it is ready", || async {
        (service.call("GET", "/readyz", None, "").await.status == 200).then_some(())
    })
    .await;
}

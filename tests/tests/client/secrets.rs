//! Passwords and payloads in nothing that a log could show (security check 22).

use std::error::Error as _;
use std::time::Duration;

use delayq::{Client, Error, Worker};
use delayq_redis_fixture::RedisServer;
use delayq_tests::eventually;

use crate::kit::{Act, Raw, Stage, TASKS, only, pass};

/// The password of every server that has one.
pub(crate) const SECRET: &str = "s3cret-password";

/// Neither an error nor any of its causes shows the password.
pub(crate) fn holds_no_secret(error: &Error) {
    let mut shown = format!("{error} {error:?}");
    let mut next = error.source();
    while let Some(cause) = next {
        shown.push_str(&format!(" {cause} {cause:?}"));
        next = cause.source();
    }
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn s22_no_error_of_a_call_and_no_debug_output_shows_the_password() {
    let mut server = RedisServer::start_with(&["--requirepass", SECRET]).unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let handle = client.schedule(Duration::from_secs(60)).unique("u").send(pass(1)).await.unwrap();
    let shown = [
        format!("{client:?}"),
        format!("{:?}", Client::builder()),
        format!("{handle:?}"),
        format!("{:?}", Worker::new(client.clone())),
        format!("{:?}", client.dead_letters(TASKS)),
        format!("{:?}", client.enqueue().send(pass(1))),
    ];
    for shown in shown {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    let mut errors = vec![client.enqueue().unique("u").send(pass(1)).await.unwrap_err()];
    errors.push(client.dead_letters(TASKS).redrive(handle.id()).await.unwrap_err());
    // From here on nothing gets through: what is tried again is given up soon.
    let hasty = Client::builder().send_deadline(Duration::from_millis(200)).connect(&server.url()).await.unwrap();
    let mut raw = Raw::connect(&server).await;
    for (what, back) in [
        (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]),
        (["CONFIG", "SET", "min-replicas-to-write", "1"], ["CONFIG", "SET", "min-replicas-to-write", "0"]),
    ] {
        let _: () = raw.ask(&what.map(str::as_bytes)).await;
        errors.push(hasty.enqueue().send(pass(1)).await.unwrap_err());
        let _: () = raw.ask(&back.map(str::as_bytes)).await;
    }
    // The password changes while connections are there, and then they are gone.
    let _: () = raw.ask(&[b"CONFIG", b"SET", b"requirepass", b"another"]).await;
    let _: i64 = raw.ask(&[b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"yes"]).await;
    errors.push(hasty.stats(TASKS).await.unwrap_err());
    errors.push(hasty.stats(TASKS).await.unwrap_err());
    server.kill();
    errors.push(hasty.stats(TASKS).await.unwrap_err());
    errors.push(hasty.enqueue().send(pass(1)).await.unwrap_err());
    errors.iter().for_each(holds_no_secret);
}

#[tokio::test]
async fn s22_payloads_are_not_in_debug_output() {
    let (_server, client) = delayq_tests::server_and_client().await;
    let mut stage = Stage::start(&client);
    let job = only("s3cret", Act::Bury);
    let schedule = client.enqueue().unique("k");
    assert!(!format!("{schedule:?}").contains("s3cret"));
    let send = schedule.send(job);
    assert!(!format!("{send:?}").contains("s3cret"));
    let handle = send.await.unwrap();
    stage.next().await;
    let dead = client.dead_letters(TASKS);
    let letter = eventually("it is dead", || async { dead.get(handle.id()).await.unwrap() }).await;
    assert!(letter.payload.windows(6).any(|part| part == b"s3cret"));
    let listing = dead.oldest_first(10, None).await.unwrap();
    for shown in [format!("{letter:?}"), format!("{listing:?}"), format!("{:?}", handle.status().await.unwrap())] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
    stage.stop().await;
}

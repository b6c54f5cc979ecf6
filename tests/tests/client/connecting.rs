//! Connecting: what works, and what a connection that doesn't is called, in time and without its password.

use std::time::{Duration, Instant};

use delayq::{Client, Error, ErrorKind};
use delayq_redis_fixture::RedisServer;
use delayq_tests::{Lag, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::kit::{Act, Raw, Stage, TASKS, does, pass, settled};
use crate::secrets::{SECRET, holds_no_secret};

/// How long connecting may take where nobody answers.
const CONNECT: Duration = Duration::from_millis(500);

/// The error of somebody who answers, or of an address that can't be used.
async fn refused(url: &str) -> Error {
    let (lag, started) = (Lag::watch(), Instant::now());
    let error = Client::connect(url).await.unwrap_err();
    let took = started.elapsed();
    // The connect timeout is 3 s.
    assert!(took < Duration::from_secs(2) + lag.so_far(), "it waited on after the answer: {took:?}: {error}");
    is_presentable(&error);
    error
}

/// The error where nobody answers.
async fn unanswered(url: &str) -> Error {
    let builder = Client::builder().connect_timeout(CONNECT).response_timeout(CONNECT).send_deadline(CONNECT);
    let (lag, started) = (Lag::watch(), Instant::now());
    let error = builder.connect(url).await.unwrap_err();
    let took = started.elapsed();
    assert!(took < CONNECT + Duration::from_millis(300) + lag.so_far(), "{took:?}: {error}");
    is_presentable(&error);
    error
}

fn is_presentable(error: &Error) {
    holds_no_secret(error);
    assert!(error.to_string().len() < 400 && !error.to_string().contains('\n'), "{error}");
}

/// A port where this is answered to whatever comes, and then the connection is closed; or kept, if nothing is answered.
async fn stranger(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut silent = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut heard = [0; 4096];
            let _ = stream.read(&mut heard).await;
            let _ = stream.write_all(answer).await;
            if answer.is_empty() {
                silent.push(stream);
            }
        }
    });
    port
}

/// A port where every command gets an answer of its own, as an old Redis would give it.
async fn old_redis(hello: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut heard = vec![0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut heard).await {
                for command in String::from_utf8_lossy(&heard[..read]).split('*').skip(1) {
                    let answer = if command.contains("\r\nHELLO\r\n") { hello } else { "-ERR unknown command\r\n" };
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        }
    });
    port
}

#[tokio::test]
async fn b62_passwords_and_users_that_are_not_right_are_denied() {
    let server = RedisServer::start_with(&["--requirepass", SECRET]).unwrap();
    let at = format!("127.0.0.1:{}", server.port());
    Client::connect(&format!("redis://:{SECRET}@{at}/")).await.unwrap().enqueue().send(pass(1)).await.unwrap();
    Client::connect(&format!("redis://default:{SECRET}@{at}/")).await.unwrap();
    for url in [
        format!("redis://{at}/"),
        format!("redis://:wrong-{SECRET}@{at}/"),
        format!("redis://nobody:{SECRET}@{at}/"),
        format!("redis+unix://{}", server.socket().display()),
        format!("redis+unix://{}?pass=wrong-{SECRET}", server.socket().display()),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{url}: {error:?}");
        assert!(!error.is_temporary());
    }
    // A password where none is needed: Redis itself refuses it.
    let open = RedisServer::start().unwrap();
    let error = refused(&format!("redis://:{SECRET}@127.0.0.1:{}/", open.port())).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
}

#[tokio::test]
async fn s20_everything_works_for_a_user_who_may_do_only_what_is_needed() {
    let server = RedisServer::start().unwrap();
    let rules = "~delayq:* +eval +evalsha +bzpopmin +hello +ping +select +client|setname +time +info \
        +hdel +hexists +hget +hincrby +hlen +hmget +hset +sadd +scard +smembers +smismember +srandmember +srem \
        +zadd +zcard +zcount +zmscore +zrange +zrangebyscore +zrank +zrem +zremrangebyrank +zrevrange +zrevrank +zscore";
    let secret = format!(">{SECRET}");
    let mut command = vec!["ACL", "SETUSER", "jobs", "reset", "on", &secret];
    command.extend(rules.split_whitespace());
    assert_eq!(server.command(&command).unwrap(), "+OK\r\n");
    // Only newer servers know this one.
    server.command(&["ACL", "SETUSER", "jobs", "+client|setinfo"]).unwrap();
    let client = Client::connect(&format!("redis://jobs:{SECRET}@127.0.0.1:{}/", server.port())).await.unwrap();
    let mut stage = Stage::start(&client);
    client.schedule(Duration::from_millis(20)).unique("key").send(pass(1)).await.unwrap();
    client.enqueue().retain_for(Duration::from_millis(1)).send(pass(2)).await.unwrap();
    client.enqueue().send(crate::kit::ThirdTime { n: 3 }).await.unwrap();
    client.enqueue().send(does(Act::Bury)).await.unwrap();
    stage.take(6).await;
    let dead = client.dead_letters(TASKS);
    eventually("a dead letter", || async { dead.newest_first(9, None).await.unwrap().letters.pop() }).await;
    dead.redrive_all().await.unwrap();
    stage.next().await;
    let letter =
        eventually("a dead letter", || async { dead.newest_first(9, None).await.unwrap().letters.pop() }).await;
    dead.delete(letter.id).await.unwrap();
    let handle = client.schedule(Duration::from_secs(60)).send(pass(4)).await.unwrap();
    handle.reschedule(Duration::from_secs(70)).await.unwrap();
    handle.status().await.unwrap();
    handle.cancel().await.unwrap();
    client.pause(TASKS).await.unwrap();
    client.resume(TASKS).await.unwrap();
    settled(&client, 3).await;
    stage.stop().await;
    assert_eq!(server.command(&["ACL", "LOG"]).unwrap(), "*0\r\n", "nothing else was tried either");
}

#[tokio::test]
async fn b91_a_user_who_may_not_run_scripts_is_denied_by_name_of_the_operation() {
    let server = RedisServer::start().unwrap();
    let secret = format!(">{SECRET}");
    for (user, rules) in [
        ("scriptless", ["~*", "+@all", "-evalsha", "-eval"]),
        ("shaless", ["~*", "+@all", "-evalsha", "+eval"]),
        ("keyless", ["~other:*", "+@all", "+eval", "+evalsha"]),
        ("hashless", ["~*", "+@all", "-hset", "+eval"]),
    ] {
        let mut command = vec!["ACL", "SETUSER", user, "on", &secret];
        command.extend(rules);
        assert_eq!(server.command(&command).unwrap(), "+OK\r\n");
        let client = Client::connect(&format!("redis://{user}:{SECRET}@127.0.0.1:{}/", server.port())).await.unwrap();
        let error = client.enqueue().send(pass(1)).await.unwrap_err();
        holds_no_secret(&error);
        assert_eq!(error.kind(), ErrorKind::Denied, "{user}: {error:?}");
        assert!(error.to_string().contains("enqueue"), "{user}: {error}");
    }
    assert_eq!(Raw::connect(&server).await.keys().await, 0);
}

#[tokio::test]
async fn b62_where_no_redis_answers_the_error_says_so_within_the_connect_timeout() {
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let silent = stranger(b"").await;
    let plain = RedisServer::start().unwrap();
    for (what, url, kind) in [
        ("nobody", format!("redis://:{SECRET}@127.0.0.1:{nobody}/"), ErrorKind::Unreachable),
        ("silence", format!("redis://:{SECRET}@127.0.0.1:{silent}/"), ErrorKind::Unreachable),
        ("silence without login", format!("redis://127.0.0.1:{silent}/"), ErrorKind::Unreachable),
        ("silence under TLS", format!("rediss://:{SECRET}@127.0.0.1:{silent}/"), ErrorKind::Unreachable),
        ("TLS at a plain port", format!("rediss://:{SECRET}@127.0.0.1:{}/", plain.port()), ErrorKind::Unreachable),
        ("no socket", format!("redis+unix:///nowhere/redis.sock?pass={SECRET}"), ErrorKind::Unreachable),
        ("no such host", format!("redis://:{SECRET}@nowhere.invalid/"), ErrorKind::Unreachable),
    ] {
        let error = unanswered(&url).await;
        assert_eq!(error.kind(), kind, "{what}: {error:?}");
        assert!(error.is_temporary(), "{what}: {error:?}");
    }
    assert_eq!(Raw::connect(&plain).await.keys().await, 0);
}

#[tokio::test]
async fn b62_what_answers_and_is_no_redis_or_too_old_is_unsupported() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"220 mail ESMTP\r\n",
    ] {
        for login in ["", ":s3cret-password@"] {
            let port = stranger(answer).await;
            let error = refused(&format!("redis://{login}127.0.0.1:{port}/")).await;
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{login} {}: {error:?}", answer.escape_ascii());
        }
    }
    let old = old_redis("-ERR unknown command `HELLO`, with args beginning with: \r\n").await;
    assert_eq!(refused(&format!("redis://127.0.0.1:{old}/")).await.kind(), ErrorKind::Unsupported);
    let old = old_redis("*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n6.0.16\r\n").await;
    let error = refused(&format!("redis://127.0.0.1:{old}/")).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.to_string().contains("6.0") && error.to_string().contains("6.2"), "{error}");
}

#[tokio::test]
async fn b62_urls_that_are_none_are_refused_without_being_shown() {
    for url in [
        "",
        "s3cret-password",
        "127.0.0.1:6379",
        "redis",
        "redis:",
        "redis://",
        "redis:/127.0.0.1/s3cret-password",
        "http://:s3cret-password@127.0.0.1/",
        "postgres://:s3cret-password@127.0.0.1/",
        "redis://:s3cret-password@127.0.0.1:99999/",
        "redis://:s3cret-password@127.0.0.1:port/",
        "redis://s3cret-password:6379:1/",
        "redis://:s3cret-password@127.0.0.1/tasks",
        "redis://:s3cret-password@127.0.0.1/1/2",
        "redis://:s3cret-password@127.0.0.1/99999999999999999999",
        "redis://:s3cret-password@[::1/",
        "redis+unix://",
        "redis+unix:///tmp/redis.sock?db=s3cret-password",
        "rediss://:s3cret-password@127.0.0.1/#insecure-or-not",
    ] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error:?}");
        assert!(error.to_string().contains("redis://[user:password@]host"), "it says what to give: {error}");
    }
}

#[tokio::test]
async fn b62_a_unix_socket_works_with_password_and_db() {
    let server = RedisServer::start_with(&["--requirepass", SECRET]).unwrap();
    let socket = server.socket();
    for scheme in ["redis+unix", "unix"] {
        let url = format!("{scheme}://{}?pass={SECRET}&db=3", socket.display());
        let client = Client::connect(&url).await.unwrap();
        assert!(!format!("{client:?}").contains(SECRET));
        let mut stage = Stage::start(&client);
        client.enqueue().send(pass(7)).await.unwrap();
        assert_eq!(stage.next().await.n, 7);
        stage.stop().await;
    }
    let keyspace = server.command(&["INFO", "keyspace"]).unwrap();
    assert!(keyspace.contains("db3:") && !keyspace.contains("db0:"), "{keyspace}");
}

#[tokio::test]
async fn a_password_of_any_characters_works_when_it_is_escaped() {
    let server = RedisServer::start_with(&["--requirepass", "p@ss/w:rd #%é?"]).unwrap();
    let url = format!("redis://:p%40ss%2Fw%3Ard%20%23%25%C3%A9%3F@127.0.0.1:{}/", server.port());
    Client::connect(&url).await.unwrap().enqueue().send(pass(1)).await.unwrap();
}

#[tokio::test]
async fn a_db_that_the_server_does_not_have_is_an_error_that_names_it() {
    let server = RedisServer::start().unwrap();
    let error = refused(&format!("redis://127.0.0.1:{}/99", server.port())).await;
    assert!(error.to_string().contains("/99"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
}

#[tokio::test]
async fn a_url_that_asks_for_the_newer_protocol_works() {
    let server = RedisServer::start().unwrap();
    let client = Client::connect(&format!("redis://127.0.0.1:{}/?protocol=resp3", server.port())).await.unwrap();
    let mut stage = Stage::start(&client);
    client.schedule(Duration::from_millis(50)).send(pass(7)).await.unwrap();
    assert_eq!(stage.next().await.n, 7);
    settled(&client, 1).await;
    stage.stop().await;
}

#[tokio::test]
async fn prefixes_keep_applications_on_one_server_apart() {
    let server = RedisServer::start().unwrap();
    let one = Client::builder().prefix("one").connect(&server.url()).await.unwrap();
    let two = Client::builder().prefix("two").connect(&server.url()).await.unwrap();
    let handle = one.schedule(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    assert_eq!(two.stats(TASKS).await.unwrap().waiting, 0);
    assert_eq!(two.handle::<crate::kit::Task>(handle.id()).cancel().await.unwrap_err().kind(), ErrorKind::NotFound);
    let keys = server.command(&["KEYS", "*"]).unwrap();
    assert!(
        keys.lines()
            .skip(1)
            .all(|line| line.starts_with('$') || line.starts_with("one:{tasks/0}:") || line == "one:queues"),
        "{keys}"
    );
}

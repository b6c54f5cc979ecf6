//! All keys of a call are declared and lie in one slot, and queues are spread over the slots (B66).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use delayq::Client;
use delayq_redis_fixture::cluster::Cluster;
use delayq_tests::{eventually, server_and_client, soon};
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit_b::{Act, Deed, QUEUE, Raw, Retried, Stage, does, pass};

/// One round of all that can be done with a queue, each job under names of its own.
async fn everything(client: &Client, queue: &str) {
    let later = || client.schedule::<Deed>(Duration::from_secs(60)).queue(queue);
    let waits = later().unique("k").priority(3).send(pass(1)).await.unwrap();
    assert!(later().unique("k").send(pass(1)).await.unwrap_err().is_duplicate());
    waits.reschedule(Duration::from_secs(90)).await.unwrap();
    waits.status().await.unwrap();
    waits.cancel().await.unwrap();
    client.pause(queue).await.unwrap();
    client.resume(queue).await.unwrap();
    client.stats(queue).await.unwrap();
    client.dead_letters(queue).oldest_first(10, None).await.unwrap();
    client.dead_letters(queue).redrive_all().await.unwrap();
}

/// A worker's round: runs of every outcome, and dead letters that are redriven and deleted.
async fn every_outcome(client: &Client, queue: &str) {
    let now = || client.enqueue().queue(queue);
    let mut stage = Stage::with(client, |worker| worker.queues([queue]));
    now().retain_for(Duration::from_secs(60)).unique("k").send(pass(1)).await.unwrap();
    now().send(does(2, Act::Discard("no".to_owned()))).await.unwrap();
    let dead = now().send(does(3, Act::Fail("no".to_owned()))).await.unwrap();
    client.enqueue().queue(queue).send(Retried { n: 4, act: Act::FailUntil(1) }).await.unwrap();
    let held = now().send(does(5, Act::Wait)).await.unwrap();
    stage.take(6).await;
    held.cancel().await.unwrap();
    stage.open(1);
    let letters = client.dead_letters(queue);
    eventually("a letter", || async { letters.get(dead.id()).await.unwrap() }).await;
    letters.redrive(dead.id()).await.unwrap();
    stage.next().await;
    eventually("a letter again", || async { letters.get(dead.id()).await.unwrap() }).await;
    letters.delete(dead.id()).await.unwrap();
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b66_every_operation_keeps_to_one_slot_and_queues_are_spread_over_them() {
    let cluster = Cluster::start(3, 0, &[]).unwrap();
    let client = Client::connect(&cluster.url()).await.unwrap();
    let queues: Vec<String> = (0..100).map(|n| format!("q{n}")).collect();
    join_all(queues.iter().map(|queue| everything(&client, queue))).await;
    join_all(queues[..3].iter().map(|queue| every_outcome(&client, queue))).await;

    let mut slots: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for node in 0..3 {
        let mut raw = Raw::connect(cluster.node(node)).await;
        let keys: Vec<String> = raw.ask(&["KEYS", "*"]).await;
        assert!(keys.len() > 50, "node {node} has {} keys", keys.len());
        // The list of queues is of none of them, and is looked at alone.
        for key in keys.into_iter().filter(|key| key != "delayq:queues") {
            let queue = key.split(['{', '}']).nth(1).expect("each key has a hash tag").to_owned();
            slots.entry(queue).or_default().insert(raw.ask(&["CLUSTER", "KEYSLOT", key.as_str()]).await);
        }
    }
    assert_eq!(slots.len(), 100, "{slots:?}");
    assert!(slots.values().all(|slots| slots.len() == 1), "a queue is in one slot: {slots:?}");
    let spread: BTreeSet<&u64> = slots.values().flatten().collect();
    assert!(spread.len() > 90, "{} slots for 100 queues", spread.len());
}

/// The words of a line of MONITOR: each in quotes, with backslashes before what would end them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut chars) = (Vec::new(), line.chars());
    while chars.by_ref().any(|c| c == '"') {
        let mut word = String::new();
        while let Some(c) = chars.next().filter(|c| *c != '"') {
            word.push(if c == '\\' { chars.next().unwrap_or_default() } else { c });
        }
        words.push(word);
    }
    words
}

#[tokio::test]
async fn b66_every_key_that_a_script_touches_is_declared() {
    let (server, client) = server_and_client().await;
    let mut monitor = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    monitor.write_all(b"MONITOR\r\n").await.unwrap();
    monitor.read_exact(&mut [0; 5]).await.unwrap();
    everything(&client, QUEUE).await;
    every_outcome(&client, QUEUE).await;
    server.command(&["ECHO", "that was all"]).unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("that was all") {
        let mut part = vec![0; 1 << 20];
        let read = soon("what was done", monitor.read(&mut part)).await.unwrap();
        seen.extend_from_slice(&part[..read]);
    }
    let (mut declared, mut scripts, mut touched) = (BTreeSet::new(), 0, 0);
    for line in String::from_utf8_lossy(&seen).lines() {
        let words = words(line);
        match words.first().map(|verb| verb.to_uppercase()).as_deref() {
            Some("EVAL" | "EVALSHA") => {
                scripts += 1;
                let count: usize = words[2].parse().unwrap();
                declared = words[3..3 + count].iter().cloned().collect();
            }
            Some("TIME") => {}
            Some(verb) if line.contains(" lua] ") => {
                touched += 1;
                assert!(declared.contains(&words[1]), "{verb} of {}, which was not declared: {declared:?}", words[1]);
            }
            _ => {}
        }
    }
    assert!(scripts > 30 && touched > 200, "{scripts} scripts touched {touched} keys");
}

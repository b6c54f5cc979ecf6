//! One damaged queue among several: it is named, the others are shown, and a store that isn't there is still something else.

use delayq::{Client, JobId};
use delayq_redis_fixture::RedisServer;

use crate::kit::{ORDERS, Ran, bury, ids, run, server_and_client, texts, waiting};

/// A server with jobs and a letter in one queue, and another queue whose records another program has overwritten.
async fn damaged() -> (RedisServer, Client, Vec<JobId>, Vec<JobId>) {
    let (server, client) = server_and_client().await;
    let dead = bury(&client, &["timeout"]).await;
    let waits = waiting(&client, ORDERS, "cancel_order", 3).await;
    waiting(&client, "junk", "cancel_order", 1).await;
    assert_eq!(server.command(&["DEL", "delayq:{junk/0}:jobs"]).unwrap(), ":1\r\n");
    server.command(&["SET", "delayq:{junk/0}:jobs", "x"]).unwrap();
    (server, client, waits, dead)
}

/// It names the queue and what tells more, once, and leaves with 1.
#[track_caller]
fn tells(ran: &Ran) {
    ran.fails(1, "the queue junk is damaged: ");
    assert_eq!(ran.err.matches("see `delayq doctor junk`").count(), 1, "{ran:#?}");
}

#[tokio::test]
async fn a_damaged_queue_hides_no_other() {
    let (server, _client, waits, dead) = damaged().await;
    let url = server.url();
    let table = run(&url, &["queues"]).await;
    tells(&table);
    let rows: Vec<Vec<&str>> = table.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows[1][0], rows[1][1], *rows[1].last().unwrap()), ("junk", "-", "damaged"), "{table:#?}");
    assert_eq!((rows[2][0], rows[2][1]), (ORDERS, "3"));
    let json = run(&url, &["queues", "--json"]).await;
    tells(&json);
    let lines: Vec<serde_json::Value> = json.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["queue"] == "junk" && lines[0]["error"].as_str().unwrap().contains("WRONGTYPE"), "{}", lines[0]);
    assert_eq!((&lines[1]["queue"], &lines[1]["waiting"]), (&ORDERS.into(), &3.into()));
    // Those that are well, alone.
    run(&url, &["queues", ORDERS]).await.ok();

    for (args, found) in [
        (&["jobs", "--state", "waiting", "--json"][..], texts(&waits)),
        (&["dead", "list", "--json"], texts(&dead)),
        (&["dead", "export"], texts(&dead)),
        (&["job", &waits[0].to_string(), "--json"], texts(&waits[..1])),
        (&["dead", "show", &dead[0].to_string(), "--json"], texts(&dead)),
    ] {
        let ran = run(&url, args).await;
        tells(&ran);
        let lines: Vec<serde_json::Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(ids(&lines), found, "{args:?}");
    }
    let workers = run(&url, &["workers"]).await;
    tells(&workers);
    assert!(workers.err.ends_with("no worker serves orders\n"), "{workers:#?}");
    // The damage is nothing that keeps a queue from being named.
    tells(&run(&url, &["jobs", "--queue", "junk"]).await);
    tells(&run(&url, &["cancel", "--queue", "junk", "--all", "--yes"]).await);
}

#[tokio::test]
async fn jobs_beside_a_damaged_queue_can_be_changed_by_id() {
    let (server, client, waits, dead) = damaged().await;
    let url = server.url();
    let (first, second, none) = (waits[0].to_string(), waits[1].to_string(), JobId::new().to_string());
    let cancelled = run(&url, &["cancel", &first, &none]).await;
    tells(&cancelled);
    assert_eq!(cancelled.out, format!("{first} cancelled\n"));
    assert!(cancelled.err.contains(&format!("no job {none} in any queue that can be looked into")), "{cancelled:#?}");
    tells(&run(&url, &["reschedule", &second, "--in", "2h"]).await);
    tells(&run(&url, &["dead", "delete", &dead[0].to_string()]).await);
    let stats = client.stats(ORDERS).await.unwrap();
    assert_eq!((stats.waiting, stats.dead), (2, 0));
    // Where the queue is named, the others don't matter.
    run(&url, &["cancel", &second, "--queue", ORDERS]).await.ok();
}

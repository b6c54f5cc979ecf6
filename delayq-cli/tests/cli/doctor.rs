//! What doctor finds on servers that are well and on ones that aren't, its exit codes, and what it mends.

use delayq::{Client, RawJob};
use delayq_redis_fixture::RedisServer;
use serde_json::Value;

use crate::kit::{Folder, HOUR, ORDERS, Ran, Running, eventually, run, server_and_client, shown, waiting};

/// The only JSON document that it printed, whatever its exit code.
#[track_caller]
fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:#?}"))
}

/// The findings of a check.
fn of<'a>(doctor: &'a Value, check: &str) -> Vec<&'a Value> {
    doctor["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == check).collect()
}

#[track_caller]
fn finds(doctor: &Value, check: &str, level: &str, words: &str) {
    let found = of(doctor, check);
    let fits = |finding: &&&Value| finding["level"] == level && finding.to_string().contains(words);
    let Some(finding) = found.iter().find(fits) else { panic!("{check} is not {level} with {words:?}: {found:?}") };
    assert!(matches!(level, "good" | "note") || finding["advice"].is_string(), "what is to be done? {finding}");
}

#[tokio::test]
async fn a_server_and_queues_that_are_well_are_code_0() {
    let server = RedisServer::start_with(&["--appendonly", "yes", "--maxmemory", "200mb"]).unwrap();
    let url = server.url();
    // Before anything was ever sent.
    let empty = run(&url, &["doctor"]).await;
    assert!(empty.ok().starts_with("LEVEL") && empty.err.contains("no queue was used yet"), "{empty:#?}");

    let client = Client::connect(&url).await.unwrap();
    let worker = Running::start(&client, "mail-1");
    waiting(&client, ORDERS, "cancel_order", 3).await;
    waiting(&client, "mail", "newsletter", 1).await;
    client.pause("mail").await.unwrap();
    eventually("it serves the queue", || async { (client.stats(ORDERS).await.unwrap().sessions == 1).then_some(()) })
        .await;
    let table = run(&url, &["doctor"]).await;
    let row = |check: &str, queue: &str| {
        let mut rows = table.ok().lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let of_it = |row: &Vec<&str>| row.len() > 3 && row[1] == check && row[2] == queue;
        rows.find(of_it).unwrap_or_else(|| panic!("no row for {check} of {queue}: {table:#?}"))[0].to_owned()
    };
    for (check, queue) in [("maxmemory-policy", "-"), ("aof", "-"), ("scripts", "-"), ("orphans", ORDERS)] {
        assert_eq!(row(check, queue), "good");
    }
    assert_eq!((row("workers", ORDERS), row("workers", "mail")), ("good".to_owned(), "note".to_owned()));
    assert!(table.err.contains("wrong: 0, "), "{}", table.err);

    // One queue, as one document.
    let ran = run(&url, &["doctor", "mail", "--json"]).await;
    let doctor = ran.json();
    assert_eq!((&doctor["sound"], &doctor["repairs"]), (&true.into(), &Value::Null));
    finds(&doctor, "paused", "note", "delayq resume");
    finds(&doctor, "memory", "good", "room for");
    let queues: Vec<&Value> = doctor["findings"].as_array().unwrap().iter().map(|finding| &finding["queue"]).collect();
    assert!(queues.iter().all(|queue| queue.is_null() || *queue == "mail"), "{queues:?}");
    run(&url, &["doctor", "mial"]).await.fails(1, "there is no queue mial");
    run(&url, &["doctor", "--yes"]).await.fails(2, "--repair");
    worker.stop().await;
}

#[tokio::test]
async fn a_server_that_loses_jobs_is_code_1_with_what_to_do() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb"]).unwrap();
    let url = server.url();
    let table = run(&url, &["doctor"]).await;
    table.fails(1, "1 check is wrong");
    let lines: Vec<&str> = table.out.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("wrong ")).unwrap();
    assert!(lines[at].contains("maxmemory-policy") && lines[at].contains("allkeys-lru"), "{}", lines[at]);
    assert!(lines[at + 1].trim_start().starts_with("-> set maxmemory-policy to noeviction"), "{}", lines[at + 1]);
    let ran = run(&url, &["doctor", "--json"]).await;
    ran.fails(1, "1 check is wrong");
    let doctor = json(&ran);
    assert_eq!(doctor["sound"], false);
    finds(&doctor, "maxmemory-policy", "wrong", "allkeys-lru");
    finds(&doctor, "aof", "warning", "appendonly yes");

    // Without a limit it is wrong as well: somebody may set one.
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    let ran = run(&url, &["doctor", "--json"]).await;
    assert_eq!(ran.code, 1);
    finds(&json(&ran), "maxmemory-policy", "wrong", "once a maxmemory is set");
    finds(&json(&ran), "memory", "note", "no maxmemory is set");
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).unwrap();
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).unwrap();
    let ran = run(&url, &["doctor", "--json"]).await;
    assert_eq!(ran.code, 1);
    finds(&json(&ran), "maxmemory-policy", "good", "noeviction");
    finds(&json(&ran), "min-replicas-to-write", "wrong", "new jobs are refused");
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).unwrap();
    run(&url, &["doctor"]).await.ok();
}

#[tokio::test]
async fn an_orphan_is_counted_first_and_mended_with_yes() {
    let (server, client) = server_and_client().await;
    let (url, folder) = (server.url(), Folder::new());
    let log = shown(&folder.file("audit"));
    waiting(&client, ORDERS, "cancel_order", 3).await;
    waiting(&client, "mail", "newsletter", 1).await;
    run(&url, &["doctor"]).await.ok();
    // All three lose their places.
    assert_eq!(server.command(&["DEL", "delayq:{orders/0}:due:5"]).unwrap(), ":1\r\n");
    let found = run(&url, &["doctor"]).await;
    found.fails(1, "1 check is wrong");
    assert!(found.out.contains("jobs in no place, which nothing runs: 3"), "{}", found.out);
    assert!(found.out.contains("delayq doctor --repair"), "{}", found.out);

    let counted = run(&url, &["doctor", "--repair", "--json"]).await;
    counted.fails(1, "orders: to mend: 3 jobs in no place, 0 entries without a record, 0 sessions of lost workers\n");
    assert!(counted.err.contains("nothing was done: add --yes"), "{}", counted.err);
    assert!(counted.err.contains("mail: nothing to mend\n"), "{}", counted.err);
    let repairs = &json(&counted)["repairs"];
    assert_eq!(
        (&repairs[1]["queue"], &repairs[1]["orphans"], &repairs[1]["done"]),
        (&"orders".into(), &3.into(), &Value::Null)
    );
    let stats = client.stats(ORDERS).await.unwrap();
    assert_eq!((stats.waiting, stats.orphans, stats.repaired_total), (0, 3, 0), "nothing was done");

    let mended = run(&url, &["doctor", "--repair", "--yes", "--audit-log", &log]).await;
    assert!(mended.ok().starts_with("orders: 3 given back to work\n"), "{mended:#?}");
    assert!(mended.err.contains("orders: to mend: 3 jobs"), "the count comes first: {}", mended.err);
    let stats = client.stats(ORDERS).await.unwrap();
    assert_eq!((stats.waiting, stats.orphans, stats.repaired_total), (3, 0, 3));
    let log = std::fs::read_to_string(log).unwrap();
    let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((log.len(), &log[0]["command"], &log[0]["queue"]), (2, &"doctor".into(), &"orders".into()), "{log:?}");
    assert_eq!((&log[0]["event"], &log[1]["event"]), (&"begins".into(), &"ends".into()));

    // What is left to mend is nothing, and no failure.
    let again = run(&url, &["doctor", ORDERS, "--repair", "--yes", "--json"]).await.json();
    assert_eq!((&again["sound"], &again["repairs"][0]["orphans"]), (&true.into(), &0.into()));
    // The reverse: an entry without a record.
    server.command(&["ZADD", "delayq:{orders/0}:due:5", "5000000000000", "sixteen bytes..!"]).unwrap();
    let json = run(&url, &["doctor", ORDERS, "--repair", "--yes", "--json"]).await.json();
    assert_eq!((&json["repairs"][0]["entries"], &json["repairs"][0]["done"]["removed"]), (&1.into(), &1.into()));
    assert_eq!(client.stats(ORDERS).await.unwrap().quarantined_total, 1);
    assert_eq!(run(&url, &["queues", ORDERS, "--json"]).await.json()["totals"]["repaired"], 3);
}

#[tokio::test]
async fn what_a_user_may_not_is_told_and_no_store_is_code_3() {
    let (server, client) = server_and_client().await;
    waiting(&client, ORDERS, "cancel_order", 1).await;
    run("redis://127.0.0.1:1/", &["doctor", "--timeout", "500ms"]).await.fails(3, "can't connect");
    for (user, rules) in [("shaless", "-evalsha"), ("elsewhere", "resetkeys ~other:*")] {
        let mut command = vec!["ACL", "SETUSER", user, "on", ">s3cret", "~*", "+@all"];
        command.extend(rules.split(' '));
        assert_eq!(server.command(&command).unwrap(), "+OK\r\n");
        let url = format!("redis://{user}:s3cret@127.0.0.1:{}/", server.port());
        for queues in [&[][..], &[ORDERS]] {
            let ran = run(&url, &[&["doctor", "--json"][..], queues].concat()).await;
            assert_eq!(ran.code, 1, "{ran:#?}");
            finds(&json(&ran), "rights", "wrong", "SECURITY.md");
            assert!(!format!("{ran:?}").contains("s3cret"), "{ran:#?}");
        }
        run(&url, &["doctor", ORDERS, "--repair", "--yes"]).await.fails(3, "does not allow");
    }
}

#[tokio::test]
async fn a_file_is_looked_at_and_mended_too() {
    let folder = Folder::new();
    let url = format!("sqlite://{}", shown(&folder.file("jobs.db")));
    run(&url, &["doctor"]).await.fails(1, "there is no database");
    let client = Client::connect(&url).await.unwrap();
    client.send_raw(ORDERS, vec![RawJob::new("a", 1, "{}").at(HOUR)]).await.remove(0).unwrap();
    crate::kit::listed(&client, ORDERS).await;
    let doctor = run(&url, &["doctor", "--repair", "--json"]).await.json();
    finds(&doctor, "server", "good", "in this process");
    finds(&doctor, "scripts", "good", "scripts run");
    finds(&doctor, "orphans", "good", "looked at: 2");
    assert_eq!((&doctor["repairs"][0]["looked"], &doctor["repairs"][0]["orphans"]), (&2.into(), &0.into()));
}

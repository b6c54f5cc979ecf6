//! Dead letters: listed, shown, retried, deleted, exported and sent again.

use std::collections::BTreeMap;

use delayq::{Client, JobId, JobQuery, JobState, RawJob};

use crate::kit::{
    Folder, HOUR, ORDERS, Running, bury, eventually, ids, listed, run, run_with_input, server_and_client, shown, texts,
};

#[tokio::test]
async fn letters_are_listed_by_reason_and_error_the_newest_first() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let dead = bury(&client, &["the bank says no", "timeout after 30s", "bury", "the bank is closed"]).await;
    let all = run(&url, &["dead", "list", "--json"]).await.json_lines();
    assert_eq!(ids(&all), texts(&dead));
    let times: Vec<&str> = all.iter().map(|letter| letter["dead_since"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    for (filter, expected) in [
        (&["--error", "the bank"][..], vec![dead[0], dead[3]]),
        (&["--reason", "buried"], vec![dead[2]]),
        (&["--reason", "retries_exhausted", "--error", "timeout"], vec![dead[1]]),
        (&["--name", "charge_card", "--payload", "closed"], vec![dead[3]]),
        (&["--name", "other"], vec![]),
    ] {
        let found = run(&url, &[&["dead", "list", "--queue", ORDERS, "--json"], filter].concat()).await;
        assert_eq!(ids(&found.json_lines()), texts(&expected), "{filter:?}");
    }
    let page = run(&url, &["dead", "list", "--limit", "3", "--oldest-first", "--json"]).await;
    let first = ids(&page.json_lines());
    let (_, cursor) = page.err.split_once("delayq dead list --oldest-first --queue orders --after ").unwrap();
    let cursor = cursor.split(',').next().unwrap();
    let rest = run(&url, &["dead", "list", "--oldest-first", "--queue", ORDERS, "--after", cursor, "--json"]).await;
    let rest = ids(&rest.json_lines());
    assert_eq!((first.len(), rest.len()), (3, 1));
    assert_eq!(first.union(&rest).cloned().collect::<std::collections::BTreeSet<_>>(), texts(&dead), "each once");
    run(&url, &["dead", "list", "--reason", "boredom"]).await.fails(2, "possible values: retries_exhausted");

    let letter = run(&url, &["dead", "show", &dead[0].to_string()]).await;
    assert!(
        letter.ok().contains("the bank says no") && letter.out.contains(r#"{"says":"the bank says no"}"#),
        "{}",
        letter.out
    );
    let json = run(&url, &["dead", "show", &dead[2].to_string(), "--json"]).await.json();
    assert_eq!((json["failure"]["code"].as_str(), json["payload"]["says"].as_str()), (Some("buried"), Some("bury")));
    let waits = client.schedule(HOUR).send(crate::kit::charge("pass")).await.unwrap().id().to_string();
    run(&url, &["dead", "show", &waits]).await.fails(1, "is no dead letter: it is waiting");
    run(&url, &["dead", "retry", &waits]).await.fails(1, "is no dead letter: it is waiting");
    run(&url, &["dead", "show", &JobId::new().to_string()]).await.fails(1, "there is no dead letter");
}

#[tokio::test]
async fn letters_are_retried_by_id_and_exactly_by_filter() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let errors: Vec<&str> = std::iter::repeat_n("timeout", 620).chain(["the bank says no"; 5]).collect();
    let dead = bury(&client, &errors).await;
    client.pause(ORDERS).await.unwrap();
    let (id, none) = (dead[620].to_string(), JobId::new().to_string());
    let ran = run(&url, &["dead", "retry", &none, &id]).await;
    ran.fails(1, &format!("there is no dead letter {none}"));
    assert_eq!(ran.out, format!("{id} waits again, due now\n"));

    let filter = ["dead", "retry", "--queue", ORDERS, "--error", "timeout"];
    let counted = run(&url, &filter).await;
    counted.fails(1, "620 dead letters of the queue orders match");
    assert!(counted.err.contains("add --yes to retry them"));
    assert_eq!(client.stats(ORDERS).await.unwrap().dead, 624);
    let json = run(&url, &[&filter[..], &["--yes", "--json"]].concat()).await.json();
    assert_eq!((&json["matched"], &json["retried"], &json["gone"]), (&620.into(), &620.into(), &0.into()));
    let stats = client.stats(ORDERS).await.unwrap();
    assert_eq!((stats.dead, stats.due, stats.redriven_total), (4, 621, 621));

    // With the worker back, they fail once more, each with all its attempts: nothing was retried twice.
    client.resume(ORDERS).await.unwrap();
    let worker = Running::start(&client, "again");
    eventually("they are dead again", || async { (client.stats(ORDERS).await.unwrap().dead == 625).then_some(()) })
        .await;
    worker.stop().await;
    assert_eq!(client.stats(ORDERS).await.unwrap().dead_total, 625 + 621);
}

#[tokio::test]
async fn letters_are_deleted_by_id_and_exactly_by_filter() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let dead = bury(&client, &["timeout", "timeout", "the bank says no", "bury"]).await;
    let id = dead[3].to_string();
    assert_eq!(run(&url, &["dead", "delete", &id]).await.ok(), format!("{id} deleted\n"));
    run(&url, &["dead", "delete", &id]).await.fails(1, "there is no dead letter");
    let filter = ["dead", "delete", "--queue", ORDERS, "--error", "timeout"];
    run(&url, &filter).await.fails(1, "2 dead letters of the queue orders match");
    assert_eq!(client.stats(ORDERS).await.unwrap().dead, 3);
    assert_eq!(run(&url, &[&filter[..], &["--yes"]].concat()).await.ok(), "orders: 2 deleted\n");
    let left = run(&url, &["dead", "list", "--json"]).await.json_lines();
    assert_eq!(ids(&left), texts(&dead[2..3]));
}

/// Every job of a queue's dead letters or waiting jobs, by id: name, version, payload and terms.
async fn contents(client: &Client, queue: &str, state: JobState) -> BTreeMap<JobId, (Vec<u8>, String)> {
    let (mut found, mut query) = (BTreeMap::new(), JobQuery::new(state).limit(100));
    loop {
        let page = client.jobs(queue).list(&query).await.unwrap();
        for job in page.jobs {
            let terms = format!(
                "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
                job.name, job.version, job.priority, job.attempts_max, job.unique_key, job.retain_for, job.trace_parent
            );
            found.insert(job.id, (job.payload.to_vec(), terms));
        }
        match page.next {
            Some(next) => query = query.after(next),
            None => return found,
        }
    }
}

#[tokio::test]
async fn what_export_wrote_is_sent_again_byte_for_byte() {
    let (server, client) = server_and_client().await;
    let (url, folder) = (server.url(), Folder::new());
    let payloads: [&[u8]; 9] = [
        b"{}",
        br#"{"a": 1.0e0,  "b":[ ],"a":2}"#,
        b"null",
        b"123456789012345678901234567890.5",
        "\"\\u001b[31m \u{2028} é\"".as_bytes(),
        b" {\"space\": \"around\"} ",
        b"{\n  \"over\": \"lines\"\n}",
        b"\xff\x00\x01",
        b"",
    ];
    // Nobody knows these names: each ends as a dead letter.
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let job = |payload: &[u8]| RawJob::new("mystery", 3, payload.to_vec());
    let mut jobs: Vec<RawJob> = payloads.into_iter().map(job).collect();
    jobs.push(job(b"1").priority(9).max_retries(0).unique("a:\"b\"\n").retain_for(HOUR).trace_parent(parent));
    jobs.push(job(b"2").max_retries(u32::MAX));
    jobs.extend((0..150).map(|n| job(format!("{n}").as_bytes())));
    let count = jobs.len() as u64;
    let worker = Running::start(&client, "undertaker");
    client.send_raw(ORDERS, jobs).await.into_iter().for_each(|sent| drop(sent.unwrap()));
    eventually("all are dead", || async { (client.stats(ORDERS).await.unwrap().dead == count).then_some(()) }).await;
    worker.stop().await;
    listed(&client, ORDERS).await;
    let before = contents(&client, ORDERS, JobState::Dead).await;

    let exported = run(&url, &["dead", "export"]).await;
    assert!(exported.err.contains(&format!("{count} exported")), "{}", exported.err);
    let lines = exported.json_lines();
    assert_eq!(lines.len() as u64, count);
    assert!(lines.iter().all(|line| line["dead"]["reason"] == "unknown_job" && line["dead"]["died_at"].is_string()));
    assert_eq!(lines.iter().filter(|line| line.get("payload_base64").is_some()).count(), 4);
    // Into a file: the same, for its owner alone, and over no file that is there.
    let file = shown(&folder.file("letters.jsonl"));
    run(&url, &["dead", "export", "--queue", ORDERS, "--output", &file]).await.ok();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), exported.out);
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    run(&url, &["dead", "export", "--output", &file]).await.fails(1, "can't be written");

    // Another store takes them, with their ids and terms, into the queue that they came from.
    let other = ["--prefix", "other", "--json"];
    let sent = run_with_input(&url, &[&["enqueue", "--lines"], &other[..]].concat(), exported.out.as_bytes()).await;
    assert_eq!(sent.json()["sent"], count);
    let elsewhere = Client::builder().prefix("other").connect(&url).await.unwrap();
    let after = contents(&elsewhere, ORDERS, JobState::Waiting).await;
    assert_eq!(after.len() as u64, count);
    for (id, (payload, terms)) in &before {
        let (again, again_terms) = &after[id];
        assert_eq!(again, payload, "{:?}", String::from_utf8_lossy(payload));
        assert_eq!(again_terms, terms);
    }
    // The store that still has the letters makes nothing new of them.
    let same = run_with_input(&url, &["enqueue", "--lines", "--json"], exported.out.as_bytes()).await;
    assert_eq!((&same.json()["sent"], &same.json()["existing"]), (&0.into(), &count.into()));

    let some = run(&url, &["dead", "export", "--payload", "over"]).await.json_lines();
    assert_eq!(some.len(), 1, "by filter");
}

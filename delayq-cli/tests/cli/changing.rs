//! Cancelling, moving, pausing: by id, and exactly what a filter means.

use delayq::{JobId, JobState, JobStatus, RawJob};

use crate::kit::{HOUR, ORDERS, Running, charge, eventually, run, server_and_client, waiting};

#[tokio::test]
async fn a_bulk_cancel_counts_first_and_cancels_exactly_its_filter() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let cancels = waiting(&client, ORDERS, "cancel_order", 150).await;
    let reminds = waiting(&client, ORDERS, "remind", 150).await;
    let mail = waiting(&client, "mail", "cancel_order", 5).await;
    let filter = ["cancel", "--queue", ORDERS, "--name", "cancel_order"];

    let counted = run(&url, &filter).await;
    counted.fails(1, "150 jobs of the queue orders match\n");
    assert!(counted.err.contains("add --yes to cancel them"), "{}", counted.err);
    let json = run(&url, &[&filter[..], &["--json"]].concat()).await;
    assert_eq!(json.code, 1);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["matched"], &json["cancelled"]), (&150.into(), &0.into()));
    assert_eq!(client.stats(ORDERS).await.unwrap().waiting, 300, "nothing was done");

    let done = run(&url, &[&filter[..], &["--yes"]].concat()).await;
    assert_eq!(done.ok(), "orders: 150 cancelled, 0 run now and will not run again, 0 had ended before\n");
    assert!(done.err.contains("150 jobs of the queue orders match"), "the count comes first: {}", done.err);
    for id in &cancels {
        assert_eq!(client.job(ORDERS, *id).status().await.unwrap(), JobStatus::Cancelled);
    }
    for (queue, ids) in [(ORDERS, &reminds), ("mail", &mail)] {
        for id in ids {
            assert!(matches!(client.job(queue, *id).status().await.unwrap(), JobStatus::Waiting { .. }));
        }
    }
    // Nothing left to do is no failure.
    let none = run(&url, &[&filter[..], &["--yes", "--json"]].concat()).await.json();
    assert_eq!((&none["matched"], &none["cancelled"]), (&0.into(), &0.into()));

    // By due time, then all that is left.
    let soon = run(&url, &["cancel", "--queue", ORDERS, "--due-before", "+61m", "--yes", "--json"]).await.json();
    let cancelled = soon["cancelled"].as_u64().unwrap();
    assert!((60..150).contains(&cancelled), "one a second, from an hour on: {cancelled}");
    let rest = run(&url, &["cancel", "--queue", ORDERS, "--all", "--yes", "--json"]).await.json();
    assert_eq!(rest["cancelled"], 150 - cancelled);
    assert_eq!(client.stats("mail").await.unwrap().waiting, 5);
}

#[tokio::test]
async fn a_bulk_that_doesnt_say_which_ones_is_refused() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let id = waiting(&client, ORDERS, "cancel_order", 1).await[0].to_string();
    for command in [&["cancel"][..], &["reschedule", "--in", "1h"], &["dead", "retry"], &["dead", "delete"]] {
        for (args, saying) in [
            (&["--yes"][..], "which ones?"),
            (&["--queue", ORDERS, "--yes"], "which ones?"),
            (&["--name", "cancel_order", "--yes"], "add --queue"),
            (&["--all", "--yes"], "add --queue"),
            (&[&id, "--name", "cancel_order", "--yes"], "not both"),
            (&[&id, "--all", "--yes"], "not both"),
            (&[&id, "--queue", ORDERS, "--queue", "mail"], "one --queue"),
        ] {
            run(&url, &[command, args].concat()).await.fails(2, saying);
        }
        run(&url, &[command, &["--queue", "ordres", "--all", "--yes"]].concat())
            .await
            .fails(1, "there is no queue ordres");
    }
    run(&url, &["reschedule", &id]).await.fails(2, "required");
    assert_eq!(client.stats(ORDERS).await.unwrap().waiting, 1);
}

#[tokio::test]
async fn jobs_are_cancelled_by_id_wherever_they_are() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let worker = Running::start(&client, "mail-1");
    let running = client.enqueue().send(charge("wait")).await.unwrap();
    eventually("it runs", || async {
        matches!(running.status().await.unwrap(), JobStatus::Running { .. }).then_some(())
    })
    .await;
    let there = waiting(&client, "mail", "newsletter", 2).await;
    let (first, second, runs, none) =
        (there[0].to_string(), there[1].to_string(), running.id().to_string(), JobId::new().to_string());
    let ran = run(&url, &["cancel", &first, &none, &runs]).await;
    ran.fails(1, &format!("there is no job {none} in any queue"));
    assert_eq!(ran.out, format!("{first} cancelled\n{runs} runs now: it will not run again\n"), "the others go on");
    assert!(matches!(running.status().await.unwrap(), JobStatus::Running { cancelling: true, .. }));
    let json = run(&url, &["cancel", &second, "--queue", "mail", "--json"]).await.json();
    assert_eq!(
        (json["id"].as_str(), json["queue"].as_str(), json["outcome"].as_str()),
        (Some(&*second), Some("mail"), Some("cancelled"))
    );
    run(&url, &["cancel", &second, "--queue", ORDERS]).await.fails(1, "has no job");
    // An id belongs to its queue: the same one may be in two.
    let twin: JobId = JobId::new();
    for queue in ["mail", "texts"] {
        client.send_raw(queue, vec![RawJob::new("a", 1, "{}").id(twin).at(HOUR)]).await.remove(0).unwrap();
        crate::kit::listed(&client, queue).await;
    }
    run(&url, &["cancel", &twin.to_string()]).await.fails(1, "is in several queues: say which by --queue: mail, texts");
    run(&url, &["cancel", &twin.to_string(), "--queue", "texts"]).await.ok();
    assert!(client.jobs("mail").get(twin).await.unwrap().is_some());
    worker.stop().await;
}

#[tokio::test]
async fn running_jobs_are_cancelled_by_filter_where_that_is_said() {
    let (server, client) = server_and_client().await;
    let worker = Running::start(&client, "mail-1");
    client.enqueue().send_all((0..3).map(|_| charge("wait"))).await.into_iter().for_each(|sent| drop(sent.unwrap()));
    eventually("they run", || async { (client.stats(ORDERS).await.unwrap().running == 3).then_some(()) }).await;
    let filter = ["cancel", "--queue", ORDERS, "--name", "charge_card", "--yes", "--json"];
    assert_eq!(run(&server.url(), &filter).await.json()["matched"], 0, "those that wait");
    let json = run(&server.url(), &[&filter[..], &["--state", "running"]].concat()).await.json();
    assert_eq!((&json["matched"], &json["running"], &json["cancelled"]), (&3.into(), &3.into(), &0.into()));
    let page = client.jobs(ORDERS).list(&delayq::JobQuery::new(JobState::Running)).await.unwrap();
    assert!(page.jobs.iter().all(|job| job.cancelling));
    worker.stop().await;
}

#[tokio::test]
async fn jobs_are_moved_by_id_and_by_filter() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    let there = waiting(&client, ORDERS, "cancel_order", 120).await;
    let other = waiting(&client, ORDERS, "remind", 3).await;
    let due = async |id: JobId| client.jobs(ORDERS).get(id).await.unwrap().unwrap().due.unwrap();
    let id = there[0].to_string();
    let json = run(&url, &["reschedule", &id, "--at", "2999-01-01T00:00:00Z", "--json"]).await.json();
    assert_eq!(
        (json["due"].as_str(), due(there[0]).await.to_string().as_str()),
        (Some("2999-01-01T00:00:00.000Z"), "2999-01-01T00:00:00Z"),
        "with milliseconds, also where there are none"
    );
    let before = due(other[0]).await;
    let filter = ["reschedule", "--queue", ORDERS, "--name", "cancel_order", "--in", "3h"];
    run(&url, &filter).await.fails(1, "120 waiting jobs of the queue orders match");
    assert_eq!(due(there[0]).await.to_string(), "2999-01-01T00:00:00Z", "nothing was done");
    let moved = run(&url, &[&filter[..], &["--yes"]].concat()).await;
    assert_eq!(moved.ok(), "orders: 120 moved, 0 no longer waited\n");
    let now = client.stats(ORDERS).await.unwrap().now;
    for id in &there {
        let ahead = due(*id).await.duration_since(now).unsigned_abs();
        assert!(ahead > HOUR * 2 && ahead <= HOUR * 3, "each once: {ahead:?}");
    }
    assert_eq!(due(other[0]).await, before);
    run(&url, &["reschedule", &JobId::new().to_string(), "--in", "1m"]).await.fails(1, "there is no job");
    run(&url, &["reschedule", &id, "--in", "1m", "--at", "2999-01-01T00:00:00Z"]).await.fails(2, "cannot be used with");
}

#[tokio::test]
async fn queues_are_paused_and_go_on() {
    let (server, client) = server_and_client().await;
    let url = server.url();
    waiting(&client, ORDERS, "cancel_order", 1).await;
    assert_eq!(run(&url, &["pause", ORDERS]).await.ok(), "orders: paused\n");
    assert_eq!(run(&url, &["pause", ORDERS]).await.ok(), "orders: was paused already\n");
    assert!(client.stats(ORDERS).await.unwrap().paused);
    let json = run(&url, &["resume", ORDERS, "--json"]).await.json();
    assert_eq!((json["paused"].as_bool(), json["changed"].as_bool()), (Some(false), Some(true)));
    assert_eq!(run(&url, &["resume", ORDERS]).await.ok(), "orders: was not paused\n");
    // A name that was mistyped pauses nothing.
    run(&url, &["pause", "ordres"]).await.fails(1, "there is no queue ordres; there are orders");
    assert!(!client.stats("ordres").await.unwrap().paused);
    run(&url, &["pause", "ordres", "--new"]).await.ok();
    assert!(client.stats("ordres").await.unwrap().paused);
    // It is not on the list, and known all the same.
    run(&url, &["resume", "ordres"]).await.ok();
    run(&url, &["pause"]).await.fails(2, "required");
}

#[tokio::test]
async fn a_bulk_over_several_queues_counts_them_all() {
    let (server, client) = server_and_client().await;
    for queue in ["a", "b"] {
        waiting(&client, queue, "cancel_order", 2).await;
    }
    let counted = run(&server.url(), &["cancel", "--queue", "a", "--queue", "b", "--all"]).await;
    counted.fails(1, "2 jobs of the queue a match");
    assert!(counted.err.contains("2 jobs of the queue b match"), "{}", counted.err);
    run(&server.url(), &["cancel", "--queue", "a", "--queue", "b", "--all", "--yes"]).await.ok();
    let left = async |queue: &str| client.stats(queue).await.unwrap().waiting;
    assert_eq!((left("a").await, left("b").await), (0, 0));
}

//! Ids and unique keys: one job for each, however often it is sent.

use std::time::Duration;

use delayq::{ErrorKind, JobId, JobStatus, JobType};
use delayq_tests::{eventually, server_and_client};

use crate::kit::{Act, Raw, Retried, Stage, TASKS, Task, does, key, only, pass, settled};

#[test]
fn an_id_of_a_name_is_always_the_same() {
    // Written down: an id that changed with a release would make a second job of a repeated send.
    assert_eq!(JobId::named("cancel-order-42").to_string(), "3e5ef073-5b61-5b3c-b684-612acdcee61f");
    assert_ne!(JobId::named("cancel-order-42"), JobId::named("cancel-order-43"));
    assert_eq!(JobId::named("").to_string().len(), 36);
}

#[tokio::test]
async fn k_an_id_sent_twice_is_one_job() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let id = JobId::named("order-1");
    let first = client.schedule(Duration::from_secs(60)).id(id).send(pass(1)).await.unwrap();
    assert!(first.is_new() && first.id() == id);
    let due = raw.due(5, id).await.unwrap();
    let record = raw.record(id).await;
    // Nothing of the second send counts: not its time, its priority or its payload.
    let second = client.enqueue().priority(0).id(id).send(pass(2)).await.unwrap();
    assert!(!second.is_new() && second.id() == id);
    assert_eq!((raw.due(5, id).await, raw.due(0, id).await), (Some(due), None));
    assert_eq!(raw.record(id).await, record);
    let many = (0..100).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.enqueue().id(JobId::named("order-2")).send(pass(3)).await.unwrap().is_new() })
    });
    let mut new = 0;
    for send in many.collect::<Vec<_>>() {
        new += u32::from(send.await.unwrap());
    }
    assert_eq!(new, 1);
    assert_eq!(client.stats(TASKS).await.unwrap().waiting, 2);
    // Another queue is another place.
    assert!(client.enqueue().queue("others").id(id).send(pass(1)).await.unwrap().is_new());
}

#[tokio::test]
async fn i_an_id_sent_again_after_its_end_does_not_run_again() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let dead = client.dead_letters(TASKS);
    for (n, (act, how)) in
        (0..).zip([(Act::Pass, JobStatus::Done), (Act::Discard, JobStatus::Discarded), (Act::Fail, JobStatus::Deleted)])
    {
        let id = JobId::named(&format!("order-{n}"));
        let handle = client.enqueue().id(id).send(Task { n, act }).await.unwrap();
        assert_eq!(stage.next().await.n, n);
        if act == Act::Fail {
            eventually("it is dead", || async { dead.get(id).await.unwrap() }).await;
            let again = client.enqueue().id(id).send(Task { n, act }).await.unwrap();
            assert!(!again.is_new(), "a dead letter is still that job");
            dead.delete(id).await.unwrap();
        }
        eventually("it ended", || async { (handle.status().await.unwrap() == how).then_some(()) }).await;
        let again = client.enqueue().id(id).send(Task { n, act }).await.unwrap();
        assert!(!again.is_new());
        assert_eq!(again.status().await.unwrap(), how);
    }
    for waits in [true, false] {
        let id = JobId::new();
        let delay = Duration::from_secs(if waits { 60 } else { 0 });
        let send = || client.schedule(delay).id(id).send(Retried { act: Act::WaitFail });
        let handle = send().await.unwrap();
        if !waits {
            assert_eq!(stage.next().await.id, id);
        }
        handle.cancel().await.unwrap();
        stage.open(usize::from(!waits));
        let cancelled = || async { (handle.status().await.unwrap() == JobStatus::Cancelled).then_some(()) };
        eventually("it is cancelled", cancelled).await;
        assert!(!send().await.unwrap().is_new());
        assert_eq!(handle.status().await.unwrap(), JobStatus::Cancelled);
    }
    client.enqueue().send(pass(100)).await.unwrap();
    assert_eq!(stage.next().await.n, 100, "nothing ran in between");
    assert!(stage.is_quiet());
    stage.stop().await;
}

#[tokio::test]
async fn r_a_unique_key_in_use_is_refused_and_names_its_owner() {
    let (server, client) = server_and_client().await;
    let owner = client.schedule(Duration::from_secs(60)).send(only("order-1", Act::Pass)).await.unwrap();
    let refused = client.enqueue().send(only("order-1", Act::Pass)).await.unwrap_err();
    assert!(refused.is_duplicate() && !refused.is_temporary() && refused.kind() == ErrorKind::Duplicate);
    assert_eq!(refused.owner(), Some(owner.id()));
    assert!(refused.to_string().contains(&owner.id().to_string()));
    // The sender's key instead of the type's: others of the same type are free of it.
    client.enqueue().unique("mine").send(only("order-1", Act::Pass)).await.unwrap();
    let refused = client.enqueue().unique("mine").send(pass(1)).await.unwrap_err();
    assert!(refused.is_duplicate());
    client.enqueue().queue("others").send(only("order-1", Act::Pass)).await.unwrap();
    let mixed = client
        .enqueue()
        .send_all([only("order-2", Act::Pass), only("order-1", Act::Pass), only("order-2", Act::Pass)])
        .await;
    let id = mixed[0].as_ref().unwrap().id();
    assert_eq!(mixed[1].as_ref().unwrap_err().owner(), Some(owner.id()));
    assert_eq!(mixed[2].as_ref().unwrap_err().owner(), Some(id), "also within one call");
    assert_eq!(Raw::connect(&server).await.ask::<u64>(&[b"HLEN", crate::kit::key("unique").as_bytes()]).await, 3);
}

#[tokio::test]
async fn b74_a_unique_key_is_free_after_every_end() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let mut stage = Stage::start(&client);
    let free = |what: &'static str| {
        let client = client.clone();
        async move {
            let sent = eventually(what, || async {
                client.schedule(Duration::from_secs(60)).send(only("k", Act::Pass)).await.ok()
            });
            sent.await.cancel().await.unwrap();
        }
    };
    for act in [Act::Pass, Act::Fail, Act::Bury, Act::Discard] {
        let handle = client.enqueue().send(only("k", act)).await.unwrap();
        assert_eq!(stage.next().await.id, handle.id());
        free("its end").await;
    }
    let schedule = client.enqueue().unique(&*only("k", Act::Pass).unique_key().unwrap());
    let handle = schedule.send(Retried { act: Act::WaitFail }).await.unwrap();
    assert_eq!(stage.next().await.id, handle.id());
    handle.cancel().await.unwrap();
    assert!(client.enqueue().send(only("k", Act::Pass)).await.unwrap_err().is_duplicate(), "it still runs");
    stage.open(1);
    free("its cancelled run's end").await;
    let retained = client.enqueue().retain_for(Duration::from_secs(60)).send(only("k", Act::Pass)).await.unwrap();
    assert_eq!(stage.next().await.id, retained.id());
    free("a retained job's end").await;
    client.pause(TASKS).await.unwrap();
    let expired = client.enqueue().expires_in(Duration::from_millis(1)).send(only("k", Act::Pass)).await.unwrap();
    // Until it has expired: time itself is what is waited for.
    tokio::time::sleep(Duration::from_millis(5)).await;
    client.resume(TASKS).await.unwrap();
    free("its expiry").await;
    assert_eq!(expired.status().await.unwrap(), JobStatus::Expired);
    assert_eq!(raw.ask::<u64>(&[b"HLEN", crate::kit::key("unique").as_bytes()]).await, 0);
    assert!(stage.is_quiet());
    stage.stop().await;
}

#[tokio::test]
async fn an_expired_job_is_counted_and_its_handler_not_called() {
    let (_server, client) = server_and_client().await;
    let late = client.enqueue().expires_in(Duration::from_millis(1)).send(pass(1)).await.unwrap();
    let fine = client.enqueue().expires_in(Duration::from_secs(60)).send(pass(2)).await.unwrap();
    // Until it has expired: time itself is what is waited for.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let mut stage = Stage::start(&client);
    assert_eq!(stage.next().await.id, fine.id());
    settled(&client, 1).await;
    assert_eq!(late.status().await.unwrap(), JobStatus::Expired);
    assert_eq!(client.stats(TASKS).await.unwrap().expired_total, 1);
    assert!(stage.is_quiet());
    stage.stop().await;
}

#[tokio::test]
async fn a_retained_job_stays_until_its_time_is_over() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let mut stage = Stage::start(&client);
    let long = client.enqueue().retain_for(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    // Shorter than an id is remembered.
    let short = client.enqueue().retain_for(Duration::from_secs(12)).send(pass(2)).await.unwrap();
    let none = client.enqueue().send(pass(3)).await.unwrap();
    stage.take(3).await;
    settled(&client, 3).await;
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.retained, stats.orphans), (2, 0));
    for handle in [&long, &short, &none] {
        assert_eq!(handle.status().await.unwrap(), JobStatus::Done);
    }
    assert!(raw.record(long.id()).await.is_some() && raw.record(none.id()).await.is_none());
    // As when its time is over.
    let now_ms = jiff::Timestamp::now().as_millisecond().to_string();
    let _: i64 = raw.ask(&[b"ZADD", key("done").as_bytes(), now_ms.as_bytes(), short.id().as_uuid().as_bytes()]).await;
    // Each end of a job sweeps a little.
    client.enqueue().send(does(Act::Discard)).await.unwrap();
    eventually("the short one is swept", || async { (client.stats(TASKS).await.unwrap().retained == 1).then_some(()) })
        .await;
    assert!(raw.record(short.id()).await.is_none());
    // For 15 s its id is remembered, as that of any job.
    assert_eq!(short.status().await.unwrap(), JobStatus::Done);
    assert_eq!(long.status().await.unwrap(), JobStatus::Done);
    stage.stop().await;
}

#[tokio::test]
async fn a_trace_parent_reaches_the_handler() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    client.enqueue().trace_parent(parent).send(pass(1)).await.unwrap();
    assert_eq!(stage.next().await.trace_parent.as_deref(), Some(parent));
    client.enqueue().send(pass(2)).await.unwrap();
    assert_eq!(stage.next().await.trace_parent, None);
    stage.stop().await;
}

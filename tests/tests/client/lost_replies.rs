//! Replies and requests that get lost on the way: asked again, and never done twice (rule k).

use std::time::Duration;

use delayq::{CancelOutcome, Client, JobStatus};
use delayq_redis_fixture::RedisServer;
use delayq_redis_fixture::proxy::{Blow, End, Mode, Proxy};
use delayq_tests::{eventually, server_and_client};

use crate::kit::{Act, Raw, Stage, TASKS, Task, does, only, pass, settled};

/// A server, a client that reaches it through a proxy, and one that reaches it without.
async fn proxied() -> (RedisServer, Proxy, Client, Client) {
    let (server, direct) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let client = Client::builder().response_timeout(Duration::from_secs(5)).connect(&proxy.url()).await.unwrap();
    // From here on the server knows the script: an answer that gets lost is one of a call that ran.
    client.schedule(Duration::from_secs(600)).send(pass(0)).await.unwrap().cancel().await.unwrap();
    (server, proxy, client, direct)
}

fn needle(n: u64) -> String {
    format!("{{\"n\":{n},")
}

#[tokio::test]
async fn k_f49_a_send_whose_answer_is_lost_makes_one_job() {
    let (server, proxy, client, direct) = proxied().await;
    let mut raw = Raw::connect(&server).await;
    // "*2\r\n$2\r\nOK\r\n:1\r\n": cut before it, within it, after all of it; and three times in a row.
    let cases = (0..=16).map(|keep| (keep, 1)).chain([(0, 3), (7, 3)]);
    for (n, (keep, times)) in (1..).zip(cases) {
        let lost = proxy.struck();
        proxy.strike(Blow::Reply { keep, end: End::Close }, &[needle(n)], times);
        let handle = client.schedule(Duration::from_secs(60)).send(pass(n)).await.unwrap();
        eventually("the cut", || async { (proxy.struck() == lost + times).then_some(()) }).await;
        assert_eq!(handle.is_new(), keep == 16, "cut after {keep} bytes");
        assert!(raw.record(handle.id()).await.is_some());
        let stats = direct.stats(TASKS).await.unwrap();
        assert_eq!((stats.waiting, stats.enqueued_total, stats.orphans), (n, n + 1, 0), "cut after {keep} bytes");
    }
}

#[tokio::test]
async fn k_a_send_whose_request_is_lost_makes_one_job() {
    let (_server, proxy, client, direct) = proxied().await;
    for (n, (keep, times)) in (1..).zip([(0, 1), (1, 1), (60, 1), (200, 1), (0, 3)]) {
        let lost = proxy.struck();
        proxy.strike(Blow::Request { keep, end: End::Close }, &[needle(n)], times);
        let handle = client.schedule(Duration::from_secs(60)).send(pass(n)).await.unwrap();
        assert_eq!(proxy.struck(), lost + times);
        assert!(handle.is_new(), "the try that was carried out is the one that was answered");
        let stats = direct.stats(TASKS).await.unwrap();
        assert_eq!((stats.waiting, stats.enqueued_total), (n, n + 1), "{keep}");
    }
}

#[tokio::test]
async fn k_the_neighbours_of_a_lost_answer_are_each_there_once() {
    let (_server, proxy, client, direct) = proxied().await;
    proxy.strike(Blow::Reply { keep: 3, end: End::Close }, &[needle(250)], 2);
    let sends: Vec<_> =
        (1..=500).map(|n| tokio::spawn(client.schedule(Duration::from_secs(60)).send(pass(n)))).collect();
    for send in sends {
        send.await.unwrap().unwrap();
    }
    assert_eq!(proxy.struck(), 2);
    let stats = direct.stats(TASKS).await.unwrap();
    assert_eq!((stats.waiting, stats.enqueued_total, stats.orphans), (500, 501, 0));
}

#[tokio::test]
async fn i_a_send_whose_job_ran_before_it_could_be_repeated_runs_once() {
    let (_server, proxy, client, direct) = proxied().await;
    let mut stage = Stage::start(&direct);
    for (n, unique) in [(1, None), (2, Some("key"))] {
        proxy.strike(Blow::Reply { keep: 0, end: End::Close }, &[needle(n)], 1);
        let lost = proxy.struck();
        let mut schedule = client.enqueue();
        if let Some(key) = unique {
            schedule = schedule.unique(key);
        }
        let send = tokio::spawn(schedule.send(pass(n)));
        eventually("the loss", || async { (proxy.struck() == lost + 1).then_some(()) }).await;
        // Nobody gets through until the job has run and is gone.
        proxy.set(Mode::Refuse);
        assert_eq!(stage.next().await.n, n);
        settled(&direct, n).await;
        proxy.set(Mode::Pass);
        let handle = send.await.unwrap().unwrap();
        assert!(!handle.is_new());
        assert_eq!(handle.status().await.unwrap(), JobStatus::Done);
    }
    direct.enqueue().send(pass(9)).await.unwrap();
    assert_eq!(stage.next().await.n, 9, "nothing ran a second time");
    stage.stop().await;
}

#[tokio::test]
async fn k_a_send_whose_job_died_before_it_could_be_repeated_is_no_second_job() {
    let (_server, proxy, client, direct) = proxied().await;
    let mut stage = Stage::start(&direct);
    proxy.strike(Blow::Reply { keep: 0, end: End::Close }, &["dying"], 1);
    let send = tokio::spawn(client.enqueue().send(only("dying", Act::Fail)));
    eventually("the loss", || async { (proxy.struck() == 1).then_some(()) }).await;
    proxy.set(Mode::Refuse);
    stage.next().await;
    eventually("its death", || async { (direct.stats(TASKS).await.unwrap().dead == 1).then_some(()) }).await;
    proxy.set(Mode::Pass);
    let handle = send.await.unwrap().unwrap();
    assert!(matches!(handle.status().await.unwrap(), JobStatus::Dead { .. }));
    assert!(stage.is_quiet());
    stage.stop().await;
}

#[tokio::test]
async fn k_what_is_asked_of_a_job_may_lose_its_answer_as_well() {
    let (_server, proxy, client, direct) = proxied().await;
    let mut stage = Stage::start(&direct);
    let next_answer = |id: delayq::JobId| {
        proxy.strike(Blow::Reply { keep: 2, end: End::Close }, &[id.as_uuid().as_bytes()], 1);
    };
    // Each question once before, so that the server knows every script.
    let dead = client.dead_letters(TASKS);
    let warm = client.schedule(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    warm.reschedule(Duration::from_secs(70)).await.unwrap();
    warm.cancel().await.unwrap();
    dead.redrive(warm.id()).await.unwrap_err();
    dead.delete(warm.id()).await.unwrap_err();
    client.pause(TASKS).await.unwrap();
    client.resume(TASKS).await.unwrap();

    let handle = client.schedule(Duration::from_secs(60)).send(pass(1)).await.unwrap();
    next_answer(handle.id());
    handle.reschedule(Duration::from_secs(600)).await.unwrap();
    assert!(matches!(direct.handle::<Task>(handle.id()).status().await.unwrap(), JobStatus::Waiting { .. }));
    next_answer(handle.id());
    assert!(matches!(handle.status().await.unwrap(), JobStatus::Waiting { .. }));
    next_answer(handle.id());
    assert_eq!(handle.cancel().await.unwrap(), CancelOutcome::Cancelled);
    assert_eq!(direct.stats(TASKS).await.unwrap().cancelled_total, 3, "counted once");

    let fails = client.enqueue().send(does(Act::Fail)).await.unwrap();
    stage.next().await;
    eventually("its death", || async { dead.get(fails.id()).await.unwrap() }).await;
    next_answer(fails.id());
    dead.redrive(fails.id()).await.unwrap();
    stage.next().await;
    eventually("its second death", || async { dead.get(fails.id()).await.unwrap() }).await;
    next_answer(fails.id());
    dead.delete(fails.id()).await.unwrap();
    assert_eq!(dead.get(fails.id()).await.unwrap(), None);
    assert!(stage.is_quiet());

    // All at once: what has run and died again by the second try is not started a second time.
    let ids: std::collections::HashSet<_> = {
        let answers = direct.enqueue().send_all((0..700).map(|n| Task { n, act: Act::Fail })).await;
        answers.into_iter().map(|answer| answer.unwrap().id()).collect()
    };
    stage.take(700).await;
    let all_dead = || async { (direct.stats(TASKS).await.unwrap().dead == 700).then_some(()) };
    eventually("all are dead", all_dead).await;
    proxy.strike(Blow::Reply { keep: 1, end: End::Close }, &["{tasks/0}:wake"], 3);
    let report = dead.redrive_all().await.unwrap();
    assert_eq!((report.redriven, report.conflicts), (700, 0));
    let runs = stage.take(700).await;
    assert!(runs.iter().map(|ran| ran.id).collect::<std::collections::HashSet<_>>() == ids);
    eventually("all are dead again", all_dead).await;
    assert!(stage.is_quiet(), "one new start each");
    assert_eq!(proxy.struck(), 8);

    proxy.strike(Blow::Reply { keep: 0, end: End::Close }, &["{tasks/0}:wake"], 1);
    client.pause(TASKS).await.unwrap();
    assert!(direct.stats(TASKS).await.unwrap().paused);
    assert_eq!(proxy.struck(), 9);
    stage.stop().await;
}

#[tokio::test]
async fn k_what_an_earlier_try_may_have_done_stays_unknown_when_the_store_is_gone() {
    let (mut server, direct) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let builder = Client::builder().send_deadline(Duration::from_millis(800));
    let client = builder.connect(&proxy.url()).await.unwrap();
    // From here on the server knows the script.
    direct.schedule(Duration::from_secs(600)).send(pass(0)).await.unwrap().cancel().await.unwrap();
    let sent = direct.schedule(Duration::from_secs(600)).send(pass(0)).await.unwrap();
    let handle = client.handle::<Task>(sent.id());
    // The cancel arrives and its answer doesn't; then there is nobody to ask.
    let lost = proxy.struck();
    proxy.strike(Blow::Reply { keep: 0, end: End::Close }, &[handle.id().as_uuid().as_bytes()], 1000);
    let cancel = tokio::spawn(async move { handle.cancel().await });
    eventually("the cut", || async { (proxy.struck() > lost).then_some(()) }).await;
    server.kill();
    let error = cancel.await.unwrap().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
}

//! The dead letters: paged, shown, redriven, deleted.

use std::collections::HashSet;
use std::time::Duration;

use delayq::{Client, DeadLetter, DeadReason, ErrorKind, JobId, JobStatus};
use delayq_tests::{eventually, server_and_client, soon};

use crate::kit::{Act, Raw, Stage, TASKS, Task, does, key, only};

/// Makes so many dead letters and answers their ids.
async fn bury(client: &Client, stage: &mut Stage, count: usize, act: Act) -> Vec<JobId> {
    let before = client.stats(TASKS).await.unwrap().dead;
    let answers = client.enqueue().send_all((0..count as u64).map(|n| Task { n, act })).await;
    let ids = answers.into_iter().map(|answer| answer.unwrap().id()).collect();
    stage.take(count).await;
    let all = || async { (client.stats(TASKS).await.unwrap().dead == before + count as u64).then_some(()) };
    eventually("all are dead", all).await;
    ids
}

async fn pages(client: &Client, oldest_first: bool, limit: usize) -> Vec<DeadLetter> {
    let dead = client.dead_letters(TASKS);
    let (mut letters, mut cursor) = (Vec::new(), None);
    loop {
        let page = if oldest_first {
            dead.oldest_first(limit, cursor).await.unwrap()
        } else {
            dead.newest_first(limit, cursor).await.unwrap()
        };
        assert!(page.letters.len() <= limit);
        letters.extend(page.letters);
        cursor = page.next;
        if cursor.is_none() {
            return letters;
        }
    }
}

#[tokio::test]
async fn pages_show_each_letter_once_in_both_directions_also_at_equal_times() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let ids = bury(&client, &mut stage, 150, Act::Bury).await;
    let mut raw = Raw::connect(&server).await;
    // All but a few died in the same millisecond.
    for (n, id) in ids.iter().enumerate() {
        let died = if n < 140 { "1700000000000" } else { "1700000000001" };
        let _: i64 = raw.ask(&[b"ZADD", key("dead").as_bytes(), died.as_bytes(), id.as_uuid().as_bytes()]).await;
    }
    let all: HashSet<JobId> = ids.iter().copied().collect();
    for limit in [1, 7, 50, 100] {
        let forward = pages(&client, true, limit).await;
        let mut backward = pages(&client, false, limit).await;
        assert_eq!(forward.len(), 150, "pages of {limit}");
        assert_eq!(forward.iter().map(|letter| letter.id).collect::<HashSet<_>>(), all);
        assert!(forward.windows(2).all(|pair| pair[0].died_at <= pair[1].died_at));
        backward.reverse();
        assert!(forward == backward, "pages of {limit}: one direction is the other reversed");
    }
    let dead = client.dead_letters(TASKS);
    for limit in [0, 101, usize::MAX] {
        assert_eq!(dead.oldest_first(limit, None).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    // The letter where a page ended goes: the next page misses none of the others.
    let first = dead.oldest_first(60, None).await.unwrap();
    dead.delete(first.letters[59].id).await.unwrap();
    let mut seen: HashSet<JobId> = first.letters.iter().map(|letter| letter.id).collect();
    let mut cursor = first.next;
    while let Some(at) = cursor {
        let page = dead.oldest_first(60, Some(at)).await.unwrap();
        seen.extend(page.letters.iter().map(|letter| letter.id));
        cursor = page.next;
    }
    assert_eq!(seen, all);
    let none = client.dead_letters("others").newest_first(10, None).await.unwrap();
    assert!(none.letters.is_empty() && none.next.is_none());
    stage.stop().await;
}

#[tokio::test]
async fn a_page_of_large_letters_ends_early_and_none_is_missed() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let large = "x".repeat(900 * 1024);
    for n in 0..9 {
        client.enqueue().unique(n.to_string()).send(only(&large, Act::Bury)).await.unwrap();
        stage.next().await;
    }
    eventually("all are dead", || async { (client.stats(TASKS).await.unwrap().dead == 9).then_some(()) }).await;
    let dead = client.dead_letters(TASKS);
    assert!(dead.oldest_first(100, None).await.unwrap().letters.len() < 9);
    assert_eq!(pages(&client, true, 100).await.len(), 9);
    assert_eq!(pages(&client, false, 100).await.len(), 9);
    assert_eq!(client.dead_letters(TASKS).redrive_all().await.unwrap().redriven, 9);
    stage.take(9).await;
    stage.stop().await;
}

#[tokio::test]
async fn a_letter_is_shown_redriven_and_deleted() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let dead = client.dead_letters(TASKS);
    let handle = client.enqueue().send(does(Act::Fail)).await.unwrap();
    stage.next().await;
    let letter = eventually("it is dead", || async { dead.get(handle.id()).await.unwrap() }).await;
    assert_eq!((letter.id, letter.queue.as_str(), letter.attempts), (handle.id(), TASKS, 1));
    assert_eq!((letter.name.as_deref(), letter.version), (Some("task"), Some(1)));
    assert_eq!(letter.reason, Some(DeadReason::RetriesExhausted));
    assert!(letter.error.contains("told to fail"), "{}", letter.error);
    assert_eq!(letter.payload, b"{\"n\":0,\"act\":\"Fail\"}".as_slice());
    assert!(letter.enqueued_at.unwrap() <= letter.due.unwrap() && letter.due.unwrap() <= letter.died_at);

    client.pause(TASKS).await.unwrap();
    dead.redrive(handle.id()).await.unwrap();
    assert!(matches!(handle.status().await.unwrap(), JobStatus::Waiting { attempts: 0, last_error: None, .. }));
    assert_eq!(dead.get(handle.id()).await.unwrap(), None);
    for other in [handle.id(), JobId::new()] {
        assert_eq!(dead.redrive(other).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(dead.delete(other).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
    client.resume(TASKS).await.unwrap();
    assert_eq!(stage.next().await.attempt, 1, "with all its attempts");
    let again = eventually("it is dead again", || async { dead.get(handle.id()).await.unwrap() }).await;
    assert_eq!((again.attempts, &again.payload), (1, &letter.payload));
    for _ in 0..2 {
        dead.delete(handle.id()).await.unwrap();
    }
    assert_eq!(dead.redrive(handle.id()).await.unwrap_err().kind(), ErrorKind::NotFound);
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.dead, stats.dead_total, stats.orphans), (0, 2, 0));
    stage.stop().await;
}

#[tokio::test]
async fn b41_redriving_all_takes_those_that_are_there_and_returns() {
    let (_server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let mut ids: HashSet<JobId> = bury(&client, &mut stage, 1200, Act::Fail).await.into_iter().collect();
    let report = soon("its end", client.dead_letters(TASKS).redrive_all()).await.unwrap();
    assert_eq!((report.redriven, report.conflicts, report.unreadable), (1200, 0, 0));
    for ran in stage.take(1200).await {
        assert!(ids.remove(&ran.id) && ran.attempt == 1, "one new start each");
    }
    eventually("all are dead again", || async { (client.stats(TASKS).await.unwrap().dead == 1200).then_some(()) })
        .await;
    assert!(stage.is_quiet());
    assert_eq!(client.stats(TASKS).await.unwrap().orphans, 0);
    let none = client.dead_letters("others").redrive_all().await.unwrap();
    assert_eq!(none.redriven, 0);
    stage.stop().await;
}

#[tokio::test]
async fn r_a_redrive_asks_for_the_unique_key_again() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    let mut stage = Stage::start(&client);
    let dead = client.dead_letters(TASKS);
    let first = client.enqueue().send(only("k", Act::Fail)).await.unwrap();
    stage.next().await;
    eventually("it is dead", || async { dead.get(first.id()).await.unwrap() }).await;
    let second = client.schedule(Duration::from_secs(60)).send(only("k", Act::Pass)).await.unwrap();
    let refused = dead.redrive(first.id()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Duplicate, "{refused:?}");
    assert!(dead.get(first.id()).await.unwrap().is_some(), "it stays");
    // One without a record, and one that is fine, beside the conflict.
    let ids = bury(&client, &mut stage, 2, Act::Fail).await;
    let _: i64 = raw.ask(&[b"HDEL", key("jobs").as_bytes(), ids[0].as_uuid().as_bytes()]).await;
    assert_eq!(dead.redrive(ids[0]).await.unwrap_err().kind(), ErrorKind::Corrupt);
    let report = soon("its end", dead.redrive_all()).await.unwrap();
    assert_eq!((report.redriven, report.conflicts, report.unreadable), (1, 1, 1));
    assert_eq!(stage.next().await.id, ids[1]);
    second.cancel().await.unwrap();
    dead.redrive(first.id()).await.unwrap();
    assert_eq!(stage.next().await.id, first.id());
    dead.delete(ids[0]).await.unwrap();
    assert!(stage.is_quiet());
    stage.stop().await;
}

#[tokio::test]
async fn letters_of_a_list_are_redriven_and_deleted_and_no_others() {
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    bury(&client, &mut stage, 1300, Act::Bury).await;
    client.pause(TASKS).await.unwrap();
    let dead = client.dead_letters(TASKS);
    let letters = pages(&client, true, 100).await;
    let listed = |of: usize| letters.iter().skip(of).step_by(2).map(|letter| (letter.id, letter.died_at));
    let even: Vec<_> = listed(0).collect();
    // One of them has died once more since it was listed, and one is listed twice.
    let mut raw = Raw::connect(&server).await;
    let later = (letters[1299].died_at.as_millisecond() + 1).to_string();
    let _: i64 = raw.ask(&[b"ZADD", key("dead").as_bytes(), later.as_bytes(), even[7].0.as_uuid().as_bytes()]).await;
    let twice: Vec<_> = even.iter().rev().chain(&even[..1]).copied().collect();
    let report = soon("its end", dead.redrive_listed(&twice)).await.unwrap();
    assert_eq!((report.redriven, report.gone, report.conflicts, report.unreadable), (649, 1, 0, 0));
    let stats = client.stats(TASKS).await.unwrap();
    assert_eq!((stats.dead, stats.due, stats.redriven_total), (651, 649, 649));
    assert_eq!(dead.redrive_listed(&even).await.unwrap().gone, 650);

    // A letter without a record can be deleted as well.
    let odd: Vec<_> = listed(1).take(600).collect();
    let _: i64 = raw.ask(&[b"HDEL", key("jobs").as_bytes(), odd[3].0.as_uuid().as_bytes()]).await;
    assert_eq!(dead.redrive_listed(&odd[3..4]).await.unwrap().unreadable, 1);
    assert_eq!(soon("its end", dead.delete_listed(&odd)).await.unwrap(), 600);
    assert_eq!((dead.delete_listed(&odd).await.unwrap(), dead.delete_listed(&[]).await.unwrap()), (0, 0));
    let left: HashSet<JobId> = pages(&client, true, 100).await.iter().map(|letter| letter.id).collect();
    let kept: HashSet<JobId> = listed(1).skip(600).map(|(id, _)| id).chain([even[7].0]).collect();
    assert_eq!(left, kept);
    stage.stop().await;
}

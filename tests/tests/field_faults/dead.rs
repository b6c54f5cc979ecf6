//! B41 to B43: dead letters: sent to work again, counted, and gone without a trace.

use std::collections::BTreeSet;
use std::time::Duration;

use delayq::{Client, DeadLetter, DeadReason, ErrorKind, Job, JobContext, JobId, JobResult, JobStatus, delayed_job};
use delayq_tests::store_kit::{Value, World};
use delayq_tests::{server_and_client, soon};

use crate::kit::{Act, FIELD, Field, Stage, conserved, dead, field, letter, numbers, send_all, stored, tell, world};

/// Never succeeds, and is never retried.
#[delayed_job(name = "hopeless", version = 1, queue = "field", max_retries = 0)]
struct Hopeless {
    n: u64,
}

impl Job for Hopeless {
    async fn run(self, cx: JobContext) -> JobResult {
        tell(self.n, &cx)?;
        Err("hopeless")?
    }
}

/// Sends so many, lets them fail, and gives their ids in the order of their sending.
async fn bury(client: &Client, stage: &mut Stage, numbers: std::ops::Range<u64>) -> Vec<JobId> {
    let before = client.stats(FIELD).await.unwrap().dead;
    let count = numbers.end - numbers.start;
    let ids = send_all(client.enqueue(), numbers.map(|n| Hopeless { n })).await;
    stage.take(count as usize).await;
    dead(client, FIELD, before + count).await;
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_redriving_all_takes_what_is_there_once_while_failures_come_back() {
    const JOBS: u64 = 500;
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    bury(&client, &mut stage, 0..JOBS).await;
    // Each time those that are there, though all of them come back while it goes on.
    for _ in 0..3 {
        let report = soon("its return", client.dead_letters(FIELD).redrive_all()).await.unwrap();
        assert_eq!((report.redriven, report.conflicts, report.unreadable), (JOBS, 0, 0));
        let runs = stage.take(JOBS as usize).await;
        assert!(numbers(&runs).into_iter().eq(0..JOBS), "one new start each");
        assert!(runs.iter().all(|ran| ran.attempt == 1), "with all its attempts");
        dead(&client, FIELD, JOBS).await;
    }
    // Newer ones wait for the next call too.
    client.pause(FIELD).await.unwrap();
    assert_eq!(client.dead_letters(FIELD).redrive_all().await.unwrap().redriven, JOBS);
    assert_eq!(client.dead_letters(FIELD).redrive_all().await.unwrap().redriven, 0);
    assert!(stage.stop().await.is_empty());
    conserved(&server, FIELD).await;
}

/// All dead letters, the oldest first.
async fn all_letters(client: &Client) -> Vec<DeadLetter> {
    let (mut letters, mut after) = (Vec::new(), None);
    loop {
        let page = client.dead_letters(FIELD).oldest_first(100, after).await.unwrap();
        letters.extend(page.letters);
        after = page.next;
        if after.is_none() {
            return letters;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b42_no_dead_letter_is_dropped_to_make_room_for_another() {
    // There is no cap: what the others dropped unnoticed at 100 is all there, however much is added.
    let (server, client) = server_and_client().await;
    let mut stage = Stage::start(&client);
    let mut ids = bury(&client, &mut stage, 0..150).await;
    ids.extend(bury(&client, &mut stage, 150..450).await);
    let letters = all_letters(&client).await;
    assert_eq!(letters.len(), 450);
    assert!(letters.is_sorted_by_key(|letter| letter.died_at));
    let found: BTreeSet<JobId> = letters.iter().map(|letter| letter.id).collect();
    assert!(found == ids.iter().copied().collect());
    for (letter, n) in [(&letters[0], 0), (&letters[449], 449)] {
        let same = client.dead_letters(FIELD).get(letter.id).await.unwrap().unwrap();
        assert!(same == *letter && letter.reason == Some(DeadReason::RetriesExhausted), "{n}: {letter:?}");
    }
    let payloads: BTreeSet<_> = letters.iter().map(|letter| letter.payload.clone()).collect();
    assert!(payloads.contains(&b"{\"n\":0}"[..]) && payloads.len() == 450, "with their bytes");
    let stats = client.stats(FIELD).await.unwrap();
    assert_eq!((stats.dead, stats.dead_total, stats.orphans), (450, 450, 0), "what is counted is there");
    assert!(stage.stop().await.is_empty());
    conserved(&server, FIELD).await;
}

/// Where an id is still spelled, by the names of the keys.
async fn traces(world: &World, id: &[u8; 16]) -> Vec<String> {
    let has = |bytes: &[u8]| bytes.windows(16).any(|window| window == id);
    let names = |value: &Value| match value {
        Value::Hash(fields) => fields.iter().any(|(field, value)| has(field) || has(value)),
        Value::Sorted(members) => members.keys().any(|member| has(member)),
        Value::Set(members) => members.iter().any(|member| has(member)),
        Value::Text(text) => has(text),
    };
    let dump = world.dump().await;
    dump.0.into_iter().filter(|(_, value)| names(value)).map(|(name, _)| name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn b43_a_deleted_letter_leaves_nothing_and_a_lost_one_is_not_found() {
    let (server, client) = server_and_client().await;
    let world = world(&server, FIELD).await;
    let letters = client.dead_letters(FIELD);
    let mut stage = Stage::start(&client);
    let ids = bury(&client, &mut stage, 0..20).await;
    let kept = client.enqueue().unique("key").retain_for(Duration::from_secs(60)).send(field(20, Act::Bury)).await;
    let kept = kept.unwrap();
    stage.next().await;
    letter(&client, FIELD, kept.id()).await;
    assert!(stage.stop().await.is_empty());
    for id in ids[..10].iter().chain([&kept.id()]) {
        assert_eq!(traces(&world, &stored(*id)).await, ["dead", "error", "jobs"]);
        letters.delete(*id).await.unwrap();
        // So that a late repetition of its send makes no second job, it is remembered for 15 s.
        assert_eq!(traces(&world, &stored(*id)).await, ["tombs"]);
        letters.delete(*id).await.unwrap();
        assert_eq!(letters.get(*id).await.unwrap(), None);
        assert_eq!(letters.redrive(*id).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
    conserved(&server, FIELD).await;
    // When that time is over, nothing is left.
    for id in &ids[..2] {
        world.set_score("tombs", stored(*id), Some(8)).await;
    }
    for id in &ids[..2] {
        assert_eq!(letters.delete(*id).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(client.handle::<Field>(*id).status().await.unwrap(), JobStatus::Gone);
        assert_eq!(traces(&world, &stored(*id)).await, Vec::<String>::new());
    }
    // What a foreign hand took out of the list is not found, is no error, and is seen: its body belongs to no state.
    let lost = ids[11];
    world.set_score("dead", stored(lost), None).await;
    for _ in 0..2 {
        assert_eq!(letters.delete(lost).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(letters.redrive(lost).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert_eq!(letters.get(lost).await.unwrap(), None);
    assert_eq!(client.stats(FIELD).await.unwrap().orphans, 1);
    // And what lost its body, or its note, goes as a whole.
    world.set_field("jobs", stored(ids[12]), None).await;
    world.set_field("error", stored(ids[13]), None).await;
    assert_eq!(letters.redrive(ids[12]).await.unwrap_err().kind(), ErrorKind::Corrupt);
    for id in [ids[12], ids[13]] {
        letters.delete(id).await.unwrap();
        assert_eq!(traces(&world, &stored(id)).await, ["tombs"]);
    }
    world.set_field("jobs", stored(lost), None).await;
    world.set_field("error", stored(lost), None).await;
    conserved(&server, FIELD).await;
}

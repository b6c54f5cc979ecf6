//! What is shown of queues: metrics, instants, lists (B87, B88, and what of B90 concerns the library).

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use delayq::store::SCRIPTS;
use delayq::store::ops::NewJob;
use delayq::{
    Client, ErrorKind, Job, JobContext, JobError, JobId, JobQuery, JobResult, JobState, JobStatus, JobType, Worker,
    delayed_job,
};
use delayq_tests::store_kit::{With, World, id, job};
use delayq_tests::{Running, eventually, server_and_client};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::kit::{quiet_panics, settled};
use crate::kit_b::{Act, QUEUE, Retried, Stage, does, pass};

/// Remembers which series there are.
#[derive(Default)]
struct Series(Mutex<BTreeSet<String>>);

impl Series {
    fn add(&self, key: &Key) {
        let labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        self.0.lock().unwrap().insert(format!("{}{{{}}}", key.name(), labels.join(",")));
    }

    fn all(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Recorder for Series {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.add(key);
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.add(key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.add(key);
        Histogram::noop()
    }
}

/// A job of a type that no worker knows.
fn bogus(n: u64) -> NewJob {
    job(100_000 + n).due("+0").envelope(format!("bogus-{n} {}\n{{}}", n + 1).into_bytes())
}

/// Ids, types that nobody knows, and every outcome: all that could become a series.
async fn busy_hour(client: &Client, world: &World, round: u64) {
    let mut stage = Stage::start(client);
    let text = || format!("of round {round}");
    let done = client.stats(QUEUE).await.unwrap().done_total;
    for sent in client.enqueue().send_all((0..300).map(pass)).await {
        sent.unwrap();
    }
    for act in [Act::Fail(text()), Act::Discard(text()), Act::Bury(text()), Act::Panic(text()), Act::PanicWithNumber] {
        client.enqueue().send(does(1, act)).await.unwrap();
    }
    client.enqueue().send(Retried { n: 2, act: Act::FailUntil(1) }).await.unwrap();
    client.schedule(Duration::from_millis(1)).unique(text()).priority(round as u8 % 10).send(pass(3)).await.unwrap();
    world.create(&(0..200).map(|n| bogus(round * 1000 + n)).collect::<Vec<_>>()).await;
    settled(client, QUEUE, done + 302).await;
    stage.rest();
    stage.stop().await;
}

#[tokio::test]
async fn b87_no_id_worker_or_foreign_name_becomes_a_series() {
    quiet_panics();
    let series = Series::default();
    // On this thread, which is all of this test's runtime.
    let _recording = metrics::set_default_local_recorder(&series);
    let (server, client) = server_and_client().await;
    let world = World::on(&server).await.named("delayq", QUEUE);
    busy_hour(&client, &world, 0).await;
    let first = series.all();
    for needle in ["delayq_jobs_total", "delayq_lateness_seconds", "delayq_job_duration_seconds", "job=unknown"] {
        assert!(first.iter().any(|series| series.contains(needle)), "{needle}: {first:#?}");
    }
    assert!(first.len() < 60, "{first:#?}");
    // Other ids, other workers, other foreign types: the same series.
    for round in 1..6 {
        busy_hour(&client, &world, round).await;
    }
    // Of the scripts there is a series each, and some are called only now and then.
    let (scripts, others): (Vec<String>, Vec<String>) =
        series.all().into_iter().partition(|series| series.starts_with("delayq_redis_command_seconds"));
    assert!(scripts.len() <= SCRIPTS.len(), "{scripts:#?}");
    let new: Vec<&String> = others.iter().filter(|series| !first.contains(*series)).collect();
    assert!(new.is_empty(), "{new:#?}");
    assert!(!first.iter().any(|series| series.contains("bogus") || series.contains("round")), "{first:#?}");
}

#[tokio::test]
async fn b88_what_has_not_happened_is_absent_and_nothing_is_decades_late() {
    let (server, client) = server_and_client().await;
    let empty = client.stats(QUEUE).await.unwrap();
    assert_eq!((empty.next_due, empty.waiting), (None, 0));
    let started = jiff::Timestamp::now();
    let is_now = |at: jiff::Timestamp| at.duration_since(started).abs() < jiff::SignedDuration::from_secs(30);
    // Due times of the past, as a program sends them whose clock was reset or whose field is empty.
    let pasts = [
        SystemTime::UNIX_EPOCH,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1),
        SystemTime::UNIX_EPOCH - Duration::from_secs(86_400),
        SystemTime::now() - Duration::from_secs(365 * 86_400),
    ];
    let mut stage = Stage::start(&client);
    for (n, past) in (0..).zip(pasts) {
        client.schedule_at(past).send(pass(n)).await.unwrap();
        let ran = stage.next().await;
        assert!(ran.lateness < Duration::from_secs(5), "{past:?}: {:?} late", ran.lateness);
    }
    // The same for a retry, whose due time is its own, and for one that a foreign producer sent with a time of zero.
    client.schedule_at(SystemTime::UNIX_EPOCH).send(Retried { n: 9, act: Act::FailUntil(2) }).await.unwrap();
    let world = World::on(&server).await.named("delayq", QUEUE);
    world.create(&[job(1).due("@0").envelope(b"b_deed 1\n{\"n\":10,\"act\":\"Pass\"}".to_vec())]).await;
    for ran in stage.take(4).await {
        assert!(ran.lateness < Duration::from_secs(5), "{ran:?}");
    }
    settled(&client, QUEUE, 6).await;
    // A job that never started, a dead letter, and one whose record can't be read.
    let waits = client.schedule(Duration::from_secs(60)).send(pass(11)).await.unwrap();
    let JobStatus::Waiting { due, attempts, last_error, .. } = waits.status().await.unwrap() else {
        panic!("it waits")
    };
    assert!((due.duration_since(started).as_secs() - 60).abs() < 30 && attempts == 0 && last_error.is_none());
    let dead = client.enqueue().send(does(12, Act::Fail("no".to_owned()))).await.unwrap();
    let letters = client.dead_letters(QUEUE);
    let letter = eventually("it is dead", || async { letters.get(dead.id()).await.unwrap() }).await;
    assert!(is_now(letter.died_at) && letter.enqueued_at.is_some_and(is_now) && letter.due.is_some_and(is_now));
    world.set_score("due:5", id(3), Some(1)).await;
    world.set_field("jobs", id(3), Some(b"garbage".to_vec())).await;
    let garbage = JobId::from(uuid::Uuid::from_bytes(id(3)));
    client.enqueue().send(pass(13)).await.unwrap();
    let letter = eventually("it is put aside", || async { letters.get(garbage).await.unwrap() }).await;
    assert!(is_now(letter.died_at));
    assert_eq!((letter.enqueued_at, letter.due, letter.name, letter.attempts), (None, None, None, 0));
    stage.stop().await;
}

/// A payload of a page's size.
#[delayed_job(name = "b_heavy", version = 1, queue = "b-heavy", max_retries = 0)]
struct Heavy {
    text: String,
}

impl Job for Heavy {
    async fn run(self, _: JobContext) -> JobResult {
        Err(JobError::bury(format!("{} bytes", self.text.len())))
    }
}

#[tokio::test]
async fn b90_lists_are_paged_and_no_look_at_a_queue_walks_over_all_of_it() {
    let (server, _) = server_and_client().await;
    let client = Client::builder().payload_limit(4 << 20).connect(&server.url()).await.unwrap();
    let worker = Running::start(Worker::new(client.clone()).queues([Heavy::QUEUE]));
    for n in 0..60 {
        let text = if n % 30 == 0 { "x".repeat(3 << 20) } else { n.to_string() };
        client.enqueue().send(Heavy { text }).await.unwrap();
    }
    let all = || async { (client.stats(Heavy::QUEUE).await.unwrap().dead == 60).then_some(()) };
    eventually("all are dead", all).await;
    worker.stop().await.unwrap();
    let world = World::on(&server).await.named("delayq", Heavy::QUEUE);
    // Many that wait, of which a count must not cost more than of few.
    for batch in 0..5 {
        let jobs: Vec<NewJob> = (0..1000).map(|n| job(batch * 1000 + n).due("+600000")).collect();
        world.create(&jobs).await;
    }
    server.command(&["CONFIG", "RESETSTAT"]).unwrap();
    let letters = client.dead_letters(Heavy::QUEUE);
    let (mut seen, mut after, mut pages) = (BTreeSet::new(), None, 0);
    loop {
        let page = letters.newest_first(25, after).await.unwrap();
        assert!(page.letters.len() <= 25);
        let bytes: usize = page.letters.iter().map(|letter| letter.payload.len()).sum();
        assert!(bytes < 8 << 20, "a page of {bytes} bytes");
        pages += 1;
        seen.extend(page.letters.iter().map(|letter| letter.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(seen.len() == 60 && (4..20).contains(&pages), "{} letters on {pages} pages", seen.len());
    for limit in [0, 101, usize::MAX] {
        assert_eq!(letters.oldest_first(limit, None).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let stats = client.stats(Heavy::QUEUE).await.unwrap();
    assert_eq!((stats.waiting, stats.dead), (5_000, 60));
    client.handle::<Heavy>(JobId::from(uuid::Uuid::from_bytes(id(5)))).status().await.unwrap();
    let page = client.jobs(Heavy::QUEUE).list(&JobQuery::new(JobState::Waiting)).await.unwrap();
    assert!(page.jobs.len() == 50 && page.next.is_some(), "{} jobs", page.jobs.len());
    let forecast = client.forecast(Heavy::QUEUE, Duration::from_secs(600), 2).await.unwrap();
    assert_eq!(forecast.steps.iter().sum::<u64>() + forecast.later, 5_000);
    assert!(client.workers(Heavy::QUEUE).await.unwrap().is_empty());
    let told = server.command(&["INFO", "commandstats"]).unwrap();
    for walks in ["keys", "scan", "hscan", "zscan", "sscan", "hgetall", "hvals", "hkeys", "smembers"] {
        assert!(!told.contains(&format!("cmdstat_{walks}:")), "{walks}: {told}");
    }
}

//! Names with anything in them, names that run into each other, settings of nothing (B96 to B98).

use std::collections::BTreeSet;
use std::time::Duration;

use delayq::{Client, Error, ErrorKind, JobId, Worker, delayed_job};
use delayq_tests::{eventually, server_and_client};

use crate::kit_b::{Act, Deed, QUEUE, Raw, Stage, does, pass};

/// What somebody may try as a name.
const ODD: [&str; 24] = [
    "", " ", "a b", "a:b", "a/b", "a+b", "a#b", "a%2Fb", "a{b}", "x}:dead", "*", "a*", "a?", "[a]", "*?[", "ä", "名前",
    "😀", ".a", "-a", "_a", "a\tb", "a\r\nb", "a\0b",
];

fn refused(what: &str, name: &str, error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what} {name:?}: {error:?}");
    let text = error.to_string();
    assert!(text.contains("ASCII letters"), "it says what a name is: {text}");
    assert!(!text.contains(['\r', '\n', '\t', '\0', '\u{1b}']), "{text:?}");
}

#[tokio::test]
async fn b96_odd_names_are_refused_wherever_one_is_given() {
    let (server, client) = server_and_client().await;
    let mut raw = Raw::connect(&server).await;
    for odd in ODD.into_iter().chain([&*"a".repeat(65)]) {
        let name = odd.to_owned();
        refused("send", odd, &client.enqueue().queue(odd).send(pass(1)).await.unwrap_err());
        for answer in client.enqueue().queue(odd).send_all([pass(1), pass(2)]).await {
            refused("send_all", odd, &answer.unwrap_err());
        }
        let job = client.handle_in::<Deed>(odd, JobId::new());
        refused("status", odd, &job.status().await.unwrap_err());
        refused("cancel", odd, &job.cancel().await.unwrap_err());
        refused("reschedule", odd, &job.reschedule(Duration::ZERO).await.unwrap_err());
        refused("pause", odd, &client.pause(odd).await.unwrap_err());
        refused("resume", odd, &client.resume(odd).await.unwrap_err());
        refused("stats", odd, &client.stats(odd).await.unwrap_err());
        let letters = client.dead_letters(odd);
        refused("list", odd, &letters.newest_first(1, None).await.unwrap_err());
        refused("get", odd, &letters.get(JobId::new()).await.unwrap_err());
        refused("redrive", odd, &letters.redrive(JobId::new()).await.unwrap_err());
        refused("redrive_all", odd, &letters.redrive_all().await.unwrap_err());
        refused("delete", odd, &letters.delete(JobId::new()).await.unwrap_err());
        let worker = Worker::new(client.clone()).queues([QUEUE.to_owned(), name.clone()]);
        refused("worker", odd, &worker.run_until(std::future::pending()).await.unwrap_err());
        let prefixed = Client::builder().prefix(name).connect(&server.url()).await;
        refused("prefix", odd, &prefixed.unwrap_err());
    }
    assert_eq!(raw.ask::<u64>(&["DBSIZE"]).await, 0, "nothing of it was written");
}

#[tokio::test]
async fn b96_names_that_are_allowed_come_back_as_they_went_in_and_no_name_is_a_pattern() {
    let (_server, client) = server_and_client().await;
    let longest = "Q".repeat(64);
    let names = ["a", "A", "ab", "a.b", "a-b", "a_b", "a.b-c_d", "0", "00", "null", "dead", "0-0", longest.as_str()];
    let mut stage = Stage::with(&client, |worker| worker.queues(names));
    // A dead letter in each, and a job that waits.
    let mut letters = Vec::new();
    for (n, name) in (0..).zip(names) {
        let dead = client.enqueue().queue(name).send(does(n, Act::Bury(name.to_owned()))).await.unwrap();
        let waits = client.schedule(Duration::from_secs(60)).queue(name).send(pass(n)).await.unwrap();
        assert_eq!((dead.queue(), waits.queue()), (name, name));
        letters.push(dead.id());
    }
    stage.take(names.len()).await;
    let counts = |name: &'static str| {
        let client = client.clone();
        async move {
            let stats = client.stats(name).await.unwrap();
            (stats.waiting, stats.dead)
        }
    };
    for (name, id) in names.into_iter().zip(&letters) {
        let dead = client.dead_letters(name);
        let letter = eventually(name, || async { dead.get(*id).await.unwrap() }).await;
        assert_eq!((letter.queue.as_str(), letter.error.as_str()), (name, name));
        let listed = dead.oldest_first(10, None).await.unwrap().letters;
        assert_eq!(listed.iter().map(|letter| letter.id).collect::<Vec<_>>(), [*id], "{name}: its own alone");
    }
    // Whatever is emptied or paused, its neighbours are spared.
    client.dead_letters("a").delete(letters[0]).await.unwrap();
    client.pause("a").await.unwrap();
    assert_eq!(client.dead_letters("a.b").redrive_all().await.unwrap().redriven, 1);
    stage.next().await;
    assert_eq!(counts("a").await, (1, 0));
    for name in ["A", "ab", "a-b", "a_b", "a.b-c_d", "dead"] {
        assert_eq!(counts(name).await, (1, 1), "{name}");
        assert!(!client.stats(name).await.unwrap().paused, "{name}");
    }
    stage.stop().await;
}

/// A unique key of two fields.
#[delayed_job(name = "b_pair", version = 1, queue = "b-deeds", unique = (left, right))]
struct Pair {
    left: String,
    right: String,
}

impl delayq::Job for Pair {
    async fn run(self, _: delayq::JobContext) -> delayq::JobResult {
        Ok(())
    }
}

#[tokio::test]
async fn b97_names_with_separators_do_not_run_into_each_other() {
    let (server, client) = server_and_client().await;
    let minute = Duration::from_secs(60);
    // Queue and id: a colon is in no queue's name, and an id is 16 bytes of no meaning.
    refused("queue", "a:b", &client.enqueue().queue("a:b").id(JobId::named("c")).send(pass(1)).await.unwrap_err());
    for (n, (queue, id)) in (0..).zip([("a", "b:c"), ("a", "b.c"), ("a.b", "c"), ("a-b", "c"), ("a", "c"), ("ab", "c")])
    {
        let sent = client.schedule(minute).queue(queue).id(JobId::named(id)).send(pass(n)).await.unwrap();
        assert!(sent.is_new(), "{queue} {id}");
        assert!(
            client
                .handle_in::<Deed>(queue, JobId::named(id))
                .status()
                .await
                .is_ok_and(|status| { matches!(status, delayq::JobStatus::Waiting { .. }) })
        );
    }
    assert_eq!(client.stats("a").await.unwrap().waiting, 3);
    client.handle_in::<Deed>("a.b", JobId::named("c")).cancel().await.unwrap();
    assert_eq!((client.stats("a").await.unwrap().waiting, client.stats("a-b").await.unwrap().waiting), (3, 1));
    // Unique keys: whatever is in them, two fields never read as two others.
    let texts = ["", ":", "a", "b", "c", "a:b", "b:c", "a:b:c", "1:a", "2:a:b", "1:a:1", "a\0b", "\n", "é", " "];
    let mut sent = 0;
    for left in texts {
        for right in texts {
            let pair = || Pair { left: left.to_owned(), right: right.to_owned() };
            client.schedule(minute).send(pair()).await.unwrap_or_else(|error| panic!("{left:?} {right:?}: {error}"));
            assert!(client.schedule(minute).send(pair()).await.unwrap_err().is_duplicate(), "{left:?} {right:?}");
            sent += 1;
        }
    }
    assert_eq!(client.stats(QUEUE).await.unwrap().waiting, sent);
    // A sender's own keys, whole: they are bytes to the store.
    for key in ["k", "k ", "k:", "K", "k expires=1", "k unique=k", "b_pair:1:a", "k\r\n", "k\0"] {
        client.schedule(minute).unique(key).send(pass(1)).await.unwrap_or_else(|error| panic!("{key:?}: {error}"));
        assert!(client.schedule(minute).unique(key).send(pass(1)).await.unwrap_err().is_duplicate(), "{key:?}");
    }
    // Prefixes: applications that share a server share no key.
    let mut raw = Raw::connect(&server).await;
    let before: u64 = raw.ask(&["DBSIZE"]).await;
    for prefix in ["delayq.b", "delayq-", "d", "Delayq"] {
        let other = Client::builder().prefix(prefix).connect(&server.url()).await.unwrap();
        assert_eq!(other.stats(QUEUE).await.unwrap().waiting, 0, "{prefix}");
        other.schedule(minute).unique("k").send(pass(1)).await.unwrap();
    }
    let keys: BTreeSet<String> = raw.ask::<Vec<String>>(&["KEYS", "*"]).await.into_iter().collect();
    assert!(keys.len() as u64 > before);
    // The list of an application's queues is of none of them.
    for key in keys.into_iter().filter(|key| !key.ends_with(":queues")) {
        let (prefix, rest) = key.split_once(":{").unwrap();
        let (queue, name) = rest.split_once("/0}:").unwrap();
        assert!(!prefix.contains(':') && !queue.contains(['{', '}', ':']) && !name.contains(['{', '}']), "{key}");
    }
}

#[tokio::test]
async fn b98_settings_of_nothing_are_refused_when_they_are_used() {
    let (server, client) = server_and_client().await;
    let worker = || Worker::new(client.clone()).queues([QUEUE]);
    let ms = Duration::from_millis;
    for (what, says, worker) in [
        ("concurrency 0", "1 to 10000", worker().concurrency(0)),
        ("concurrency 10,001", "1 to 10000", worker().concurrency(10_001)),
        ("claim batch 0", "1 to 1000", worker().claim_batch(0)),
        ("claim batch 1,001", "1 to 1000", worker().claim_batch(1001)),
        ("lease 0", "500ms to 3600s", worker().lease(Duration::ZERO)),
        // Beats come four times a lease: none can be too slow for it.
        ("lease below four beats", "500ms to 3600s", worker().lease(ms(499))),
        ("lease beyond an hour", "500ms to 3600s", worker().lease(ms(3_600_001))),
        ("lease without end", "500ms to 3600s", worker().lease(Duration::MAX)),
        ("no queue", "1 to 64", worker().queues(Vec::<String>::new())),
        ("65 queues", "1 to 64", worker().queues((0..65).map(|n| format!("q{n}")))),
    ] {
        let error = worker.run_until(std::future::pending()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{what}: {error:?}");
        assert!(error.to_string().contains(says), "{what}: {error}");
    }
    for (what, builder) in [
        ("pool size", Client::builder().pool_size(0)),
        ("connect timeout", Client::builder().connect_timeout(Duration::ZERO)),
        ("response timeout", Client::builder().response_timeout(Duration::ZERO)),
        ("pool size", Client::builder().pool_size(1001)),
        ("connect timeout", Client::builder().connect_timeout(Duration::from_secs(301))),
        ("response timeout", Client::builder().response_timeout(Duration::MAX)),
        ("send deadline", Client::builder().send_deadline(Duration::ZERO)),
        ("send deadline", Client::builder().send_deadline(Duration::from_secs(11))),
        ("payload limit", Client::builder().payload_limit(0)),
        ("payload limit", Client::builder().payload_limit(usize::MAX)),
    ] {
        let error = builder.connect(&server.url()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{what}: {error:?}");
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
    for (what, sent) in [
        ("expires_in", client.enqueue().expires_in(Duration::ZERO).send(pass(1)).await),
        ("retain_for", client.enqueue().retain_for(Duration::ZERO).send(pass(1)).await),
        ("unique key", client.enqueue().unique("").send(pass(1)).await),
        ("priority 10", client.enqueue().priority(10).send(pass(1)).await),
        ("year 9999", client.schedule(Duration::MAX).send(pass(1)).await),
    ] {
        let error = sent.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}: {error:?}");
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
    // The smallest that are allowed work: nothing idles silently.
    let smallest = |worker: Worker| worker.concurrency(1).claim_batch(1).lease(ms(500)).grace(Duration::ZERO);
    let mut stage = Stage::with(&client, smallest);
    for n in 0..5 {
        client.schedule(ms(n)).send(pass(n)).await.unwrap();
        assert_eq!(stage.next().await.n, n);
    }
    stage.stop().await;
}

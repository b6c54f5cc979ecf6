//! The macros among a user's own names, through another path, and in a crate that nobody mentions (B92 to B94).

use std::sync::{Arc, Mutex};

use delayq::{Client, DeadReason, ErrorKind, JobType, Worker};
use delayq_tests::{Running, eventually, server_and_client, soon};
use tokio::sync::mpsc;
use tracing::Level;

use crate::kit_b::{Deed, Hasty, Logged, QUEUE, Retried, Stage, pass};

/// Where the jobs of this file tell that they ran.
pub(crate) type Told = mpsc::UnboundedSender<::std::string::String>;

/// A user's module in which every name that generated code might lean on means something else.
mod shadowed {
    #![allow(dead_code, non_snake_case, unused_macros)]

    mod std {}
    mod core {}
    mod alloc {}
    mod serde {}
    mod serde_json {}
    mod inventory {}
    mod tokio {}

    struct Result;
    struct Option;
    struct String;
    struct Box;
    struct Vec;
    struct Duration;
    struct Registration;
    struct JobType;
    trait Send {}
    trait From {}
    trait Into {}
    trait Serialize {}
    trait Deserialize {}
    trait Display {}
    fn Some() {}
    fn Ok() {}
    fn Err() {}
    macro_rules! line {
        () => {
            compile_error!("not this one")
        };
    }
    macro_rules! file {
        () => {
            compile_error!("not this one")
        };
    }

    #[delayq::payload]
    pub(super) struct OldOrder {
        order: ::core::primitive::u64,
    }

    impl ::core::convert::From<OldOrder> for Order {
        fn from(old: OldOrder) -> Self {
            Order { order_id: old.order, note: ::std::string::ToString::to_string("old") }
        }
    }

    #[delayq::delayed_job(
        name = "b_shadowed",
        version = 2,
        queue = "b-macros",
        max_retries = 1,
        timeout = "1s",
        backoff = exponential("10ms", factor = 2, max = "20ms", jitter = 0.5),
        unique = (order_id, note),
        from(1 = OldOrder),
    )]
    pub(super) struct Order {
        pub(super) order_id: ::core::primitive::u64,
        pub(super) note: ::std::string::String,
    }

    impl delayq::Job for Order {
        async fn run(self, cx: delayq::JobContext) -> delayq::JobResult {
            if cx.attempt() == 1 {
                // So its policy is read as well.
                let soon = ::core::time::Duration::from_millis(1);
                return ::core::result::Result::Err(delayq::JobError::retry_in(soon, "again"));
            }
            let told = cx.data::<super::Told>()?;
            told.send(::std::format!("shadowed {} {}", self.order_id, self.note))?;
            ::core::result::Result::Ok(())
        }
    }
}

/// A user's crate that gives delayq on under another name, and has no crate of that name in sight.
mod renamed {
    pub(crate) mod queueing {
        pub(crate) use ::delayq as inner;
    }

    mod delayq {}

    #[queueing::inner::payload(crate = crate::macros::renamed::queueing::inner)]
    pub(super) struct OldMail {
        to: String,
    }

    impl From<OldMail> for Mail {
        fn from(old: OldMail) -> Mail {
            Mail { address: old.to }
        }
    }

    #[queueing::inner::delayed_job(
        name = "b_renamed",
        version = 2,
        queue = "b-macros",
        unique = address,
        from(1 = OldMail),
        crate = crate::macros::renamed::queueing::inner
    )]
    pub(super) struct Mail {
        pub(super) address: String,
    }

    impl queueing::inner::Job for Mail {
        async fn run(self, cx: queueing::inner::JobContext) -> queueing::inner::JobResult {
            cx.data::<super::Told>()?.send(format!("renamed {}", self.address))?;
            Ok(())
        }
    }
}

const MACROS: &str = "b-macros";

async fn runs(client: &Client, expected: &[&str]) {
    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = Running::start(Worker::new(client.clone()).queues([MACROS]).data::<Told>(tell));
    let mut heard = Vec::new();
    while heard.len() < expected.len() {
        heard.push(soon("a run", told.recv()).await.unwrap());
    }
    heard.sort_unstable();
    assert_eq!(heard, expected);
    worker.stop().await.unwrap();
}

/// The same type as an older release sent it.
#[delayq::payload]
struct FirstOrder {
    order: u64,
}

impl JobType for FirstOrder {
    const NAME: &'static str = "b_shadowed";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = MACROS;
}

#[delayq::payload]
struct FirstMail {
    to: String,
}

impl JobType for FirstMail {
    const NAME: &'static str = "b_renamed";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = MACROS;
}

#[tokio::test]
async fn b92_a_job_among_shadowed_names_runs() {
    let (_server, client) = server_and_client().await;
    let order = |note: &str| shadowed::Order { order_id: 7, note: note.to_owned() };
    client.enqueue().send(order("new")).await.unwrap();
    assert!(client.enqueue().send(order("new")).await.unwrap_err().is_duplicate(), "its key is of both fields");
    client.enqueue().send(order("other")).await.unwrap();
    client.enqueue().send(FirstOrder { order: 6 }).await.unwrap();
    runs(&client, &["shadowed 6 old", "shadowed 7 new", "shadowed 7 other"]).await;
}

#[tokio::test]
async fn b93_a_job_by_another_path_to_the_crate_runs() {
    let (_server, client) = server_and_client().await;
    client.enqueue().send(renamed::Mail { address: "ada".to_owned() }).await.unwrap();
    client.enqueue().send(FirstMail { to: "grace".to_owned() }).await.unwrap();
    runs(&client, &["renamed ada", "renamed grace"]).await;
}

/// A type of a library that nobody mentions: known here by its name alone, its handler not linked.
#[delayq::payload]
struct Unlinked {
    n: u64,
}

impl JobType for Unlinked {
    const NAME: &'static str = "b_unlinked";
    const VERSION: u32 = 1;
    const QUEUE: &'static str = MACROS;
}

#[tokio::test]
async fn b94_a_type_that_is_not_linked_is_named_at_the_start_and_its_jobs_are_kept() {
    let (_server, client) = server_and_client().await;
    // What must be there and isn't stops the start; each that is missing is named, and none that is there.
    let needs = Worker::new(client.clone()).queues([MACROS]).requires::<(shadowed::Order, Unlinked, renamed::Mail)>();
    let refused = needs.run_until(std::future::pending()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Registry);
    let text = refused.to_string();
    assert!(text.contains("b_unlinked version 1") && text.contains("#[delayed_job]"), "{text}");
    assert!(!text.contains("b_shadowed") && !text.contains("b_renamed"), "{text}");
    // An older version that is brought up to date is there.
    let old = Worker::new(client.clone()).queues([MACROS]).requires::<FirstOrder>();
    old.run_until(std::future::ready(())).await.unwrap();
    // What is there is listed at the start, each type with its versions, its queue and its place in the source.
    let logged = Logged::from_now();
    let stage =
        Stage::with(&client, |worker| worker.requires::<(Deed, Hasty, Retried)>().requires::<shadowed::Order>());
    client.enqueue().send(pass(1)).await.unwrap();
    stage.stop().await;
    let start = logged.of(Level::INFO).into_iter().find(|event| event.message.contains("this worker serves:")).unwrap();
    for row in
        ["b_deed version 1, queue b-deeds, 0 retries", "b_shadowed version 1-2, queue b-macros, 1 retries", "b_renamed"]
    {
        let line = start.message.lines().find(|line| line.contains(row)).unwrap_or_else(|| panic!("{row}: {start:?}"));
        assert!(line.contains(".rs:"), "{line}");
    }
    assert!(!start.message.contains("b_unlinked"), "{start:?}");
    assert_eq!(start.fields["queues"], format!("[{QUEUE:?}]"));
    // Its jobs wait in the dead letters, whole, until a worker has the handler.
    let sent = client.enqueue().send(Unlinked { n: 7 }).await.unwrap();
    let without = Running::start(Worker::new(client.clone()).queues([MACROS]));
    let letters = client.dead_letters(MACROS);
    let letter = eventually("it is dead", || async { letters.get(sent.id()).await.unwrap() }).await;
    assert_eq!((letter.reason, &letter.payload[..]), (Some(DeadReason::UnknownJob), &b"{\"n\":7}"[..]));
    without.stop().await.unwrap();
    letters.redrive(sent.id()).await.unwrap();
    let ran = Arc::new(Mutex::new(None));
    let heard = ran.clone();
    let with = Running::start(Worker::new(client.clone()).queues([MACROS]).requires::<Unlinked>().handle(
        move |job: Unlinked, _| {
            *heard.lock().unwrap() = Some(job.n);
            async { Ok(()) }
        },
    ));
    eventually("it runs", || async { *ran.lock().unwrap() }).await;
    with.stop().await.unwrap();
}

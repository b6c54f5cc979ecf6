//! What a worker refuses to start with.

use std::time::Duration;

use delayq::{ErrorKind, Job, JobContext, JobResult, JobType, Worker, delayed_job};
use delayq_tests::server_and_client;

use super::Probe;

#[delayed_job(name = "required", version = 2, queue = "start")]
struct Required;

impl Job for Required {
    async fn run(self, _: JobContext) -> JobResult {
        Ok(())
    }
}

/// Not linked: it has no attribute.
#[delayq::payload]
struct Unlinked;

impl JobType for Unlinked {
    const NAME: &'static str = "unlinked";
    const VERSION: u32 = 1;
}

#[tokio::test]
async fn b98_settings_out_of_range_are_refused() {
    let (_server, client) = server_and_client().await;
    let worker = || Worker::new(client.clone());
    let refused = [
        (worker().concurrency(0), "concurrency"),
        (worker().concurrency(10_001), "concurrency"),
        (worker().claim_batch(0), "claim batch"),
        (worker().lease(Duration::ZERO), "lease"),
        (worker().lease(Duration::from_secs(3601)), "lease"),
        (worker().queues(Vec::<String>::new()), "queues"),
        (worker().queues((0..65).map(|n| format!("q{n}"))), "queues"),
        (worker().layer(tower::layer::util::Identity::new()).stack(|dispatch| dispatch), "both"),
    ];
    for (worker, what) in refused {
        let error = worker.run_until(std::future::pending()).await.unwrap_err();
        assert!(error.to_string().contains(what), "{what}: {error}");
        assert_eq!(error.kind(), ErrorKind::Config);
    }
    let error = worker().queues(["x}:dead"]).run_until(std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn b94_required_types_must_be_linked() {
    let (_server, client) = server_and_client().await;
    let linked = Worker::new(client.clone()).queues(["start"]).requires::<(Required, Probe)>().requires::<Required>();
    linked.run_until(std::future::ready(())).await.unwrap();
    let error =
        Worker::new(client).requires::<(Required, Unlinked)>().run_until(std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Registry);
    assert!(
        error.to_string().contains("unlinked version 1") && !error.to_string().contains("required version"),
        "{error}"
    );
}

#[tokio::test]
async fn a_type_with_two_handlers_is_refused_with_both_places() {
    let (_server, client) = server_and_client().await;
    let worker = Worker::new(client).handle(|_: Required, _| async { Ok(()) });
    let error = worker.run_until(std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Registry);
    assert_eq!(error.to_string().matches("start.rs:").count(), 2, "{error}");
}

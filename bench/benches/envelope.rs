//! The stored record: encoding a job as `send` does, and taking one apart as a worker does.
//! `cargo bench -p delayq-bench --bench envelope`
#![allow(missing_docs)] // The macros' own items.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use delayq::engine::embedded::{Clock, EmbeddedEngine};
use delayq::envelope::{Envelope, Record};
use delayq::store::ops::{Claim, NewJob, Options};
use delayq::store::{Prefix, Store};
use delayq::{Client, delayed_job};
use divan::{Bencher, black_box};

/// 120 bytes of JSON.
#[delayed_job(name = "bench_order", version = 1, queue = "bench", handler = external)]
#[derive(Clone)]
struct BenchOrder {
    order_id: u64,
    customer: String,
    note: String,
}

fn main() {
    // What is measured takes less than the timer's precision allows for a single one.
    divan::Divan::from_args().sample_size(200).sample_count(500).main();
}

fn order() -> BenchOrder {
    BenchOrder { order_id: 1_000_000_042, customer: "customer-0000042".to_owned(), note: "x".repeat(57) }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}

/// A record as a claim gives it.
fn record() -> Bytes {
    runtime().block_on(async {
        let engine = EmbeddedEngine::connect("sqlite::memory:", Clock::system()).await.expect("a database");
        let store = Store::new(Arc::new(engine), Prefix::default());
        let shard = store.shard("bench", 0).expect("a name");
        let mut envelope = b"bench_order 1\n".to_vec();
        envelope.extend_from_slice(&serde_json::to_vec(&order()).expect("JSON"));
        let options = Options { priority: 5, attempts_max: 4, ..Options::default() };
        let job = NewJob { id: [7; 16], when: "+0".to_owned(), options, envelope };
        store.enqueue(&shard, &[job]).await.expect("it is sent");
        store.open(&shard, &[1; 16], Duration::from_secs(60)).await.expect("a session");
        let claim = Claim { count: 1, bytes: 1 << 20, timer_ms: 0, alone: None, in_company: false, verdicts: &[] };
        let claimed = store.claim(&shard, &[1; 16], 1, claim).await.expect("it is claimed").expect("by its session");
        claimed.jobs.into_iter().next().expect("a job").record
    })
}

/// What `send` does before anything is awaited: id, options, JSON, envelope, and the future itself.
#[divan::bench]
fn encode(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    let client = runtime.block_on(Client::connect("sqlite::memory:")).expect("a database");
    let delay = Duration::from_secs(60);
    bencher.with_inputs(order).bench_values(|order| drop(black_box(client.schedule(delay).send(order))));
}

/// Of that, the JSON.
#[divan::bench]
fn encode_json(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(order).bench_refs(|order| serde_json::to_vec(order));
}

#[divan::bench]
fn decode_record(bencher: Bencher<'_, '_>) {
    let record = record();
    bencher.bench(|| Record::decode(black_box(&record)));
}

#[divan::bench]
fn decode_envelope(bencher: Bencher<'_, '_>) {
    let envelope = Record::decode(&record()).expect("a record").envelope;
    bencher.bench(|| Envelope::decode(black_box(&envelope)).map(|envelope| envelope.payload_at));
}

#[divan::bench]
fn decode_json(bencher: Bencher<'_, '_>) {
    let payload = serde_json::to_vec(&order()).expect("JSON");
    bencher.bench(|| serde_json::from_slice::<BenchOrder>(black_box(&payload)));
}

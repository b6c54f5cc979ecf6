//! oxana: one queue with concurrency 100 and a pool to match; bulk sends by `enqueue_list`, scheduled ones by 64 sends in flight.

use chrono::{DateTime, Utc};
use oxana::Storage;
use peer_kit::{Due, Order, Outcome, Task};
use serde::{Deserialize, Serialize};

const CONCURRENCY: usize = 100;
/// One connection a job, and some for what the worker does besides.
const POOL: usize = CONCURRENCY + 10;

#[derive(Debug, Serialize, Deserialize)]
struct BenchJob(Order);

impl oxana::Job for BenchJob {}

#[derive(Debug, thiserror::Error)]
enum Never {}

#[derive(Debug, Clone)]
struct Nothing;

#[derive(oxana::Worker)]
#[oxana(context = Nothing, error = Never, registry = None)]
struct Bench;

impl Bench {
    async fn process(&self, job: BenchJob, _cx: &oxana::JobContext) -> Result<(), Never> {
        peer_kit::ran(job.0.number());
        Ok(())
    }
}

#[derive(Serialize, oxana::Queue)]
#[oxana(key = "bench", registry = None)]
struct BenchQueue;

struct Producer(Storage);

impl peer_kit::Send for Producer {
    async fn one(&self, order: Order, due: Due) -> Outcome {
        match due {
            Some(due) => {
                let at = DateTime::<Utc>::UNIX_EPOCH + due;
                self.0.enqueue_at(BenchQueue, BenchJob(order), at).await?
            }
            None => self.0.enqueue(BenchQueue, BenchJob(order)).await?,
        };
        Ok(())
    }

    async fn many(&self, orders: Vec<(Order, Due)>) -> Outcome {
        if orders.iter().any(|(_, due)| due.is_some()) {
            return peer_kit::together(orders, |(order, due)| self.one(order, due)).await;
        }
        self.0.enqueue_list(BenchQueue, orders.into_iter().map(|(order, _)| BenchJob(order))).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Outcome {
    let storage = |url: String| Storage::builder().max_pool_size(POOL).build_from_redis_url(url);
    match Task::from_args()? {
        Task::Enqueue { url, jobs, how, due } => peer_kit::produce(&Producer(storage(url)?), jobs, how, due).await,
        Task::Work { url, jobs } => {
            let runtime = storage(url)?
                .runtime(Nothing)
                .queue_with_concurrency::<BenchQueue>(CONCURRENCY)
                .worker::<Bench, BenchJob>();
            peer_kit::expect(jobs);
            peer_kit::ready();
            runtime.run().await?;
            Ok(())
        }
    }
}

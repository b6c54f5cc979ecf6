//! apalis-redis, as its documentation tunes it: large batches, leases and events off for jobs shorter than a heartbeat, polled
//! every 100 ms.

use std::time::Duration;

use apalis::prelude::*;
use apalis_core::backend::ext::BackendExt;
use apalis_core::task::builder::TaskBuilder;
use apalis_redis::{Config, RedisStorage};
use futures_util::stream;
use peer_kit::{Due, Order, Outcome};

const QUEUE: &str = "bench";
const BATCH: usize = 500;
const POLL: Duration = Duration::from_millis(100);

async fn storage(url: &str) -> Outcome<RedisStorage<Order>> {
    let config =
        Config::default().queue(QUEUE).batch_size(BATCH).lock_tasks(false).emit_events(false).persist_results(false);
    Ok(RedisStorage::new(apalis_redis::connect(url).await?).with_config(config))
}

struct Producer(RedisStorage<Order>);

fn task(order: Order, due: Due) -> Task<Order> {
    let task = TaskBuilder::new(order);
    match due {
        // Whole seconds; rounded up, so that none is early.
        Some(due) => task.run_at_timestamp(due.as_millis().div_ceil(1_000) as u64).build(),
        None => task.build(),
    }
}

impl peer_kit::Send for Producer {
    async fn one(&self, order: Order, due: Due) -> Outcome {
        Ok(self.0.clone().push_task(task(order, due)).await?)
    }

    async fn many(&self, orders: Vec<(Order, Due)>) -> Outcome {
        let tasks = stream::iter(orders.into_iter().map(|(order, due)| task(order, due)));
        Ok(self.0.clone().push_all(tasks).await?)
    }
}

async fn run(order: Order) {
    peer_kit::ran(order.number());
}

#[tokio::main]
async fn main() -> Outcome {
    match peer_kit::Task::from_args()? {
        peer_kit::Task::Enqueue { url, jobs, how, due } => {
            peer_kit::produce(&Producer(storage(&url).await?), jobs, how, due).await
        }
        peer_kit::Task::Work { url, jobs } => {
            let backend = storage(&url).await?.poll_with_interval(POLL);
            let worker = WorkerBuilder::new("bench-worker").backend(backend).build(run);
            peer_kit::expect(jobs);
            peer_kit::ready();
            Ok(worker.run().await?)
        }
    }
}

//! bullmq-official: one worker with concurrency 100, finished jobs removed; bulk sends by `add_bulk`.

use bullmq::options::RedisConnectionOptions;
use bullmq::types::RemoveOnFinish;
use bullmq::{BulkJob, Job, JobOptions, Queue, QueueOptions, Worker, WorkerOptions};
use peer_kit::{Due, Order, Outcome, Task};
use serde_json::Value;

const QUEUE: &str = "bench";
const CONCURRENCY: usize = 100;

struct Producer(Queue);

/// The delay that is left, if it is due later.
fn options(due: Due) -> JobOptions {
    let options =
        JobOptions::new().remove_on_complete(RemoveOnFinish::Bool(true)).remove_on_fail(RemoveOnFinish::Bool(true));
    match due {
        Some(due) => options.delay(due.saturating_sub(peer_kit::now())),
        None => options,
    }
}

impl peer_kit::Send for Producer {
    async fn one(&self, order: Order, due: Due) -> Outcome {
        self.0.add("order", order).options(options(due)).await?;
        Ok(())
    }

    async fn many(&self, orders: Vec<(Order, Due)>) -> Outcome {
        let jobs = orders.into_iter().map(|(order, due)| BulkJob::with_options("order", order, options(due)));
        self.0.add_bulk(jobs.collect()).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Outcome {
    match Task::from_args()? {
        Task::Enqueue { url, jobs, how, due } => {
            let options = QueueOptions::new().connection(RedisConnectionOptions::new().url(url));
            peer_kit::produce(&Producer(Queue::with_options(QUEUE, options).await?), jobs, how, due).await
        }
        Task::Work { url, jobs } => {
            let options = WorkerOptions::new()
                .connection(RedisConnectionOptions::new().url(url))
                .concurrency(CONCURRENCY)
                .remove_on_complete(RemoveOnFinish::Bool(true))
                .manual_start();
            let handler = |job: Job, _token| async move {
                let order: Order = serde_json::from_value(job.data().clone())?;
                peer_kit::ran(order.number());
                Ok(Value::Null)
            };
            let worker = Worker::with_options(QUEUE, handler, options).await?;
            peer_kit::expect(jobs);
            peer_kit::ready();
            worker.run().await?;
            std::future::pending().await
        }
    }
}

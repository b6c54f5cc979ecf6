//! rusty-sidekiq: 50 workers and a pool with a connection for each; it has no bulk call, so 64 sends are in flight.

use async_trait::async_trait;
use peer_kit::{Due, IN_FLIGHT, Order, Outcome, Task};
use sidekiq::{Processor, ProcessorConfig, RedisConnectionManager, RedisPool, Worker, WorkerOpts};

const QUEUE: &str = "bench";
const WORKERS: usize = 50;
/// For the scheduler, the statistics and the like.
const MORE: usize = 10;

#[derive(Clone)]
struct Bench;

#[async_trait]
impl Worker<Order> for Bench {
    fn opts() -> WorkerOpts<Order, Self> {
        WorkerOpts::new().queue(QUEUE)
    }

    async fn perform(&self, order: Order) -> sidekiq::Result<()> {
        peer_kit::ran(order.number());
        Ok(())
    }
}

async fn pool(url: String, size: usize) -> Outcome<RedisPool> {
    Ok(bb8::Pool::builder().max_size(size as u32).build(RedisConnectionManager::new(url)?).await?)
}

struct Producer(RedisPool);

impl peer_kit::Send for Producer {
    async fn one(&self, order: Order, due: Due) -> Outcome {
        match due {
            Some(due) => Bench::opts().perform_in(&self.0, due.saturating_sub(peer_kit::now()), order).await?,
            None => Bench::perform_async(&self.0, order).await?,
        }
        Ok(())
    }

    async fn many(&self, orders: Vec<(Order, Due)>) -> Outcome {
        peer_kit::together(orders, |(order, due)| self.one(order, due)).await
    }
}

#[tokio::main]
async fn main() -> Outcome {
    match Task::from_args()? {
        Task::Enqueue { url, jobs, how, due } => {
            peer_kit::produce(&Producer(pool(url, IN_FLIGHT).await?), jobs, how, due).await
        }
        Task::Work { url, jobs } => {
            let pool = pool(url, WORKERS + MORE).await?;
            let mut processor = Processor::new(pool, vec![QUEUE.to_owned()])
                .with_config(ProcessorConfig::default().num_workers(WORKERS));
            processor.register(Bench);
            peer_kit::expect(jobs);
            peer_kit::ready();
            processor.run().await;
            Ok(())
        }
    }
}

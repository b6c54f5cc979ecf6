//! chasquimq: concurrency 100, batches of 512 read, acknowledged and promoted; bulk sends by `add_bulk` and `add_in_bulk`.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use chasquimq::{Consumer, ConsumerConfig, Producer, ProducerConfig};
use peer_kit::{Due, Order, Outcome, Task};
use tokio_util::sync::CancellationToken;

const QUEUE: &str = "bench";
const CONCURRENCY: usize = 100;
const BATCH: usize = 512;

struct Sender(Producer<Order>);

impl peer_kit::Send for Sender {
    async fn one(&self, order: Order, due: Due) -> Outcome {
        match due {
            Some(due) => self.0.add_at(UNIX_EPOCH + due, order).await?,
            None => self.0.add(order).await?,
        };
        Ok(())
    }

    async fn many(&self, orders: Vec<(Order, Due)>) -> Outcome {
        let first = orders.first().and_then(|(_, due)| *due);
        // A bulk call has one due time.
        if orders.iter().any(|(_, due)| *due != first) {
            return peer_kit::together(orders, |(order, due)| self.one(order, due)).await;
        }
        let payloads = orders.into_iter().map(|(order, _)| order).collect();
        match first {
            Some(due) => self.0.add_in_bulk(due.saturating_sub(peer_kit::now()), payloads).await?,
            None => self.0.add_bulk(payloads).await?,
        };
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Outcome {
    match Task::from_args()? {
        Task::Enqueue { url, jobs, how, due } => {
            let config = ProducerConfig { queue_name: QUEUE.to_owned(), ..ProducerConfig::default() };
            peer_kit::produce(&Sender(Producer::connect(&url, config).await?), jobs, how, due).await
        }
        Task::Work { url, jobs } => {
            let config = ConsumerConfig {
                queue_name: QUEUE.to_owned(),
                concurrency: CONCURRENCY,
                batch: BATCH,
                ack_batch: BATCH,
                delayed_promote_batch: BATCH,
                ..ConsumerConfig::default()
            };
            let consumer = Consumer::<Order>::new(url, config);
            peer_kit::expect(jobs);
            peer_kit::ready();
            let handler = |job: chasquimq::Job<Order>| async move {
                peer_kit::ran(job.payload.number());
                Ok(Bytes::new())
            };
            Ok(consumer.run(handler, CancellationToken::new()).await?)
        }
    }
}

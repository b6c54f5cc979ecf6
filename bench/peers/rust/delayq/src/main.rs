//! delayq: the default client, worker and stack.

use std::time::UNIX_EPOCH;

use delayq::{Client, Job, JobContext, JobResult, Worker, delayed_job};
use peer_kit::{Due, Order, Outcome, Task};

#[delayed_job(name = "bench_order", version = 1, queue = "bench")]
struct BenchOrder {
    order_id: u64,
    customer: String,
    note: String,
}

impl From<Order> for BenchOrder {
    fn from(order: Order) -> BenchOrder {
        BenchOrder { order_id: order.order_id, customer: order.customer, note: order.note }
    }
}

impl Job for BenchOrder {
    async fn run(self, _cx: JobContext) -> JobResult {
        let order = Order { order_id: self.order_id, customer: self.customer, note: self.note };
        peer_kit::ran(order.number());
        Ok(())
    }
}

struct Producer(Client);

impl peer_kit::Send for Producer {
    async fn one(&self, order: Order, due: Due) -> Outcome {
        match due {
            Some(due) => self.0.schedule_at::<BenchOrder>(UNIX_EPOCH + due).send(order.into()).await?,
            None => self.0.enqueue::<BenchOrder>().send(order.into()).await?,
        };
        Ok(())
    }

    async fn many(&self, orders: Vec<(Order, Due)>) -> Outcome {
        // A builder has one due time: jobs that differ in it are sent by calls in flight together, which the client
        // puts into common calls to Redis.
        let one_due = orders.iter().all(|(_, due)| *due == orders[0].1);
        if !one_due {
            return peer_kit::together(orders, |(order, due)| self.one(order, due)).await;
        }
        let due = orders[0].1;
        let jobs = orders.into_iter().map(|(order, _)| BenchOrder::from(order));
        let sent = match due {
            Some(due) => self.0.schedule_at::<BenchOrder>(UNIX_EPOCH + due).send_all(jobs).await,
            None => self.0.enqueue::<BenchOrder>().send_all(jobs).await,
        };
        for one in sent {
            one?;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Outcome {
    match Task::from_args()? {
        Task::Enqueue { url, jobs, how, due } => {
            let client = Client::connect(&url).await?;
            peer_kit::produce(&Producer(client), jobs, how, due).await
        }
        Task::Work { url, jobs } => {
            let client = Client::connect(&url).await?;
            peer_kit::expect(jobs);
            peer_kit::ready();
            Ok(Worker::new(client).run().await?)
        }
    }
}

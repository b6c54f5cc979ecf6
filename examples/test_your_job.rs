//! How to test jobs that run in 30 minutes and in 7 days, in milliseconds: the tests stand at the end.
//!
//! Run the tests: `cargo test --example test_your_job`. Run it: `cargo run --example test_your_job` moves a week and says
//! how long that took. Neither needs a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use delayq::testing::TestQueue;
use delayq::{Client, Job, JobContext, JobResult, delayed_job};

const TO_PAY: Duration = Duration::from_secs(30 * 60);
const TO_CONFIRM: Duration = Duration::from_secs(7 * 86_400);

// The application, as it runs in production.

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Placed,
    Paid,
    Cancelled,
    Confirmed,
}

/// A table of the application's database.
#[derive(Clone, Default)]
struct Orders(Arc<Mutex<HashMap<u64, State>>>);

impl Orders {
    fn state(&self, order_id: u64) -> Option<State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&order_id).copied()
    }

    /// Changes an order that is in the state `from`. Doing it twice is doing it once: jobs run at least once.
    fn change(&self, order_id: u64, from: Option<State>, to: State) -> bool {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is = orders.get(&order_id).copied();
        if is == from {
            orders.insert(order_id, to);
        }
        is == from
    }
}

#[delayed_job(name = "cancel_order", version = 1, queue = "orders")]
struct CancelOrder {
    order_id: u64,
}

impl Job for CancelOrder {
    async fn run(self, cx: JobContext) -> JobResult {
        cx.data::<Orders>()?.change(self.order_id, Some(State::Placed), State::Cancelled);
        Ok(())
    }
}

#[delayed_job(name = "confirm_receipt", version = 1, queue = "orders")]
struct ConfirmReceipt {
    order_id: u64,
}

impl Job for ConfirmReceipt {
    async fn run(self, cx: JobContext) -> JobResult {
        cx.data::<Orders>()?.change(self.order_id, Some(State::Paid), State::Confirmed);
        Ok(())
    }
}

async fn place(client: &Client, orders: &Orders, order_id: u64) -> Result<(), delayq::Error> {
    orders.change(order_id, None, State::Placed);
    client.schedule::<CancelOrder>(TO_PAY).unique(format!("pay:{order_id}")).send(CancelOrder { order_id }).await?;
    Ok(())
}

async fn pay(client: &Client, orders: &Orders, order_id: u64) -> Result<(), delayq::Error> {
    if orders.change(order_id, Some(State::Placed), State::Paid) {
        client.schedule::<ConfirmReceipt>(TO_CONFIRM).send(ConfirmReceipt { order_id }).await?;
    }
    Ok(())
}

/// A queue whose time can be moved, and the application around it.
fn shop() -> (TestQueue, Orders) {
    let orders = Orders::default();
    let data = orders.clone();
    (TestQueue::with(|worker| worker.data(data)), orders)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), delayq::Error> {
    let started = Instant::now();
    let (queue, orders) = shop();
    place(&queue.client(), &orders, 1).await?;
    place(&queue.client(), &orders, 2).await?;
    pay(&queue.client(), &orders, 2).await?;
    let report = queue.advance(TO_CONFIRM + Duration::from_secs(1)).await;
    println!("{report}");
    println!("order 1: {:?}, order 2: {:?}", orders.state(1), orders.state(2));
    println!("7 days took {:.1} ms", started.elapsed().as_secs_f64() * 1000.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unpaid_order_is_cancelled_after_30_minutes() {
        let (queue, orders) = shop();
        place(&queue.client(), &orders, 42).await.expect("the order is placed");
        queue.assert_scheduled::<CancelOrder>().with(|job| job.order_id == 42).due_in(TO_PAY).times(1).await;

        queue.advance(TO_PAY - Duration::from_secs(1)).await;
        assert_eq!(orders.state(42), Some(State::Placed));
        let report = queue.advance(Duration::from_secs(2)).await;
        assert_eq!(report.count::<CancelOrder>(), 1);
        assert_eq!(orders.state(42), Some(State::Cancelled));
    }

    #[tokio::test]
    async fn a_paid_order_is_confirmed_after_7_days() {
        let (queue, orders) = shop();
        place(&queue.client(), &orders, 42).await.expect("the order is placed");
        queue.advance(Duration::from_secs(60)).await;
        pay(&queue.client(), &orders, 42).await.expect("the order is paid");

        queue.advance(Duration::from_secs(6 * 86_400)).await;
        assert_eq!(orders.state(42), Some(State::Paid));
        queue.advance(Duration::from_secs(2 * 86_400)).await;
        assert_eq!(orders.state(42), Some(State::Confirmed));
        queue.refute_scheduled::<ConfirmReceipt>().await;
    }

    #[tokio::test]
    async fn a_worker_that_dies_in_the_middle_does_no_harm() {
        let (queue, orders) = shop();
        place(&queue.client(), &orders, 42).await.expect("the order is placed");
        queue.lose_worker_in_next_run();
        let report = queue.advance(TO_PAY + Duration::from_secs(300)).await;
        assert_eq!(report.count::<CancelOrder>(), 2, "{report}");
        assert_eq!(orders.state(42), Some(State::Cancelled));
    }
}

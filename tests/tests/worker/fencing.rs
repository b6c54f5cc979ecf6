//! The run token as a fence: a run that was thought dead can't undo what a later one wrote.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq::{Client, Job, JobContext, JobResult, Worker, delayed_job};
use delayq_redis_fixture::proxy::{Mode, Proxy};
use delayq_tests::{Running, eventually, server_and_client, soon};
use rusqlite::Connection;
use tokio::sync::{Notify, mpsc};

/// An orders' database, beside the queue.
struct Orders(Mutex<Connection>);

impl Orders {
    fn new() -> Orders {
        let orders = Connection::open_in_memory().unwrap();
        let order = "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, last_run INTEGER);
                     INSERT INTO orders VALUES (42, 'unpaid', 0);";
        orders.execute_batch(order).unwrap();
        Orders(Mutex::new(orders))
    }

    /// Writes unless a later run has; whether it did.
    fn write(&self, run: u64, state: &str) -> bool {
        let fenced = "UPDATE orders SET state = ?1, last_run = ?2 WHERE id = 42 AND last_run < ?2";
        self.0.lock().unwrap().execute(fenced, (state, i64::try_from(run).unwrap())).unwrap() == 1
    }

    fn state(&self) -> String {
        self.0.lock().unwrap().query_row("SELECT state FROM orders", (), |row| row.get(0)).unwrap()
    }
}

/// The first run of it hangs until it is let go, like one whose process was frozen.
#[delayed_job(name = "cancel_order_fenced", version = 1, queue = "fencing", timeout = "1m")]
struct CancelOrder;

/// Which attempt, and whether it could write, once it has tried.
type Tell = mpsc::UnboundedSender<(u32, Option<bool>)>;

impl Job for CancelOrder {
    async fn run(self, cx: JobContext) -> JobResult {
        if cx.attempt() == 1 {
            cx.data::<Tell>()?.send((1, None))?;
            cx.data::<Arc<Notify>>()?.notified().await;
        }
        let orders: &Arc<Orders> = cx.data()?;
        let written = orders.write(cx.run_token(), &format!("cancelled by attempt {}", cx.attempt()));
        cx.data::<Tell>()?.send((cx.attempt(), Some(written)))?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_thought_dead_can_not_undo_what_a_later_one_wrote() {
    let (server, client) = server_and_client().await;
    let proxy = Proxy::start(server.port(), 1).await.unwrap();
    let cut_off = Client::connect(&proxy.url()).await.unwrap();
    let (orders, gate) = (Arc::new(Orders::new()), Arc::new(Notify::new()));
    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = |client: &Client| {
        let worker = Worker::new(client.clone()).queues(["fencing"]).lease(Duration::from_millis(500));
        Running::start(worker.data(orders.clone()).data(gate.clone()).data::<Tell>(tell.clone()))
    };
    let first = worker(&cut_off);
    client.enqueue().send(CancelOrder).await.unwrap();
    assert_eq!(soon("the first run", told.recv()).await.unwrap(), (1, None));
    let second = worker(&client);
    eventually("both are there", || async { (client.stats("fencing").await.unwrap().sessions == 2).then_some(()) })
        .await;
    // The first can give no sign of life any more, and goes on all the same.
    proxy.set(Mode::Refuse);
    assert_eq!(soon("the second run", told.recv()).await.unwrap(), (2, Some(true)));
    gate.notify_one();
    assert_eq!(soon("the first run's end", told.recv()).await.unwrap(), (1, Some(false)));
    assert_eq!(orders.state(), "cancelled by attempt 2");
    proxy.set(Mode::Pass);
    // It learns that its session is lost only while it ends, and doesn't wait for what can't come any more.
    first.stop().await.unwrap();
    second.stop().await.unwrap();
    let stats = client.stats("fencing").await.unwrap();
    assert_eq!((stats.done_total, stats.crashed_total, stats.waiting, stats.running), (1, 1, 0, 0));
}

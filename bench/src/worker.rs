//! A worker in this process, as it comes.

use std::time::Duration;

use delayq::{Client, Worker};

use crate::Res;
use crate::job::Tally;
use crate::meter::{Meter, Usage};

/// How long a drain may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// Drains by a worker in this process, from its start to the last settle; answers how many runs were repetitions.
pub(crate) async fn drain(client: &Client, url: &str, queue: &str, jobs: usize) -> Res<(Usage, usize)> {
    let tally = Tally::new(jobs, 0);
    let meter = Meter::start(url)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(client.clone()).queues([queue]).data(tally.clone());
    let worker = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    tokio::time::timeout(PATIENCE, tally.all.notified()).await.map_err(|_| "not drained in time")?;
    // The last settle counts too.
    while client.stats(queue).await?.done_total < jobs as u64 {
        if meter.elapsed() > PATIENCE {
            return Err("not settled in time".into());
        }
    }
    let usage = meter.read()?;
    let _ = stop.send(());
    worker.await??;
    let stats = client.stats(queue).await?;
    if stats.waiting + stats.running + stats.dead != 0 || stats.orphans != 0 {
        return Err(format!("jobs are left over: {stats:?}").into());
    }
    Ok((usage, tally.runs() - jobs))
}

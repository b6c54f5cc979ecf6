//! Sends the jobs of a task, and tells the driver when the first is sent and the last acknowledged.

use std::future::Future;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};

use crate::{How, Order, Outcome, record};

/// How many jobs a bulk call gets.
pub const BATCH: usize = 1_000;

/// How many single sends are in flight where the API has no bulk call.
pub const IN_FLIGHT: usize = 64;

/// When a job is due, since 1970; none: at once.
pub type Due = Option<Duration>;

/// How a peer sends.
pub trait Send {
    /// Sends one job, and waits for its acknowledgement.
    fn one(&self, order: Order, due: Due) -> impl Future<Output = Outcome>;

    /// Sends a batch in the fastest way that the API has, and waits for all acknowledgements.
    fn many(&self, orders: Vec<(Order, Due)>) -> impl Future<Output = Outcome>;
}

/// Sends all.
///
/// # Errors
/// One can't be sent.
pub async fn produce(peer: &impl Send, jobs: usize, how: How, due: Option<(Duration, Duration)>) -> Outcome {
    let job = |n: usize| (Order::numbered(n), due.map(|(from, step)| from + step * n as u32));
    record::tell("{\"begin\":true}");
    match how {
        How::One => {
            for n in 0..jobs {
                let (order, due) = job(n);
                peer.one(order, due).await?;
            }
        }
        How::Many => {
            for first in (0..jobs).step_by(BATCH) {
                peer.many((first..jobs.min(first + BATCH)).map(job).collect()).await?;
            }
        }
    }
    record::tell(&format!("{{\"end\":{jobs}}}"));
    Ok(())
}

/// Sends a batch by single sends in flight together, for an API without a bulk call.
///
/// # Errors
/// One can't be sent.
pub async fn together<F>(orders: Vec<(Order, Due)>, send: impl Fn((Order, Due)) -> F) -> Outcome
where
    F: Future<Output = Outcome>,
{
    stream::iter(orders).map(send).buffer_unordered(IN_FLIGHT).try_collect().await
}

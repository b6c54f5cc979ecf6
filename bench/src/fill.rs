//! Fills queues.

use std::time::{Duration, SystemTime};

use delayq::{Client, JobType};

use crate::Res;
use crate::job::{BenchOrder, UniqueOrder};

/// How many jobs are handed to one `send_all`.
const CHUNK: usize = 10_000;
const PRIORITIES: u8 = 10;

/// What jobs a queue is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jobs {
    Plain,
    /// As many of each of the ten priorities.
    OfTenPriorities,
    /// Each with a unique key of its own.
    Unique,
}

/// Sends jobs that are due at once.
pub(crate) async fn due_now(client: &Client, queue: &str, jobs: usize, what: Jobs) -> Res<()> {
    fill(client, queue, jobs, what, None).await
}

/// Sends jobs that are due at one instant.
pub(crate) async fn due_at(client: &Client, queue: &str, jobs: usize, due: SystemTime) -> Res<()> {
    fill(client, queue, jobs, Jobs::Plain, Some(due)).await
}

async fn fill(client: &Client, queue: &str, jobs: usize, what: Jobs, due: Option<SystemTime>) -> Res<()> {
    let numbers: Vec<u64> = (0..jobs as u64).collect();
    for chunk in numbers.chunks(CHUNK) {
        match what {
            Jobs::Plain => send(client, queue, None, due, chunk.iter().map(|n| BenchOrder::numbered(*n))).await?,
            Jobs::Unique => send(client, queue, None, due, chunk.iter().map(|n| UniqueOrder::numbered(*n))).await?,
            Jobs::OfTenPriorities => {
                for (priority, part) in (0..PRIORITIES).zip(chunk.chunks(chunk.len().div_ceil(PRIORITIES.into()))) {
                    let orders = part.iter().map(|n| BenchOrder::numbered(*n));
                    send(client, queue, Some(priority), due, orders).await?;
                }
            }
        }
    }
    Ok(())
}

async fn send<J: JobType>(
    client: &Client,
    queue: &str,
    priority: Option<u8>,
    due: Option<SystemTime>,
    jobs: impl Iterator<Item = J>,
) -> Res<()> {
    let mut schedule = match due {
        Some(due) => client.schedule_at::<J>(due),
        None => client.enqueue::<J>(),
    };
    if let Some(priority) = priority {
        schedule = schedule.priority(priority);
    }
    for sent in schedule.queue(queue).send_all(jobs).await {
        sent?;
    }
    Ok(())
}

/// Waits until what was sent is as old as most jobs of a delay queue are when they run. A younger one leaves a tombstone at
/// its end, in case that its send is repeated.
pub(crate) async fn age() {
    tokio::time::sleep(AGE).await;
}

/// So old jobs leave no tombstone.
pub(crate) const AGE: Duration = Duration::from_secs(delayq::limits::TOMBSTONE.as_secs() + 2);

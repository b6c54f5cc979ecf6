//! Which queues a command is about, and in which of them a job is.

use delayq::{Client, JobHandle, JobId, JobInfo, JobStatus};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::failure::{Failure, Outcome};

/// How many questions are under way at once.
pub(crate) const AT_ONCE: usize = 32;

/// The queues named, or all that are in use.
pub(crate) async fn queues(client: &Client, named: &[String]) -> Outcome<Vec<String>> {
    let known = client.queues().await?;
    if named.is_empty() {
        return Ok(known);
    }
    for name in named {
        if !known.contains(name) && !is_used(client, name).await? {
            return Err(unknown(name, &known));
        }
    }
    let mut wanted: Vec<String> = Vec::with_capacity(named.len());
    for name in named {
        if !wanted.contains(name) {
            wanted.push(name.clone());
        }
    }
    Ok(wanted)
}

/// Whether anything was ever in a queue that isn't on the list: the list is written beside the jobs.
async fn is_used(client: &Client, queue: &str) -> Outcome<bool> {
    let stats = client.stats(queue).await?;
    Ok(stats.enqueued_total > 0 || stats.sessions > 0 || stats.paused || stats.waiting > 0 || stats.dead > 0)
}

/// A name that was mistyped would look like an empty queue.
fn unknown(name: &str, known: &[String]) -> Failure {
    const SHOWN_MAX: usize = 10;
    let shown = known.iter().take(SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if known.len() > SHOWN_MAX { ", ..." } else { "" };
    Failure::Refused(if known.is_empty() {
        format!("there is no queue {name}: none was used yet under this prefix")
    } else {
        format!("there is no queue {name}; there are {shown}{more}")
    })
}

/// A job wherever it is: an id is unique within its queue only.
pub(crate) async fn everywhere(client: &Client, queues: &[String], id: JobId) -> Outcome<Vec<JobInfo>> {
    let looks: Vec<_> = queues.iter().map(|queue| client.jobs(queue)).collect();
    let found: Vec<Option<JobInfo>> =
        stream::iter(looks).map(|jobs| async move { jobs.get(id).await }).buffered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

/// How a job ended that is there no more, as far as that is remembered: for 15 s.
pub(crate) async fn ended(client: &Client, queues: &[String], id: JobId) -> Outcome<Option<(String, JobStatus)>> {
    let looks: Vec<_> = queues.iter().map(|queue| client.job(queue, id)).collect();
    let found: Vec<(String, JobStatus)> = stream::iter(looks)
        .map(|handle| async move { handle.status().await.map(|status| (handle.queue().to_owned(), status)) })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    Ok(found.into_iter().find(|(_, status)| *status != JobStatus::Gone))
}

/// The one handle of an id: in the queue that was named, or in the only one that has it.
pub(crate) async fn handle(
    client: &Client,
    named: &[String],
    queues: &[String],
    id: JobId,
) -> Outcome<JobHandle<delayq::AnyJob>> {
    if let [queue] = named {
        return Ok(client.job(queue, id));
    }
    let found = everywhere(client, queues, id).await?;
    match found.as_slice() {
        [job] => Ok(client.job(&job.queue, id)),
        [] => match ended(client, queues, id).await? {
            // The queue's own answer says how it ended.
            Some((queue, _)) => Ok(client.job(&queue, id)),
            None => Err(Failure::Refused(format!("there is no job {id} in any queue: it ended before, or never was"))),
        },
        several => {
            let queues: Vec<&str> = several.iter().map(|job| job.queue.as_str()).collect();
            Err(Failure::Refused(format!("{id} is in several queues: say which by --queue: {}", queues.join(", "))))
        }
    }
}

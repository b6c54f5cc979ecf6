//! Which queues a command is about, and in which of them a job is.

use delayq::{AnyJob, Client, Error, ErrorKind, JobHandle, JobId, JobInfo, JobStatus};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::failure::{Failure, OneByOne, Outcome, told};

/// How many questions are under way at once.
pub(crate) const AT_ONCE: usize = 32;

/// What each queue answered, in their order. One whose keys are damaged answers with that.
pub(crate) type Answers<T> = Vec<(String, Result<T, Error>)>;

/// What was found in the queues that can be looked into.
#[derive(Debug)]
pub(crate) struct Found<T> {
    /// By queue.
    pub(crate) there: Vec<(String, T)>,
    /// Where it was looked for, in words.
    pub(crate) place: String,
}

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
    match client.stats(queue).await {
        Ok(stats) => {
            Ok(stats.enqueued_total > 0 || stats.sessions > 0 || stats.paused || stats.waiting > 0 || stats.dead > 0)
        }
        // Something is there, whatever it is.
        Err(error) if is_damage(&error) => Ok(true),
        Err(error) => Err(error.into()),
    }
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

/// Whether it is a queue's own trouble: its neighbours answer all the same.
fn is_damage(error: &Error) -> bool {
    error.kind() == ErrorKind::Corrupt
}

/// Why a queue can't be looked into, and what tells more.
pub(crate) fn damaged(queue: &str, error: &Error) -> Failure {
    Failure::Refused(format!("the queue {queue} is damaged: {}; see `delayq doctor {queue}`", told(error)))
}

/// A failure of a command on one queue, with the queue's name where it is damaged.
pub(crate) fn of_queue(queue: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Store(error) if is_damage(&error) => damaged(queue, &error),
        other => other,
    }
}

/// Takes what came of one queue of several. That it is damaged is told and no end for the others; whatever else goes wrong is.
pub(crate) fn spare(each: &mut OneByOne, queue: &str, result: Outcome) -> Outcome {
    match result {
        Err(Failure::Store(error)) if is_damage(&error) => each.take(Err(damaged(queue, &error))),
        other => other,
    }
}

/// Asks several queues, many at once. A store that isn't reached, or lets nobody in, ends it.
pub(crate) async fn ask<T, F>(asks: Vec<(String, F)>) -> Outcome<Answers<T>>
where
    F: Future<Output = Result<T, Error>>,
{
    let answers = stream::iter(asks).map(|(queue, ask)| async move {
        match ask.await {
            Err(error) if !is_damage(&error) => Err(error),
            answer => Ok((queue, answer)),
        }
    });
    Ok(answers.buffered(AT_ONCE).try_collect().await?)
}

async fn jobs(client: &Client, queues: &[String], id: JobId) -> Outcome<Answers<Option<JobInfo>>> {
    let looks = queues.iter().map(|queue| {
        let jobs = client.jobs(queue);
        (queue.clone(), async move { jobs.get(id).await })
    });
    ask(looks.collect()).await
}

async fn statuses(client: &Client, queues: &[String], id: JobId) -> Outcome<Answers<JobStatus>> {
    let looks = queues.iter().map(|queue| {
        let handle = client.job(queue, id);
        (queue.clone(), async move { handle.status().await })
    });
    ask(looks.collect()).await
}

/// A job wherever it is: an id is unique within its queue only. A damaged queue, which may have it, is an error.
pub(crate) async fn everywhere(client: &Client, queues: &[String], id: JobId) -> Outcome<Vec<JobInfo>> {
    let mut found = Vec::new();
    for (_, job) in jobs(client, queues, id).await? {
        found.extend(job?);
    }
    Ok(found)
}

/// How a job ended that is there no more, as far as that is remembered: for 15 s. A damaged queue is an error.
pub(crate) async fn ended(client: &Client, queues: &[String], id: JobId) -> Outcome<Option<(String, JobStatus)>> {
    let mut found = None;
    for (queue, status) in statuses(client, queues, id).await? {
        let status = status?;
        if status != JobStatus::Gone && found.is_none() {
            found = Some((queue, status));
        }
    }
    Ok(found)
}

/// A job wherever it can be looked for. Queues that are damaged are told; the only one to look into is an error then.
pub(crate) async fn look(
    client: &Client,
    queues: &[String],
    id: JobId,
    each: &mut OneByOne,
) -> Outcome<Found<JobInfo>> {
    let Found { there, place } = sifted(jobs(client, queues, id).await?, each)?;
    Ok(Found { there: there.into_iter().filter_map(|(queue, job)| Some((queue, job?))).collect(), place })
}

/// The same of a job that ended.
pub(crate) async fn look_for_end(
    client: &Client,
    queues: &[String],
    id: JobId,
    each: &mut OneByOne,
) -> Outcome<Found<JobStatus>> {
    let mut found = sifted(statuses(client, queues, id).await?, each)?;
    found.there.retain(|(_, status)| *status != JobStatus::Gone);
    Ok(found)
}

fn sifted<T>(answers: Answers<T>, each: &mut OneByOne) -> Outcome<Found<T>> {
    let only = if let [(queue, _)] = answers.as_slice() { Some(queue.clone()) } else { None };
    let is_only = only.is_some();
    let mut found = Found { there: Vec::new(), place: only.unwrap_or_else(|| "any queue".to_owned()) };
    for (queue, answer) in answers {
        match answer {
            Ok(answer) => found.there.push((queue, answer)),
            Err(error) if is_only => return Err(damaged(&queue, &error)),
            Err(error) => {
                each.take(Err(damaged(&queue, &error)))?;
                found.place = "any queue that can be looked into".to_owned();
            }
        }
    }
    Ok(found)
}

/// The one handle of an id: in the queue that was named, or in the only one that has it.
pub(crate) async fn handle(
    client: &Client,
    named: &[String],
    queues: &[String],
    id: JobId,
    each: &mut OneByOne,
) -> Outcome<JobHandle<AnyJob>> {
    if let [queue] = named {
        return Ok(client.job(queue, id));
    }
    let found = look(client, queues, id, each).await?;
    match found.there.as_slice() {
        [(queue, _)] => Ok(client.job(queue, id)),
        [] => match look_for_end(client, queues, id, each).await?.there.first() {
            // The queue's own answer says how it ended.
            Some((queue, _)) => Ok(client.job(queue, id)),
            None => {
                let place = found.place;
                Err(Failure::Refused(format!("there is no job {id} in {place}: it ended before, or never was")))
            }
        },
        several => {
            let queues: Vec<&str> = several.iter().map(|(queue, _)| queue.as_str()).collect();
            Err(Failure::Refused(format!("{id} is in several queues: say which by --queue: {}", queues.join(", "))))
        }
    }
}

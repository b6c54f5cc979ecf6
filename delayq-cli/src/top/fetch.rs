//! One look at the store: a bounded number of commands, however many jobs there are.

use std::collections::HashMap;
use std::time::Duration;

use delayq::{Client, Error, JobCursor, JobId, JobInfo, JobQuery, JobState, WorkerInfo};
use futures_util::future::{self, try_join};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::model::{
    Ahead, Counts, JobRow, JobSheet, List, MINUTES, Overview, Place, Queue, QueueSeen, Rows, Seen, WorkerRow,
};
use crate::bulk::PAGE;
use crate::commands::job;
use crate::failure::{Outcome, UNREACHABLE, code, told};
use crate::find;

/// How many queues one look counts: three commands each.
pub(super) const QUEUES_MAX: usize = 250;
/// How many jobs a page of a list has: their payloads come with them.
const ROWS_MAX: usize = 50;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Looks. `named` are the queues that were asked for; all where that is empty. `chart` is the queue whose hour ahead is drawn.
pub(super) async fn look(client: &Client, named: &[String], place: &Place, chart: Option<&str>) -> Outcome<Seen> {
    Ok(match place {
        Place::Queues { containing } => Seen::Queues(overview(client, named, containing, chart).await?),
        Place::Queue { queue, list, after } => {
            Seen::Queue(Box::new(listed(client, queue, *list, after.as_ref()).await?))
        }
        Place::Job { queue, id } => Seen::Job(Box::new(sheet(client, queue, *id).await?)),
    })
}

async fn overview(client: &Client, named: &[String], containing: &str, chart: Option<&str>) -> Outcome<Overview> {
    let mut names = if named.is_empty() { client.queues().await? } else { named.to_vec() };
    let known = names.len();
    names.retain(|name| contains(name, containing));
    let matching = names.len();
    names.truncate(QUEUES_MAX);
    let queues: Vec<Queue> =
        stream::iter(names).map(|name| counted(client, name)).buffered(find::AT_ONCE).try_collect().await?;
    // A queue that can't be counted has no chart either, and says why.
    let charted = chart.filter(|chart| queues.iter().any(|queue| queue.name == *chart && queue.trouble.is_none()));
    let ahead = match charted {
        Some(queue) => Some(ahead(client, queue).await?),
        None => None,
    };
    Ok(Overview { queues, known, matching, ahead })
}

/// The hour ahead of one queue, minute by minute.
pub(super) async fn ahead(client: &Client, queue: &str) -> Outcome<Ahead> {
    let forecast = client.forecast(queue, MINUTE, MINUTES).await?;
    Ok(Ahead { queue: queue.to_owned(), minutes: forecast.steps })
}

/// Whether a text has this in it, whatever its case.
pub(super) fn contains(text: &str, part: &str) -> bool {
    part.is_empty() || text.to_lowercase().contains(&part.to_lowercase())
}

/// One queue whose keys are damaged must not hide the others.
async fn counted(client: &Client, name: String) -> Result<Queue, Error> {
    // Two forecasts of one step cost the store a fraction of one in minutes.
    let (minute, hour) = (client.forecast(&name, MINUTE, 1), client.forecast(&name, HOUR, 1));
    match future::try_join3(client.stats(&name), minute, hour).await {
        Ok((stats, minute, hour)) => Ok(Queue { counts: Counts::of(&stats, &minute, &hour), name, trouble: None }),
        Err(error) if code(&error) == UNREACHABLE => Err(error),
        Err(error) => Ok(Queue { name, counts: Counts::default(), trouble: Some(told(&error)) }),
    }
}

async fn listed(client: &Client, queue: &str, list: List, after: Option<&JobCursor>) -> Outcome<QueueSeen> {
    let page = |state| {
        let query = JobQuery::new(state).limit(ROWS_MAX);
        match after {
            Some(after) => query.after(after.clone()),
            None => query,
        }
    };
    let counts = counted(client, queue.to_owned());
    let jobs = client.jobs(queue);
    Ok(match list {
        List::Workers => {
            let everything = JobQuery::new(JobState::Running).limit(PAGE);
            let (queue, workers, running) =
                future::try_join3(counts, client.workers(queue), jobs.list(&everything)).await?;
            let now = queue.counts.now;
            let rows = workers.iter().map(|worker| WorkerRow::of(worker, &running.jobs, now)).collect();
            QueueSeen { queue, rows: Rows::Workers(rows), next: None }
        }
        List::Running => {
            let query = page(JobState::Running);
            let (queue, workers, page) = future::try_join3(counts, client.workers(queue), jobs.list(&query)).await?;
            QueueSeen { rows: rows(&page.jobs, &workers, &queue), queue, next: page.next }
        }
        List::Waiting | List::Dead => {
            let query = if list == List::Dead { page(JobState::Dead).newest_first() } else { page(JobState::Waiting) };
            let (queue, page) = try_join(counts, jobs.list(&query)).await?;
            QueueSeen { rows: rows(&page.jobs, &[], &queue), queue, next: page.next }
        }
    })
}

fn rows(jobs: &[JobInfo], workers: &[WorkerInfo], queue: &Queue) -> Rows {
    let names: HashMap<&str, &str> = workers
        .iter()
        .filter_map(|worker| worker.name.as_deref().map(|name| (worker.session.as_str(), name)))
        .collect();
    let worker = |job: &JobInfo| job.session.as_deref().and_then(|session| names.get(session).copied());
    Rows::Jobs(jobs.iter().map(|job| JobRow::of(job, worker(job), queue.counts.now)).collect())
}

async fn sheet(client: &Client, queue: &str, id: JobId) -> Outcome<JobSheet> {
    let jobs = client.jobs(queue);
    let (stats, found) = try_join(client.stats(queue), jobs.get(id)).await?;
    let Some(mut job) = found else {
        let status = client.job(queue, id).status().await?;
        return Ok(JobSheet {
            id,
            title: String::new(),
            state: None,
            when: match status {
                delayq::JobStatus::Gone => "gone: it ended more than 15 s ago, or never was".to_owned(),
                ended => job::ending(&ended).to_owned(),
            },
            fields: Vec::new(),
            history: Vec::new(),
            payload: Vec::new(),
            payload_bytes: 0,
            died: None,
            now: stats.now,
        });
    };
    let mut worker = None;
    if job.state == JobState::Running
        && let Some(held) = job::running(client, &job, PAGE).await?
    {
        job.running_since = held.running_since;
        worker = job::worker_name(client, queue, held.session.as_deref()).await?;
    }
    Ok(JobSheet {
        id,
        title: job::title(&job),
        state: Some(job.state),
        when: crate::commands::jobs::when(&job, stats.now),
        fields: job::fields(&job),
        history: job::history(&job, worker.as_deref()),
        payload: job::payload(&job.payload),
        payload_bytes: job.payload.len(),
        died: job.dead_since,
        now: stats.now,
    })
}

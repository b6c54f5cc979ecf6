//! `workers`: who serves a queue, what they run, and how late they began.

use std::collections::HashMap;

use clap::Args;
use delayq::{Client, JobInfo, JobQuery, JobState, WorkerInfo};
use serde::Serialize;

use super::Session;
use crate::bulk::PAGE;
use crate::failure::{OneByOne, Outcome};
use crate::find;
use crate::output::colour::{BAD, GOOD, PLAIN};
use crate::output::json::{JobView, instant, ms};
use crate::output::table::{Column, Table, cell, count, styled};
use crate::output::{Out, remark};
use crate::time;

/// How many running jobs of a queue are shown.
const RUNNING_MAX: usize = 1000;

/// Which queues.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq workers
  delayq workers orders --running")]
pub(crate) struct Options {
    /// Only these
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    /// Show the jobs that they run as well
    #[arg(long)]
    running: bool,
}

/// A worker as JSON.
#[derive(Debug, Serialize)]
struct View<'a> {
    queue: &'a str,
    session: &'a str,
    name: Option<&'a str>,
    release: Option<&'a str>,
    pid: Option<u32>,
    started_at: Option<String>,
    concurrency: Option<u64>,
    running: u64,
    runs_total: Option<u64>,
    lateness: Option<Lateness>,
    lease_left_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<Vec<JobView<'a>>>,
}

#[derive(Debug, Serialize)]
struct Lateness {
    mean_us: u64,
    max_us: u64,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    let queues = find::queues(&session.client, &options.queues).await?;
    let mut seen = Seen { queues: Vec::new(), workers: Vec::new(), running: Vec::new(), now: jiff::Timestamp::now() };
    let mut each = OneByOne::default();
    for queue in &queues {
        let looked = seen.look(&session.client, queue, options.running).await;
        find::spare(&mut each, queue, looked)?;
    }
    let Seen { queues: looked_at, workers, running, now } = seen;
    let out = &mut session.out;
    if out.json {
        for worker in &workers {
            out.json_line(&View::of(worker, options.running.then_some(&running)))?;
        }
        return each.end();
    }
    if workers.is_empty() {
        if queues.is_empty() {
            remark("no queue was used yet under this prefix");
        } else if !looked_at.is_empty() {
            remark(format!("no worker serves {}", looked_at.join(", ")));
        }
        return each.end();
    }
    table(out, &workers, now)?;
    if options.running && !running.is_empty() {
        out.line("")?;
        running_table(out, &workers, &running, now)?;
    }
    each.end()
}

/// The queues that could be looked into, their workers, what these run if that is asked for, and the store's clock.
struct Seen {
    queues: Vec<String>,
    workers: Vec<WorkerInfo>,
    running: Vec<JobInfo>,
    now: jiff::Timestamp,
}

impl Seen {
    async fn look(&mut self, client: &Client, queue: &str, running: bool) -> Outcome {
        self.now = client.stats(queue).await?.now;
        self.workers.extend(client.workers(queue).await?);
        if running {
            self.running.extend(held(client, queue).await?);
        }
        self.queues.push(queue.to_owned());
        Ok(())
    }
}

/// The running jobs of a queue.
async fn held(client: &Client, queue: &str) -> Outcome<Vec<JobInfo>> {
    let mut query = JobQuery::new(JobState::Running).limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = client.jobs(queue).list(&query).await?;
        found.extend(page.jobs);
        match page.next {
            Some(_) if found.len() >= RUNNING_MAX => {
                remark(format!(
                    "{queue}: the first {RUNNING_MAX} running jobs are shown; `delayq jobs --state running --all` has them all"
                ));
                return Ok(found);
            }
            Some(next) => query = query.after(next),
            None => return Ok(found),
        }
    }
}

fn table(out: &mut Out, workers: &[WorkerInfo], now: jiff::Timestamp) -> Outcome {
    let mut table = Table::new(&[
        Column::Left("QUEUE"),
        Column::Right("PID"),
        Column::Right("UP"),
        Column::Right("RUNNING"),
        Column::Right("OF"),
        Column::Right("RUNS"),
        Column::Right("LATE"),
        Column::Right("LATE MAX"),
        Column::Right("LEASE"),
        Column::Left("RELEASE"),
        Column::Rest("WORKER"),
    ]);
    for worker in workers {
        let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
        let late = |of: fn(&delayq::WorkerLateness) -> std::time::Duration| {
            worker.lateness.as_ref().map_or("-".to_owned(), |late| time::short(of(late)))
        };
        table.row([
            cell(&worker.queue),
            cell(number(worker.pid.map(u64::from))),
            cell(worker.started_at.map_or("-".to_owned(), |at| time::since(at, now))),
            count(worker.running, GOOD),
            cell(number(worker.concurrency)),
            cell(number(worker.runs_total)),
            cell(late(|late| late.mean)),
            cell(late(|late| late.max)),
            worker.lease_left.map_or_else(|| styled("lost", BAD), |left| styled(time::short(left), PLAIN)),
            cell(worker.release.as_deref().unwrap_or("-")),
            cell(worker.name.as_deref().unwrap_or(&worker.session)),
        ]);
    }
    Ok(table.write(out)?)
}

fn running_table(out: &mut Out, workers: &[WorkerInfo], running: &[JobInfo], now: jiff::Timestamp) -> Outcome {
    let names: HashMap<&str, &str> = workers
        .iter()
        .map(|worker| (worker.session.as_str(), worker.name.as_deref().unwrap_or(&worker.session)))
        .collect();
    let mut table = Table::new(&[
        Column::Left("RUNNING JOB"),
        Column::Left("QUEUE"),
        Column::Left("NAME"),
        Column::Right("FOR"),
        Column::Right("ATTEMPT"),
        Column::Rest("WORKER"),
    ]);
    for job in running {
        let session = job.session.as_deref().unwrap_or("-");
        table.row([
            cell(job.id.to_string()),
            cell(&job.queue),
            cell(job.name.as_deref().unwrap_or("?")),
            cell(job.running_since.map_or("-".to_owned(), |since| time::since(since, now))),
            cell((job.attempts + 1).to_string()),
            cell(names.get(session).copied().unwrap_or(session)),
        ]);
    }
    Ok(table.write(out)?)
}

impl<'a> View<'a> {
    fn of(worker: &'a WorkerInfo, running: Option<&'a Vec<JobInfo>>) -> View<'a> {
        let jobs = running.map(|running| {
            let is_its = |job: &&JobInfo| job.queue == worker.queue && job.session.as_ref() == Some(&worker.session);
            running.iter().filter(is_its).map(JobView::of).collect()
        });
        View {
            queue: &worker.queue,
            session: &worker.session,
            name: worker.name.as_deref(),
            release: worker.release.as_deref(),
            pid: worker.pid,
            started_at: instant(worker.started_at),
            concurrency: worker.concurrency,
            running: worker.running,
            runs_total: worker.runs_total,
            lateness: worker.lateness.map(|late| Lateness { mean_us: us(late.mean), max_us: us(late.max) }),
            lease_left_ms: worker.lease_left.map(ms),
            jobs,
        }
    }
}

fn us(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

//! What jobs that are not due cost those that are.

use std::time::Duration;

use clap::Args;
use delayq::Client;
use delayq::store::Store;
use delayq::store::ops::{NewJob, Options as JobOptions};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{AS_IT_COMES, Sizes, short};
use crate::fill::{self, Jobs};
use crate::job::QUEUE;
use crate::meter::{Meter, Usage};
use crate::report::{LONGEST_US, Measure, REDIS_US, Report, Sample};
use crate::server::{self, Persistence, Server};
use crate::{Res, bare, machine};

/// How many jobs not due, where there is memory for them.
const BEHIND: [usize; 3] = [0, 1_000_000, 10_000_000];
/// Instead of the most, where there is not.
const BEHIND_LESS: usize = 3_000_000;
const BEHIND_QUICK: [usize; 2] = [0, 200_000];
/// What a job and its share of the tables takes while these grow, in bytes.
const BYTES_A_JOB: usize = 450;
/// What is left to others.
const BYTES_SPARE: usize = 1 << 30;
/// Tasks that fill.
const FILLERS: usize = 3;

pub(crate) const SEND_US: Measure = Measure { key: "send_redis_us_per_job", title: "send: Redis us/job", digits: 2 };
const SEND_LONGEST: Measure = Measure { key: "send_call_max_us", title: "longest us of sends", digits: 0 };
const FILL_LONGEST: Measure = Measure { key: "fill_call_max_us", title: "while filling", digits: 0 };

#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// How many jobs that are not due, beside none, instead of 1 and 10 million.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) behind: Option<u32>,
}

/// A server with jobs that are not due.
struct Backlog {
    name: String,
    server: Server,
    fill_longest_us: Option<f64>,
}

pub(crate) async fn take(options: &Options) -> Res<Report> {
    let (runs, jobs) = (options.sizes.runs(), options.sizes.job_count(50_000, 10_000));
    let behind = numbers(options);
    let mut backlogs = Vec::with_capacity(behind.len());
    for behind in &behind {
        backlogs.push(Backlog::make(*behind).await?);
    }
    let mut report = Report::new(
        "behind",
        "due jobs by the scripts alone, with jobs behind that are not due for hours",
        backlogs[0].server.machine(),
    );
    report.setting(AS_IT_COMES);
    report.setting(format!("{jobs} due jobs a run, claimed and settled 100 a call, sent up to 200 a call"));
    // The first turn warms up. All that is drained is sent before, and gets as old as most jobs are.
    for turn in 0..=runs {
        for backlog in &backlogs {
            let sent = backlog.send(jobs).await?;
            if turn > 0 {
                let sample = Sample::default()
                    .with(SEND_US, sent.redis_s * 1e6 / jobs as f64)
                    .maybe(SEND_LONGEST, sent.longest_us.map(|(_, longest)| longest));
                report.add(&backlog.name, &sample);
            }
        }
    }
    fill::age().await;
    for turn in 0..=runs {
        for (backlog, behind) in backlogs.iter().zip(&behind) {
            let drained = backlog.drain(jobs).await?;
            if turn > 0 {
                report.add(&backlog.name, &drained.per_job_with_longest(jobs));
                report.label(&backlog.name, "behind", *behind as f64);
            }
        }
    }
    for backlog in &backlogs {
        report.add(&backlog.name, &Sample::default().maybe(FILL_LONGEST, backlog.fill_longest_us));
    }
    let without = &backlogs[0].name;
    for backlog in &backlogs[1..] {
        let (name, key) = (backlog.name.as_str(), backlog.name.split(' ').next().unwrap_or_default());
        for (measure, prefix, of) in [(REDIS_US, "drain", "claim and settle"), (SEND_US, "send", "send")] {
            report.ratio(
                &format!("{prefix}_{key}_to_none"),
                format!("{of}: Redis's cost with {name} to none"),
                (name, measure),
                (without, measure),
            );
        }
    }
    let longest = report.series.iter().filter_map(|s| Some((s, s.measure(LONGEST_US.key)?.spread.max)));
    if let Some((series, us)) = longest.max_by(|a, b| a.1.total_cmp(&b.1)) {
        let text = format!("the longest call of claim and settle took {:.2} ms, with {}", us / 1e3, series.name);
        report.note(text);
    }
    Ok(report)
}

/// How many jobs shall be behind: what fits into the memory that there is.
fn numbers(options: &Options) -> Vec<usize> {
    match (options.behind, options.sizes.quick) {
        (Some(behind), _) => vec![0, behind as usize],
        (None, true) => BEHIND_QUICK.to_vec(),
        (None, false) => {
            let room =
                machine::memory_available().map_or(usize::MAX, |bytes| bytes as usize).saturating_sub(BYTES_SPARE);
            let mut numbers = BEHIND.to_vec();
            if numbers.iter().sum::<usize>() * BYTES_A_JOB > room {
                numbers[2] = BEHIND_LESS;
            }
            if numbers.iter().sum::<usize>() * BYTES_A_JOB > room {
                numbers.pop();
            }
            numbers
        }
    }
}

impl Backlog {
    async fn make(behind: usize) -> Res<Backlog> {
        let server = Server::start(Persistence::Off)?;
        let (url, each) = (server.url(), behind / FILLERS);
        let mut fillers = JoinSet::new();
        for nth in 0..FILLERS {
            let jobs = if nth == 0 { behind - each * (FILLERS - 1) } else { each };
            let store = bare::store(&url).await?;
            fillers.spawn(async move { not_due(&store, jobs).await });
        }
        while let Some(filled) = fillers.join_next().await {
            filled??;
        }
        let fill_longest_us = server.info()?.longest_us().map(|(_, longest)| longest);
        let name = if behind == 0 { "none behind".to_owned() } else { format!("{} behind", short(behind)) };
        Ok(Backlog { name, server, fill_longest_us })
    }

    async fn send(&self, jobs: usize) -> Res<Usage> {
        let url = self.server.url();
        let client = Client::connect(&url).await?;
        server::reset_counts(&url)?;
        let meter = Meter::start(&url)?;
        fill::due_now(&client, QUEUE, jobs, Jobs::Plain).await?;
        meter.read()
    }

    async fn drain(&self, jobs: usize) -> Res<Usage> {
        let url = self.server.url();
        let store = bare::store(&url).await?;
        server::reset_counts(&url)?;
        let meter = Meter::start(&url)?;
        let drained = bare::drain_store(&store, QUEUE, jobs, false).await?;
        if drained == jobs { meter.read() } else { Err(format!("{drained} jobs of {jobs} came out").into()) }
    }
}

/// Jobs that are due in 10 to 20 hours, in random order.
async fn not_due(store: &Store, jobs: usize) -> Res<()> {
    let shard = store.shard(QUEUE, 0)?;
    let hour_ms = Duration::from_secs(3600).as_millis() as u64;
    let mut left = jobs;
    while left > 0 {
        let few = left.min(delayq::limits::SEND_BATCH_MAX);
        let batch: Vec<NewJob> = (0..few)
            .map(|_| NewJob {
                id: Uuid::now_v7().into_bytes(),
                when: format!("+{}", fastrand::u64(10 * hour_ms..20 * hour_ms)),
                options: JobOptions { priority: 5, attempts_max: 4, ..JobOptions::default() },
                envelope: [b"bench_order 1\n".as_slice(), &[b'x'; 120]].concat(),
            })
            .collect();
        store.enqueue(&shard, &batch).await?;
        left -= few;
    }
    Ok(())
}

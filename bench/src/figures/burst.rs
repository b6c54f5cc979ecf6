//! Jobs that all fall due in one instant, while a worker waits for them.

use std::time::{Duration, SystemTime};

use delayq::Client;

use super::{AS_IT_COMES, Sizes, short};
use crate::Res;
use crate::fill::{self, AGE};
use crate::job::{Late, QUEUE};
use crate::lates::{self, MEANING};
use crate::meter::Meter;
use crate::process::Process;
use crate::report::{Report, TOOK_S};
use crate::server::{self, Persistence, Server};

/// How fast a queue is filled at the least.
const FILLED_PER_S: u64 = 50_000;
/// How often it is looked whether all is settled.
const LOOK: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) async fn take(sizes: &Sizes) -> Res<Report> {
    let machine = Server::start(Persistence::Off)?.machine();
    let mut report =
        Report::new("burst", "jobs that fall due in one instant, one worker process waiting for them", machine);
    report.setting(AS_IT_COMES);
    report.setting("jobs/s from the due instant to the last settle");
    report.setting(MEANING);
    let all_jobs = sizes.jobs(&[100_000, 1_000_000], &[50_000]);
    for _ in 0..sizes.runs() {
        for jobs in &all_jobs {
            burst(&mut report, *jobs).await?;
        }
    }
    Ok(report)
}

async fn burst(report: &mut Report, jobs: usize) -> Res<()> {
    let server = Server::start(Persistence::Off)?;
    let url = server.url();
    let client = Client::connect(&url).await?;
    let worker = Process::start_all(&client, &url, QUEUE, 1, jobs).await?;
    let due = SystemTime::now() + AGE + Duration::from_millis(1000 * jobs as u64 / FILLED_PER_S);
    fill::due_at(&client, QUEUE, jobs, due).await?;
    let left = due.duration_since(SystemTime::now()).map_err(|_| "the jobs were due before all were sent")?;
    if left < AGE {
        report.note(format!("{}: filled more slowly than thought, some jobs leave tombstones", short(jobs)));
    }
    tokio::time::sleep(left.saturating_sub(Duration::from_millis(300))).await;
    server::reset_counts(&url)?;
    let meter = Meter::start(&url)?;
    tokio::time::sleep(due.duration_since(SystemTime::now()).unwrap_or_default()).await;
    while client.stats(QUEUE).await?.done_total < jobs as u64 {
        if meter.elapsed() > PATIENCE {
            return Err("not settled in time".into());
        }
        tokio::time::sleep(LOOK).await;
    }
    let took = due.elapsed()?;
    let mut usage = meter.read()?;
    usage.took_s = took.as_secs_f64();
    let (own_s, lates): (f64, Vec<Late>) = Process::stop_all(worker).await?;
    usage.own_s = own_s;
    if lates.len() != jobs {
        report.note(format!("{} runs of {jobs} jobs", lates.len()));
    }
    let name = short(jobs);
    let sample = usage.per_job_with_longest(jobs).with(TOOK_S, usage.took_s);
    report.add(&name, &lates::sum_up(sample, &lates));
    report.label(&name, "jobs", jobs as f64);
    Ok(())
}

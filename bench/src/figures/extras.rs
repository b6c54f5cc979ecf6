//! What the things cost that a drain can do without.

use super::{AS_IT_COMES, Sizes};
use crate::Res;
use crate::drains::{self, By, Turns, Way};
use crate::fill::Jobs;
use crate::process::Watched;
use crate::report::{JOBS_PER_S, OWN_US, REDIS_US, Report};
use crate::server::{Persistence, Server};

const PLAIN: &str = "plain";

pub(crate) async fn take(sizes: &Sizes) -> Res<Report> {
    let machine = Server::start(Persistence::Off)?.machine();
    let mut report = Report::new("extras", "a drain with this and that, each beside the plain one", machine);
    let jobs = sizes.job_count(100_000, 20_000);
    report.setting(AS_IT_COMES);
    report.setting(format!("{jobs} jobs, each worker a process of its own; subscribers format and throw away"));
    let way = |name: &str, jobs, watched| Way { jobs, ..Way::new(name, By::Process(watched)) };
    let ways = [
        way(PLAIN, Jobs::Plain, Watched::No),
        way("ten priorities", Jobs::OfTenPriorities, Watched::No),
        way("unique keys", Jobs::Unique, Watched::No),
        way("tracing at INFO", Jobs::Plain, Watched::Info),
        way("tracing at DEBUG", Jobs::Plain, Watched::Debug),
        way("metrics recorder", Jobs::Plain, Watched::Metrics),
    ];
    drains::take(&mut report, &ways, Turns::of(jobs, sizes)).await?;
    for way in &ways[1..] {
        let key = way.name.to_lowercase().replace(' ', "_");
        for (measure, of) in [(JOBS_PER_S, "speed"), (REDIS_US, "Redis's cost"), (OWN_US, "the worker's cost")] {
            report.ratio(
                &format!("{key}_{}", measure.key),
                format!("{}: {of} to plain", way.name),
                (&way.name, measure),
                (PLAIN, measure),
            );
        }
    }
    Ok(report)
}

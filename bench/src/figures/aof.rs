//! What an append-only file costs.

use super::{AS_IT_COMES, Sizes};
use crate::Res;
use crate::drains::{self, By, Turns, Way};
use crate::figures::enqueue;
use crate::report::{JOBS_PER_S, REDIS_US, Report};
use crate::server::{Persistence, Server};

const DRAINS: [(&str, Persistence); 2] = [("drain", Persistence::Off), ("drain, AOF", Persistence::Aof)];
const BULKS: [(&str, Persistence); 2] = [("bulk enqueue", Persistence::Off), ("bulk enqueue, AOF", Persistence::Aof)];

pub(crate) async fn take(sizes: &Sizes) -> Res<Report> {
    let machine = Server::start(Persistence::Off)?.machine();
    let mut report =
        Report::new("aof", "drain and bulk enqueue with appendonly yes, appendfsync everysec, beside without", machine);
    let jobs = sizes.job_count(100_000, 20_000);
    report.setting(AS_IT_COMES);
    report.setting(format!("{jobs} jobs; files in {}", std::env::temp_dir().display()));
    for turn in 0..=sizes.runs() {
        for (name, persistence) in BULKS {
            let server = Server::start(persistence)?;
            let usage = enqueue::bulk(&server.url(), jobs).await?;
            if turn > 0 {
                report.add(name, &usage.per_job_with_longest(jobs));
            }
        }
    }
    let ways = DRAINS.map(|(name, persistence)| Way { persistence, ..Way::new(name, By::Worker) });
    drains::take(&mut report, &ways, Turns::of(jobs, sizes)).await?;
    for (key, what, [(off, _), (aof, _)]) in [("bulk", "bulk enqueue", BULKS), ("drain", "drain", DRAINS)] {
        for (measure, of) in [(JOBS_PER_S, "speed"), (REDIS_US, "Redis's cost")] {
            report.ratio(
                &format!("{key}_aof_{}", measure.key),
                format!("{what}: {of} with AOF to without"),
                (aof, measure),
                (off, measure),
            );
        }
    }
    Ok(report)
}

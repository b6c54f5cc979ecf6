//! Sending jobs that are due in an hour: many at once, then one by one; and what a pending job takes.

use std::time::{Duration, SystemTime};

use super::{Contender, Due, Phase, SETTLE, since_1970};
use crate::options::Options;
use crate::sample::{Faults, Sample};
use crate::server::{self, Snapshot};

pub(super) const PHASE: Phase = Phase {
    title: "enqueue, due in an hour",
    figures: &["one by one, jobs/s", "many at once, jobs/s", "bytes a pending job", "Redis us/job, many"],
    of_backlog: &[],
    run,
};

pub(super) const INDEX: usize = 0;

/// One-by-one sends measure a round trip: this many are enough.
const ONE_BY_ONE_MAX: usize = 20_000;

fn run(contenders: &mut [Contender], order: &[usize], _options: &Options) {
    for place in order {
        contenders[*place].sample(INDEX, take);
    }
}

fn take(contender: &mut Contender, jobs: usize) -> Result<Sample, String> {
    let server = server::fresh()?;
    let due = Due::At { from: since_1970(SystemTime::now()) + Duration::from_secs(3_600), step: Duration::ZERO };
    let before = Snapshot::take(&server)?;
    let many = contender.send(&server.url(), jobs, "many", &due)?;
    std::thread::sleep(SETTLE); // The producer's buffers go first.
    let after = Snapshot::take(&server)?;
    contender.send_rate = jobs as f64 / many.as_secs_f64();
    server.command(&["FLUSHALL"]).map_err(|error| format!("FLUSHALL: {error}"))?;
    let singles = jobs.min(ONE_BY_ONE_MAX);
    let one = contender.send(&server.url(), singles, "one", &due)?;
    Ok(Sample {
        jobs,
        figures: vec![
            ("one by one, jobs/s", singles as f64 / one.as_secs_f64()),
            ("many at once, jobs/s", contender.send_rate),
            ("bytes a pending job", (after.memory - before.memory) / jobs as f64),
            ("Redis us/job, many", after.since(&before).cpu_s * 1e6 / jobs as f64),
        ],
        faults: Faults::default(),
    })
}

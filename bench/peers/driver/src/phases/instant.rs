//! Many jobs due in one instant, with a worker that waits for them.

use std::time::{Duration, Instant, SystemTime};

use super::runs::Runs;
use super::{Contender, Due, Phase, since_1970};
use crate::options::Options;
use crate::sample::{Sample, percentile};
use crate::server;

pub(super) const PHASE: Phase = Phase {
    title: "all due in one instant",
    figures: &["s to the last", "jobs/s", "lateness p50 ms", "lateness p99 ms"],
    of_backlog: &["s to the last", "lateness p50 ms", "lateness p99 ms"],
    run,
};

const INDEX: usize = 2;

/// What sending takes longer with a worker about, and a start, at least.
const HASTE: f64 = 1.5;
const MARGIN: Duration = Duration::from_secs(3);

/// How long before the instant the last job must be sent.
const REST: Duration = Duration::from_millis(200);

fn run(contenders: &mut [Contender], order: &[usize], options: &Options) {
    for place in order {
        contenders[*place].sample(INDEX, |contender, jobs| {
            let haste = HASTE * jobs as f64 / contender.send_rate;
            let sample = take(contender, jobs, MARGIN + Duration::from_secs_f64(haste), options)?;
            match sample {
                Some(sample) => Ok(sample),
                None => take(contender, jobs, 2 * MARGIN + Duration::from_secs_f64(4.0 * haste), options)?
                    .ok_or_else(|| "the jobs could not be sent before they were due".to_owned()),
            }
        });
    }
}

/// `None` if the instant came before the last job was sent.
fn take(contender: &Contender, jobs: usize, ahead: Duration, options: &Options) -> Result<Option<Sample>, String> {
    let server = server::fresh()?;
    let (mut worker, _) = contender.worker(&server.url(), jobs)?;
    std::thread::sleep(Duration::from_secs(1));
    // On a whole second: some peers know no finer ones, and none should profit or lose by that.
    let from = Duration::from_secs((since_1970(SystemTime::now()) + ahead).as_secs() + 1);
    contender.send(&server.url(), jobs, "many", &Due::At { from, step: Duration::ZERO })?;
    let left = from.saturating_sub(since_1970(SystemTime::now()));
    if left < REST {
        return Ok(None);
    }
    let mut runs = Runs::collect(&mut worker, jobs, Instant::now() + left + options.patience);
    runs.aftermath(&mut worker);
    let lateness = runs.lateness_ms(|_| from);
    let faults = runs.faults(&lateness);
    let last = runs.last().unwrap_or_default().saturating_sub(from).as_secs_f64();
    let figures = vec![
        ("s to the last", last),
        ("jobs/s", jobs as f64 / last),
        ("lateness p50 ms", percentile(&lateness, 0.5)),
        ("lateness p99 ms", percentile(&lateness, 0.99)),
    ];
    Ok(Some(Sample { jobs, figures: if faults.not_run == 0 { figures } else { Vec::new() }, faults }))
}

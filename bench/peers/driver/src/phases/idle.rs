//! An idle worker: the commands that its waiting costs, and how late single jobs fire.

use std::time::{Duration, Instant, SystemTime};

use super::runs::Runs;
use super::{Contender, Due, Phase, since_1970};
use crate::options::Options;
use crate::sample::{Sample, percentile};
use crate::server::{self, Snapshot};

pub(super) const PHASE: Phase = Phase {
    title: "idle: nothing for 10 s, then jobs one by one over 20 s",
    figures: &["idle commands/s", "idle reads/s", "idle CPU ms/s", "lateness p50 ms", "lateness p99 ms"],
    of_backlog: &[],
    run,
};

pub(super) const INDEX: usize = 3;

const CALM: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(10);
const SPREAD: Duration = Duration::from_secs(20);

/// The first job is due this long after all are sent, at the rate that was measured.
const MARGIN: Duration = Duration::from_secs(2);

fn run(contenders: &mut [Contender], order: &[usize], options: &Options) {
    for place in order {
        contenders[*place].sample(INDEX, |contender, jobs| take(contender, jobs, options));
    }
}

fn take(contender: &Contender, jobs: usize, options: &Options) -> Result<Sample, String> {
    let server = server::fresh()?;
    let (mut worker, _) = contender.worker(&server.url(), jobs)?;
    std::thread::sleep(CALM);
    let (before, cpu) = (Snapshot::take(&server)?, worker.cpu());
    std::thread::sleep(IDLE);
    let spent = Snapshot::take(&server)?.since(&before);
    let cpu_s = (worker.cpu() - cpu).as_secs_f64() + spent.cpu_s;

    let ahead = MARGIN + Duration::from_secs_f64(2.0 * jobs as f64 / contender.send_rate);
    let from = Duration::from_millis((since_1970(SystemTime::now()) + ahead).as_millis() as u64);
    let step = Duration::from_micros((SPREAD / jobs as u32).as_micros() as u64);
    contender.send(&server.url(), jobs, "many", &Due::At { from, step })?;
    let left =
        from.checked_sub(since_1970(SystemTime::now())).ok_or("the jobs could not be sent before they were due")?;
    let mut runs = Runs::collect(&mut worker, jobs, Instant::now() + left + SPREAD + options.patience);
    runs.aftermath(&mut worker);
    let lateness = runs.lateness_ms(|n| from + step * n as u32);
    let faults = runs.faults(&lateness);
    let seconds = IDLE.as_secs_f64();
    let mut figures = vec![
        ("idle commands/s", spent.commands / seconds),
        ("idle reads/s", spent.reads / seconds),
        ("idle CPU ms/s", cpu_s * 1e3 / seconds),
    ];
    if faults.not_run == 0 {
        figures.push(("lateness p50 ms", percentile(&lateness, 0.5)));
        figures.push(("lateness p99 ms", percentile(&lateness, 0.99)));
    }
    Ok(Sample { jobs, figures, faults })
}

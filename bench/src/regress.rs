//! Compares ratios with their limits. Times would tell of the machine; ratios of what was taken side by side tell of the code.

use std::process::ExitCode;

use serde::Serialize;

use crate::figures::{Sizes, behind, drain, embedded};
use crate::report::Report;
use crate::{Figure, Res, taken};

/// What a ratio may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

use Limit::{AtLeast, AtMost};

/// Each ratio that is looked at: its figure, its key, its limit, and why it is that.
const LIMITS: &[(&str, &str, Limit, &str)] = &[
    ("enqueue", "one_to_bare", AtLeast(0.6), "a send adds a task and a channel to the round trip"),
    ("enqueue", "tasks_to_one", AtLeast(4.0), "sends at once share calls"),
    ("enqueue", "bulk_to_bare", AtLeast(5.0), "a call carries 200 jobs"),
    ("drain", "worker_to_scripts_100k", AtLeast(0.4), "the worker runs each job through the whole stack"),
    ("extras", "ten_priorities_redis_us_per_job", AtMost(1.5), "a probe for each empty priority"),
    ("extras", "unique_keys_redis_us_per_job", AtMost(4.0), "each end looks its record up and frees the key"),
    ("extras", "tracing_at_info_own_us_per_job", AtMost(1.9), "a span is made and thrown away"),
    ("extras", "metrics_recorder_own_us_per_job", AtMost(1.5), "handles are kept, so that a value is all there is"),
    ("behind", "drain_300k_to_none", AtMost(1.4), "a larger sorted set costs a logarithm"),
    ("behind", "send_300k_to_none", AtMost(1.8), "the same, and larger tables are colder"),
    ("embedded", "memory_to_redis", AtLeast(0.25), "the scripts run in this process, over SQLite"),
    ("embedded", "behind_to_none", AtLeast(0.5), "a larger file costs a logarithm"),
];

/// One ratio beside its limit.
#[derive(Debug, Serialize)]
struct Checked {
    figure: &'static str,
    ratio: &'static str,
    median: f64,
    min: f64,
    max: f64,
    limit: Limit,
    good: bool,
}

pub(crate) async fn run(runs: u16, json: bool) -> Res<ExitCode> {
    let sizes = |jobs: u32| Sizes { runs, jobs: Some(jobs), quick: false };
    let figures = [
        Figure::Enqueue(sizes(20_000)),
        Figure::Drain(drain::Options { sizes: sizes(100_000), young: false, commandstats: false }),
        Figure::Extras(sizes(50_000)),
        Figure::Behind(behind::Options { sizes: sizes(30_000), behind: Some(300_000) }),
        Figure::Embedded(embedded::Options { sizes: sizes(20_000), behind: Some(100_000), young: false }),
    ];
    let mut checked = Vec::with_capacity(LIMITS.len());
    for figure in &figures {
        let report = taken(figure).await?;
        eprintln!("{} taken in {:.0} s", report.figure, report.took_s);
        checked.extend(check(&report)?);
    }
    if checked.len() != LIMITS.len() {
        return Err("a limit names a figure that is not taken".into());
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&checked)?);
    } else {
        for c in &checked {
            let limit = match c.limit {
                AtLeast(limit) => format!("at least {limit}"),
                AtMost(limit) => format!("at most {limit}"),
            };
            let verdict = if c.good { "good" } else { "OUTSIDE" };
            let spread = format!("{:.3} ({:.3} to {:.3})", c.median, c.min, c.max);
            println!("{:<10} {:<34} {spread:<28} {limit:<14} {verdict}", c.figure, c.ratio);
        }
    }
    Ok(if checked.iter().all(|checked| checked.good) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The limits of a figure.
fn check(report: &Report) -> Res<Vec<Checked>> {
    LIMITS
        .iter()
        .filter(|(figure, ..)| *figure == report.figure)
        .map(|(figure, key, limit, _)| {
            let ratio = report.ratios.iter().find(|ratio| ratio.key == *key);
            let spread = &ratio.ok_or_else(|| format!("{figure} has no ratio {key}"))?.spread;
            let good = match limit {
                AtLeast(least) => spread.median >= *least,
                AtMost(most) => spread.median <= *most,
            };
            let (median, min, max) = (spread.median, spread.min, spread.max);
            Ok(Checked { figure, ratio: key, median, min, max, limit: *limit, good })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::report::{JOBS_PER_S, Sample};

    #[test]
    fn a_ratio_below_its_limit_is_outside() {
        for (worker, good) in [(0.9, true), (0.1, false)] {
            let mut report = Report::new("drain", "a test", Machine::here("7"));
            report.add("worker", &Sample::default().with(JOBS_PER_S, worker));
            report.add("scripts", &Sample::default().with(JOBS_PER_S, 1.0));
            assert!(check(&report).is_err(), "a ratio that is not there is told");
            report.ratio("worker_to_scripts_100k", "a ratio", ("worker", JOBS_PER_S), ("scripts", JOBS_PER_S));
            let checked = check(&report).expect("the only limit of drain");
            assert_eq!((checked.len(), checked[0].good), (1, good));
        }
    }
}

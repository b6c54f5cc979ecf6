//! How late runs were: on their way between processes, and summed up.

use std::fmt::Write;

use crate::Res;
use crate::job::Late;
use crate::report::{Measure, Sample};
use crate::stats::percentile;

const fn ms(key: &'static str, title: &'static str) -> Measure {
    Measure { key, title, digits: 2 }
}

pub(crate) const START_P50: Measure = ms("start_p50_ms", "start: p50 ms");
pub(crate) const START_P99: Measure = ms("start_p99_ms", "start: p99 ms");
pub(crate) const START_MAX: Measure = ms("start_max_ms", "start: max ms");
const CLAIM_P50: Measure = ms("claim_p50_ms", "claim: p50 ms");
const CLAIM_P99: Measure = ms("claim_p99_ms", "claim: p99 ms");
const CLAIM_MAX: Measure = ms("claim_max_ms", "claim: max ms");
pub(crate) const EARLY: Measure = Measure { key: "early", title: "early", digits: 0 };

/// What the columns mean, for a report's settings.
pub(crate) const MEANING: &str =
    "lateness: from the due time to the handler's start by this machine's clock, and to the claim by Redis's";

/// A line a run.
pub(crate) fn write(out: &mut Vec<u8>, lates: impl Iterator<Item = Late>) {
    let mut text = String::from("\n");
    for late in lates {
        let _ = writeln!(text, "{} {}", late.claim_us, late.start_us);
    }
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn read(text: &str) -> Res<Vec<Late>> {
    text.lines()
        .map(|line| {
            let (claim, start) = line.split_once(' ').ok_or("a worker told something else than how late a run was")?;
            Ok(Late { claim_us: claim.parse()?, start_us: start.parse()? })
        })
        .collect()
}

/// Adds percentiles to a sample, and how many were early.
pub(crate) fn sum_up(sample: Sample, lates: &[Late]) -> Sample {
    let mut claims: Vec<u32> = lates.iter().map(|late| late.claim_us).collect();
    let mut starts: Vec<i64> = lates.iter().map(|late| late.start_us).collect();
    claims.sort_unstable();
    starts.sort_unstable();
    let early = starts.iter().take_while(|us| **us < 0).count();
    let start = |share| percentile(&starts, share) as f64 / 1e3;
    let claim = |share| f64::from(percentile(&claims, share)) / 1e3;
    sample
        .with(START_P50, start(0.5))
        .with(START_P99, start(0.99))
        .with(START_MAX, start(1.0))
        .with(CLAIM_P50, claim(0.5))
        .with(CLAIM_P99, claim(0.99))
        .with(CLAIM_MAX, claim(1.0))
        .with(EARLY, early as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_tells_is_read() {
        let lates = [Late { claim_us: 7, start_us: -3 }, Late { claim_us: 70, start_us: 1_000_000 }];
        let mut text = Vec::new();
        write(&mut text, lates.into_iter());
        let text = String::from_utf8(text).expect("text");
        assert_eq!(read(text.trim_start()).expect("lines"), lates);
        assert!(read("7").is_err());
    }
}

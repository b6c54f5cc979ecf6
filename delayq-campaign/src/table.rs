//! The table of faults and invariants, and the list of faults.
#![allow(clippy::print_stdout)] // What it prints is what it is for.

use serde::Serialize;

use crate::decoders::Decoded;
use crate::faults::Fault;
use crate::judge::{Invariant, Judgement, Ruling, Verdict};
use crate::run::Report;

/// A whole campaign.
#[derive(Debug, Serialize)]
pub(crate) struct Campaign {
    pub(crate) seeds: Vec<u64>,
    pub(crate) verdict: Verdict,
    /// By fault, then seed.
    pub(crate) reports: Vec<Report>,
    /// Where all faults were run.
    pub(crate) decoded: Option<Decoded>,
}

impl Campaign {
    pub(crate) fn of(mut reports: Vec<Report>) -> Campaign {
        reports.sort_by_key(|report| (report.number, report.seed));
        let mut seeds: Vec<u64> = reports.iter().map(|report| report.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let verdict = worst(reports.iter().map(|report| report.judgement.verdict));
        Campaign { verdict, seeds, reports, decoded: None }
    }

    /// Counts what became of the decoders' inputs as well.
    pub(crate) fn add(&mut self, decoded: Decoded) {
        self.verdict = worst([self.verdict, decoded.verdict].into_iter());
        self.decoded = Some(decoded);
    }

    /// The runs of each fault.
    fn faults(&self) -> impl Iterator<Item = &[Report]> {
        self.reports.chunk_by(|one, next| one.number == next.number)
    }
}

/// What several verdicts come to; of nothing nothing is known.
fn worst(verdicts: impl Iterator<Item = Verdict> + Clone) -> Verdict {
    let any = |wanted| verdicts.clone().any(|verdict| verdict == wanted);
    if any(Verdict::Fail) {
        Verdict::Fail
    } else if any(Verdict::Unknown) || !any(Verdict::Pass) {
        Verdict::Unknown
    } else {
        Verdict::Pass
    }
}

fn cell(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "FAIL",
        Verdict::Unknown => "unknown",
    }
}

/// What the runs of a fault say of one invariant. Of several runs it is told how many did not pass.
fn cell_of(runs: &[Report], invariant: Invariant) -> String {
    let rulings = || {
        runs.iter().flat_map(|report| {
            let rulings = report.judgement.rulings.iter().filter(|ruling| ruling.invariant == invariant);
            rulings.map(|ruling| (ruling, report.judgement.why.is_none()))
        })
    };
    // Not every fault has dead letters to judge.
    if invariant == Invariant::Q && rulings().all(|(ruling, is_whole)| ruling.looked_at == 0 && is_whole) {
        return "-".to_owned();
    }
    let counts = |(ruling, is_whole): &(&Ruling, bool)| invariant != Invariant::Q || ruling.looked_at > 0 || !is_whole;
    let verdicts = rulings().filter(counts).map(|(ruling, _)| ruling.verdict);
    let verdict = worst(verdicts.clone());
    let such = verdicts.filter(|other| *other == verdict).count();
    if runs.len() == 1 || verdict == Verdict::Pass {
        cell(verdict).to_owned()
    } else {
        format!("{} {such}", cell(verdict))
    }
}

/// Prints the table, what was found, and the verdict.
pub(crate) fn print(campaign: &Campaign) {
    let width = if campaign.seeds.len() > 1 { 11 } else { 8 };
    let letters: String =
        Invariant::ALL.iter().map(|invariant| format!("{:>width$}", format!("{invariant:?}"))).collect();
    println!(
        "{:<31}{letters}{:>9}{:>9}{:>7}{:>7}{:>7}{:>11}",
        "fault", "jobs", "runs", "again", "dead", "lost", "stalls"
    );
    for runs in campaign.faults() {
        let cells: String =
            Invariant::ALL.iter().map(|invariant| format!("{:>width$}", cell_of(runs, *invariant))).collect();
        let sum = |of: fn(&Judgement) -> usize| runs.iter().map(|report| of(&report.judgement)).sum::<usize>();
        let stalled_ms = runs.iter().map(|report| report.judgement.stalled_ms).max().unwrap_or_default();
        println!(
            "{:>2} {:<28}{cells}{:>9}{:>9}{:>7}{:>7}{:>7}{:>8} ms",
            runs[0].number,
            runs[0].name,
            sum(|judged| judged.acknowledged),
            sum(|judged| judged.runs),
            sum(|judged| judged.further_runs),
            sum(|judged| judged.dead_letters),
            sum(|judged| judged.lost),
            stalled_ms
        );
    }
    for runs in campaign.faults() {
        let lost: Vec<&Judgement> =
            runs.iter().map(|report| &report.judgement).filter(|judged| judged.lost > 0).collect();
        if let Some(back_ms) = lost.iter().map(|judged| judged.lost_back_ms).max() {
            let jobs: usize = lost.iter().map(|judged| judged.lost).sum();
            println!(
                "\n{} {}: {jobs} acknowledged jobs were lost, as they may be; the first of them was acknowledged {back_ms} ms before",
                runs[0].number, runs[0].name
            );
        }
    }
    for report in campaign.reports.iter().filter(|report| report.judgement.verdict != Verdict::Pass) {
        println!("\n{} {}, seed {}: {}", report.number, report.name, report.seed, cell(report.judgement.verdict));
        if let Some(why) = &report.judgement.why {
            println!("  {why}");
        }
        if !report.seen.is_empty() {
            println!("  seen: {}", report.seen);
        }
        for finding in report.judgement.findings.iter().take(12) {
            println!("  {:?}: {}", finding.invariant, finding.text);
        }
        let more = report.judgement.findings.len().saturating_sub(12);
        if more > 0 {
            println!("  and {more} more");
        }
        for line in &report.lines {
            println!("    {line}");
        }
    }
    if let Some(decoded) = &campaign.decoded {
        println!("\ndecoders: {}: {} inputs each", cell(decoded.verdict), decoded.inputs);
        decoded.findings.iter().take(12).for_each(|finding| println!("  {finding}"));
    }
    println!("\n{}", summary(campaign));
}

/// The verdict in one line.
pub(crate) fn summary(campaign: &Campaign) -> String {
    let count = |verdict| campaign.reports.iter().filter(|report| report.judgement.verdict == verdict).count();
    let seconds: f64 = campaign.reports.iter().map(|report| report.seconds).sum();
    let what = match campaign.seeds.as_slice() {
        [] => "nothing was run".to_owned(),
        [seed] => format!("seed {seed}, {} faults", campaign.reports.len()),
        [first, .., last] => {
            format!("{} seeds, {first} to {last}, {} runs", campaign.seeds.len(), campaign.reports.len())
        }
    };
    format!(
        "{}: {what}: {} passed, {} failed, {} unknown; {} jobs acknowledged, {} runs of jobs, {:.0} s",
        cell(campaign.verdict),
        count(Verdict::Pass),
        count(Verdict::Fail),
        count(Verdict::Unknown),
        campaign.reports.iter().map(|report| report.judgement.acknowledged).sum::<usize>(),
        campaign.reports.iter().map(|report| report.judgement.runs).sum::<usize>(),
        seconds
    )
}

/// A fault as `--list` tells it.
#[derive(Debug, Serialize)]
struct Row {
    number: u8,
    name: &'static str,
    about: &'static str,
    embedded: bool,
}

/// Lists the faults.
pub(crate) fn list(faults: &[Fault], as_json: bool) {
    let rows: Vec<Row> = faults
        .iter()
        .map(|fault| Row {
            number: fault.number,
            name: fault.name,
            about: fault.about,
            embedded: fault.engines.len() > 1,
        })
        .collect();
    if as_json {
        println!("{}", serde_json::to_string_pretty(&rows).unwrap_or_default());
        return;
    }
    for row in &rows {
        let where_else = if row.embedded { "also embedded" } else { "" };
        println!("{:>2} {:<24} {where_else:<14} {}", row.number, row.name, row.about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_is_worse_than_all_else_and_of_nothing_nothing_is_known() {
        use Verdict::{Fail, Pass, Unknown};
        for (verdicts, all) in
            [(&[][..], Unknown), (&[Pass, Pass], Pass), (&[Pass, Unknown], Unknown), (&[Unknown, Fail, Pass], Fail)]
        {
            assert_eq!(worst(verdicts.iter().copied()), all, "{verdicts:?}");
        }
        assert_eq!(Campaign::of(Vec::new()).verdict, Unknown);
    }
}

//! The table of faults and invariants, and the list of faults.
#![allow(clippy::print_stdout)] // What it prints is what it is for.

use serde::Serialize;

use crate::faults::{Fault, State};
use crate::judge::{Invariant, Verdict};
use crate::run::Report;

/// A whole campaign.
#[derive(Debug, Serialize)]
pub(crate) struct Campaign {
    pub(crate) seed: u64,
    pub(crate) verdict: Verdict,
    pub(crate) reports: Vec<Report>,
}

impl Campaign {
    pub(crate) fn of(seed: u64, reports: Vec<Report>) -> Campaign {
        let any = |verdict| reports.iter().any(|report| report.judgement.verdict == verdict);
        let verdict = if any(Verdict::Fail) {
            Verdict::Fail
        } else if any(Verdict::Unknown) || reports.is_empty() {
            Verdict::Unknown
        } else {
            Verdict::Pass
        };
        Campaign { seed, verdict, reports }
    }
}

fn cell(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "FAIL",
        Verdict::Unknown => "unknown",
    }
}

/// Prints the table, what was found, and the verdict.
pub(crate) fn print(campaign: &Campaign) {
    let letters: String = Invariant::ALL.iter().map(|invariant| format!("{:>8}", format!("{invariant:?}"))).collect();
    println!(
        "{:<31}{letters}{:>7}{:>6}{:>6}{:>6}{:>7}{:>9}",
        "fault", "jobs", "runs", "again", "dead", "lost", "stalls"
    );
    for report in &campaign.reports {
        let judged = &report.judgement;
        let cells: String = judged
            .rulings
            .iter()
            .map(|ruling| {
                // Not every fault has dead letters to judge.
                let idle = ruling.invariant == Invariant::Q && ruling.looked_at == 0 && judged.why.is_none();
                format!("{:>8}", if idle { "-" } else { cell(ruling.verdict) })
            })
            .collect();
        println!(
            "{:>2} {:<28}{cells}{:>7}{:>6}{:>6}{:>6}{:>7}{:>6} ms",
            report.number,
            report.name,
            judged.acknowledged,
            judged.runs,
            judged.further_runs,
            judged.dead_letters,
            judged.lost,
            judged.stalled_ms
        );
    }
    for report in campaign.reports.iter().filter(|report| report.judgement.lost > 0) {
        let judged = &report.judgement;
        println!(
            "\n{} {}: {} acknowledged jobs were lost, as they may be; the first of them was acknowledged {} ms before",
            report.number, report.name, judged.lost, judged.lost_back_ms
        );
    }
    for report in campaign.reports.iter().filter(|report| report.judgement.verdict != Verdict::Pass) {
        println!("\n{} {}: {}", report.number, report.name, cell(report.judgement.verdict));
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
    println!("\n{}", summary(campaign));
}

/// The verdict in one line.
pub(crate) fn summary(campaign: &Campaign) -> String {
    let count = |verdict| campaign.reports.iter().filter(|report| report.judgement.verdict == verdict).count();
    let seconds: f64 = campaign.reports.iter().map(|report| report.seconds).sum();
    format!(
        "{}: seed {}, {} faults: {} passed, {} failed, {} unknown; {} jobs acknowledged, {} runs, {:.0} s",
        cell(campaign.verdict),
        campaign.seed,
        campaign.reports.len(),
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
    built: bool,
    open_because: Option<&'static str>,
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
            built: fault.is_built(),
            open_because: match fault.state {
                State::Open(why) => Some(why),
                State::Built(_) => None,
            },
            embedded: fault.engines.len() > 1,
        })
        .collect();
    if as_json {
        println!("{}", serde_json::to_string_pretty(&rows).unwrap_or_default());
        return;
    }
    for row in &rows {
        let state = match row.open_because {
            Some(_) => "open ",
            None if row.embedded => "built, also embedded",
            None => "built",
        };
        println!("{:>2} {:<24} {state:<21} {}", row.number, row.name, row.about);
        if let Some(why) = row.open_because {
            println!("{:>28} {why}", "");
        }
    }
    let built = rows.iter().filter(|row| row.built).count();
    println!("{built} of {} built", rows.len());
}

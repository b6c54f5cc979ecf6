//! The tables: medians, least and most, and each peer's ratio to delayq.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::install;
use crate::options::Options;
use crate::peer::Peer;
use crate::phases::{Contender, PHASES};
use crate::sample::{Name, Sample, median};

/// What came out.
pub(crate) struct Report {
    heading: String,
    absent: Vec<(&'static str, String, String)>,
    contenders: Vec<Contender>,
}

impl Report {
    pub(crate) fn new(options: &Options, redis: &str) -> Report {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let heading = format!(
            "{} runs, {} jobs of 120 bytes unless a row says otherwise; {cores} cores, {}, Redis {redis} without persistence; \
             no-op handlers",
            options.runs,
            options.jobs,
            processor()
        );
        Report { heading, absent: Vec::new(), contenders: Vec::new() }
    }

    /// A peer that can't be run, and why.
    pub(crate) fn absent(&mut self, peer: &Peer, why: String) {
        self.absent.push((peer.name, install::version(peer), why));
    }

    /// Those that ran.
    pub(crate) fn present(&mut self, contenders: Vec<Contender>) {
        self.contenders = contenders;
    }

    /// As tables of Markdown.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("{}\n\n| peer | version | set up |\n|---|---|---|\n", self.heading);
        // Writing to a String can't fail.
        for contender in &self.contenders {
            let peer = contender.peer;
            let _ = writeln!(out, "| {} | {} | {} |", peer.name, install::version(peer), peer.setup);
        }
        for (name, version, why) in &self.absent {
            let _ = writeln!(out, "| {name} | {version} | {why} |");
        }
        out.push_str("\nEach cell: the median (least to most), and the median of the runs' ratios to delayq's figure in the same run.\n");
        for (place, phase) in PHASES.iter().enumerate() {
            let _ = writeln!(out, "\n{}\n", phase.title);
            let _ = writeln!(out, "| peer | jobs | {} | faults |", phase.figures.join(" | "));
            let _ = writeln!(out, "|---|---|{}---|", "---|".repeat(phase.figures.len()));
            for contender in &self.contenders {
                self.rows(&mut out, contender, place);
            }
        }
        out
    }

    fn rows(&self, out: &mut String, contender: &Contender, phase: usize) {
        let samples = &contender.samples[phase];
        // A stalled try and the try with fewer jobs are different rows.
        let samples = || samples.iter().filter_map(|(_, sample)| sample.as_ref().ok());
        let mut sizes: Vec<usize> = samples().map(|sample| sample.jobs).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        for size in sizes {
            let of_size: Vec<&Sample> = samples().filter(|sample| sample.jobs == size).collect();
            let cells: Vec<String> =
                PHASES[phase].figures.iter().map(|name| self.cell(contender, phase, size, name)).collect();
            let mut faults: Vec<String> = of_size.iter().filter_map(|sample| sample.faults.text(size)).collect();
            faults.dedup();
            let faults = if faults.is_empty() { "none".to_owned() } else { faults.join("; ") };
            let _ = writeln!(out, "| {} | {size} | {} | {} |", contender.peer.name, cells.join(" | "), plain(&faults));
        }
        for why in contender.samples[phase].iter().filter_map(|(_, sample)| sample.as_ref().err()) {
            let blank = "| ".repeat(PHASES[phase].figures.len());
            let _ = writeln!(out, "| {} | | {blank}| {} |", contender.peer.name, plain(why));
        }
    }

    fn cell(&self, contender: &Contender, phase: usize, size: usize, name: Name) -> String {
        let figure = |sample: &Sample| sample.figures.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        let base = self.contenders.first();
        let comparable = |sample: &&Sample| sample.jobs == size || !PHASES[phase].of_backlog.contains(&name);
        let (mut values, mut ratios) = (Vec::new(), Vec::new());
        for (run, sample) in &contender.samples[phase] {
            let Some(value) = sample.as_ref().ok().filter(|sample| sample.jobs == size).and_then(figure) else {
                continue;
            };
            values.push(value);
            let beside =
                base.and_then(|base| base.samples[phase].iter().find(|(r, sample)| r == run && sample.is_ok()));
            let beside = beside.and_then(|(_, sample)| sample.as_ref().ok()).filter(comparable).and_then(figure);
            ratios.extend(beside.map(|beside| value / beside));
        }
        if values.is_empty() {
            return "-".to_owned();
        }
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(*v), m.max(*v)));
        let mut cell = number(median(&values));
        if values.len() > 1 {
            let _ = write!(cell, " ({} to {})", number(least), number(most));
        }
        let ratio = median(&ratios);
        if contender.peer.name != "delayq" && ratio.is_finite() {
            let _ = write!(cell, " x{}", number(ratio));
        }
        cell
    }

    /// Every sample.
    pub(crate) fn json(&self) -> Value {
        let samples = |contender: &Contender, phase: usize| -> Vec<Value> {
            let one = |(run, sample): &(usize, Result<Sample, String>)| match sample {
                Err(why) => json!({ "run": run, "failed": why }),
                Ok(sample) => {
                    let figures: serde_json::Map<String, Value> =
                        sample.figures.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
                    let faults = &sample.faults;
                    json!({
                        "run": run, "jobs": sample.jobs, "figures": figures, "not_run": faults.not_run, "repeated": faults.repeated,
                        "early": faults.early, "early_ms_max": faults.early_ms_max, "why": faults.why,
                    })
                }
            };
            contender.samples[phase].iter().map(one).collect()
        };
        let mut peers: Vec<Value> = self
            .contenders
            .iter()
            .map(|contender| {
                let phases: serde_json::Map<String, Value> = PHASES
                    .iter()
                    .enumerate()
                    .map(|(place, phase)| (phase.title.to_owned(), json!(samples(contender, place))))
                    .collect();
                let peer = contender.peer;
                json!({ "name": peer.name, "version": install::version(peer), "setup": peer.setup, "phases": phases })
            })
            .collect();
        peers.extend(
            self.absent.iter().map(|(name, version, why)| json!({ "name": name, "version": version, "absent": why })),
        );
        json!({ "run": self.heading, "peers": peers })
    }
}

/// Three digits that matter, at least.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => {
            let digits = format!("{value:.0}");
            let groups: Vec<&str> =
                digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
            groups.join(",")
        }
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A text that doesn't break a table.
fn plain(text: &str) -> String {
    text.replace('|', "/").replace('\n', " ")
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "unknown processor".to_owned(), |(_, model)| model.trim().to_owned())
}

//! What a figure came to: series of measures over runs, and ratios between series.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::stats::Spread;

/// A quantity: its name in JSON, its title over a column, and how many decimals of it mean something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measure {
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) digits: usize,
}

const fn measure(key: &'static str, title: &'static str, digits: usize) -> Measure {
    Measure { key, title, digits }
}

pub(crate) const JOBS_PER_S: Measure = measure("jobs_per_s", "jobs/s", 0);
pub(crate) const TOOK_S: Measure = measure("took_s", "took s", 2);
pub(crate) const REDIS_US: Measure = measure("redis_us_per_job", "Redis us/job", 2);
pub(crate) const OWN_US: Measure = measure("own_us_per_job", "own us/job", 2);
pub(crate) const COMMANDS: Measure = measure("commands_per_job", "commands/job", 3);
pub(crate) const LONG_US: Measure = measure("call_p999_us", "call p99.9 us", 0);
pub(crate) const LONGEST_US: Measure = measure("call_max_us", "longest us", 0);
pub(crate) const WAITED: Measure = measure("redis_waited_percent", "waited %", 1);

/// What one run of one series came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample(Vec<(Measure, f64)>);

impl Sample {
    /// Adds a value; what could not be measured is left out.
    pub(crate) fn with(mut self, measure: Measure, value: f64) -> Sample {
        if value.is_finite() {
            self.0.push((measure, value));
        }
        self
    }

    pub(crate) fn maybe(self, measure: Measure, value: Option<f64>) -> Sample {
        self.with(measure, value.unwrap_or(f64::NAN))
    }
}

/// A measure over all runs of a series.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) key: String,
    pub(crate) title: String,
    pub(crate) digits: usize,
    #[serde(flatten)]
    pub(crate) spread: Spread,
}

/// One of the things that a figure compares.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Its settings as numbers, for pictures.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, f64>,
    pub(crate) measures: Vec<Measured>,
}

impl Series {
    pub(crate) fn measure(&self, key: &str) -> Option<&Measured> {
        self.measures.iter().find(|measured| measured.key == key)
    }
}

/// How two series relate, run by run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) key: String,
    pub(crate) what: String,
    #[serde(flatten)]
    pub(crate) spread: Spread,
}

/// A figure that was taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) figure: String,
    pub(crate) what: String,
    pub(crate) settings: Vec<String>,
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    pub(crate) took_s: f64,
    pub(crate) series: Vec<Series>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) notes: Vec<String>,
}

impl Report {
    pub(crate) fn new(figure: &str, what: impl Into<String>, machine: Machine) -> Report {
        Report {
            figure: figure.to_owned(),
            what: what.into(),
            settings: Vec::new(),
            machine,
            quick: false,
            took_s: 0.0,
            series: Vec::new(),
            ratios: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn setting(&mut self, text: impl Into<String>) {
        self.settings.push(text.into());
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Adds a run to a series, which is made if it isn't there.
    pub(crate) fn add(&mut self, series: &str, sample: &Sample) {
        let series = self.series_mut(series);
        for (measure, value) in &sample.0 {
            match series.measures.iter_mut().find(|measured| measured.key == measure.key) {
                Some(measured) => measured.spread.push(*value),
                None => series.measures.push(Measured {
                    key: measure.key.to_owned(),
                    title: measure.title.to_owned(),
                    digits: measure.digits,
                    spread: Spread::of(vec![*value]),
                }),
            }
        }
    }

    pub(crate) fn label(&mut self, series: &str, label: &str, value: f64) {
        self.series_mut(series).labels.insert(label.to_owned(), value);
    }

    fn series_mut(&mut self, name: &str) -> &mut Series {
        let at = self.series.iter().position(|series| series.name == name).unwrap_or_else(|| {
            self.series.push(Series { name: name.to_owned(), labels: BTreeMap::new(), measures: Vec::new() });
            self.series.len() - 1
        });
        &mut self.series[at]
    }

    pub(crate) fn spread(&self, series: &str, measure: Measure) -> Option<&Spread> {
        let series = self.series.iter().find(|one| one.name == series)?;
        Some(&series.measure(measure.key)?.spread)
    }

    /// Divides a measure of one series by that of another, each run by the one that was taken beside it: the machine's good
    /// and bad minutes fall out.
    pub(crate) fn ratio(&mut self, key: &str, what: impl Into<String>, of: (&str, Measure), to: (&str, Measure)) {
        let (Some(above), Some(below)) = (self.spread(of.0, of.1), self.spread(to.0, to.1)) else { return };
        let runs = above.runs.iter().zip(&below.runs).map(|(above, below)| above / below).filter(|r| r.is_finite());
        let spread = Spread::of(runs.collect());
        self.ratios.push(Ratio { key: key.to_owned(), what: what.into(), spread });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_run_by_run() {
        let mut report = Report::new("test", "a test", Machine::here("7"));
        for (a, b) in [(10.0, 20.0), (100.0, 200.0), (30.0, 40.0)] {
            report.add("a", &Sample::default().with(JOBS_PER_S, a).with(REDIS_US, f64::NAN));
            report.add("b", &Sample::default().with(JOBS_PER_S, b));
        }
        report.ratio("a_to_b", "a to b", ("a", JOBS_PER_S), ("b", JOBS_PER_S));
        assert_eq!(report.ratios[0].spread.median, 0.5);
        assert_eq!(report.ratios[0].spread.max, 0.75);
        assert!(report.spread("a", REDIS_US).is_none(), "what is no number is left out");
        let text = serde_json::to_string(&report).expect("a report is JSON");
        let read: Report = serde_json::from_str(&text).expect("and comes back");
        assert_eq!(read.series[1].measures[0].spread.runs, [20.0, 200.0, 40.0]);
    }
}

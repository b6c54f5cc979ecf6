//! What a phase gave for one peer, once.

/// A figure's name and unit.
pub(crate) type Name = &'static str;

/// A sample.
pub(crate) struct Sample {
    /// Of how many jobs.
    pub(crate) jobs: usize,
    pub(crate) figures: Vec<(Name, f64)>,
    pub(crate) faults: Faults,
}

/// What must not happen, counted.
#[derive(Default)]
pub(crate) struct Faults {
    /// Jobs that had not run when the phase's time was over.
    pub(crate) not_run: usize,
    /// Runs of jobs that had run before.
    pub(crate) repeated: usize,
    /// Jobs that ran more than a millisecond before they were due.
    pub(crate) early: usize,
    /// The most that one was early, in milliseconds.
    pub(crate) early_ms_max: f64,
    /// Why the worker stopped, or what it said last, if jobs had not run.
    pub(crate) why: Option<String>,
}

impl Faults {
    /// One line on them; `None` if there are none.
    pub(crate) fn text(&self, jobs: usize) -> Option<String> {
        let mut parts = Vec::new();
        if self.not_run > 0 {
            parts.push(format!("STALLED: {} of {jobs} not run in time", self.not_run));
        }
        if self.repeated > 0 {
            parts.push(format!("{} run again", self.repeated));
        }
        if self.early > 0 {
            parts.push(format!("{} early, by up to {:.0} ms", self.early, self.early_ms_max));
        }
        parts.extend(self.why.as_ref().map(|why| format!("\"{why}\"")));
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// A share of sorted values: 0.5 is the median.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n => sorted[((n - 1) as f64 * share).round() as usize],
    }
}

/// The value in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile(&sorted, 0.5)
}

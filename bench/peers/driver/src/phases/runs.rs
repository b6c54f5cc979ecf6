//! What ran: each job's first start, and what ran again.

use std::time::{Duration, Instant};

use crate::program::{Message, Running};
use crate::sample::{Faults, percentile};

/// How long after the last job runs of jobs that had run are still counted.
const AFTERMATH: Duration = Duration::from_secs(1);

/// More than the clocks' whole milliseconds explain.
const EARLY_MS: f64 = 1.0;

/// What ran.
pub(crate) struct Runs {
    /// Microseconds since 1970, by number.
    first_start_us: Vec<Option<u64>>,
    ran: usize,
    repeated: usize,
    /// Why the worker stopped before all ran.
    stopped: Option<String>,
}

impl Runs {
    /// Collects runs until all jobs ran or the time is over.
    pub(crate) fn collect(worker: &mut Running, jobs: usize, deadline: Instant) -> Runs {
        let mut runs = Runs { first_start_us: vec![None; jobs], ran: 0, repeated: 0, stopped: None };
        runs.until(worker, deadline, true);
        if runs.ran < jobs && runs.stopped.is_none() {
            runs.stopped = worker.last_error();
        }
        runs
    }

    /// Counts on for a while: a job may run again.
    pub(crate) fn aftermath(&mut self, worker: &mut Running) {
        if self.ran == self.first_start_us.len() {
            self.until(worker, Instant::now() + AFTERMATH, false);
        }
    }

    fn until(&mut self, worker: &mut Running, deadline: Instant, all_will_do: bool) {
        while !(all_will_do && self.ran == self.first_start_us.len()) {
            match worker.next(deadline) {
                Ok(Some(line)) => {
                    if let Message::Ran(pairs) = line.message {
                        pairs.into_iter().for_each(|(number, start_us)| self.add(number, start_us));
                    }
                }
                Ok(None) => return,
                Err(how) => {
                    self.stopped = Some(how);
                    return;
                }
            }
        }
    }

    fn add(&mut self, number: usize, start_us: u64) {
        match self.first_start_us.get_mut(number) {
            Some(first @ None) => {
                *first = Some(start_us);
                self.ran += 1;
            }
            // A number that was never sent is a run too many as well.
            Some(Some(_)) | None => self.repeated += 1,
        }
    }

    /// The last first start since 1970; `None` if nothing ran.
    pub(crate) fn last(&self) -> Option<Duration> {
        self.first_start_us.iter().flatten().max().map(|us| Duration::from_micros(*us))
    }

    /// How late each job that ran was, in milliseconds, sorted; early ones are below zero.
    pub(crate) fn lateness_ms(&self, due: impl Fn(usize) -> Duration) -> Vec<f64> {
        let late = |(n, start): (usize, &Option<u64>)| {
            Some((start.as_ref()?.to_owned() as f64 - due(n).as_micros() as f64) / 1e3)
        };
        let mut lateness: Vec<f64> = self.first_start_us.iter().enumerate().filter_map(late).collect();
        lateness.sort_by(f64::total_cmp);
        lateness
    }

    /// What must not happen, given the sorted lateness where there is one.
    pub(crate) fn faults(&self, lateness_ms: &[f64]) -> Faults {
        let early = lateness_ms.iter().take_while(|ms| **ms < -EARLY_MS).count();
        Faults {
            not_run: self.first_start_us.len() - self.ran,
            repeated: self.repeated,
            early,
            early_ms_max: if early > 0 { -percentile(lateness_ms, 0.0) } else { 0.0 },
            why: self.stopped.clone(),
        }
    }
}

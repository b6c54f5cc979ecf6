//! The figures, one a file: each takes its runs and makes a report.

pub(crate) mod aof;
pub(crate) mod behind;
pub(crate) mod burst;
pub(crate) mod drain;
pub(crate) mod embedded;
pub(crate) mod enqueue;
pub(crate) mod extras;
pub(crate) mod idle;
pub(crate) mod lateness;
pub(crate) mod memory;

use clap::Args;

/// What most figures run in.
pub(crate) const AS_IT_COMES: &str = "worker, client and stack as they come, no subscriber, no recorder; Redis without persistence, \
                                      over TCP on the same machine; payload 120 bytes of JSON";

/// What is the same for all figures.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sizes {
    /// How many runs the medians are of.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) runs: u16,
    /// How many jobs, instead of the figure's own numbers.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) jobs: Option<u32>,
    /// Smaller sizes and shorter times, for a try.
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Sizes {
    pub(crate) fn runs(&self) -> usize {
        self.runs.into()
    }

    /// What was asked for, or else the figure's own numbers.
    pub(crate) fn jobs(&self, usual: &[usize], quick: &[usize]) -> Vec<usize> {
        match self.jobs {
            Some(jobs) => vec![jobs as usize],
            None if self.quick => quick.to_vec(),
            None => usual.to_vec(),
        }
    }

    /// The same for a figure of one number.
    pub(crate) fn job_count(&self, usual: usize, quick: usize) -> usize {
        self.jobs.map_or(if self.quick { quick } else { usual }, |jobs| jobs as usize)
    }
}

/// A number of jobs as it stands in a name: `100k`, `1M`.
pub(crate) fn short(jobs: usize) -> String {
    match jobs {
        n if n >= 1_000_000 && n % 100_000 == 0 => format!("{}M", n as f64 / 1e6),
        n if n >= 1000 && n % 100 == 0 => format!("{}k", n as f64 / 1e3),
        n => n.to_string(),
    }
}

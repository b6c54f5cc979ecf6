//! Measures a stretch of work: time, CPU of the server and of this process, commands.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Res;
use crate::machine;
use crate::report::{COMMANDS, JOBS_PER_S, LONG_US, LONGEST_US, OWN_US, REDIS_US, Sample, WAITED};
use crate::server::Info;

/// Measures from its making on.
pub(crate) struct Meter {
    url: String,
    redis_s: f64,
    commands: f64,
    waited: Option<Duration>,
    own: Duration,
    started: Instant,
}

/// What was measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) took_s: f64,
    pub(crate) redis_s: f64,
    /// Of this process, or of those that ran the jobs.
    pub(crate) own_s: f64,
    pub(crate) commands: f64,
    /// p99.9 and the longest of the server's calls since its counts were reset, us.
    pub(crate) longest_us: Option<(f64, f64)>,
    /// How long the server was ready to run and had no processor.
    pub(crate) waited_s: Option<f64>,
}

impl Meter {
    pub(crate) fn start(url: &str) -> Res<Meter> {
        let info = Info::of(url)?;
        Ok(Meter {
            url: url.to_owned(),
            redis_s: info.cpu_s()?,
            commands: info.commands(),
            waited: info.waited(),
            own: machine::own_cpu(),
            started: Instant::now(),
        })
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn read(&self) -> Res<Usage> {
        let (took, own) = (self.started.elapsed(), machine::own_cpu());
        let info = Info::of(&self.url)?;
        Ok(Usage {
            took_s: took.as_secs_f64(),
            redis_s: info.cpu_s()? - self.redis_s,
            own_s: (own.saturating_sub(self.own)).as_secs_f64(),
            commands: info.commands() - self.commands,
            longest_us: info.longest_us(),
            waited_s: info.waited().zip(self.waited).map(|(after, before)| after.saturating_sub(before).as_secs_f64()),
        })
    }
}

impl Usage {
    /// A job's share.
    pub(crate) fn per_job(&self, jobs: usize) -> Sample {
        let each = |total: f64| total / jobs as f64;
        Sample::default()
            .with(JOBS_PER_S, jobs as f64 / self.took_s)
            .with(REDIS_US, each(self.redis_s * 1e6))
            .with(OWN_US, each(self.own_s * 1e6))
            .with(COMMANDS, each(self.commands))
    }

    /// A job's share, and how long the server's calls were.
    pub(crate) fn per_job_with_longest(&self, jobs: usize) -> Sample {
        let (long, longest) = self.longest_us.unzip();
        let waited = self.waited_s.map(|waited_s| 100.0 * waited_s / self.took_s);
        self.per_job(jobs).maybe(LONG_US, long).maybe(LONGEST_US, longest).maybe(WAITED, waited)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.took_s += other.took_s;
        self.redis_s += other.redis_s;
        self.own_s += other.own_s;
        self.commands += other.commands;
        self.waited_s = self.waited_s.zip(other.waited_s).map(|(one, other)| one + other).or(other.waited_s);
        self.longest_us = match (self.longest_us, other.longest_us) {
            (Some((a, b)), Some((c, d))) => Some((a.max(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }
}

//! What the figures were taken on, and how much CPU processes have used.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The machine and the versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    /// All of its memory, GiB.
    pub(crate) memory_gib: f64,
    pub(crate) redis: String,
    pub(crate) delayq: String,
}

impl Machine {
    /// This one, with the server that was measured.
    pub(crate) fn here(redis: &str) -> Machine {
        Machine {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned()),
            memory_gib: meminfo_bytes("MemTotal").map_or(0.0, |bytes| bytes as f64 / f64::from(1 << 30)),
            redis: redis.to_owned(),
            delayq: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// One line.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} cores, {}, {:.0} GiB, Redis {}, delayq {}",
            self.cores, self.processor, self.memory_gib, self.redis, self.delayq
        )
    }
}

/// How much memory can be had without swapping, in bytes; `None` where /proc doesn't tell.
pub(crate) fn memory_available() -> Option<u64> {
    meminfo_bytes("MemAvailable")
}

fn meminfo_bytes(name: &str) -> Option<u64> {
    Some(field("/proc/meminfo", name)?.strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The first value of this name in a file of `name: value` lines.
fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.split_once(':')?.1.trim().to_owned()))
}

/// The CPU time that this process has used.
pub(crate) fn own_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// The CPU time that the threads of another process have used; `None` where /proc doesn't tell.
pub(crate) fn cpu_of(pid: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let ns = threads.flatten().map(|thread| {
        let schedstat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(ns.sum::<Option<u64>>()?))
}

/// How long the first thread of a process was ready to run and had no processor; `None` where /proc doesn't tell.
pub(crate) fn waited(pid: u32) -> Option<Duration> {
    let schedstat = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    Some(Duration::from_nanos(schedstat.split(' ').nth(1)?.parse().ok()?))
}

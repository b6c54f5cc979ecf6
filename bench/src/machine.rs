//! What the figures were taken on, and how much CPU a process has used.

use std::time::Duration;

/// One line on the machine and the server.
pub(crate) fn describe(redis_version: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, m)| m.trim().to_owned()))
        })
        .unwrap_or_else(|| "unknown processor".to_owned());
    format!("{cores} cores, {model}, Redis {redis_version}, delayq {}", env!("CARGO_PKG_VERSION"))
}

/// The CPU time that this process has used, from /proc; `None` where there is none.
pub(crate) fn own_cpu() -> Option<Duration> {
    // Fields 14 and 15, counted after the name in brackets, in clock ticks: 100 a second on every Linux of today.
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

//! A private redis-server a measurement, and what its INFO says.

use std::collections::HashMap;

use delayq_redis_fixture::{RedisServer, StartError};

/// The version of the redis-server that is installed.
pub(crate) struct Version {
    pub(crate) text: String,
    pub(crate) number: (u32, u32),
}

/// Asks a server that is started for it.
pub(crate) fn version() -> Result<Version, Box<dyn std::error::Error>> {
    let info = RedisServer::start()?.command(&["INFO", "server"])?;
    let text = info.lines().find_map(|line| line.strip_prefix("redis_version:")).ok_or("INFO names no version")?.trim();
    let mut parts = text.split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok(Version { text: text.to_owned(), number: (major, minor) }),
        _ => Err(format!("{text} is no version").into()),
    }
}

/// A fresh server, without persistence.
pub(crate) fn fresh() -> Result<RedisServer, String> {
    RedisServer::start().map_err(|error: StartError| error.to_string())
}

/// Commands that taking a snapshot adds, as seen by the next one: INFO and QUIT.
const OWN_COMMANDS: f64 = 2.0;

/// Socket reads that it adds: both commands come in one.
const OWN_READS: f64 = 1.0;

/// The server's counters at an instant.
pub(crate) struct Snapshot {
    cpu_s: f64,
    commands: f64,
    reads: f64,
    /// Bytes in use.
    pub(crate) memory: f64,
}

/// What happened between two snapshots.
pub(crate) struct Spent {
    pub(crate) cpu_s: f64,
    /// As Redis counts them: those that a script calls are counted too.
    pub(crate) commands: f64,
    /// How often it read from a socket, about the round trips.
    pub(crate) reads: f64,
}

impl Snapshot {
    pub(crate) fn take(server: &RedisServer) -> Result<Snapshot, String> {
        let info = server.command(&["INFO", "everything"]).map_err(|error| format!("INFO: {error}"))?;
        let fields: HashMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
        let number = |name: &str| -> Result<f64, String> {
            fields.get(name).and_then(|value| value.trim().parse().ok()).ok_or_else(|| format!("INFO has no {name}"))
        };
        Ok(Snapshot {
            cpu_s: number("used_cpu_user")? + number("used_cpu_sys")?,
            commands: number("total_commands_processed")?,
            reads: number("total_reads_processed")?,
            memory: number("used_memory")?,
        })
    }

    /// What happened since an earlier snapshot, which was the last one before this.
    pub(crate) fn since(&self, earlier: &Snapshot) -> Spent {
        Spent {
            cpu_s: self.cpu_s - earlier.cpu_s,
            commands: (self.commands - earlier.commands - OWN_COMMANDS).max(0.0),
            reads: (self.reads - earlier.reads - OWN_READS).max(0.0),
        }
    }
}

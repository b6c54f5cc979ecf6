//! Private servers to measure on, and what they tell of themselves.

use std::collections::HashMap;
use std::time::Duration;

use delayq_redis_fixture::RedisServer;

use crate::Res;
use crate::machine::{self, Machine};

/// What a client sends over the wire. Commands that run inside a script are counted by the server too, under other names.
const WIRE: [&str; 11] = [
    "evalsha",
    "eval",
    "bzpopmin",
    "hello",
    "client|setinfo",
    "client|setname",
    "auth",
    "select",
    "ping",
    "wait",
    "script|load",
];

/// How a server keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    Off,
    /// `appendonly yes`, `appendfsync everysec`.
    Aof,
}

/// A server of its own for a run.
pub(crate) struct Server {
    redis: RedisServer,
    pub(crate) version: String,
}

impl Server {
    /// Starts one.
    pub(crate) fn start(persistence: Persistence) -> Res<Server> {
        let redis = match persistence {
            Persistence::Off => RedisServer::start()?,
            Persistence::Aof => RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "everysec"])?,
        };
        // The highest call, exact to 1 %, costs nothing to keep. Servers before 7.0 don't know this and tell nothing.
        let _ = redis.command(&["CONFIG", "SET", "latency-tracking-info-percentiles", "50 99 99.9 100"]);
        let version = Info::of(&redis.url())?.text("redis_version").unwrap_or("?").to_owned();
        Ok(Server { redis, version })
    }

    pub(crate) fn url(&self) -> String {
        self.redis.url()
    }

    pub(crate) fn machine(&self) -> Machine {
        Machine::here(&self.version)
    }

    pub(crate) fn info(&self) -> Res<Info> {
        Info::of(&self.url())
    }
}

/// Forgets what the server counted: the longest call too.
pub(crate) fn reset_counts(url: &str) -> Res<()> {
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut connection(url)?)?;
    Ok(())
}

/// A blocking connection, beside those that are measured.
pub(crate) fn connection(url: &str) -> Res<redis::Connection> {
    Ok(redis::Client::open(url)?.get_connection()?)
}

/// What INFO said.
pub(crate) struct Info(HashMap<String, String>);

impl Info {
    pub(crate) fn of(url: &str) -> Res<Info> {
        let text: String = redis::cmd("INFO").arg("everything").query(&mut connection(url)?)?;
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Ok(Info(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()))
    }

    pub(crate) fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    pub(crate) fn number(&self, field: &str) -> Res<f64> {
        let value = self.text(field).and_then(|value| value.parse().ok());
        value.ok_or_else(|| format!("INFO has no number {field}").into())
    }

    /// CPU seconds of the whole server.
    pub(crate) fn cpu_s(&self) -> Res<f64> {
        Ok(self.number("used_cpu_user")? + self.number("used_cpu_sys")?)
    }

    /// How long the server was ready to run and had no processor; only where it is on this machine.
    pub(crate) fn waited(&self) -> Option<Duration> {
        machine::waited(self.text("process_id")?.parse().ok()?)
    }

    /// How many commands came over the wire.
    pub(crate) fn commands(&self) -> f64 {
        let calls = |name: &str| part(self.text(&format!("cmdstat_{name}"))?, "calls");
        WIRE.iter().filter_map(|name| calls(name)).sum()
    }

    /// Each command with its calls and the time it took in all, us, the longest first; those inside scripts too.
    pub(crate) fn command_times<'a>(&'a self) -> Vec<(&'a str, f64, f64)> {
        let of = |field: &'a str, text: &'a str| {
            let name = field.strip_prefix("cmdstat_")?;
            Some((name, part(text, "calls")?, part(text, "usec")?))
        };
        let mut times: Vec<(&'a str, f64, f64)> = self.0.iter().filter_map(|(field, text)| of(field, text)).collect();
        times.sort_by(|a, b| b.2.total_cmp(&a.2));
        times
    }

    /// How long scripts took, us: 99.9 % of them at most, and the longest. The server did nothing else meanwhile.
    pub(crate) fn longest_us(&self) -> Option<(f64, f64)> {
        let of = |name: &str| {
            let text = self.text(&format!("latency_percentiles_usec_{name}"))?;
            Some((part(text, "p99.9")?, part(text, "p100")?))
        };
        let (long, longest) = of("evalsha").or_else(|| of("eval"))?;
        Some((long, longest.max(of("eval").map_or(0.0, |(_, longest)| longest))))
    }
}

/// The number after `name=` in a list of such, separated by commas.
fn part(text: &str, name: &str) -> Option<f64> {
    text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_inside_scripts_are_not_counted() {
        let fields = [
            ("cmdstat_evalsha", "calls=7,usec=70,usec_per_call=10.00,rejected_calls=0,failed_calls=0"),
            ("cmdstat_bzpopmin", "calls=2,usec=3,usec_per_call=1.50,rejected_calls=0,failed_calls=0"),
            ("cmdstat_zadd", "calls=900,usec=3,usec_per_call=1.50,rejected_calls=0,failed_calls=0"),
            ("latency_percentiles_usec_evalsha", "p50=12.031,p99=35.071,p99.9=44.031,p100=1220.607"),
        ];
        let info = Info(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(info.commands(), 9.0);
        assert_eq!(info.longest_us(), Some((44.031, 1220.607)));
    }
}

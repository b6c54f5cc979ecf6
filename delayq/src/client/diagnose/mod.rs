//! The diagnosis of a store: what is well with it, what isn't, and what to do.

mod dangers;
mod durability;
mod memory;
mod orphans;
mod queues;
mod repair;
mod replication;
mod rights;
mod server;
mod timing;

use std::fmt;

use super::Client;
use crate::error::Error;
use crate::store::{Info, Store, Told};

pub(crate) use dangers::Danger;
pub use repair::{Damage, RepairReport};

const SERVER: &str = "server";

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Level {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// It works, and something may be lost or late for it one day.
    Warning,
    /// Jobs are lost, stuck or refused, or will be.
    Wrong,
    /// It could not be found out.
    Unknown,
}

impl Level {
    /// Its name: `good`, `note`, `warning`, `wrong`, `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Wrong => "wrong",
            Level::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The check, by a name that stays: `maxmemory-policy`.
    pub check: &'static str,
    /// The queue that it is about; `None` where it is about the store as a whole.
    pub queue: Option<String>,
    /// The server that it is about, `host:port`, where there are several: a cluster's.
    pub server: Option<String>,
    /// How it came out.
    pub level: Level,
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl Finding {
    fn new(check: &'static str, level: Level, what: impl Into<String>, advice: Option<String>) -> Finding {
        Finding { check, queue: None, server: None, level, what: what.into(), advice }
    }

    fn good(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(check, Level::Good, what, None)
    }

    fn note(check: &'static str, what: impl Into<String>) -> Finding {
        Finding::new(check, Level::Note, what, None)
    }

    fn warning(check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding::new(check, Level::Warning, what, Some(advice.into()))
    }

    fn wrong(check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding::new(check, Level::Wrong, what, Some(advice.into()))
    }

    fn unknown(check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding::new(check, Level::Unknown, what, Some(advice.into()))
    }

    /// What the store said, as a finding: its errors end with what to do.
    fn said(check: &'static str, level: Level, error: &Error) -> Finding {
        let text = error.to_string();
        let (what, advice) = text.rsplit_once("; ").unwrap_or((text.as_str(), "look at the server's log"));
        Finding::new(check, level, what, Some(advice.to_owned()))
    }

    fn of_server(mut self, server: Option<&str>) -> Finding {
        self.server = server.map(str::to_owned);
        self
    }

    fn of_queue(mut self, queue: &str) -> Finding {
        self.queue = Some(queue.to_owned());
        self
    }
}

/// `maxmemory-policy: wrong: the policy is allkeys-lru, ..; set ..`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.check)?;
        if let Some(queue) = &self.queue {
            write!(f, " of {queue}")?;
        }
        if let Some(server) = &self.server {
            write!(f, " of {server}")?;
        }
        write!(f, ": {}: {}", self.level, self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// What a diagnosis found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// One finding a check at least.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// The findings of one level.
    pub fn at(&self, level: Level) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.level == level)
    }

    /// The findings of one check.
    pub fn of(&self, check: &str) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.check == check)
    }

    /// Whether nothing is wrong: no finding of that level.
    pub fn is_sound(&self) -> bool {
        self.at(Level::Wrong).next().is_none()
    }
}

impl Client {
    /// Looks at the store and at these queues: version, memory, what a crash would lose, replicas, clock, round trip, rights,
    /// scripts, and what is left lying in the queues. It changes nothing, and takes a second or so.
    ///
    /// `docs/operations.md` has a row for each check. What the server doesn't tell this user is a finding of level
    /// [`Unknown`](Level::Unknown), never an error.
    ///
    /// # Errors
    /// A name is none, or the store doesn't answer.
    pub async fn diagnose(&self, queues: &[&str]) -> Result<Diagnosis, Error> {
        let shards = queues.iter().map(|queue| self.shard(queue)).collect::<Result<Vec<_>, _>>()?;
        let mut findings = Vec::new();
        let servers = self.ask(|| self.store().servers()).await?;
        // Of a cluster it isn't known which node has how many of the records.
        let mut only = None;
        for (name, server) in &servers {
            let name = name.as_deref();
            match self.server(server).await {
                Ok((found, info)) => {
                    findings.extend(found.into_iter().map(|finding| finding.of_server(name)));
                    match name {
                        None => only = info,
                        Some(_) => findings.extend(info.map(|info| memory::headroom(&info, 0).of_server(name))),
                    }
                }
                // One node of several: what the others say is told all the same.
                Err(error) if name.is_some() => {
                    findings.push(Finding::said(SERVER, Level::Wrong, &error).of_server(name));
                }
                Err(error) => return Err(error),
            }
        }
        let probed = match shards.first() {
            Some(shard) => shard.clone(),
            None => self.shard(rights::UNNAMED)?,
        };
        let several = servers.iter().any(|(name, _)| name.is_some());
        match self.rights(&probed).await {
            Ok(found) => findings.extend(found),
            // The node of that queue is gone; those of others are not.
            Err(error) if several => findings.push(Finding::said(rights::RIGHTS, Level::Unknown, &error)),
            Err(error) => return Err(error),
        }
        let (mut records, mut known) = (0, Vec::new());
        for shard in &shards {
            match self.look_at(shard).await {
                Ok((found, in_it)) => {
                    records += in_it;
                    known.extend(found);
                }
                Err(error) if several => {
                    known.push(Finding::said(queues::QUEUE, Level::Wrong, &error).of_queue(shard.queue()));
                }
                Err(error) => return Err(error),
            }
        }
        findings.extend(only.map(|info| memory::headroom(&info, records)));
        findings.extend(known);
        Ok(Diagnosis { findings })
    }

    /// What there is to say of one server, and what it says of itself.
    async fn server(&self, server: &Store) -> Result<(Vec<Finding>, Option<Info>), Error> {
        let setting = async |name: &str| self.ask(|| server.setting(name)).await;
        let mut findings = Vec::new();
        let told = match self.ask(|| server.info()).await? {
            Told::Answer(info) => {
                findings.extend(server::version(&info));
                findings.push(server::security(&info));
                findings.push(memory::policy(&info));
                let settings = durability::Settings {
                    fsync: setting("appendfsync").await?,
                    stops: setting("stop-writes-on-bgsave-error").await?,
                    save: setting("save").await?,
                };
                findings.extend(durability::of(&info, &settings));
                let wanted = setting("min-replicas-to-write").await?;
                findings.extend(replication::of(&info, &wanted));
                Some(info)
            }
            Told::Withheld(why) => {
                let what = format!("version, memory, persistence and replicas are not told: {why}");
                findings.push(Finding::unknown("info", what, "give the user +info, or ask whoever runs the server"));
                findings.push(memory::policy_setting(&setting("maxmemory-policy").await?));
                None
            }
            Told::NoServer => {
                findings.push(Finding::good(SERVER, "the store is in this process: there is no server"));
                None
            }
        };
        findings.extend(timing::of(server).await?);
        Ok((findings, told))
    }
}

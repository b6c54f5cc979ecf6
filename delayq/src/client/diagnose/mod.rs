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
use crate::store::Told;

pub(crate) use dangers::Danger;
pub use repair::{Damage, RepairReport};

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
    /// How it came out.
    pub level: Level,
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl Finding {
    fn new(check: &'static str, level: Level, what: impl Into<String>, advice: Option<String>) -> Finding {
        Finding { check, queue: None, level, what: what.into(), advice }
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
        let info = self.ask(|| self.store().info()).await?;
        match &info {
            Told::Answer(info) => {
                findings.extend(server::version(info));
                findings.push(server::security(info));
                findings.push(memory::policy(info));
                let settings = durability::Settings {
                    fsync: self.setting("appendfsync").await?,
                    stops: self.setting("stop-writes-on-bgsave-error").await?,
                    save: self.setting("save").await?,
                };
                findings.extend(durability::of(info, &settings));
                let wanted = self.setting("min-replicas-to-write").await?;
                findings.extend(replication::of(info, &wanted));
            }
            Told::Withheld(why) => {
                let what = format!("version, memory, persistence and replicas are not told: {why}");
                findings.push(Finding::unknown("info", what, "give the user +info, or ask whoever runs the server"));
                findings.push(memory::policy_setting(&self.setting("maxmemory-policy").await?));
            }
            Told::NoServer => {
                findings.push(Finding::good("server", "the store is in this process: there is no server"));
            }
        }
        findings.extend(self.timing().await?);
        let probed = match shards.first() {
            Some(shard) => shard.clone(),
            None => self.shard(rights::UNNAMED)?,
        };
        findings.extend(self.rights(&probed).await?);
        let (mut records, mut known) = (0, Vec::new());
        for shard in &shards {
            let (found, in_it) = self.look_at(shard).await?;
            records += in_it;
            known.extend(found);
        }
        if let Told::Answer(info) = &info {
            findings.push(memory::headroom(info, records));
        }
        findings.extend(known);
        Ok(Diagnosis { findings })
    }

    async fn setting(&self, name: &str) -> Result<Told<String>, Error> {
        self.ask(|| self.store().setting(name)).await
    }
}

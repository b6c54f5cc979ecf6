//! What this user may do, and whether the scripts run.

use std::time::Duration;

use super::super::Client;
use super::{Finding, Level};
use crate::error::{Error, ErrorKind};
use crate::store::Shard;

pub(super) const RIGHTS: &str = "rights";
pub(super) const SCRIPTS: &str = "scripts";
/// The only script that workers and clients can do without.
const AUDIT: &str = "audit";

/// The queue whose name the keys of a trial have where no queue was named. None of them is left.
pub(super) const UNNAMED: &str = "delayq-diagnosis";

impl Client {
    pub(super) async fn rights(&self, shard: &Shard) -> Result<Vec<Finding>, Error> {
        if let Some(finding) = self.probe(shard).await?.err() {
            return Ok(vec![finding]);
        }
        let mut findings = vec![Finding::good(RIGHTS, "this user may do all that workers and clients do")];
        // A queue's own baton has markers, which a worker waits for: this one never has.
        let trial = self.store().shard(shard.queue(), u32::MAX)?;
        let (listening, batons) = (self.store().dedicated(), [&trial]);
        if let Err(error) = self.ask(|| listening.wait(&batons, Duration::from_millis(1))).await {
            match error.kind() {
                ErrorKind::Unreachable | ErrorKind::Unknown => return Err(error),
                _ => findings[0] = Finding::said(RIGHTS, Level::Wrong, &error),
            }
        }
        let rehearsal = self.store().rehearse(shard).await;
        findings.push(match &rehearsal.failed[..] {
            [] => Finding::good(SCRIPTS, format!("{} scripts run", rehearsal.ran.len())),
            [(_, error), ..] => {
                let names: Vec<&str> = rehearsal.failed.iter().map(|(name, _)| *name).collect();
                // Work needs no look for orphans: without the right to, they stay unknown.
                let is_needed = error.kind() != ErrorKind::Denied || names != [AUDIT];
                let level = if is_needed { Level::Wrong } else { Level::Unknown };
                let mut said = Finding::said(SCRIPTS, level, error);
                said.what = format!("{} can't be run: {}", names.join(", "), said.what);
                said
            }
        });
        Ok(findings)
    }

    /// Whether scripts may do what the work of jobs needs; what is wrong, if not.
    ///
    /// # Errors
    /// The store doesn't answer.
    pub(super) async fn probe(&self, shard: &Shard) -> Result<Result<(), Finding>, Error> {
        match self.store().probe(shard).await {
            Ok(()) => Ok(Ok(())),
            Err(error) => match error.kind() {
                ErrorKind::Unreachable | ErrorKind::Unknown => Err(error),
                ErrorKind::Denied => Ok(Err(Finding::said(RIGHTS, Level::Wrong, &error))),
                _ => Ok(Err(Finding::said(SCRIPTS, Level::Wrong, &error))),
            },
        }
    }
}

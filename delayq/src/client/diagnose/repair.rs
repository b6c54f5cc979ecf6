//! Mends a queue: orphans go back to work, entries of nothing are removed, lost sessions are taken back.

use super::super::Client;
use crate::error::Error;
use crate::limits::{AUDIT_STEP, RESCUE_STEP};
use crate::store::Shard;
use crate::store::ops::{Look, Mended, Repaired, Rescue};

/// How often sessions may come and go while some ids are mended.
const AGAIN_MAX: usize = 20;

/// What a repair did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Records and entries that were looked at.
    pub looked: u64,
    /// Jobs that were in no place and wait again, at their own due times.
    pub given_back: u64,
    /// Jobs that were in no place and had been cancelled while they ran: they ended so.
    pub cancelled: u64,
    /// Jobs that were in no place and are dead letters: their records can't be read, or their unique keys have other owners by now.
    pub buried: u64,
    /// Entries without a record that were removed.
    pub removed: u64,
    /// Fields beside the records whose names are no ids: they were left, since nobody knows whose they are.
    pub foreign: u64,
    /// Lost sessions whose jobs were taken back.
    pub sessions: u64,
    /// Jobs that were taken back from them, to wait again, or to the dead letters.
    pub rescued: u64,
    /// Whether something was left because workers came and went too fast, or run too much; a repair in a quieter moment gets it.
    pub incomplete: bool,
}

impl Client {
    /// Mends a queue while it works: takes back the jobs of lost sessions, gives jobs that are in no place back to work, and removes
    /// entries that have no record. Each is looked at again in the step that mends it, so that no job that is well is touched.
    ///
    /// A job that is given back gets a new run number: whoever may still run it can't settle it any more. It may run twice for that,
    /// like after any crash.
    ///
    /// # Errors
    /// The name is none, or the store doesn't answer; what was mended by then stays so, and a repair may be repeated.
    pub async fn repair(&self, queue: &str) -> Result<RepairReport, Error> {
        let shard = self.shard(queue)?;
        let mut report = RepairReport::default();
        self.rescue_the_lost(&shard, &mut report).await?;
        let found = self.look_for_orphans(&shard, usize::MAX).await?;
        report.looked = found.looked;
        report.incomplete = !found.whole;
        for (look, ids) in &found.ids {
            for some in ids.chunks(AUDIT_STEP) {
                self.mend(&shard, *look, some, &mut report).await?;
            }
        }
        if report.removed + report.given_back + report.cancelled + report.buried + report.rescued > 0 {
            tracing::warn!(queue, ?report, "the queue was mended");
        }
        Ok(report)
    }

    async fn rescue_the_lost(&self, shard: &Shard, report: &mut RepairReport) -> Result<(), Error> {
        for session in self.ask(|| self.store().sessions(shard)).await? {
            loop {
                // Of a session that is well it says so, and does nothing.
                match self.ask(|| self.store().rescue(shard, &session.id, RESCUE_STEP)).await? {
                    Rescue::Took { more, given_back, buried, cancelled, .. } => {
                        report.rescued += given_back + buried + cancelled;
                        if !more {
                            report.sessions += 1;
                            break;
                        }
                    }
                    Rescue::OnHold => {
                        report.incomplete = true;
                        break;
                    }
                    Rescue::Alive | Rescue::Gone => break,
                }
            }
        }
        Ok(())
    }

    async fn mend(&self, shard: &Shard, look: Look, ids: &[Vec<u8>], report: &mut RepairReport) -> Result<(), Error> {
        for _ in 0..AGAIN_MAX {
            let sessions = if look == Look::Records { self.session_ids(shard).await? } else { Vec::new() };
            let answer = self.ask(|| self.store().repair(shard, look, ids, &sessions)).await?;
            match answer {
                Repaired::Each(mended) => {
                    for mended in mended {
                        match mended {
                            Mended::Waits => report.given_back += 1,
                            Mended::Cancelled => report.cancelled += 1,
                            Mended::Buried => report.buried += 1,
                            Mended::Removed => report.removed += 1,
                            Mended::Foreign => report.foreign += 1,
                            Mended::Sound => {}
                        }
                    }
                    return Ok(());
                }
                Repaired::Many => break,
                Repaired::Again => {}
            }
        }
        report.incomplete = true;
        Ok(())
    }
}

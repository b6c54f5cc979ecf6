//! Mends a queue: orphans go back to work, entries of nothing are removed, lost sessions are taken back.

use std::time::Duration;

use super::super::Client;
use super::orphans::Found;
use crate::error::Error;
use crate::limits::{AUDIT_CALLS_MAX, AUDIT_STEP, BEAT_MAX, RESCUE_STEP};
use crate::store::Shard;
use crate::store::ops::{Look, Mended, Repaired, Rescue, Session};

/// How often sessions may come and go while some ids are mended.
const AGAIN_MAX: usize = 20;
/// Whoever lives gives a sign of life within this, also after an outage of the store, when all look lost (rule e).
const SIGN_OF_LIFE: Duration = BEAT_MAX.saturating_mul(2);

/// What a repair would mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Damage {
    /// Records and entries that were looked at.
    pub looked: u64,
    /// Records that are in no place: jobs that nothing runs.
    pub orphans: u64,
    /// Entries without a record: there is nothing to run.
    pub entries: u64,
    /// Sessions whose leases ran out and whose jobs were not taken back yet.
    pub lost_sessions: u64,
    /// Whether something could not be looked through because workers came and went too fast, or run too much.
    pub incomplete: bool,
}

impl Damage {
    /// Whether there is nothing to mend.
    pub fn is_none(&self) -> bool {
        self.orphans == 0 && self.entries == 0 && self.lost_sessions == 0
    }
}

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
    /// Counts what [`repair`](Client::repair) would mend in a queue, and changes nothing.
    ///
    /// # Errors
    /// The name is none, or the store doesn't answer.
    pub async fn damage(&self, queue: &str) -> Result<Damage, Error> {
        let shard = self.shard(queue)?;
        let lost = self.lost_sessions(&shard).await?;
        let found = self.look_for_all(&shard).await?;
        Ok(Damage {
            looked: found.looked,
            orphans: found.records(),
            entries: found.entries(),
            lost_sessions: lost.len() as u64,
            incomplete: !found.whole,
        })
    }

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
        let found = self.look_for_all(&shard).await?;
        report.looked = found.looked;
        report.incomplete |= !found.whole;
        for (look, ids) in &found.ids {
            for some in ids.chunks(AUDIT_STEP) {
                self.mend(&shard, *look, some, &mut report).await?;
            }
        }
        if report.removed + report.given_back + report.cancelled + report.buried + report.sessions > 0 {
            tracing::warn!(queue, ?report, "the queue was mended");
        }
        Ok(report)
    }

    async fn look_for_all(&self, shard: &Shard) -> Result<Found, Error> {
        self.look_for_orphans(shard, AUDIT_CALLS_MAX).await
    }

    /// The sessions whose leases ran out.
    async fn lost_sessions(&self, shard: &Shard) -> Result<Vec<Session>, Error> {
        let now_ms = self.ask(|| self.store().stats(shard)).await?.now_ms;
        let mut sessions = self.ask(|| self.store().sessions(shard)).await?;
        sessions.retain(|session| session.expires_ms <= now_ms);
        Ok(sessions)
    }

    async fn rescue_the_lost(&self, shard: &Shard, report: &mut RepairReport) -> Result<(), Error> {
        let lost = self.lost_sessions(shard).await?;
        // Those with 0 were given up before.
        if lost.iter().any(|session| session.expires_ms > 0) {
            tokio::time::sleep(SIGN_OF_LIFE).await;
        }
        for session in lost {
            loop {
                // Of a session that is well it says so, and does nothing.
                match self.ask(|| self.store().rescue(shard, &session.id, RESCUE_STEP)).await? {
                    Rescue::Took { more, given_back, buried, cancelled, .. } => {
                        for jobs in [given_back, buried, cancelled] {
                            report.rescued = report.rescued.saturating_add(jobs);
                        }
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
            match self.ask(|| self.store().repair(shard, look, ids, &sessions)).await? {
                Repaired::Each(mended) => {
                    mended.into_iter().for_each(|mended| report.count(mended));
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

impl RepairReport {
    fn count(&mut self, mended: Mended) {
        match mended {
            Mended::Waits => self.given_back += 1,
            Mended::Cancelled => self.cancelled += 1,
            Mended::Buried => self.buried += 1,
            Mended::Removed => self.removed += 1,
            Mended::Foreign => self.foreign += 1,
            Mended::Sound => {}
        }
    }
}

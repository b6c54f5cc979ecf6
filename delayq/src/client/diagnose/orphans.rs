//! Looks through a queue for records that are in no place, and for entries without a record.

use super::super::Client;
use crate::error::Error;
use crate::limits::AUDIT_STEP;
use crate::store::ops::{Audited, Look};
use crate::store::{SessionId, Shard};

/// How often sessions may come and go while a page is looked at.
const AGAIN_MAX: usize = 20;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// How many records and entries were looked at.
    pub(super) looked: u64,
    /// What has no place, or no record, by what was looked through.
    pub(super) ids: Vec<(Look, Vec<Vec<u8>>)>,
    /// Whether all was looked through.
    pub(super) whole: bool,
    /// Why something could not be.
    pub(super) unsure: Option<&'static str>,
}

impl Found {
    pub(super) fn records(&self) -> usize {
        self.count(|look| look == Look::Records)
    }

    pub(super) fn entries(&self) -> usize {
        self.count(|look| look != Look::Records)
    }

    fn count(&self, is: impl Fn(Look) -> bool) -> usize {
        self.ids.iter().filter(|(look, _)| is(*look)).map(|(_, ids)| ids.len()).sum()
    }
}

pub(super) const TOO_RESTLESS: &str = "sessions come and go too fast";
pub(super) const TOO_MANY: &str = "more than 20,000 jobs run";

impl Client {
    pub(super) async fn session_ids(&self, shard: &Shard) -> Result<Vec<SessionId>, Error> {
        let sessions = self.ask(|| self.store().sessions(shard)).await?;
        Ok(sessions.iter().map(|session| session.id).collect())
    }

    /// Looks through the records and through each place, with up to `calls` calls for each.
    pub(super) async fn look_for_orphans(&self, shard: &Shard, calls: usize) -> Result<Found, Error> {
        let mut found = Found { whole: true, ..Found::default() };
        for look in std::iter::once(Look::Records).chain(Look::places()) {
            self.look_through(shard, look, calls, &mut found).await?;
        }
        Ok(found)
    }

    async fn look_through(&self, shard: &Shard, look: Look, calls: usize, found: &mut Found) -> Result<(), Error> {
        // A place is looked at for what has no record, whoever runs jobs: sessions matter for records alone.
        let mut sessions = if look == Look::Records { self.session_ids(shard).await? } else { Vec::new() };
        let (mut cursor, mut ids, mut restless) = (Vec::new(), Vec::new(), 0);
        let mut left = calls;
        loop {
            let answer = self.ask(|| self.store().audit(shard, look, &cursor, AUDIT_STEP, &sessions)).await?;
            match answer {
                Audited::Page(page) => {
                    found.looked += page.looked;
                    ids.extend(page.found);
                    left -= 1;
                    match page.next {
                        None => break,
                        Some(_) if left == 0 => {
                            found.whole = false;
                            break;
                        }
                        Some(next) => cursor = next,
                    }
                }
                Audited::Again if restless < AGAIN_MAX => {
                    restless += 1;
                    sessions = self.session_ids(shard).await?;
                }
                refused => {
                    found.whole = false;
                    found.unsure = Some(if refused == Audited::Many { TOO_MANY } else { TOO_RESTLESS });
                    break;
                }
            }
        }
        // Redis may show a record on two pages.
        ids.sort_unstable();
        ids.dedup();
        if !ids.is_empty() {
            found.ids.push((look, ids));
        }
        Ok(())
    }
}

//! Looks through a queue for records that are in no place, and for entries without a record.

use super::super::Client;
use crate::error::Error;
use crate::limits::{AUDIT_HELD_MAX, AUDIT_STEP};
use crate::store::ops::{Audited, Look};
use crate::store::{SessionId, Shard};

/// How often sessions may come and go while a page is looked at.
const AGAIN_MAX: usize = 20;
const ID_BYTES: usize = 16;

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
    pub(super) unsure: Option<Unsure>,
}

/// Why something can't be looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsure {
    /// Sessions come and go all the time.
    TooRestless,
    /// More jobs run than can be looked through at once.
    TooMany,
    /// The user may not.
    Denied,
}

impl Unsure {
    /// Why, and what to do.
    pub(super) fn told(self) -> (String, &'static str) {
        const LATER: &str = "try again in a quieter moment";
        match self {
            Unsure::TooRestless => ("workers come and go too fast".to_owned(), LATER),
            Unsure::TooMany => (format!("more than {AUDIT_HELD_MAX} jobs run"), LATER),
            Unsure::Denied => ("this user may not".to_owned(), "give the user +hscan"),
        }
    }
}

impl Found {
    /// Jobs that have a record and are in no place.
    pub(super) fn records(&self) -> u64 {
        self.count(|look, id| look == Look::Records && id.len() == ID_BYTES)
    }

    /// Fields beside the records whose names are no ids.
    pub(super) fn foreign(&self) -> u64 {
        self.count(|look, id| look == Look::Records && id.len() != ID_BYTES)
    }

    /// Entries without a record.
    pub(super) fn entries(&self) -> u64 {
        self.count(|look, _| look != Look::Records)
    }

    fn count(&self, is: impl Fn(Look, &[u8]) -> bool) -> u64 {
        self.ids.iter().map(|(look, ids)| ids.iter().filter(|id| is(*look, id)).count() as u64).sum()
    }
}

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
                    found.looked = found.looked.saturating_add(page.looked);
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
                    found.unsure = Some(if refused == Audited::Many { Unsure::TooMany } else { Unsure::TooRestless });
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

//! What is left lying in a queue: orphans, lost sessions, jobs that nobody takes.

use std::time::Duration;

use super::super::Client;
use super::orphans::{Found, Unsure};
use super::{Finding, Level};
use crate::error::{Error, ErrorKind};
use crate::limits::AUDIT_CALLS;
use crate::store::Shard;
use crate::store::ops::{NewJob, Session, Stats};

pub(super) const QUEUE: &str = "queue";
const ORPHANS: &str = "orphans";
const ENTRIES: &str = "entries";
const FOREIGN: &str = "foreign";
const SESSIONS: &str = "sessions";
const WORKERS: &str = "workers";
const PAUSED: &str = "paused";

/// For how long a job may be due where workers are, before it is told of.
const OVERDUE: Duration = Duration::from_secs(60);
/// For how long a session may be lost where workers are: they look for lost ones each second.
const LEFT_LYING: Duration = Duration::from_secs(60);
const REPAIR: &str = "mend it by `delayq doctor --repair` or `Client::repair`";

impl Client {
    /// What there is to say of a queue, and how many records it has.
    pub(super) async fn look_at(&self, shard: &Shard) -> Result<(Vec<Finding>, u64), Error> {
        let (mut findings, records) = match self.look_inside(shard).await {
            Ok(looked) => looked,
            Err(error) => match error.kind() {
                ErrorKind::Unreachable | ErrorKind::Unknown => return Err(error),
                ErrorKind::Denied => (vec![Finding::said(QUEUE, Level::Unknown, &error)], 0),
                _ => (vec![Finding::said(QUEUE, Level::Wrong, &error)], 0),
            },
        };
        findings = findings.into_iter().map(|finding| finding.of_queue(shard.queue())).collect();
        Ok((findings, records))
    }

    async fn look_inside(&self, shard: &Shard) -> Result<(Vec<Finding>, u64), Error> {
        // Sending nothing says whether the queue is of this release's layout.
        let nothing: &[NewJob] = &[];
        self.ask(|| self.store().enqueue(shard, nothing)).await?;
        let stats = self.ask(|| self.store().stats(shard)).await?;
        let sessions = self.ask(|| self.store().sessions(shard)).await?;
        let found = match self.look_for_orphans(shard, AUDIT_CALLS).await {
            // Work doesn't need the right to: what else there is to say is said.
            Err(error) if error.kind() == ErrorKind::Denied => {
                Found { unsure: Some(Unsure::Denied), ..Found::default() }
            }
            found => found?,
        };
        // Counted between two steps of a job, it may be in both of its places or in none: only what lasts counts.
        let lasting = if stats.orphans() == 0 { 0 } else { self.ask(|| self.store().stats(shard)).await?.orphans() };
        let mut findings = orphans(&found, lasting);
        findings.push(left_lying(&sessions, stats.now_ms));
        findings.push(workers(&stats, &sessions));
        if stats.paused {
            let mut paused = Finding::note(PAUSED, "the queue is paused: nothing new starts");
            paused.advice = Some("`delayq resume` or `Client::resume` lets it go on".to_owned());
            findings.push(paused);
        }
        Ok((findings, stats.records))
    }
}

fn orphans(found: &Found, counted: i64) -> Vec<Finding> {
    let (records, entries, foreign, looked) = (found.records(), found.entries(), found.foreign(), found.looked);
    let mut findings = Vec::new();
    let part = if found.whole { "" } else { ", of a part: not all was looked at" };
    if records > 0 {
        findings.push(Finding::wrong(
            ORPHANS,
            format!("jobs in no place, which nothing runs: {records}{part}"),
            REPAIR,
        ));
    } else if let Some((why, advice)) = found.unsure.map(Unsure::told) {
        findings.push(Finding::unknown(ORPHANS, format!("it can't be looked through: {why}"), advice));
    } else if counted > 0 && !found.whole {
        let what = format!("by the counts, jobs in no place: {counted}; none is among the first {looked}");
        findings.push(Finding::wrong(ORPHANS, what, REPAIR));
    } else {
        findings.push(Finding::good(ORPHANS, format!("none, records and entries looked at: {looked}{part}")));
    }
    if foreign > 0 {
        let what =
            format!("fields beside the records whose names are no ids, another program's perhaps: {foreign}{part}");
        findings.push(Finding::warning(FOREIGN, what, "find out whose they are, then HDEL them; a repair leaves them"));
    }
    if entries > 0 {
        let what = format!("entries without a record, so that there is nothing to run: {entries}{part}");
        findings.push(Finding::warning(ENTRIES, what, REPAIR));
    } else if counted < 0 && !found.whole {
        let counted = counted.unsigned_abs();
        let what = format!("by the counts, entries without a record: {counted}; none is among the first {looked}");
        findings.push(Finding::warning(ENTRIES, what, REPAIR));
    }
    findings
}

fn left_lying(sessions: &[Session], now_ms: u64) -> Finding {
    let (lost, alive): (Vec<&Session>, Vec<&Session>) =
        sessions.iter().partition(|session| session.expires_ms <= now_ms);
    if alive.is_empty() && !lost.is_empty() {
        return Finding::wrong(
            SESSIONS,
            format!("lost: {}, and there is no worker that takes their jobs back", lost.len()),
            format!("start a worker of this queue, or {REPAIR}"),
        );
    }
    // One that is being taken back has no time.
    let since = |session: &Session| Duration::from_millis(now_ms.saturating_sub(session.expires_ms));
    let long = lost.iter().filter(|session| session.expires_ms > 0 && since(session) >= LEFT_LYING).count();
    if long > 0 {
        return Finding::warning(
            SESSIONS,
            format!("lost for more than {LEFT_LYING:?}: {long}, and workers don't take their jobs back"),
            format!("look at the workers' logs; after an outage they wait one lease more; else {REPAIR}"),
        );
    }
    Finding::good(SESSIONS, format!("open: {}, being taken back: {}", alive.len(), lost.len()))
}

fn workers(stats: &Stats, sessions: &[Session]) -> Finding {
    let alive = sessions.iter().filter(|session| session.expires_ms > stats.now_ms).count();
    let late = Duration::from_millis(stats.head_ms.map_or(0, |head_ms| stats.now_ms.saturating_sub(head_ms)));
    let due = if stats.due == 0 {
        "nothing is due".to_owned()
    } else {
        format!("due: {}, the first for {late:?}", stats.due)
    };
    match alive {
        0 if stats.due == 0 => Finding::note(WORKERS, format!("none; {due}")),
        0 => Finding::wrong(WORKERS, format!("none; {due}"), "start a worker of this queue"),
        _ if stats.due > 0 && late >= OVERDUE && !stats.paused => Finding::warning(
            WORKERS,
            format!("{alive}, which don't keep up; {due}"),
            "start more workers, give them more `concurrency`, or look at what their handlers wait for",
        ),
        _ => Finding::good(WORKERS, format!("{alive}; {due}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ops::Look;

    #[test]
    fn lost_sessions_are_told_that_nobody_takes_back() {
        let session = |n: u8, expires_ms| Session { id: [n; 16], expires_ms };
        let level = |sessions: &[Session]| left_lying(sessions, 1_000_000).level;
        assert_eq!(level(&[]), Level::Good);
        assert_eq!(level(&[session(1, 1_000_001)]), Level::Good);
        assert_eq!(level(&[session(1, 999_000)]), Level::Wrong);
        assert_eq!(level(&[session(1, 0)]), Level::Wrong);
        assert_eq!(level(&[session(1, 999_000), session(2, 2_000_000)]), Level::Good, "it is taken back any moment");
        assert_eq!(level(&[session(1, 0), session(2, 2_000_000)]), Level::Good);
        assert_eq!(level(&[session(1, 940_000), session(2, 2_000_000)]), Level::Warning);
    }

    #[test]
    fn orphans_are_told_by_what_was_seen_and_counted() {
        let level = |found: &Found, counted| orphans(found, counted)[0].level;
        let whole = Found { whole: true, looked: 5, ..Found::default() };
        assert_eq!(level(&whole, 0), Level::Good);
        assert_eq!(level(&whole, 3), Level::Good, "what was looked through counts more than a count");
        assert_eq!(level(&Found { whole: false, ..Found::default() }, 0), Level::Good);
        assert_eq!(level(&Found { whole: false, ..Found::default() }, 3), Level::Wrong);
        let unsure = Found { unsure: Some(Unsure::TooMany), ..Found::default() };
        assert_eq!(level(&unsure, 0), Level::Unknown);
        let levels = |ids: Vec<(Look, Vec<Vec<u8>>)>| -> Vec<(&'static str, Level)> {
            let found = orphans(&Found { whole: true, ids, ..Found::default() }, 0);
            found.iter().map(|finding| (finding.check, finding.level)).collect()
        };
        let both = vec![(Look::Records, vec![vec![1; 16]]), (Look::Dead, vec![vec![2; 16]])];
        assert_eq!(levels(both), [(ORPHANS, Level::Wrong), (ENTRIES, Level::Warning)]);
        let foreign = vec![(Look::Records, vec![b"of another hand".to_vec()])];
        assert_eq!(levels(foreign), [(ORPHANS, Level::Good), (FOREIGN, Level::Warning)]);
    }
}

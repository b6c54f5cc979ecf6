//! The jobs of a queue, whatever their types: one by its id, pages by state, a bounded search.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use super::Client;
use super::handle::JobHandle;
use super::info::{JobFailure, JobInfo, JobState};
use super::workers::session_hex;
use crate::clock::timestamp;
use crate::error::Error;
use crate::job::{DeadReason, JobId};
use crate::limits::{JOBS_PAGE_MAX, SEARCH_SCAN_DEFAULT, SEARCH_SCAN_MAX, SESSIONS_MAX};
use crate::store::ops::{DeadPage, DonePage, DueCursor, DuePage, Found, Order, Place};
use crate::store::{SessionId, Shard};

/// The type of a job whose type doesn't matter: see [`Client::job`].
#[derive(Debug)]
pub enum AnyJob {}

/// The jobs of one queue, whatever their types. Made by [`Client::jobs`].
#[derive(Debug, Clone)]
pub struct Jobs {
    client: Client,
    queue: String,
}

/// Which jobs [`Jobs::list`] is to find, and how far it may look.
///
/// A state is listed in its own order: jobs that wait by due time, running ones by worker, dead letters by time of death,
/// retained ones by when they go.
#[derive(Debug, Clone)]
#[must_use = "a query finds nothing by itself: give it to `Jobs::list`"]
pub struct JobQuery {
    state: JobState,
    name: Option<String>,
    payload: Option<String>,
    due_from: Option<Timestamp>,
    due_until: Option<Timestamp>,
    reason: Option<DeadReason>,
    error: Option<String>,
    newest_first: bool,
    limit: usize,
    scan: usize,
    after: Option<JobCursor>,
}

/// A page of jobs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobPage {
    /// What was found.
    pub jobs: Vec<JobInfo>,
    /// How many jobs were looked at for it.
    pub scanned: usize,
    /// Where to go on, unless all were looked at.
    pub next: Option<JobCursor>,
}

/// Where a page ended. As a text it survives a request: see its `Display` and `FromStr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobCursor(At);

#[derive(Debug, Clone, PartialEq, Eq)]
enum At {
    /// Due, priority and id of a job that waits.
    Waiting(DueCursor),
    /// Session and member of a running job.
    Running(SessionId, Vec<u8>),
    /// Time of death and id.
    Dead(u64, Vec<u8>),
    /// Until when it is kept, and id.
    Retained(u64, Vec<u8>),
}

/// Jobs as they came from the store, and the place after each.
type Rows = Vec<(JobInfo, At)>;

impl JobQuery {
    /// All jobs of a state.
    pub fn new(state: JobState) -> JobQuery {
        JobQuery {
            state,
            name: None,
            payload: None,
            due_from: None,
            due_until: None,
            reason: None,
            error: None,
            newest_first: false,
            limit: 50,
            scan: SEARCH_SCAN_DEFAULT,
            after: None,
        }
    }

    /// Only jobs of this name.
    pub fn name(mut self, name: impl Into<String>) -> JobQuery {
        self.name = Some(name.into());
        self
    }

    /// Only jobs whose payload has this text in it, byte for byte.
    pub fn payload_contains(mut self, text: impl Into<String>) -> JobQuery {
        self.payload = Some(text.into());
        self
    }

    /// Only jobs that are due at this instant or later. Jobs that wait are found by it without looking at others.
    pub fn due_from(mut self, from: Timestamp) -> JobQuery {
        self.due_from = Some(from);
        self
    }

    /// Only jobs that are due before this instant. Jobs that wait are found by it without looking at others.
    pub fn due_before(mut self, until: Timestamp) -> JobQuery {
        self.due_until = Some(until);
        self
    }

    /// Only dead letters of this reason.
    pub fn reason(mut self, reason: DeadReason) -> JobQuery {
        self.reason = Some(reason);
        self
    }

    /// Only dead letters whose error has this text in it.
    pub fn error_contains(mut self, text: impl Into<String>) -> JobQuery {
        self.error = Some(text.into());
        self
    }

    /// Dead letters from the newest on; other states have one order.
    pub fn newest_first(mut self) -> JobQuery {
        self.newest_first = true;
        self
    }

    /// How many jobs a page has at most: 1 to 100, 50 unless said otherwise.
    pub fn limit(mut self, jobs: usize) -> JobQuery {
        self.limit = jobs;
        self
    }

    /// How many jobs one call looks at before it answers with what it has: 1 to 1,000,000, 10,000 unless said otherwise.
    pub fn scan(mut self, jobs: usize) -> JobQuery {
        self.scan = jobs;
        self
    }

    /// Goes on where a page of the same query ended.
    pub fn after(mut self, cursor: JobCursor) -> JobQuery {
        self.after = Some(cursor);
        self
    }

    /// The state asked for.
    pub fn state(&self) -> JobState {
        self.state
    }

    fn check(&self) -> Result<(), Error> {
        if self.limit == 0 || self.limit > JOBS_PAGE_MAX {
            return Err(Error::invalid(format!("a page of {} jobs is out of range: 1 to {JOBS_PAGE_MAX}", self.limit)));
        }
        if self.scan == 0 || self.scan > SEARCH_SCAN_MAX {
            return Err(Error::invalid(format!(
                "a search through {} jobs is out of range: 1 to {SEARCH_SCAN_MAX}",
                self.scan
            )));
        }
        let state = self.after.as_ref().map(JobCursor::state);
        if state.is_some_and(|state| state != self.state) {
            return Err(Error::invalid("the cursor is of a list of another state: begin without one"));
        }
        Ok(())
    }

    fn filters(&self) -> bool {
        self.name.is_some()
            || self.payload.is_some()
            || self.due_from.is_some()
            || self.due_until.is_some()
            || self.reason.is_some()
            || self.error.is_some()
    }

    fn wants(&self, job: &JobInfo) -> bool {
        let failed = |wanted: &dyn Fn(&JobFailure) -> bool| job.failure.as_ref().is_some_and(wanted);
        self.name.as_ref().is_none_or(|name| job.name.as_ref() == Some(name))
            && self.due_from.is_none_or(|from| job.due.is_some_and(|due| due >= from))
            && self.due_until.is_none_or(|until| job.due.is_some_and(|due| due < until))
            && self.reason.is_none_or(|reason| failed(&|failure| failure.reason == Some(reason)))
            && self.error.as_ref().is_none_or(|text| failed(&|failure| failure.text.contains(text.as_str())))
            && self.payload.as_ref().is_none_or(|text| contains(&job.payload, text.as_bytes()))
    }

    /// Whether all jobs of this kind that come after this one are beyond what is asked for.
    fn is_past(&self, job: &JobInfo) -> bool {
        self.state == JobState::Waiting && self.due_until.is_some_and(|until| job.due.is_some_and(|due| due >= until))
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

impl JobCursor {
    fn state(&self) -> JobState {
        match self.0 {
            At::Waiting(_) => JobState::Waiting,
            At::Running(..) => JobState::Running,
            At::Dead(..) => JobState::Dead,
            At::Retained(..) => JobState::Retained,
        }
    }
}

impl fmt::Display for JobCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"));
        match &self.0 {
            At::Waiting(at) => {
                write!(f, "w-{}-{}-", at.due_ms, at.priority)?;
                hex(f, &at.id)
            }
            At::Running(session, member) => {
                f.write_str("r-")?;
                hex(f, session)?;
                f.write_str("-")?;
                hex(f, member)
            }
            At::Dead(ms, id) => {
                write!(f, "d-{ms}-")?;
                hex(f, id)
            }
            At::Retained(ms, id) => {
                write!(f, "k-{ms}-")?;
                hex(f, id)
            }
        }
    }
}

impl FromStr for JobCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<JobCursor, Error> {
        read_cursor(text)
            .map(JobCursor)
            .ok_or_else(|| Error::invalid("this is no cursor of a list of jobs: take it from the page before as it is"))
    }
}

fn read_cursor(text: &str) -> Option<At> {
    fn bytes(hex: &str) -> Option<Vec<u8>> {
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        // A member of a foreign hand's making may be of any length; a cursor need not be.
        let fits = rest.is_empty() && pairs.len() <= 512;
        fits.then(|| pairs.iter().map(|[a, b]| Some((digit(*a)? * 16 + digit(*b)?) as u8)).collect()).flatten()
    }
    let parts: Vec<&str> = text.split('-').collect();
    match parts.as_slice() {
        ["w", ms, priority, id] => {
            let priority = priority.parse().ok().filter(|priority| *priority <= 9)?;
            Some(At::Waiting(DueCursor { due_ms: ms.parse().ok()?, priority, id: bytes(id)? }))
        }
        ["r", session, member] => Some(At::Running(bytes(session)?.try_into().ok()?, bytes(member)?)),
        ["d", ms, id] => Some(At::Dead(ms.parse().ok()?, bytes(id)?)),
        ["k", ms, id] => Some(At::Retained(ms.parse().ok()?, bytes(id)?)),
        _ => None,
    }
}

impl Client {
    /// The jobs of a queue, whatever their types.
    pub fn jobs(&self, queue: &str) -> Jobs {
        Jobs { client: self.clone(), queue: queue.to_owned() }
    }

    /// The handle of a job of a queue, whatever its type.
    pub fn job(&self, queue: &str, id: JobId) -> JobHandle<AnyJob> {
        JobHandle::new(self.clone(), queue.into(), id, false)
    }
}

impl Jobs {
    /// One job with all that is known of it, or `None` if there is none (any more).
    ///
    /// # Errors
    /// The queue's name is none, or the store doesn't answer.
    pub async fn get(&self, id: JobId) -> Result<Option<JobInfo>, Error> {
        let shard = self.client.shard(&self.queue)?;
        let found = self.client.ask(|| self.client.store().inspect(&shard, id.as_bytes())).await?;
        let Found::Job { place, at_ms, record, note } = found else { return Ok(None) };
        let state = match place {
            Place::Due => JobState::Waiting,
            Place::Running => JobState::Running,
            Place::Dead => JobState::Dead,
            Place::Done => JobState::Retained,
        };
        let mut job = JobInfo::read(&self.queue, id, state, &record, &note);
        match place {
            Place::Due => job.due = Some(timestamp(at_ms)),
            Place::Running => {}
            Place::Dead => job.dead_since = Some(timestamp(at_ms)),
            Place::Done => job.retained_until = Some(timestamp(at_ms)),
        }
        Ok(Some(job))
    }

    /// A page of jobs. The store is asked for 100 at a time, until the page is full, or as many were looked at as the query
    /// allows: then the page has fewer, and [`next`](JobPage::next) says where to go on.
    ///
    /// # Errors
    /// The query is out of range, its cursor is of another state, the queue's name is none, or the store doesn't answer.
    pub async fn list(&self, query: &JobQuery) -> Result<JobPage, Error> {
        query.check()?;
        let shard = self.client.shard(&self.queue)?;
        let mut at = query.after.clone().map(|cursor| cursor.0).or_else(|| first(query));
        let mut page = JobPage { jobs: Vec::new(), scanned: 0, next: None };
        loop {
            let ask = if query.filters() {
                JOBS_PAGE_MAX.min(query.scan - page.scanned)
            } else {
                query.limit - page.jobs.len()
            };
            let rows = self.rows(&shard, query, at.as_ref(), ask).await?;
            if rows.is_empty() {
                page.next = None;
                return Ok(page);
            }
            for (job, after) in rows {
                if query.is_past(&job) {
                    page.next = None;
                    return Ok(page);
                }
                page.scanned += 1;
                page.next = Some(JobCursor(after.clone()));
                at = Some(after);
                if query.wants(&job) {
                    page.jobs.push(job);
                }
                if page.jobs.len() >= query.limit || page.scanned >= query.scan {
                    return Ok(page);
                }
            }
        }
    }

    async fn rows(&self, shard: &Shard, query: &JobQuery, at: Option<&At>, limit: usize) -> Result<Rows, Error> {
        let (store, queue) = (self.client.store(), self.queue.as_str());
        let info = |id: &[u8], state, record: &bytes::Bytes, note: &[u8]| {
            // What is no id was put there by a foreign hand; a worker puts it aside when it meets it.
            let id = JobId::from_bytes(<[u8; 16]>::try_from(id).unwrap_or_default());
            JobInfo::read(queue, id, state, record, note)
        };
        match query.state {
            JobState::Waiting => {
                let after = at.and_then(|at| if let At::Waiting(at) = at { Some(at.clone()) } else { None });
                let page = DuePage { priority: None, after, limit };
                let rows = self.client.ask(|| store.due_list(shard, &page)).await?;
                Ok(rows
                    .into_iter()
                    .map(|row| {
                        let mut job = info(&row.id, JobState::Waiting, &row.record, &[]);
                        job.due = Some(timestamp(row.due_ms));
                        (job, At::Waiting(row.cursor()))
                    })
                    .collect())
            }
            JobState::Running => self.running(shard, at, limit).await,
            JobState::Dead => {
                let after = at.and_then(|at| if let At::Dead(ms, id) = at { Some((*ms, id.clone())) } else { None });
                let order = if query.newest_first { Order::NewestFirst } else { Order::OldestFirst };
                let page = DeadPage { order, after, limit, until_ms: None, whole: true };
                let rows = self.client.ask(|| store.dead_list(shard, &page)).await?;
                Ok(rows
                    .into_iter()
                    .map(|row| {
                        let mut job = info(&row.id, JobState::Dead, &row.record.into(), &row.note);
                        job.dead_since = Some(timestamp(row.died_ms));
                        (job, At::Dead(row.died_ms, row.id))
                    })
                    .collect())
            }
            JobState::Retained => {
                let after =
                    at.and_then(|at| if let At::Retained(ms, id) = at { Some((*ms, id.clone())) } else { None });
                let page = DonePage { after, limit };
                let rows = self.client.ask(|| store.done_list(shard, &page)).await?;
                Ok(rows
                    .into_iter()
                    .map(|row| {
                        let mut job = info(&row.id, JobState::Retained, &row.record, &[]);
                        job.retained_until = Some(timestamp(row.until_ms));
                        (job, At::Retained(row.until_ms, row.id))
                    })
                    .collect())
            }
        }
    }

    /// Session by session, in the order of their ids.
    async fn running(&self, shard: &Shard, at: Option<&At>, limit: usize) -> Result<Rows, Error> {
        let store = self.client.store();
        let mut sessions: Vec<SessionId> =
            self.client.ask(|| store.sessions(shard)).await?.iter().map(|session| session.id).collect();
        sessions.sort_unstable();
        let (from, mut last) = match at {
            Some(At::Running(session, member)) => (*session, member.clone()),
            _ => ([0; 16], Vec::new()),
        };
        let mut rows = Rows::new();
        for session in sessions.iter().take(SESSIONS_MAX).filter(|session| **session >= from) {
            let after = if *session == from { std::mem::take(&mut last) } else { Vec::new() };
            let held = self.client.ask(|| store.running_list(shard, session, &after, limit - rows.len())).await?;
            for row in held {
                let id = row.member.get(..16).and_then(|id| id.try_into().ok()).unwrap_or_default();
                let mut job = JobInfo::read(&self.queue, JobId::from_bytes(id), JobState::Running, &row.record, &[]);
                job.running_since = row.member().map(|member| timestamp(member.run()));
                job.session = Some(session_hex(session));
                rows.push((job, At::Running(*session, row.member)));
            }
            if rows.len() >= limit {
                break;
            }
        }
        Ok(rows)
    }
}

/// Where a list begins: jobs that wait have an index of due times.
fn first(query: &JobQuery) -> Option<At> {
    let from = query.due_from.filter(|_| query.state == JobState::Waiting)?;
    // Rounded up: an instant within a millisecond is after it.
    let due_ms = u64::try_from(from.as_nanosecond().div_euclid(1_000_000)).unwrap_or(0);
    Some(At::Waiting(DueCursor { due_ms, priority: 0, id: Vec::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let id = vec![0, 255, 7];
        for at in [
            At::Waiting(DueCursor { due_ms: 1_900_000_000_000, priority: 9, id: id.clone() }),
            At::Waiting(DueCursor { due_ms: 0, priority: 0, id: Vec::new() }),
            At::Running([7; 16], id.clone()),
            At::Dead(u64::MAX, id.clone()),
            At::Retained(5, id),
        ] {
            let cursor = JobCursor(at);
            assert_eq!(cursor.to_string().parse::<JobCursor>().expect("a cursor"), cursor);
        }
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for text in
            ["", "w", "w-1-5", "w-1-10-00", "w-x-5-00", "d-1-0", "d--00", "r-00-00", "x-1-00", "k-1-zz", "d-1-é"]
        {
            assert!(text.parse::<JobCursor>().is_err(), "{text}");
        }
        assert!(format!("d-1-{}", "00".repeat(513)).parse::<JobCursor>().is_err());
    }

    #[test]
    fn a_text_is_found_wherever_it_stands() {
        assert!(contains(b"abc", b"") && contains(b"abc", b"bc") && contains(b"abc", b"abc"));
        assert!(!contains(b"abc", b"abcd") && !contains(b"", b"a"));
    }
}

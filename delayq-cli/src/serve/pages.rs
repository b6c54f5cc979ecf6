//! Pages of jobs, and searches for them: read in pieces, so that the payloads of one piece alone are held.

use axum::response::Response;
use delayq::limits::{JOBS_PAGE_MAX, SEARCH_SCAN_DEFAULT};
use delayq::{DeadReason, JobCursor, JobFailure, JobInfo, JobQuery, JobState};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::App;
use super::extract::{self, clamped};
use super::limits::{PAGE_BYTES_MAX, PIECE_BYTES, PIECE_FIRST};
use super::problem::Problem;
use crate::output::json::JobView;

/// How many jobs a page has unless the query says so.
const PAGE: usize = 50;
/// How many times as many jobs a piece may have as the one before: the larger it is, the less its size is foreseen.
const GROWTH: usize = 4;

/// Which jobs of a queue are asked for.
pub(super) struct Wanted {
    pub(super) state: JobState,
    pub(super) newest_first: bool,
    pub(super) name: Option<String>,
    pub(super) payload: Option<String>,
    pub(super) due_from: Option<Timestamp>,
    pub(super) due_before: Option<Timestamp>,
    pub(super) reason: Option<DeadReason>,
    pub(super) error: Option<String>,
}

impl Wanted {
    /// All of a state.
    pub(super) fn all(state: JobState) -> Wanted {
        Wanted {
            state,
            newest_first: false,
            name: None,
            payload: None,
            due_from: None,
            due_before: None,
            reason: None,
            error: None,
        }
    }

    fn is_all(&self) -> bool {
        self.name.is_none()
            && self.payload.is_none()
            && self.due_from.is_none()
            && self.due_before.is_none()
            && self.reason.is_none()
            && self.error.is_none()
    }

    /// A piece of the list. What is left out of it is left out here and not by the library, which would not say how much it read.
    fn piece(&self, jobs: usize, after: Option<JobCursor>) -> JobQuery {
        let mut query = JobQuery::new(self.state).limit(jobs).scan(JOBS_PAGE_MAX);
        if self.newest_first {
            query = query.newest_first();
        }
        if self.state == JobState::Waiting {
            // These have an index of due times.
            if let Some(from) = self.due_from {
                query = query.due_from(from);
            }
            if let Some(before) = self.due_before {
                query = query.due_before(before);
            }
        }
        match after {
            Some(after) => query.after(after),
            None => query,
        }
    }

    fn has(&self, job: &JobInfo) -> bool {
        let failed = |wanted: &dyn Fn(&JobFailure) -> bool| job.failure.as_ref().is_some_and(wanted);
        self.name.as_ref().is_none_or(|name| job.name.as_ref() == Some(name))
            && self.due_from.is_none_or(|from| job.due.is_some_and(|due| due >= from))
            && self.due_before.is_none_or(|before| job.due.is_some_and(|due| due < before))
            && self.reason.is_none_or(|reason| failed(&|failure| failure.reason == Some(reason)))
            && self.error.as_ref().is_none_or(|text| failed(&|failure| failure.text.contains(text.as_str())))
            && self.payload.as_ref().is_none_or(|text| contains(&job.payload, text.as_bytes()))
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

/// A page, as it is answered. It ends where it is full, where as many jobs or bytes were read as one request may, or where all
/// were looked at.
pub(super) async fn page(
    app: &App,
    queue: &str,
    wanted: &Wanted,
    limit: Option<u64>,
    after: Option<&str>,
) -> Result<Response, Problem> {
    let limit = clamped(limit, PAGE, 1, JOBS_PAGE_MAX);
    let jobs = app.client.jobs(queue);
    let mut next: Option<JobCursor> = after.map(str::parse::<JobCursor>).transpose()?;
    let mut rows: Vec<Value> = Vec::with_capacity(limit);
    let (mut scanned, mut bytes, mut piece) = (0, 0, PIECE_FIRST);
    loop {
        let room = limit - rows.len();
        let most = if wanted.is_all() { room } else { SEARCH_SCAN_DEFAULT - scanned };
        piece = piece.min(most);
        let got = jobs.list(&wanted.piece(piece, next.clone())).await?;
        bytes += got.jobs.iter().map(|job| job.payload.len()).sum::<usize>();
        let are_wanted: Vec<bool> = got.jobs.iter().map(|job| wanted.has(job)).collect();
        let mut places = are_wanted.iter().enumerate().filter(|(_, is_wanted)| **is_wanted).map(|(at, _)| at);
        if let (Some(last), Some(_)) = (places.nth(room - 1), places.next()) {
            // More than have room, and where to go on is known of the end of a piece alone: it is read again, up to the last of them.
            piece = last + 1;
            continue;
        }
        let largest = got.jobs.iter().map(|job| job.payload.len()).max().unwrap_or(0);
        let kept = got.jobs.into_iter().zip(are_wanted).filter(|(_, is_wanted)| *is_wanted);
        rows.extend(kept.map(|(job, _)| without_payload(job)));
        scanned += got.scanned;
        next = got.next;
        if next.is_none() || rows.len() >= limit || scanned >= SEARCH_SCAN_DEFAULT || bytes >= PAGE_BYTES_MAX {
            break;
        }
        piece = (PIECE_BYTES / largest.max(1)).clamp(1, JOBS_PAGE_MAX).min(piece * GROWTH);
    }
    let next = next.map(|next| next.to_string());
    extract::json(&json!({ "jobs": rows, "scanned": scanned, "next": next }))
}

/// A page of large payloads would be large itself: one by one they can be had.
fn without_payload(mut job: JobInfo) -> Value {
    let bytes = job.payload.len();
    job.payload = Default::default();
    let mut value = serde_json::to_value(JobView::of(&job)).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.retain(|name, _| !name.starts_with("payload"));
        fields.insert("payload_bytes".to_owned(), bytes.into());
    }
    value
}

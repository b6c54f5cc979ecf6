//! Dead letters: found, sent to work again, deleted.

use axum::extract::State;
use axum::response::Response;
use delayq::{DeadReason, JobId, JobInfo, JobState};
use serde::Deserialize;
use serde_json::json;

use super::App;
use super::extract::{self, Id, Params};
use super::jobs::{InQueue, only_one};
use super::pages::{Wanted, page};
use super::problem::Problem;
use super::queues;
use super::roles::Caller;
use crate::find;
use crate::output::json::JobView;

/// Which letters, and how many.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    queue: String,
    name: Option<String>,
    payload: Option<String>,
    reason: Option<String>,
    error: Option<String>,
    #[serde(default)]
    oldest_first: bool,
    limit: Option<u64>,
    after: Option<String>,
}

/// `GET /api/v1/dead`: a page of a queue's dead letters, the newest first, without their payloads.
pub(super) async fn list(State(app): State<App>, Params(listing): Params<Listing>) -> Result<Response, Problem> {
    let reason = listing.reason.as_deref().map(str::parse::<DeadReason>).transpose().map_err(|_| {
        Problem::bad_request(
            "there is no such reason: retries_exhausted, unknown_job, unknown_version, undecodable, buried or crash_loop",
        )
    })?;
    let wanted = Wanted {
        newest_first: !listing.oldest_first,
        name: listing.name,
        payload: listing.payload,
        reason,
        error: listing.error,
        ..Wanted::all(JobState::Dead)
    };
    page(&app, &listing.queue, &wanted, listing.limit, listing.after.as_deref()).await
}

/// `GET /api/v1/dead/{id}`: a letter with its payload.
pub(super) async fn show(
    State(app): State<App>,
    Id(id): Id,
    Params(place): Params<InQueue>,
) -> Result<Response, Problem> {
    extract::json(&JobView::of(&letter(&app, id, place.queue).await?))
}

/// A letter, in the one queue that has it.
async fn letter(app: &App, id: JobId, queue: Option<String>) -> Result<JobInfo, Problem> {
    let queues = queues::named_or_all(app, queue).await?;
    let mut found = find::everywhere(&app.client, &queues, id).await?;
    let state = found.first().map(|job| job.state);
    found.retain(|job| job.state == JobState::Dead);
    only_one(id, found)?.ok_or_else(|| match state {
        Some(state) => Problem::conflict(format!("the job {id} is no dead letter: it is {state}")),
        None => Problem::not_found(format!("there is no dead letter {id}")),
    })
}

/// Makes a change of a letter, written down before and after it.
async fn changed(
    app: &App,
    caller: &Caller,
    queue: &str,
    id: JobId,
    outcome: &str,
    change: impl Future<Output = Result<(), delayq::Error>> + Send,
) -> Result<Response, Problem> {
    let what = id.to_string();
    let change = async { Ok(change.await?) };
    app.audit.change(caller, Some(queue), &what, change, |()| format!("{id} {outcome}")).await?;
    extract::json(&json!({ "id": what, "queue": queue, "outcome": outcome }))
}

/// `POST /api/v1/dead/{id}/retry`: it waits again, due now, with all its attempts.
pub(super) async fn retry(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    Params(place): Params<InQueue>,
) -> Result<Response, Problem> {
    let queue = letter(&app, id, place.queue).await?.queue;
    let letters = app.client.dead_letters(&queue);
    changed(&app, &caller, &queue, id, "retried", letters.redrive(id)).await
}

/// `DELETE /api/v1/dead/{id}`: it is gone for good.
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    Params(place): Params<InQueue>,
) -> Result<Response, Problem> {
    let queue = letter(&app, id, place.queue).await?.queue;
    let letters = app.client.dead_letters(&queue);
    changed(&app, &caller, &queue, id, "deleted", letters.delete(id)).await
}

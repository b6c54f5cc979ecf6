//! Queues: counted, paused, looked ahead; and who serves them.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use delayq::{Client, Error, Forecast, QueueStats};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::extract::{self, Params, Segment, clamped};
use super::limits::{AT_ONCE, QUEUES_MAX};
use super::problem::Problem;
use super::roles::Caller;
use crate::failure;
use crate::output::json::{instant, ms};
use crate::time;

/// The longest step of a forecast: the most of them stay within a hundred years.
const STEP_MAX: Duration = Duration::from_secs(60 * 86_400);

/// The queue that was named, or all that are in use, where they are few enough to look through.
pub(super) async fn named_or_all(app: &App, named: Option<String>) -> Result<Vec<String>, Problem> {
    if let Some(queue) = named {
        return Ok(vec![queue]);
    }
    let all = app.client.queues().await?;
    if all.len() > QUEUES_MAX {
        let many = format!("{} queues are too many to look through: say which one is meant, by ?queue=", all.len());
        return Err(Problem::bad_request(many));
    }
    Ok(all)
}

/// Which of the queues, and how many.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    limit: Option<u64>,
    after: Option<String>,
}

/// `GET /api/v1/queues`: a page of them with their counts, in the order of their names.
pub(super) async fn list(State(app): State<App>, Params(listing): Params<Listing>) -> Result<Response, Problem> {
    let limit = clamped(listing.limit, QUEUES_MAX, 1, QUEUES_MAX);
    let mut names = app.client.queues().await?;
    if let Some(after) = listing.after {
        names.retain(|name| *name > after);
    }
    let goes_on = names.len() > limit;
    names.truncate(limit);
    let next = names.last().filter(|_| goes_on).cloned();
    let counts = names.into_iter().map(|queue| counted(app.client.clone(), queue));
    let views: Vec<Value> = stream::iter(counts).buffered(AT_ONCE).try_collect().await?;
    extract::json(&json!({ "queues": views, "next": next }))
}

async fn counted(client: Client, queue: String) -> Result<Value, Error> {
    match client.stats(&queue).await {
        Ok(stats) => Ok(view(&queue, &stats)),
        Err(error) if is_of_all(&error) => Err(error),
        Err(error) => Ok(json!({ "queue": queue, "error": failure::told(&error) })),
    }
}

/// Whether it is the store that can't be asked, and not this queue alone: one whose keys are damaged must not hide the others.
pub(super) fn is_of_all(error: &Error) -> bool {
    failure::code(error) == failure::UNREACHABLE
}

/// `GET /api/v1/queues/{queue}`: one of them.
pub(super) async fn show(State(app): State<App>, Segment(queue): Segment) -> Result<Response, Problem> {
    let stats = used(&app, &queue).await?;
    extract::json(&view(&queue, &stats))
}

/// The counts of a queue that anything was ever in: a name that was mistyped would look like an empty one.
async fn used(app: &App, queue: &str) -> Result<QueueStats, Problem> {
    let stats = app.client.stats(queue).await?;
    let has_been =
        stats.enqueued_total > 0 || stats.sessions > 0 || stats.paused || stats.waiting > 0 || stats.dead > 0;
    if has_been || app.client.queues().await?.iter().any(|name| name == queue) {
        Ok(stats)
    } else {
        Err(Problem::not_found(format!("there is no queue {queue}")))
    }
}

fn view(queue: &str, stats: &QueueStats) -> Value {
    let rates = stats.rates.map(|rates| {
        json!({
            "over_ms": ms(rates.over),
            "enqueued": rates.enqueued,
            "done": rates.done,
            "retried": rates.retried,
            "dead": rates.dead,
        })
    });
    let totals: serde_json::Map<String, Value> =
        totals(stats).into_iter().map(|(name, total)| (name.to_owned(), total.into())).collect();
    json!({
        "queue": queue,
        "now": instant(Some(stats.now)),
        "waiting": stats.waiting,
        "due": stats.due,
        "running": stats.running,
        "dead": stats.dead,
        "retained": stats.retained,
        "workers": stats.sessions,
        "paused": stats.paused,
        "next_due": instant(stats.next_due),
        "oldest_due_seconds": stats.oldest_due.as_secs_f64(),
        "orphans": stats.orphans,
        "rates": rates,
        "totals": totals,
    })
}

/// What happened to a queue since it was made, by name.
pub(super) fn totals(stats: &QueueStats) -> [(&'static str, u64); 15] {
    [
        ("enqueued", stats.enqueued_total),
        ("done", stats.done_total),
        ("retried", stats.retried_total),
        ("dead", stats.dead_total),
        ("cancelled", stats.cancelled_total),
        ("expired", stats.expired_total),
        ("discarded", stats.discarded_total),
        ("crashed", stats.crashed_total),
        ("snoozed", stats.snoozed_total),
        ("returned", stats.returned_total),
        ("redriven", stats.redriven_total),
        ("deleted", stats.deleted_total),
        ("sessions_lost", stats.sessions_lost_total),
        ("quarantined", stats.quarantined_total),
        ("repaired", stats.repaired_total),
    ]
}

/// Whether the queue may be one that nothing was ever sent to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MayBeNew {
    #[serde(default)]
    new: bool,
}

/// `POST /api/v1/queues/{queue}/pause`: nothing more of it starts.
pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Segment(queue): Segment,
    Params(may_be): Params<MayBeNew>,
) -> Result<Response, Problem> {
    steer(&app, &caller, &queue, may_be, true).await
}

/// `POST /api/v1/queues/{queue}/resume`: it goes on.
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Segment(queue): Segment,
    Params(may_be): Params<MayBeNew>,
) -> Result<Response, Problem> {
    steer(&app, &caller, &queue, may_be, false).await
}

async fn steer(app: &App, caller: &Caller, queue: &str, may_be: MayBeNew, pause: bool) -> Result<Response, Problem> {
    if !may_be.new {
        used(app, queue).await?;
    }
    let change = async {
        let changed = if pause { app.client.pause(queue).await? } else { app.client.resume(queue).await? };
        Ok(changed)
    };
    let told = |changed: &bool| match (pause, *changed) {
        (true, true) => "paused".to_owned(),
        (true, false) => "was paused already".to_owned(),
        (false, true) => "goes on".to_owned(),
        (false, false) => "was not paused".to_owned(),
    };
    let changed = app.audit.change(caller, Some(queue), "", change, told).await?;
    extract::json(&json!({ "queue": queue, "paused": pause, "changed": changed }))
}

/// How far ahead.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ahead {
    step: Option<String>,
    steps: Option<u64>,
}

/// `GET /api/v1/queues/{queue}/forecast`: how many jobs fall due when.
pub(super) async fn forecast(
    State(app): State<App>,
    Segment(queue): Segment,
    Params(ahead): Params<Ahead>,
) -> Result<Response, Problem> {
    let step = ahead.step.as_deref().map_or(Ok(Duration::from_secs(60)), time::duration);
    let step = step.map_err(Problem::bad_request)?.clamp(Duration::from_millis(1), STEP_MAX);
    let steps = clamped(ahead.steps, 60, 1, delayq::limits::FORECAST_MAX - 1);
    let Forecast { now, due, steps, later, .. } = app.client.forecast(&queue, step, steps).await?;
    let now = instant(Some(now));
    extract::json(&json!({
        "queue": queue, "now": now, "step_ms": ms(step), "due": due, "steps": steps, "later": later,
    }))
}

/// `GET /api/v1/queues/{queue}/workers`: who serves it, what they hold and how late they are.
pub(super) async fn workers(State(app): State<App>, Segment(queue): Segment) -> Result<Response, Problem> {
    let workers = app.client.workers(&queue).await?;
    let us = |late: Duration| u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
    let views: Vec<Value> = workers
        .iter()
        .map(|worker| {
            let lateness = worker.lateness.map(|late| json!({ "mean_us": us(late.mean), "max_us": us(late.max) }));
            json!({
                "session": worker.session,
                "name": worker.name,
                "release": worker.release,
                "pid": worker.pid,
                "started_at": instant(worker.started_at),
                "concurrency": worker.concurrency,
                "running": worker.running,
                "runs_total": worker.runs_total,
                "lateness": lateness,
                "lease_left_ms": worker.lease_left.map(ms),
            })
        })
        .collect();
    extract::json(&json!({ "queue": queue, "workers": views }))
}

//! Jobs: sent, found, cancelled, moved.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use delayq::{AnyJob, CancelOutcome, Client, Error, ErrorKind, JobHandle, JobId, JobInfo, JobState, JobStatus, RawJob};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::App;
use super::audit;
use super::extract::{self, Id, Json, Params};
use super::limits::BATCH_MAX;
use super::pages::{Wanted, page};
use super::problem::Problem;
use super::queues;
use super::roles::Caller;
use crate::find;
use crate::new_job::{Fields, present};
use crate::output::json::{JobView, instant};
use crate::time;

/// A job as it is sent. Its payload is in it: there is no `Debug`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewJob<'a> {
    name: String,
    version: u32,
    #[serde(default, borrow, deserialize_with = "present")]
    payload: Option<&'a RawValue>,
    payload_base64: Option<String>,
    queue: Option<String>,
    #[serde(rename = "in")]
    delay: Option<String>,
    at: Option<String>,
    id: Option<String>,
    priority: Option<u8>,
    max_retries: Option<u32>,
    unique: Option<String>,
    expires_in: Option<String>,
    retain_for: Option<String>,
    trace_parent: Option<String>,
}

/// A job that can be sent, and what is said of it afterwards.
struct Ready {
    queue: String,
    id: JobId,
    name: String,
    job: RawJob,
}

/// What came of a job.
#[derive(Debug, Serialize)]
struct Sent {
    id: String,
    queue: String,
    created: bool,
}

/// `POST /api/v1/jobs`: one job, or a list of them.
pub(super) async fn enqueue(State(app): State<App>, caller: Caller, body: Json) -> Result<Response, Problem> {
    let is_list = body.items().is_some();
    let new: Vec<NewJob<'_>> = match body.items() {
        None => vec![body.read()?],
        Some(1..=BATCH_MAX) => body.read()?,
        Some(count) => {
            return Err(Problem::bad_request(format!("a list has 1 to {BATCH_MAX} jobs, this one has {count}")));
        }
    };
    let mut ready = Vec::with_capacity(new.len());
    for (nth, job) in new.into_iter().enumerate() {
        ready.push(made(job).map_err(|why| {
            Problem::bad_request(if is_list { format!("job {nth} of the list: {why}") } else { why })
        })?);
    }
    let what = listed(&ready);
    let queue = ready.iter().all(|job| job.queue == ready[0].queue).then(|| ready[0].queue.clone());
    let sent =
        app.audit.change(&caller, queue.as_deref(), &what, async { Ok(send(&app.client, ready).await) }, told).await?;
    if is_list { answer_list(sent) } else { answer_one(sent) }
}

/// A job of the request, and what came of it.
struct Answer {
    queue: String,
    id: JobId,
    came: Came,
}

type Answers = Vec<Answer>;

/// What comes of a job that is sent.
#[derive(Debug)]
enum Came {
    /// It is there: made by this request, or before it.
    Sent { created: bool },
    /// It isn't there, or that isn't known.
    Failed(Error),
    /// It was not tried.
    Untried,
}

impl Came {
    fn of(sent: Result<JobHandle<AnyJob>, Error>) -> Came {
        match sent {
            Ok(handle) => Came::Sent { created: handle.is_new() },
            Err(error) => Came::Failed(error),
        }
    }

    /// Whether it was made by this request.
    fn result(self) -> Result<bool, Problem> {
        match self {
            Came::Sent { created } => Ok(created),
            Came::Failed(error) => Err(error.into()),
            Came::Untried => Err(Problem::untried()),
        }
    }

    /// Whether it may be there although it failed.
    fn is_doubtful(&self) -> bool {
        matches!(self, Came::Failed(error) if matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Corrupt))
    }

    /// Whether the store gave no answer in all the time that a send has.
    fn is_unanswered(&self) -> bool {
        matches!(self, Came::Failed(error) if error.is_temporary() && error.kind() != ErrorKind::Full)
    }
}

fn answer_one(mut sent: Answers) -> Result<Response, Problem> {
    let Some(Answer { queue, id, came }) = sent.pop() else {
        return Err(Problem::internal("the job got no answer"));
    };
    let created = came.result().map_err(|problem| problem.with("id", id.to_string()))?;
    let place = format!("/api/v1/jobs/{id}?queue={queue}");
    let mut response = extract::json(&Sent { id: id.to_string(), queue, created })?;
    *response.status_mut() = if created { StatusCode::CREATED } else { StatusCode::OK };
    if let Ok(place) = HeaderValue::from_str(&place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Each job has its own result. Where none is known to be sent, the trouble of one is that of all: of one that may have been sent,
/// before one that can be sent later, before one that is refused. Whoever is told of a refusal doesn't ask again.
fn answer_list(sent: Answers) -> Result<Response, Problem> {
    let count = sent.len();
    let (mut any_sent, mut all_created, mut doubtful) = (false, true, 0);
    let mut gravest: Option<((bool, bool), Problem)> = None;
    let mut results: Vec<Value> = Vec::with_capacity(count);
    for Answer { queue, id, came } in sent {
        let is_doubtful = came.is_doubtful();
        match came.result() {
            Ok(created) => {
                any_sent = true;
                all_created &= created;
                results.push(json!({ "id": id.to_string(), "queue": queue, "created": created }));
            }
            Err(problem) => {
                doubtful += usize::from(is_doubtful);
                results.push(json!({ "id": id.to_string(), "queue": queue, "problem": problem.value() }));
                let rank = (is_doubtful, problem.is_temporary());
                if gravest.as_ref().is_none_or(|(most, _)| rank > *most) {
                    gravest = Some((rank, problem));
                }
            }
        }
    }
    let status = match gravest {
        Some((_, problem)) if !any_sent => {
            let what = match doubtful {
                0 => "no job was sent".to_owned(),
                _ => format!("of {count} jobs {doubtful} may have been sent, and no other"),
            };
            return Err(problem.of(&what).with("jobs", results));
        }
        Some(_) => StatusCode::MULTI_STATUS,
        None if all_created => StatusCode::CREATED,
        None => StatusCode::OK,
    };
    let mut response = extract::json(&json!({ "jobs": results }))?;
    *response.status_mut() = status;
    Ok(response)
}

/// For the audit log: which jobs, none of their payloads.
fn listed(jobs: &[Ready]) -> String {
    jobs.iter().map(|job| format!("{} {}", job.id, audit::shown(&job.name))).collect::<Vec<_>>().join(", ")
}

fn told(sent: &Answers) -> String {
    let one = |Answer { id, came, .. }: &Answer| match came {
        Came::Sent { created: true } => format!("{id} sent"),
        Came::Sent { created: false } => format!("{id} was there"),
        Came::Failed(error) if came.is_doubtful() => format!("{id} may have been sent: {:?}", error.kind()),
        Came::Failed(error) => format!("{id} not sent: {:?}", error.kind()),
        Came::Untried => format!("{id} not tried"),
    };
    sent.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The jobs of one queue, and where each stands in the request.
#[derive(Default)]
struct Batch {
    places: Vec<(usize, JobId)>,
    jobs: Vec<RawJob>,
}

/// Sends jobs, queue by queue, and answers in their order. Where the store gave no answer for one queue, it isn't waited for once
/// more for each of the others.
async fn send(client: &Client, jobs: Vec<Ready>) -> Answers {
    let mut by_queue: BTreeMap<String, Batch> = BTreeMap::new();
    let count = jobs.len();
    for (nth, Ready { queue, id, job, .. }) in jobs.into_iter().enumerate() {
        let batch = by_queue.entry(queue).or_default();
        batch.places.push((nth, id));
        batch.jobs.push(job);
    }
    let mut answers: Vec<(usize, Answer)> = Vec::with_capacity(count);
    let mut gave_up = false;
    for (queue, Batch { places, jobs }) in by_queue {
        let all: Vec<Came> = if gave_up {
            places.iter().map(|_| Came::Untried).collect()
        } else {
            client.send_raw(&queue, jobs).await.into_iter().map(Came::of).collect()
        };
        gave_up |= all.iter().any(Came::is_unanswered);
        let answer = |((nth, id), came)| (nth, Answer { queue: queue.clone(), id, came });
        answers.extend(places.into_iter().zip(all).map(answer));
    }
    answers.sort_by_key(|(nth, _)| *nth);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn made(new: NewJob<'_>) -> Result<Ready, String> {
    // The id is there before anything is sent, so that an answer that isn't sure can name it.
    let id = match new.id {
        Some(text) => text.parse().map_err(|error: delayq::InvalidJobId| error.to_string())?,
        None => JobId::new(),
    };
    let fields = Fields {
        name: new.name.clone(),
        version: new.version,
        payload: new.payload,
        payload_base64: new.payload_base64.as_deref(),
        delay: new.delay.as_deref(),
        at: new.at.as_deref(),
        priority: new.priority,
        max_retries: new.max_retries,
        unique: new.unique,
        expires_in: new.expires_in.as_deref(),
        retain_for: new.retain_for.as_deref(),
        trace_parent: new.trace_parent,
    };
    let job = fields.job()?.id(id);
    Ok(Ready { queue: new.queue.unwrap_or_else(|| "default".to_owned()), id, name: new.name, job })
}

/// Which jobs, and how many.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    queue: String,
    state: Option<String>,
    name: Option<String>,
    payload: Option<String>,
    due_from: Option<String>,
    due_before: Option<String>,
    limit: Option<u64>,
    after: Option<String>,
}

/// `GET /api/v1/jobs`: a page of a queue's jobs, without their payloads.
pub(super) async fn list(State(app): State<App>, Params(listing): Params<Listing>) -> Result<Response, Problem> {
    let state = listing.state.as_deref().map_or(Ok(JobState::Waiting), str::parse)?;
    let mut wanted = Wanted { name: listing.name, payload: listing.payload, ..Wanted::all(state) };
    if listing.due_from.is_some() || listing.due_before.is_some() {
        let now = app.client.stats(&listing.queue).await?.now;
        let moment = |text: String| time::moment(&text).map(|moment| moment.resolve(now)).map_err(Problem::bad_request);
        wanted.due_from = listing.due_from.map(moment).transpose()?;
        wanted.due_before = listing.due_before.map(moment).transpose()?;
    }
    page(&app, &listing.queue, &wanted, listing.limit, listing.after.as_deref()).await
}

/// The queue of a job, where it is known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InQueue {
    pub(super) queue: Option<String>,
}

/// `GET /api/v1/jobs/{id}`: all that is known of a job.
pub(super) async fn show(
    State(app): State<App>,
    Id(id): Id,
    Params(place): Params<InQueue>,
) -> Result<Response, Problem> {
    let queues = queues::named_or_all(&app, place.queue).await?;
    let found = only_one(id, find::everywhere(&app.client, &queues, id).await?)?;
    if let Some(job) = found {
        return extract::json(&JobView::of(&job));
    }
    let (queue, status) = ended(&app, &queues, id).await?;
    extract::json(&json!({ "id": id.to_string(), "queue": queue, "state": status }))
}

/// The one that is meant.
pub(super) fn only_one(id: JobId, mut found: Vec<JobInfo>) -> Result<Option<JobInfo>, Problem> {
    if found.len() > 1 {
        let queues: Vec<&str> = found.iter().map(|job| job.queue.as_str()).collect();
        return Err(Problem::ambiguous(format!("{id} is in {}", queues.join(", "))));
    }
    Ok(found.pop())
}

/// How a job ended that has left its queue.
async fn ended(app: &App, queues: &[String], id: JobId) -> Result<(String, &'static str), Problem> {
    let gone = || Problem::not_found(format!("there is no job {id}: it ended before, or never was"));
    let (queue, status) = find::ended(&app.client, queues, id).await?.ok_or_else(gone)?;
    let status = match status {
        JobStatus::Done => "done",
        JobStatus::Cancelled => "cancelled",
        JobStatus::Expired => "expired",
        JobStatus::Discarded => "discarded",
        JobStatus::Deleted => "deleted",
        // It was made between two looks.
        _ => return Err(gone()),
    };
    Ok((queue, status))
}

/// The handle of a job that is to be changed.
async fn handle(app: &App, id: JobId, queue: Option<String>) -> Result<JobHandle<AnyJob>, Problem> {
    if let Some(queue) = queue {
        return Ok(app.client.job(&queue, id));
    }
    let queues = queues::named_or_all(app, None).await?;
    match only_one(id, find::everywhere(&app.client, &queues, id).await?)? {
        Some(job) => Ok(app.client.job(&job.queue, id)),
        // The queue's own answer says how it ended.
        None => Ok(app.client.job(&ended(app, &queues, id).await?.0, id)),
    }
}

/// `DELETE /api/v1/jobs/{id}`: it will not run, or not again.
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    Params(place): Params<InQueue>,
) -> Result<Response, Problem> {
    let handle = handle(&app, id, place.queue).await?;
    let queue = handle.queue();
    let (what, change) = (id.to_string(), async { Ok(handle.cancel().await?) });
    let outcome = app.audit.change(&caller, Some(queue), &what, change, |done| format!("{id} {}", how(done))).await?;
    extract::json(&json!({ "id": what, "queue": queue, "outcome": how(&outcome) }))
}

fn how(outcome: &CancelOutcome) -> &'static str {
    match outcome {
        CancelOutcome::Cancelled => "cancelled",
        // It goes on to the end of this run.
        _ => "running",
    }
}

/// When a job is to be due.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTime {
    #[serde(rename = "in")]
    delay: Option<String>,
    at: Option<String>,
}

/// `POST /api/v1/jobs/{id}/reschedule`: a job that waits is due at another time.
pub(super) async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    Id(id): Id,
    Params(place): Params<InQueue>,
    body: Json,
) -> Result<Response, Problem> {
    let to: NewTime = body.read()?;
    let when: delayq::When = match (to.delay, to.at) {
        (Some(delay), None) => time::duration(&delay).map_err(Problem::bad_request)?.into(),
        (None, Some(at)) => time::instant(&at).map_err(Problem::bad_request)?.into(),
        _ => return Err(Problem::bad_request("give one of \"in\" and \"at\"")),
    };
    let handle = handle(&app, id, place.queue).await?;
    let queue = handle.queue();
    let (what, change) = (id.to_string(), async { Ok(handle.reschedule_at(when).await?) });
    let due = app.audit.change(&caller, Some(queue), &what, change, |due| format!("{id} due {due}")).await?;
    extract::json(&json!({ "id": what, "queue": queue, "due": instant(Some(due)) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_job::WRONG;

    fn read(text: &str) -> Result<Ready, String> {
        serde_json::from_str(text).map_err(|error| error.to_string()).and_then(made)
    }

    #[test]
    fn s14_what_is_wrong_with_a_job_is_said() {
        for (text, why) in WRONG {
            assert!(read(text).map(|_| ()).is_err_and(|said| said.contains(why)), "{text}");
        }
        let job = read(r#"{"name":"a","version":1,"payload":null}"#).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((job.queue.as_str(), job.name.as_str()), ("default", "a"));
    }
}

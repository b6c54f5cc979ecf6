//! What an autoscaler needs of a queue, in one answer: for KEDA's metrics-api scaler and the like.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::App;
use super::extract::{self, Segment};
use super::problem::Problem;

const MINUTE: Duration = Duration::from_secs(60);

/// `GET /api/v1/queues/{queue}/scale`: `value` is what is to be divided by the jobs that one worker takes at once. A queue that
/// was never used has nothing to do: its workers may be none.
pub(super) async fn scale(State(app): State<App>, Segment(queue): Segment) -> Result<Response, Problem> {
    let stats = app.client.stats(&queue).await?;
    let ahead = app.client.forecast(&queue, MINUTE, 1).await?;
    let due_next_minute: u64 = ahead.steps.iter().sum();
    // A paused queue starts nothing, however many would start it.
    let coming = if stats.paused { 0 } else { stats.due + due_next_minute };
    extract::json(&json!({
        "queue": queue,
        "backlog": stats.waiting,
        "due": stats.due,
        "oldest_due_seconds": stats.oldest_due.as_secs_f64(),
        "due_next_minute": due_next_minute,
        "running": stats.running,
        "workers": stats.sessions,
        "paused": stats.paused,
        "value": stats.running + coming,
    }))
}

//! Whether the process lives, and whether a script runs: for probes, which have no token.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::App;
use super::extract;
use super::problem::Problem;
use crate::failure;
use crate::output::remark;

/// How long an answer is good for, so that probes of any number ask the store twice a second at most.
pub(super) const FRESH: Duration = Duration::from_millis(500);
/// How long the script may take.
const WITHIN: Duration = Duration::from_secs(2);

/// `GET /healthz`: the process answers. The store has no part in it: to start the process anew would not mend that.
pub(super) async fn alive() -> Result<Response, Problem> {
    extract::json(&json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

/// `GET /readyz`: a script was run. That the server answers would not be enough: it may deny scripts.
pub(super) async fn ready(State(app): State<App>) -> Result<Response, Problem> {
    if app.ready.get(runs(&app)).await {
        extract::json(&json!({ "status": "ready" }))
    } else {
        Err(Problem::not_ready())
    }
}

async fn runs(app: &App) -> bool {
    match tokio::time::timeout(WITHIN, app.client.queues()).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            // Whoever probes need not know where the store is.
            remark(format!("not ready: {}", failure::told(&error)));
            false
        }
        Err(_) => {
            remark(format!("not ready: no script was answered within {WITHIN:?}"));
            false
        }
    }
}

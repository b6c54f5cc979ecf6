//! Who may do what: the two roles, what a route asks for, and the guard in front of each.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::auth::bearer;
use super::listen::Peer;
use super::origin;
use super::problem::Problem;
use super::routes::{Route, Verb};

/// What a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// May look.
    Reader,
    /// May look and change.
    Operator,
}

/// What a route asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing.
    Open,
    /// A token, unless the command line opened the metrics.
    Metrics,
    /// A token.
    Reader,
    /// An operator's token.
    Operator,
}

/// Who asks.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// The name in the audit log.
    pub(super) who: Arc<str>,
    pub(super) from: IpAddr,
    /// The request's own id.
    pub(super) request: Arc<str>,
    /// The route's operation.
    pub(super) operation: &'static str,
}

/// The id of a request, which its answer carries too.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) Arc<str>);

impl Role {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Operator => "operator",
        }
    }
}

impl Access {
    fn allows(self, role: Role) -> bool {
        self != Access::Operator || role == Role::Operator
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Caller, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| Problem::internal("the route has no guard"))
    }
}

/// Lets a request through to its route, or not.
pub(super) async fn guard(State((app, route)): State<(App, &'static Route)>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let response = match admit(&app, route, &request) {
        Err(problem) => problem.into_response(),
        Ok(caller) => run(&app, route, caller, request, next).await,
    };
    metrics::histogram!("delayq_http_request_duration_seconds", "route" => route.path, "method" => route.verb.as_str(),
        "status" => response.status().as_u16().to_string())
    .record(started.elapsed());
    response
}

fn admit(app: &App, route: &Route, request: &Request) -> Result<Option<Caller>, Problem> {
    let headers = request.headers();
    if route.verb != Verb::Get {
        origin::check(headers)?;
    }
    let is_open = route.access == Access::Open || (route.access == Access::Metrics && app.metrics_open);
    if is_open {
        return Ok(None);
    }
    let (role, who) = if app.tokens.is_empty() {
        // Only this machine can be here.
        (Role::Operator, "local".to_owned())
    } else {
        let token = bearer(headers).ok_or_else(|| Problem::unauthorized("the request has no bearer token"))?;
        app.tokens.find(token).ok_or_else(|| Problem::unauthorized("the token is not known"))?
    };
    if !route.access.allows(role) {
        return Err(Problem::forbidden());
    }
    let (Some(Peer(from)), Some(RequestId(id))) = (request.extensions().get(), request.extensions().get()) else {
        return Err(Problem::internal("the request has no address or no id"));
    };
    Ok(Some(Caller { who: who.into(), from: *from, request: id.clone(), operation: route.operation }))
}

async fn run(app: &App, route: &Route, caller: Option<Caller>, mut request: Request, next: Next) -> Response {
    let changes = route.verb != Verb::Get;
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    if !changes {
        return next.run(request).await;
    }
    let Ok(place) = app.changes.clone().acquire_owned().await else {
        return Problem::internal("there is no place for a change").into_response();
    };
    // In a task of its own: a change goes on to its end, and to its line in the audit log, though the client leaves.
    let change = async move {
        let response = next.run(request).await;
        drop(place);
        response
    };
    match tokio::spawn(change).await {
        Ok(response) => response,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Problem::internal("the change was cut off by the end of the service").into_response(),
        },
    }
}

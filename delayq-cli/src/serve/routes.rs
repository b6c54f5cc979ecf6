//! The table of routes, of which the router, the guards and the tests are made; and what all answers have.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use delayq::JobId;
use tower_http::catch_panic::CatchPanicLayer;

use super::listen::Peer;
use super::problem::Problem;
use super::roles::{Access, RequestId, guard};
use super::{App, autoscale, dead, health, jobs, metrics, openapi, origin, queues};

/// A route. Whatever isn't in [`ROUTES`] isn't there.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) verb: Verb,
    pub(super) path: &'static str,
    pub(super) access: Access,
    /// Its name in the document, the audit log and the tests.
    pub(super) operation: &'static str,
    handler: fn(MethodFilter) -> MethodRouter<App>,
}

/// The methods that are used. HEAD comes with GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Delete,
}

impl Verb {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Delete => "DELETE",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
            Verb::Delete => MethodFilter::DELETE,
        }
    }
}

const fn route(
    verb: Verb,
    path: &'static str,
    access: Access,
    operation: &'static str,
    handler: fn(MethodFilter) -> MethodRouter<App>,
) -> Route {
    Route { verb, path, access, operation, handler }
}

pub(super) static ROUTES: &[Route] = &[
    route(Verb::Post, "/api/v1/jobs", Access::Operator, "enqueue", |verb| on(verb, jobs::enqueue)),
    route(Verb::Get, "/api/v1/jobs", Access::Reader, "listJobs", |verb| on(verb, jobs::list)),
    route(Verb::Get, "/api/v1/jobs/{id}", Access::Reader, "getJob", |verb| on(verb, jobs::show)),
    route(Verb::Delete, "/api/v1/jobs/{id}", Access::Operator, "cancelJob", |verb| on(verb, jobs::cancel)),
    route(Verb::Post, "/api/v1/jobs/{id}/reschedule", Access::Operator, "rescheduleJob", |verb| {
        on(verb, jobs::reschedule)
    }),
    route(Verb::Get, "/api/v1/queues", Access::Reader, "listQueues", |verb| on(verb, queues::list)),
    route(Verb::Get, "/api/v1/queues/{queue}", Access::Reader, "getQueue", |verb| on(verb, queues::show)),
    route(Verb::Post, "/api/v1/queues/{queue}/pause", Access::Operator, "pauseQueue", |verb| on(verb, queues::pause)),
    route(Verb::Post, "/api/v1/queues/{queue}/resume", Access::Operator, "resumeQueue", |verb| {
        on(verb, queues::resume)
    }),
    route(Verb::Get, "/api/v1/queues/{queue}/forecast", Access::Reader, "forecastQueue", |verb| {
        on(verb, queues::forecast)
    }),
    route(Verb::Get, "/api/v1/queues/{queue}/workers", Access::Reader, "listWorkers", |verb| on(verb, queues::workers)),
    route(Verb::Get, "/api/v1/queues/{queue}/scale", Access::Reader, "scaleQueue", |verb| on(verb, autoscale::scale)),
    route(Verb::Get, "/api/v1/dead", Access::Reader, "listDead", |verb| on(verb, dead::list)),
    route(Verb::Get, "/api/v1/dead/{id}", Access::Reader, "getDead", |verb| on(verb, dead::show)),
    route(Verb::Delete, "/api/v1/dead/{id}", Access::Operator, "deleteDead", |verb| on(verb, dead::delete)),
    route(Verb::Post, "/api/v1/dead/{id}/retry", Access::Operator, "retryDead", |verb| on(verb, dead::retry)),
    route(Verb::Get, "/api/v1/openapi.json", Access::Open, "getDocument", |verb| on(verb, openapi::document)),
    route(Verb::Get, "/metrics", Access::Metrics, "getMetrics", |verb| on(verb, metrics::scrape)),
    route(Verb::Get, HEALTHZ, Access::Open, "isAlive", |verb| on(verb, health::alive)),
    route(Verb::Get, READYZ, Access::Open, "isReady", |verb| on(verb, health::ready)),
];

const HEALTHZ: &str = "/healthz";
const READYZ: &str = "/readyz";

/// What every answer says. A browser takes no answer for a page, keeps none, and shows none in another page.
const FIELDS: [(&str, &str); 7] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("vary", "authorization"),
];

pub(super) fn router(app: App) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let guarded = (route.handler)(route.verb.filter()).route_layer(from_fn_with_state((app.clone(), route), guard));
        router = router.route(route.path, guarded);
    }
    router
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), outermost))
        .with_state(app)
}

async fn no_route() -> Problem {
    Problem::no_route()
}

async fn no_method() -> Problem {
    Problem::no_method()
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    Problem::internal("the request met a fault of the service").into_response()
}

/// What comes before any route, and what all answers get.
async fn outermost(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id: Arc<str> = JobId::new().to_string().into();
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = match admit(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let fields = response.headers_mut();
    for (name, value) in FIELDS {
        fields.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        fields.insert("x-request-id", id);
    }
    response
}

fn admit(app: &App, request: &Request) -> Result<(), Problem> {
    if matches!(request.uri().path(), HEALTHZ | READYZ) {
        return Ok(());
    }
    if let Some(Peer(from)) = request.extensions().get() {
        app.rate.take(*from, Instant::now()).map_err(|wait: Duration| Problem::too_many(wait.as_secs()))?;
    }
    if app.tokens.is_empty() && !origin::is_local(request.headers()) {
        return Err(Problem::cross_site(
            "without tokens only localhost, 127.0.0.1 and [::1] are served, by these names",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s08_what_changes_is_for_operators_and_never_a_get() {
        for route in ROUTES {
            assert_eq!(route.verb != Verb::Get, route.access == Access::Operator, "{route:?}");
        }
    }

    #[test]
    fn a_route_is_there_once() {
        for (nth, route) in ROUTES.iter().enumerate() {
            for other in &ROUTES[..nth] {
                assert_ne!(route.operation, other.operation);
                assert!(route.path != other.path || route.verb != other.verb, "{route:?}");
            }
        }
    }
}

//! What goes wrong, as RFC 9457 has it: a kind, a status, what happened, and what to do.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use delayq::{Error, ErrorKind};
use serde_json::{Map, Value};

use crate::failure::{self, Failure};
use crate::output::remark;

/// What every kind of problem is named under.
const TYPES: &str = "urn:delayq:problem:";
/// Title and action where the store has nothing of it.
const UNAVAILABLE: (&str, &str) =
    ("The store can't be used at the moment", "Send the same again later, with the same id.");

/// The answer to a request that can't be done.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    detail: String,
    action: &'static str,
    retry_after_secs: Option<u64>,
    extra: Map<String, Value>,
}

impl Problem {
    fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
        action: &'static str,
    ) -> Problem {
        Problem { status, kind, title, detail: detail.into(), action, retry_after_secs: None, extra: Map::new() }
    }

    fn after(mut self, secs: u64) -> Problem {
        self.retry_after_secs = Some(secs);
        self
    }

    /// With one more field.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.extra.insert(name.to_owned(), value.into());
        self
    }

    /// With words in front of what happened.
    pub(super) fn of(mut self, what: &str) -> Problem {
        self.detail = format!("{what}: {}", self.detail);
        self
    }

    pub(super) fn title(&self) -> &'static str {
        self.title
    }

    /// Whether the same request may succeed later.
    pub(super) fn is_temporary(&self) -> bool {
        self.retry_after_secs.is_some()
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "invalid-request",
            "The request is wrong",
            detail,
            "Correct the request; /api/v1/openapi.json describes it. Nothing was changed.",
        )
    }

    pub(super) fn unauthorized(detail: &str) -> Problem {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "A token is needed",
            detail,
            "Send Authorization: Bearer and a token that the service knows.",
        )
    }

    pub(super) fn forbidden() -> Problem {
        Problem::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "The token may not do this",
            "this token may look, not change",
            "Use a token of an operator.",
        )
    }

    pub(super) fn cross_site(detail: &str) -> Problem {
        Problem::new(
            StatusCode::FORBIDDEN,
            "cross-site",
            "The request comes from another site",
            detail,
            "Send it from a program, or from a page of this service.",
        )
    }

    pub(super) fn no_route() -> Problem {
        Problem::new(
            StatusCode::NOT_FOUND,
            "no-such-path",
            "There is nothing at this path",
            "no route of the service has this path",
            "See /api/v1/openapi.json for the paths.",
        )
    }

    pub(super) fn no_method() -> Problem {
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "The path doesn't take this method",
            "the path is there, with other methods",
            "Use one of the methods in the Allow field.",
        )
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(
            StatusCode::NOT_FOUND,
            "not-found",
            "It isn't there",
            detail,
            "Check the id and the queue. What ended is forgotten after 15 s unless its record is retained.",
        )
    }

    pub(super) fn conflict(detail: impl Into<String>) -> Problem {
        Problem::new(
            StatusCode::CONFLICT,
            "wrong-state",
            "Its state doesn't allow this",
            detail,
            "Look at the job, then ask for what its state allows.",
        )
    }

    pub(super) fn ambiguous(detail: impl Into<String>) -> Problem {
        Problem::new(
            StatusCode::CONFLICT,
            "ambiguous",
            "Several queues have this id",
            detail,
            "Say which one is meant: add ?queue=",
        )
    }

    pub(super) fn too_large(limit: usize) -> Problem {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "The body is too large",
            format!("a body may have {limit} bytes"),
            "Send fewer jobs at once, or a reference instead of the data. Nothing was changed.",
        )
    }

    pub(super) fn wrong_media_type() -> Problem {
        Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not-json",
            "The body is not said to be JSON",
            "the body must come with Content-Type: application/json",
            "Send JSON with that Content-Type. Nothing was changed.",
        )
    }

    pub(super) fn too_slow() -> Problem {
        Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "too-slow",
            "The body didn't come in time",
            "the client took too long to send the body",
            "Send it again. Nothing was changed.",
        )
    }

    pub(super) fn too_many(wait_secs: u64) -> Problem {
        Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-many-requests",
            "Too many requests",
            "this address sends more requests a second than it may",
            "Wait as long as Retry-After says; send jobs in batches.",
        )
        .after(wait_secs.max(1))
    }

    /// A job that was not tried, since the store had given no answer before.
    pub(super) fn untried() -> Problem {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store-unavailable",
            UNAVAILABLE.0,
            "not sent, since the store gave no answer for a queue before it in this request",
            UNAVAILABLE.1,
        )
        .after(1)
    }

    pub(super) fn not_ready() -> Problem {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not-ready",
            "The store runs no scripts",
            "a script was not answered",
            "Look at the service's standard error, and at the store.",
        )
        .after(1)
    }

    pub(super) fn internal(detail: impl Into<String>) -> Problem {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "The service failed",
            detail,
            "Look at the service's standard error. The change may have happened: look before it is repeated.",
        )
    }

    /// The audit log can't be written: the change isn't made.
    pub(super) fn unwritten(error: &std::io::Error) -> Problem {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no-audit-log",
            "The audit log can't be written",
            format!("the audit log can't be written: {error}"),
            "Make the log writable again. Nothing was changed.",
        )
    }

    /// The problem as a JSON object.
    pub(super) fn value(&self) -> Value {
        let mut all = self.extra.clone();
        all.insert("type".to_owned(), format!("{TYPES}{}", self.kind).into());
        all.insert("title".to_owned(), self.title.into());
        all.insert("status".to_owned(), self.status.as_u16().into());
        all.insert("detail".to_owned(), self.detail.clone().into());
        all.insert("action".to_owned(), self.action.into());
        Value::Object(all)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let text = failure::told(&error);
        let server = |status, kind, title, action| Problem::new(status, kind, title, text.clone(), action);
        match error.kind() {
            ErrorKind::InvalidArgument => Problem::bad_request(text),
            ErrorKind::Payload => server(
                StatusCode::PAYLOAD_TOO_LARGE,
                "payload",
                "The payload can't be sent",
                "Send a smaller payload, or a reference instead of the data. Nothing was changed.",
            ),
            ErrorKind::Duplicate => {
                let owner = error.owner().map(|owner| owner.to_string());
                server(
                    StatusCode::CONFLICT,
                    "duplicate",
                    "Another job has this unique key",
                    "Wait for the end of the owner, or cancel it. Nothing was changed.",
                )
                .with("owner", owner)
            }
            ErrorKind::NotFound => Problem::not_found(text),
            ErrorKind::WrongState => Problem::conflict(text),
            ErrorKind::Unknown => server(
                StatusCode::GATEWAY_TIMEOUT,
                "unknown-outcome",
                "The store didn't answer: it may have happened",
                "Send the same again, with the same id: there will be one job.",
            )
            .after(1),
            ErrorKind::Full => server(
                StatusCode::INSUFFICIENT_STORAGE,
                "store-full",
                "The store's memory is full",
                "Give the store more memory, or let workers drain it. Nothing was changed.",
            )
            .after(10),
            ErrorKind::Unreachable | ErrorKind::Unavailable => {
                server(StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", UNAVAILABLE.0, UNAVAILABLE.1).after(1)
            }
            ErrorKind::Denied | ErrorKind::Unsupported => server(
                StatusCode::BAD_GATEWAY,
                "store-refuses",
                "The store refuses the service",
                "Check the service's user and its permissions in the store.",
            ),
            _ => Problem::internal(text),
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        match failure {
            Failure::Store(error) => error.into(),
            Failure::Refused(text) => Problem::not_found(text),
            Failure::Usage(text) => Problem::bad_request(text),
            Failure::Output(error) => Problem::internal(error.to_string()),
            Failure::Told(_) => Problem::internal("the reason was told elsewhere"),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            remark(format!("{}: {}", self.title, self.detail));
        }
        let mut response = (self.status, self.value().to_string()).into_response();
        let fields = response.headers_mut();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(secs) = self.retry_after_secs {
            fields.insert(header::RETRY_AFTER, secs.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            fields.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"delayq\""));
        }
        response
    }
}

//! Turns a panic into an error: it fails its job alone.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::error::BoxError;
use crate::job::{JobRequest, Outcome, describe_panic};

/// Turns a panic of what is inside, while it is called or polled, into the error [`Panicked`].
#[derive(Debug, Clone, Copy, Default)]
pub struct CatchPanicLayer;

impl CatchPanicLayer {
    /// The layer.
    pub fn new() -> CatchPanicLayer {
        CatchPanicLayer
    }
}

impl<S> Layer<S> for CatchPanicLayer {
    type Service = CatchPanic<S>;

    fn layer(&self, inner: S) -> CatchPanic<S> {
        CatchPanic { inner }
    }
}

/// The service of [`CatchPanicLayer`].
#[derive(Debug, Clone)]
pub struct CatchPanic<S> {
    inner: S,
}

impl<S> Service<JobRequest> for CatchPanic<S>
where
    S: Service<JobRequest, Response = Outcome>,
    S::Error: Into<BoxError>,
{
    type Response = Outcome;
    type Error = BoxError;
    type Future = CatchPanicFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        // The service is not called again after a panic: each run has a clone of its own.
        match catch_unwind(AssertUnwindSafe(|| self.inner.call(request))) {
            Ok(run) => CatchPanicFuture { run: Some(run), panicked: None },
            Err(payload) => CatchPanicFuture { run: None, panicked: Some(Panicked::new(payload.as_ref())) },
        }
    }
}

pin_project! {
    /// The future of [`CatchPanic`].
    #[derive(Debug)]
    pub struct CatchPanicFuture<F> {
        #[pin]
        run: Option<F>,
        panicked: Option<Panicked>,
    }
}

impl<F, E> Future for CatchPanicFuture<F>
where
    F: Future<Output = Result<Outcome, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Outcome, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(panicked) = this.panicked.take() {
            return Poll::Ready(Err(panicked.into()));
        }
        let polled = catch_unwind(AssertUnwindSafe(|| match this.run.as_mut().as_pin_mut() {
            Some(run) => run.poll(cx).map_err(Into::into),
            None => Poll::Ready(Err("the run was polled after its end".into())),
        }));
        let ended = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(ended)) => ended,
            Err(payload) => Err(Panicked::new(payload.as_ref()).into()),
        };
        // Dropped here, where a panic of its values' Drop is caught too.
        match catch_unwind(AssertUnwindSafe(|| this.run.set(None))) {
            Ok(()) => Poll::Ready(ended),
            Err(payload) => Poll::Ready(Err(Panicked::new(payload.as_ref()).into())),
        }
    }
}

/// A run panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked {
    text: String,
}

impl Panicked {
    pub(crate) fn new(payload: &(dyn Any + Send)) -> Panicked {
        Panicked { text: describe_panic(payload) }
    }

    /// What the panic said.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the run panicked: {}", self.text)
    }
}

impl std::error::Error for Panicked {}

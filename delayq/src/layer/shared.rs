//! Lets a service that can't be cloned be shared by all runs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{Mutex, OwnedMutexGuard};
use tower::{Layer, Service};

/// Puts one service behind all runs of a worker, for layers whose service is not `Clone`, such as tower's `RateLimitLayer`:
///
/// ```no_run
/// # use delayq::{Client, Worker, layer::SharedLayer};
/// # use std::time::Duration;
/// # async fn example(client: Client) -> Result<(), delayq::Error> {
/// Worker::new(client)
///     .layer(SharedLayer::new(tower::limit::RateLimitLayer::new(100, Duration::from_secs(1))))
///     .run().await
/// # }
/// ```
///
/// One run a time can hold the service ready, so jobs are claimed one by one.
#[derive(Debug, Clone, Copy)]
pub struct SharedLayer<L> {
    layer: L,
}

impl<L> SharedLayer<L> {
    /// Shares the service of `layer`.
    pub fn new(layer: L) -> SharedLayer<L> {
        SharedLayer { layer }
    }
}

impl<L: Layer<S>, S> Layer<S> for SharedLayer<L> {
    type Service = Shared<L::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        Shared { inner: Arc::new(Mutex::new(self.layer.layer(inner))), state: State::Idle }
    }
}

type Locking<S> = Pin<Box<dyn Future<Output = OwnedMutexGuard<S>> + Send>>;

/// The service of [`SharedLayer`].
pub struct Shared<S> {
    inner: Arc<Mutex<S>>,
    state: State<S>,
}

enum State<S> {
    Idle,
    Locking(Locking<S>),
    /// The reservation: from readiness to the call nobody else may use it up.
    Locked(OwnedMutexGuard<S>),
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Shared<S> {
        Shared { inner: self.inner.clone(), state: State::Idle }
    }
}

impl<S> fmt::Debug for Shared<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<R, S> Service<R> for Shared<S>
where
    S: Service<R> + Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        loop {
            self.state = match &mut self.state {
                State::Idle => State::Locking(Box::pin(self.inner.clone().lock_owned())),
                State::Locking(locking) => State::Locked(ready!(locking.as_mut().poll(cx))),
                State::Locked(service) => return service.poll_ready(cx),
            };
        }
    }

    fn call(&mut self, request: R) -> S::Future {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Locked(mut service) => service.call(request),
            // tower's contract: a service may panic then.
            _ => panic!("Shared was called before it was ready"),
        }
    }
}

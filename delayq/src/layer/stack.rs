//! Puts the stack of a worker together.

use std::sync::Arc;

use tower::util::BoxCloneService;
use tower::{Layer, Service, ServiceBuilder};

use super::{
    CatchPanicLayer, Dispatch, MetricsLayer, PersistentRetryLayer, ResolveLayer, TimeoutLayer, TraceLayer, Unknown,
};
use crate::error::BoxError;
use crate::job::{Data, JobRequest, Outcome};
use crate::registry::Registry;

/// A service for runs, whatever it is made of.
pub type JobService = BoxCloneService<JobRequest, Outcome, BoxError>;

/// A layer of the user's, applied when the worker runs: some layers want a runtime around them.
type UserLayer = Box<dyn FnOnce(JobService) -> JobService + Send>;

/// Makes the user's own stack out of the worker's dispatch.
type Whole = Box<dyn FnOnce(Dispatch) -> JobService + Send>;

/// What a worker's stack is to be made of.
#[derive(Default)]
pub(crate) struct Stack {
    layers: Vec<UserLayer>,
    whole: Option<Whole>,
}

impl Stack {
    pub(crate) fn push<L>(&mut self, layer: L)
    where
        L: Layer<JobService> + Send + 'static,
        L::Service: Service<JobRequest, Response = Outcome> + Clone + Send + 'static,
        <L::Service as Service<JobRequest>>::Error: Into<BoxError>,
        <L::Service as Service<JobRequest>>::Future: Send + 'static,
    {
        self.layers.push(Box::new(move |inner| erase(layer.layer(inner))));
    }

    pub(crate) fn replace<F, S>(&mut self, make: F)
    where
        F: FnOnce(Dispatch) -> S + Send + 'static,
        S: Service<JobRequest, Response = Outcome> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        self.whole = Some(Box::new(move |dispatch| erase(make(dispatch))));
    }

    /// Both a whole stack and single layers were given.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.whole.is_some() && !self.layers.is_empty()
    }

    pub(crate) fn build(self, registry: &Arc<Registry>, data: Arc<Data>, unknown: Unknown) -> JobService {
        let dispatch = Dispatch::new(data);
        // A stack of the user's own is still given resolved requests: without them dispatch can do nothing.
        let resolve = ResolveLayer::new(registry.clone(), unknown);
        if let Some(whole) = self.whole {
            return erase(resolve.layer(whole(dispatch)));
        }
        let outer = ServiceBuilder::new()
            .layer(TraceLayer::new())
            .layer(MetricsLayer::new())
            .layer(resolve)
            .layer(PersistentRetryLayer::new())
            .layer(CatchPanicLayer::new());
        let run = TimeoutLayer::new().layer(dispatch);
        if self.layers.is_empty() {
            // Unerased from end to end: the common case is the fast one.
            return erase(outer.service(run));
        }
        let inner = self.layers.into_iter().fold(erase(run), |inner, layer| layer(inner));
        erase(outer.service(inner))
    }
}

fn erase<S>(service: S) -> JobService
where
    S: Service<JobRequest, Response = Outcome> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    BoxCloneService::new(ServiceBuilder::new().map_err(Into::into).service(service))
}

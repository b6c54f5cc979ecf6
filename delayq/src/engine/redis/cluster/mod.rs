//! The engine for a Redis Cluster: all keys of a queue lie in one slot, and the node that has it is asked directly.
//!
//! Only what a node refused unheard, because the slot is another's, is sent on. A cluster client in general sends a call
//! again whose answer was lost, and neither keeps the order of calls nor blocks.

mod slots;
mod topology;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use redis::{ConnectionInfo, ErrorKind as RedisKind, RedisError, ServerErrorKind, Value};

use super::target::{Mode, Settings};
use super::{Failed, RedisEngine, failure, timed};
use crate::engine::{BoxFuture, Engine, Marker, Replicas, Reply, Script, Server};
use crate::error::{Error, ErrorKind};

use slots::Node;
use topology::Topology;

/// How many nodes take writes by what CLUSTER SLOTS answers.
pub(super) fn primaries(answer: &Value) -> usize {
    let nobody = Node { host: String::new(), port: 0 };
    slots::Slots::read(answer, &nobody).map_or(0, |slots| slots.primaries().len())
}

/// How often one call is sent on. Two are usual: a slot may have moved twice since it was last looked for.
const HOPS_MAX: u32 = 5;

/// Scripts on a Redis Cluster.
pub(super) struct ClusterEngine {
    topology: Arc<Topology>,
    /// Connections to a node.
    pool_size: u32,
    /// Calls keep their order: none is sent on, since those after it would pass it by.
    is_in_order: bool,
    nodes: Mutex<HashMap<Node, Arc<RedisEngine>>>,
}

/// Where a call is on its way to.
struct Route {
    at: Node,
    node: Arc<RedisEngine>,
    /// The slot is being moved there: the node must be told that one knows.
    asking: bool,
    hops: u32,
}

impl ClusterEngine {
    /// Connects to the nodes, and looks at those that can be reached.
    ///
    /// # Errors
    /// None of the nodes answers, the user or password is refused, or one is no Redis of version 6.2 or later.
    pub(super) async fn connect(
        seeds: Vec<ConnectionInfo>,
        shown: String,
        settings: Settings,
    ) -> Result<ClusterEngine, Error> {
        settings.check()?;
        let pool_size = settings.pool_size;
        let engine = ClusterEngine::on(Arc::new(Topology::new(seeds, shown, settings)), pool_size, false);
        let primaries = engine.topology.survey().await?;
        let targets = primaries.iter().map(|node| engine.topology.target(node)).collect::<Result<Vec<_>, _>>()?;
        let probed = join_all(targets.iter().map(|target| target.probe(Mode::Cluster))).await;
        let (sound, failed): (Vec<_>, Vec<_>) = probed.into_iter().partition(Result::is_ok);
        for error in failed.into_iter().filter_map(Result::err) {
            // The others can do their work while one is missing.
            let is_missing = matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Unavailable);
            if sound.is_empty() || !is_missing {
                return Err(error);
            }
            tracing::warn!(%error, "a node of the cluster can't be reached: its queues wait for it, or for its replica");
        }
        Ok(engine)
    }

    fn on(topology: Arc<Topology>, pool_size: u32, is_in_order: bool) -> ClusterEngine {
        ClusterEngine { topology, pool_size, is_in_order, nodes: Mutex::default() }
    }

    /// This engine's connections to a node.
    fn node(&self, at: &Node) -> Result<Arc<RedisEngine>, Error> {
        let target = self.topology.target(at)?;
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        match nodes.get(at) {
            Some(node) if Arc::ptr_eq(&node.target, &target) => Ok(node.clone()),
            _ => {
                let slots = self.topology.slots();
                let known = slots.borrow().nodes();
                nodes.retain(|node, _| known.contains(node));
                let node = Arc::new(RedisEngine::lazy(target, self.pool_size));
                nodes.insert(at.clone(), node.clone());
                Ok(node)
            }
        }
    }

    async fn route(&self, slot: u16) -> Result<Route, Error> {
        let at = self.topology.owner(slot).await?;
        Ok(Route { node: self.node(&at)?, at, asking: false, hops: 0 })
    }

    /// Where a call goes on to that failed; an error where it doesn't.
    fn redirect(&self, route: &mut Route, operation: &str, failed: Failed) -> Result<(), Error> {
        let Failed::Call(error) = &failed else {
            if matches!(failed, Failed::Unconnected(_)) {
                self.topology.doubt(Some(&route.at));
            }
            return Err(route.node.told(operation, failed));
        };
        let to = error.redirect_node().and_then(|(node, slot)| Some((Node::read(node, &route.at)?, slot)));
        let Some((to, slot)) = to else {
            if is_of_another_time(error) {
                self.topology.doubt(Some(&route.at));
            }
            return Err(route.node.told(operation, failed));
        };
        let asking = matches!(error.kind(), RedisKind::Server(ServerErrorKind::Ask));
        if !asking {
            self.topology.moved(slot, &route.at, &to);
        }
        if self.is_in_order || route.hops >= HOPS_MAX {
            return Err(route.node.told(operation, failed));
        }
        *route = Route { node: self.node(&to)?, at: to, asking, hops: route.hops + 1 };
        Ok(())
    }

    async fn evaluate(&self, script: &'static Script, keys: &[Vec<u8>], args: &[&[u8]]) -> Result<Reply, Error> {
        let mut route = self.route(slot_of(keys)?).await?;
        loop {
            match route.node.evaluate(script, keys, args, route.asking).await {
                Ok(reply) => return Ok(reply),
                Err(failed) => self.redirect(&mut route, script.name, failed)?,
            }
        }
    }

    async fn evaluate_and_wait(
        &self,
        script: &'static Script,
        keys: &[Vec<u8>],
        args: &[&[u8]],
        replicas: Replicas,
    ) -> Result<(Reply, u32), Error> {
        let mut route = self.route(slot_of(keys)?).await?;
        loop {
            match route.node.evaluate_and_wait(script, keys, args, replicas, route.asking).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => self.redirect(&mut route, script.name, failed)?,
            }
        }
    }

    async fn pop(&self, keys: &[Vec<u8>], timeout: Duration) -> Result<Option<Marker>, Error> {
        let slot = slot_of(keys)?;
        let mut slots = self.topology.slots();
        let mut route = self.route(slot).await?;
        let moved = async {
            // An error would mean that there is no topology any more, and it is this engine's.
            let _ = slots.wait_for(|slots| slots.owner(slot) != Some(&route.at)).await;
        };
        let popped = tokio::select! {
            popped = route.node.pop(keys, timeout) => popped,
            () = moved => {
                return Err(Error::new(
                    ErrorKind::Unreachable,
                    format!("slot {slot} of {} has moved to another node: the waiting connection is made anew", self.topology),
                ));
            }
        };
        popped.map_err(|failed| {
            self.topology.doubt(Some(&route.at));
            // Who waits asks again by itself: it isn't sent on, but what was heard is remembered.
            let error = Error::new(ErrorKind::Unavailable, "the waiting connection is made to another node");
            self.redirect(&mut route, "wait", failed).err().unwrap_or(error)
        })
    }
}

/// The one slot of a call's keys.
fn slot_of(keys: &[Vec<u8>]) -> Result<u16, Error> {
    slots::of_keys(keys).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "a call on keys of several slots: no node of a cluster has them all")
    })
}

/// What comes from a node that may have lost its part since it was looked for.
fn is_of_another_time(error: &RedisError) -> bool {
    failure::breaks_connection(error)
        || matches!(failure::code(error), "CLUSTERDOWN" | "MASTERDOWN" | "UNBLOCKED" | "LOADING" | "MOVED")
}

impl Engine for ClusterEngine {
    fn run<'a>(
        &'a self,
        script: &'static Script,
        keys: &'a [Vec<u8>],
        args: &'a [&'a [u8]],
    ) -> BoxFuture<'a, Result<Reply, Error>> {
        Box::pin(timed(script, self.evaluate(script, keys, args)))
    }

    fn run_and_wait<'a>(
        &'a self,
        script: &'static Script,
        keys: &'a [Vec<u8>],
        args: &'a [&'a [u8]],
        replicas: Replicas,
    ) -> BoxFuture<'a, Result<(Reply, u32), Error>> {
        Box::pin(timed(script, self.evaluate_and_wait(script, keys, args, replicas)))
    }

    fn wait<'a>(&'a self, keys: &'a [Vec<u8>], timeout: Duration) -> BoxFuture<'a, Result<Option<Marker>, Error>> {
        Box::pin(self.pop(keys, timeout))
    }

    fn command<'a>(&'a self, parts: &'a [&'a [u8]]) -> BoxFuture<'a, Result<Option<Reply>, Error>> {
        Box::pin(async move {
            let any = self.topology.survey().await?.into_iter().next();
            let any = any
                .ok_or_else(|| Error::new(ErrorKind::Unreachable, format!("no node of {} is known", self.topology)))?;
            self.node(&any)?.command(parts).await
        })
    }

    fn servers(&self) -> BoxFuture<'_, Result<Vec<Server>, Error>> {
        Box::pin(async move {
            let nodes = self.topology.survey().await?;
            nodes.iter().map(|at| Ok((format!("{}:{}", at.host, at.port), self.node(at)? as Arc<dyn Engine>))).collect()
        })
    }

    fn dedicated(&self) -> Arc<dyn Engine> {
        Arc::new(ClusterEngine::on(self.topology.clone(), self.topology.settings.pool_size, false))
    }

    fn in_order(&self) -> Arc<dyn Engine> {
        Arc::new(ClusterEngine::on(self.topology.clone(), 1, true))
    }
}

//! What is known of a cluster, by all engines on it: which node has which slot, and when that must be asked again.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{ConnectionAddr, ConnectionInfo, RedisError, Value};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::super::address::{Address, Place, shown_addr};
use super::super::target::{Settings, Target};
use super::slots::{Node, Slots};
use crate::error::{Error, ErrorKind};

/// How many nodes are asked at once: enough for most of them to agree, not a crowd where there are hundreds.
const ASKED_MAX: usize = 9;
/// How much longer than the first answer those of the others are waited for: a node that was cut off answers what was once true.
const GATHER: Duration = Duration::from_millis(300);
/// So long the cluster isn't asked again: a failover takes longer than that.
const PAUSE: Duration = Duration::from_millis(100);

/// What is known of a cluster.
pub(super) struct Topology {
    seeds: Vec<ConnectionInfo>,
    shown: String,
    pub(super) settings: Settings,
    slots: watch::Sender<Slots>,
    /// One target a node, whoever connects: where one connection is found dead, the others are suspects.
    targets: Lock<HashMap<Node, Arc<Target>>>,
    /// Something was seen that doesn't go with the slots as they are known.
    is_doubtful: AtomicBool,
    asked: Mutex<Option<Instant>>,
}

impl Topology {
    pub(super) fn new(seeds: Vec<ConnectionInfo>, shown: String, settings: Settings) -> Topology {
        Topology {
            seeds,
            shown,
            settings,
            slots: watch::Sender::new(Slots::default()),
            targets: Lock::default(),
            is_doubtful: AtomicBool::new(true),
            asked: Mutex::new(None),
        }
    }

    /// The slots, and their changes.
    pub(super) fn slots(&self) -> watch::Receiver<Slots> {
        self.slots.subscribe()
    }

    /// The node that has a slot.
    pub(super) fn owner(&self, slot: u16) -> Result<Node, Error> {
        self.slots.borrow().owner(slot).cloned().ok_or_else(|| {
            Error::new(
                ErrorKind::Unavailable,
                format!("no node of {self} has slot {slot} at the moment; a part of the cluster is missing: CLUSTER INFO says which"),
            )
        })
    }

    pub(super) fn primaries(&self) -> Vec<Node> {
        self.slots.borrow().primaries()
    }

    /// The next call has the nodes asked for their slots before.
    pub(super) fn doubt(&self) {
        self.is_doubtful.store(true, Ordering::Relaxed);
    }

    /// A node said that a slot is at another one: which may not be all that has changed.
    pub(super) fn moved(&self, slot: u16, node: &Node) {
        self.slots.send_if_modified(|slots| slots.note(slot, node));
        self.doubt();
    }

    /// How a node is connected to.
    pub(super) fn target(&self, node: &Node) -> Result<Arc<Target>, Error> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = targets.get(node) {
            return Ok(target.clone());
        }
        let target = Arc::new(Target::of(self.address(node), self.settings.clone())?);
        targets.insert(node.clone(), target.clone());
        Ok(target)
    }

    /// A node is spoken to, and logged in to, as the URL's are.
    fn address(&self, node: &Node) -> Address {
        let Node { host, port } = node.clone();
        let seed = self.seeds.first();
        let (addr, scheme) = match seed.map(ConnectionInfo::addr) {
            Some(ConnectionAddr::TcpTls { insecure, tls_params, .. }) => {
                (ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }, "rediss")
            }
            _ => (ConnectionAddr::Tcp(host, port), "redis"),
        };
        let shown = format!("{scheme}://{}/0", shown_addr(&addr));
        let info = match seed {
            Some(seed) => seed.clone().set_addr(addr),
            None => redis::IntoConnectionInfo::into_connection_info(addr)
                .unwrap_or_else(|_| unreachable!("an address is all that a connection needs")),
        };
        Address { place: Place::Server(info), shown }
    }

    /// Sees to it that the slots are those that the nodes know, if there is a doubt and they weren't asked just now.
    ///
    /// # Errors
    /// No node answers, and nothing is known of before.
    pub(super) async fn freshen(&self) -> Result<(), Error> {
        if !self.is_doubtful.load(Ordering::Relaxed) {
            return Ok(());
        }
        // One at a time: whoever waited here finds it done.
        let mut asked = self.asked.lock().await;
        let is_early = asked.is_some_and(|at| at.elapsed() < PAUSE);
        if is_early || !self.is_doubtful.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let found = self.ask().await;
        *asked = Some(Instant::now());
        match found {
            Ok(found) => {
                let known = found.nodes();
                let is_new = self.slots.send_if_modified(|slots| {
                    let is_new = *slots != found;
                    *slots = found;
                    is_new
                });
                if is_new {
                    let seeds = self.seeds();
                    let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
                    targets.retain(|node, _| known.contains(node) || seeds.contains(node));
                }
                Ok(())
            }
            Err(error) => {
                self.doubt();
                // What was known may still be true of the nodes that can be reached.
                if self.slots.borrow().primaries().is_empty() { Err(error) } else { Ok(()) }
            }
        }
    }

    fn seeds(&self) -> Vec<Node> {
        let node = |info: &ConnectionInfo| match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Node { host: host.clone(), port: *port })
            }
            _ => None,
        };
        self.seeds.iter().filter_map(node).collect()
    }

    /// Asks several nodes, and takes what most of them say.
    async fn ask(&self) -> Result<Slots, Error> {
        let mut nodes = self.slots.borrow().nodes();
        for seed in self.seeds() {
            if !nodes.contains(&seed) {
                nodes.push(seed);
            }
        }
        fastrand::shuffle(&mut nodes);
        let mut answers: FuturesUnordered<_> =
            nodes.into_iter().take(ASKED_MAX).map(|node| self.ask_one(node)).collect();
        let (mut told, mut failed): (Vec<Slots>, _) = (Vec::new(), None);
        let mut until = None;
        loop {
            let next = async {
                match until {
                    Some(until) => tokio::time::timeout_at(until, answers.next()).await.ok().flatten(),
                    None => answers.next().await,
                }
            };
            match next.await {
                Some(Ok(slots)) => {
                    told.push(slots);
                    until.get_or_insert_with(|| Instant::now() + GATHER);
                }
                Some(Err(error)) => failed = Some(error),
                None => break,
            }
        }
        let votes = |slots: &Slots| told.iter().filter(|other| *other == slots).count();
        if let Some(found) = told.iter().max_by_key(|slots| votes(slots)) {
            return Ok(found.clone());
        }
        Err(failed.unwrap_or_else(|| Error::new(ErrorKind::Unreachable, format!("no node of {self} answers"))))
    }

    async fn ask_one(&self, node: Node) -> Result<Slots, Error> {
        let target = self.target(&node)?;
        let connected = target.open(Some(self.settings.response_timeout)).await;
        let mut connection = connected.map_err(|error| target.connect_failure(&error))?;
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let answer = connection.send_packed_command(&command).await.and_then(Value::extract_error);
        let answer = answer.map_err(|error| self.refused(&target, &error))?;
        match Slots::read(&answer, &node) {
            Some(slots) if !slots.primaries().is_empty() => Ok(slots),
            Some(_) => Err(Error::new(
                ErrorKind::Unavailable,
                format!("{target} is a node of a cluster that has given no slots to any: finish setting it up"),
            )),
            None => {
                Err(Error::new(ErrorKind::Unsupported, format!("{target} answers CLUSTER SLOTS in an unknown form")))
            }
        }
    }

    fn refused(&self, target: &Target, error: &RedisError) -> Error {
        if error.detail().is_some_and(|text| text.contains("cluster support disabled")) {
            let text = format!("{target} belongs to no cluster: give redis://host:port");
            return Error::new(ErrorKind::Config, text);
        }
        target.call_failure("CLUSTER SLOTS", error)
    }
}

/// The cluster as it may be shown: no user, no password.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

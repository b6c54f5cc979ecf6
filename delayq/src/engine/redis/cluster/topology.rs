//! What is known of a cluster, by all engines on it: which node has which slot, and when that must be asked again.

use std::collections::{HashMap, HashSet};
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
/// How many of them are of the URL, where there are so many: all that were known may have gone to other addresses.
const SEEDS_ASKED: usize = 3;
/// How much longer than the first answer those of the others are waited for: a node that was cut off answers what was once true.
const GATHER: Duration = Duration::from_millis(300);
/// So long the cluster isn't asked again, and twice as long each time that it says nothing new: a failover takes longer than that.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long somebody else's asking is waited for. What renews leases waits here too, and who asks may be on a runtime that a handler
/// blocks, or not be polled any more: then the one who waited asks too.
const OTHERS: Duration = Duration::from_millis(500);

/// What is known of a cluster.
pub(super) struct Topology {
    seeds: Vec<ConnectionInfo>,
    shown: String,
    pub(super) settings: Settings,
    slots: watch::Sender<Slots>,
    /// One target a node, whoever connects: where one connection is found dead, the others are suspects.
    targets: Lock<HashMap<Node, Arc<Target>>>,
    /// Nodes that may have lost their part since: who is on its way to another one need not wait until they are asked for. None stands for
    /// the node of a slot that nobody is known to have.
    doubted: Lock<HashSet<Option<Node>>>,
    /// Whether there are any.
    is_doubtful: AtomicBool,
    /// When it was last asked, and how long it isn't asked again.
    asked: Mutex<Option<(Instant, Duration)>>,
}

impl Topology {
    pub(super) fn new(seeds: Vec<ConnectionInfo>, shown: String, settings: Settings) -> Topology {
        Topology {
            seeds,
            shown,
            settings,
            slots: watch::Sender::new(Slots::default()),
            targets: Lock::default(),
            doubted: Lock::default(),
            is_doubtful: AtomicBool::new(false),
            asked: Mutex::new(None),
        }
    }

    /// The slots, and their changes.
    pub(super) fn slots(&self) -> watch::Receiver<Slots> {
        self.slots.subscribe()
    }

    /// The node that has a slot; before, the nodes are asked if it is doubtful which that is.
    ///
    /// # Errors
    /// No node is known to have it.
    pub(super) async fn owner(&self, slot: u16) -> Result<Node, Error> {
        let known = || self.slots.borrow().owner(slot).cloned();
        let at = known();
        if at.is_none() {
            self.doubt(None);
        }
        self.freshen(&at).await?;
        known().ok_or_else(|| {
            Error::new(
                ErrorKind::Unavailable,
                format!(
                    "no node of {self} has slot {slot} at the moment; a part of the cluster is missing: CLUSTER INFO says which"
                ),
            )
        })
    }

    /// The nodes are asked for their slots before the next call to this one.
    pub(super) fn doubt(&self, node: Option<&Node>) {
        let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        doubted.insert(node.cloned());
        self.is_doubtful.store(true, Ordering::Relaxed);
    }

    fn is_doubted(&self, node: &Option<Node>) -> bool {
        self.is_doubtful.load(Ordering::Relaxed)
            && self.doubted.lock().unwrap_or_else(PoisonError::into_inner).contains(node)
    }

    /// A node said that a slot is at another one: which may not be all that has changed.
    pub(super) fn moved(&self, slot: u16, said_by: &Node, to: &Node) {
        self.slots.send_if_modified(|slots| slots.note(slot, to));
        self.doubt(Some(said_by));
    }

    /// How a node is connected to.
    pub(super) fn target(&self, node: &Node) -> Result<Arc<Target>, Error> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = targets.get(node) {
            return Ok(target.clone());
        }
        let target = Arc::new(Target::of(self.address(node)?, self.settings.clone())?.one_of_several());
        targets.insert(node.clone(), target.clone());
        Ok(target)
    }

    /// A node is spoken to, and logged in to, as the URL's are.
    fn address(&self, node: &Node) -> Result<Address, Error> {
        let seed = self.seeds.first().ok_or_else(|| Error::new(ErrorKind::Config, "a cluster's URL names no node"))?;
        let Node { host, port } = node.clone();
        let (addr, scheme) = match seed.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                (ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }, "rediss")
            }
            _ => (ConnectionAddr::Tcp(host, port), "redis"),
        };
        let shown = format!("{scheme}://{}/0", shown_addr(&addr));
        Ok(Address { place: Place::Server(seed.clone().set_addr(addr)), shown })
    }

    /// Sees to it that the slots are those that the nodes know, if this node is in doubt and they weren't asked just now.
    ///
    /// # Errors
    /// No node answers, and nothing is known of before.
    async fn freshen(&self, node: &Option<Node>) -> Result<(), Error> {
        if !self.is_doubted(node) {
            return Ok(());
        }
        // One at a time, in the order in which they came: whoever waited here finds it done.
        let mut asked = tokio::time::timeout(OTHERS, self.asked.lock()).await.ok();
        let last = asked.as_deref().copied().flatten();
        if last.is_some_and(|(at, pause)| at.elapsed() < pause) || !self.is_doubted(node) {
            return Ok(());
        }
        // What comes to be doubted while they are asked stays so.
        let before = self.doubted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let found = self.ask().await;
        let is_new = match found {
            Ok(found) => self.settle(found, &before),
            // What was known may still be true of the nodes that can be reached.
            Err(error) if self.slots.borrow().primaries().is_empty() => return Err(error),
            Err(error) => {
                tracing::debug!(cluster = %self, %error, "no node says which has what");
                false
            }
        };
        let pause = last.filter(|_| !is_new).map_or(PAUSE, |(_, pause)| (pause * 2).min(PAUSE_MAX));
        if let Some(asked) = &mut asked {
            **asked = Some((Instant::now(), pause));
        }
        Ok(())
    }

    /// The nodes were asked: this is so, and of these is no more doubt. Whether it is news.
    fn settle(&self, mut found: Slots, doubted_before: &HashSet<Option<Node>>) -> bool {
        let mut known = Vec::new();
        let is_new = self.slots.send_if_modified(|slots| {
            found.keep_young(slots);
            known = found.nodes();
            let is_new = *slots != found;
            *slots = found;
            is_new
        });
        let seeds = self.seeds();
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.retain(|node, _| known.contains(node) || seeds.contains(node));
        drop(targets);
        let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        doubted.retain(|node| !doubted_before.contains(node));
        self.is_doubtful.store(!doubted.is_empty(), Ordering::Relaxed);
        is_new
    }

    /// All that the nodes know, asked now unless that was done just before.
    ///
    /// # Errors
    /// No node answers, and nothing is known of before.
    pub(super) async fn survey(&self) -> Result<Vec<Node>, Error> {
        self.doubt(None);
        self.freshen(&None).await?;
        Ok(self.slots.borrow().primaries())
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
        let mut known = self.slots.borrow().nodes();
        let mut nodes = self.seeds();
        fastrand::shuffle(&mut known);
        fastrand::shuffle(&mut nodes);
        if !known.is_empty() {
            nodes.truncate(SEEDS_ASKED);
        }
        known.retain(|node| !nodes.contains(node));
        nodes.extend(known);
        nodes.truncate(ASKED_MAX);
        let most = nodes.len() / 2 + 1;
        let mut answers: FuturesUnordered<_> = nodes.into_iter().map(|node| self.ask_one(node)).collect();
        // The same from each node, and how many said so.
        let mut told: Vec<(Slots, usize)> = Vec::new();
        let mut failed = None;
        let mut until = Instant::now() + self.settings.connect_timeout + self.settings.response_timeout;
        // No answer more, or too late a one, ends it.
        while let Ok(Some(answer)) = tokio::time::timeout_at(until, answers.next()).await {
            let slots = match answer {
                Ok(slots) => slots,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            until = until.min(Instant::now() + GATHER);
            match told.iter_mut().find(|(other, _)| other.agrees(&slots)) {
                Some((_, votes)) => *votes += 1,
                None => told.push((slots, 1)),
            }
            if told.iter().any(|(_, votes)| *votes >= most) {
                break;
            }
        }
        if let Some((found, _)) = told.into_iter().max_by_key(|(_, votes)| *votes) {
            return Ok(found);
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

//! A private Redis Cluster on loopback ports, whose primaries die, whose replicas take over and whose slots move as a test likes.

mod view;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::view::View;
use crate::reply::{Reply, ask};
use crate::{RedisServer, StartError, free_port};

/// How many slots the keys of a cluster are spread over.
pub const SLOTS: u16 = 16384;

/// How long the nodes of a cluster may take until they know each other, and then until they serve. A primary serves 2 s after its start at the earliest, whatever it knows.
const START: Duration = Duration::from_secs(30);
/// How long a node may take to answer a question about the cluster: one that takes longer is as good as dead.
const ANSWER: Duration = Duration::from_secs(10);
/// How long moving a batch of keys may take, or a command that changes the cluster.
const CHANGE: Duration = Duration::from_secs(10);
/// How long one attempt at a promotion by command may take: a replica gives up after 5 s, and says nothing.
const PROMOTION: Duration = Duration::from_secs(6);
/// How often what is waited for is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// How often nodes are introduced to each other until they know each other: an introduction is forgotten after a second without an
/// answer.
const INTRODUCE: Duration = Duration::from_secs(2);
/// Keys in one MIGRATE: a few, so that a test sees a slot that is half moved only if it wants to.
const BATCH: &str = "100";

/// A private Redis Cluster.
pub struct Cluster {
    nodes: Vec<RedisServer>,
    password: Option<String>,
    /// When nodes were last promoted by command.
    promoted: Mutex<HashMap<usize, Instant>>,
}

impl Cluster {
    /// Starts a cluster of so many primaries, which share the slots evenly and in order, and so many replicas for each of them.
    /// Nodes 0 and up to `primaries` are the primaries, and behind them come the replicas of node 0, those of node 1 and so on.
    /// A primary that doesn't answer for a second is taken for dead: `["--cluster-node-timeout", "5000"]` among further settings
    /// says otherwise. Only with three primaries or more can a replica take over from one of them by itself.
    ///
    /// # Errors
    /// redis-server is not installed or is older than Redis 7, doesn't come up with these settings, or the nodes don't find
    /// together within 30 s, or don't serve within 30 s more.
    pub fn start(primaries: usize, replicas_each: usize, settings: &[&str]) -> Result<Cluster, StartError> {
        if primaries == 0 || primaries > usize::from(SLOTS) {
            return Err(StartError { text: format!("a cluster can't have {primaries} primaries: start one or three") });
        }
        let count = primaries * (1 + replicas_each);
        let nodes = (0..count).map(|_| start_node(settings)).collect::<Result<Vec<_>, _>>()?;
        let password = nodes[0].password().map(str::to_owned);
        let cluster = Cluster { nodes, password, promoted: Mutex::default() };
        let failed = |error: io::Error| StartError { text: format!("the cluster can't be set up: {error}") };
        cluster.share_slots(primaries).map_err(failed)?;
        cluster.introduce_until_known().map_err(failed)?;
        for replica in primaries..count {
            let primary = cluster.id((replica - primaries) / replicas_each).map_err(failed)?;
            cluster.change(replica, &["CLUSTER", "REPLICATE", &primary]).map_err(failed)?;
        }
        cluster.await_within(START, || cluster.wrong_at_start()).map_err(failed)?;
        Ok(cluster)
    }

    fn share_slots(&self, primaries: usize) -> io::Result<()> {
        let border = |primary: usize| primary * usize::from(SLOTS) / primaries;
        for primary in 0..primaries {
            // Epochs that differ from the start needn't be negotiated.
            self.change(primary, &["CLUSTER", "SET-CONFIG-EPOCH", &(primary + 1).to_string()])?;
            let (first, last) = (border(primary).to_string(), (border(primary + 1) - 1).to_string());
            self.change(primary, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        Ok(())
    }

    fn introduce_until_known(&self) -> io::Result<()> {
        let mut introduced: Option<Instant> = None;
        self.await_within(START, || {
            let strangers = self.strangers()?;
            if !strangers.is_empty() && introduced.is_none_or(|at| at.elapsed() > INTRODUCE) {
                introduced = Some(Instant::now());
                for &(node, other) in &strangers {
                    let (port, bus) = (self.nodes[other].port().to_string(), self.bus_port(other)?);
                    self.change(node, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
                }
            }
            let names: Vec<String> = strangers.iter().map(|(node, other)| format!("{node} and {other}")).collect();
            Ok((!names.is_empty()).then(|| format!("nodes don't know each other: {}", names.join(", "))))
        })
    }

    /// Pairs of nodes of which the first doesn't know the second, or the second not the first.
    fn strangers(&self) -> io::Result<Vec<(usize, usize)>> {
        let views = (0..self.len()).map(|node| self.view(node)).collect::<io::Result<Vec<_>>>()?;
        let knows = |node: usize, other: usize| views[node].knows(self.nodes[other].port());
        let pairs = (0..self.len()).flat_map(|node| (node + 1..self.len()).map(move |other| (node, other)));
        Ok(pairs.filter(|&(node, other)| !knows(node, other) || !knows(other, node)).collect())
    }

    /// A node's port for the other nodes.
    fn bus_port(&self, index: usize) -> io::Result<String> {
        let reply = self.ask(index, ANSWER, &["CONFIG", "GET", "cluster-port"])?;
        let port = reply.map().get("cluster-port").map(|port| (*port).to_owned());
        port.ok_or_else(|| io::Error::other("the server has no cluster-port: install Redis 7 or later"))
    }

    fn wrong_at_start(&self) -> io::Result<Option<String>> {
        if let Some(wrong) = self.wrong()? {
            return Ok(Some(wrong));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let info = self.ask(index, ANSWER, &["INFO", "replication"])?;
            if info.text().is_some_and(|info| info.contains("master_link_status:down")) {
                return Ok(Some(format!("the replica at port {} isn't linked", node.port())));
            }
        }
        Ok(None)
    }

    /// The URL with the addresses of all nodes, dead ones too: `redis-cluster://127.0.0.1:10001,127.0.0.1:10002`, with the
    /// password if they have one.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let password = self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis-cluster://{password}{}", addresses.join(","))
    }

    /// A node.
    ///
    /// # Panics
    /// There are not that many.
    pub fn node(&self, index: usize) -> &RedisServer {
        &self.nodes[index]
    }

    /// A node that is to be killed or restarted. It comes back as who it was, and as the replica of who took its place.
    ///
    /// # Panics
    /// There are not that many.
    pub fn node_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.nodes[index]
    }

    /// How many nodes there are, with dead ones.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: a cluster has one node at least.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What a node is called by the others.
    ///
    /// # Errors
    /// It doesn't answer.
    pub fn id(&self, index: usize) -> io::Result<String> {
        let reply = self.ask(index, ANSWER, &["CLUSTER", "MYID"])?;
        reply.text().map(str::to_owned).ok_or_else(|| io::Error::other(format!("not a node's name: {reply:?}")))
    }

    /// The slot of a key.
    ///
    /// # Errors
    /// No node answers.
    pub fn slot(&self, key: &str) -> io::Result<u16> {
        let reply = self.first_that_answers(|node| self.ask(node, ANSWER, &["CLUSTER", "KEYSLOT", key]))?;
        match reply {
            Reply::Number(slot) if (0..i64::from(SLOTS)).contains(&slot) => Ok(slot as u16),
            other => Err(io::Error::other(format!("not a slot: {other:?}"))),
        }
    }

    /// The node that serves a slot now. What counts is what each node says about itself, so that others may still know the owner
    /// before: see [`await_ok`](Cluster::await_ok).
    ///
    /// # Errors
    /// No living node serves it.
    pub fn owner(&self, slot: u16) -> io::Result<usize> {
        let views = (0..self.len()).filter_map(|index| Some((index, self.view(index).ok()?)));
        let claims = views.filter(|(_, view)| view.own().serves(slot));
        // Two claim it while the one that lost it was cut off: the later one is right.
        let owner = claims.max_by_key(|(_, view)| view.own().epoch).map(|(index, _)| index);
        owner.ok_or_else(|| {
            let text =
                format!("no living node serves slot {slot}: wait until a replica took over, or start its node again");
            io::Error::new(io::ErrorKind::NotFound, text)
        })
    }

    /// The living nodes that replicate this one, which may be dead.
    ///
    /// # Errors
    /// No node answers that knows it.
    ///
    /// # Panics
    /// There are not that many nodes.
    pub fn replicas_of(&self, index: usize) -> io::Result<Vec<usize>> {
        let port = self.nodes[index].port();
        let id = self.first_that_answers(|node| {
            let unknown = || io::Error::other(format!("node {node} knows no node at port {port}"));
            self.view(node)?.at(port).map(|member| member.id.clone()).ok_or_else(unknown)
        })?;
        let replicates = |node: &usize| self.view(*node).is_ok_and(|view| view.own().primary.as_ref() == Some(&id));
        Ok((0..self.len()).filter(replicates).collect())
    }

    /// Has a replica take the place of its primary, which lives and becomes its replica, and waits until it did. That is done at
    /// once, but a node that was promoted by this less than four node timeouts ago (4 s) isn't promoted again before they passed.
    ///
    /// # Errors
    /// It isn't a replica, its primary is dead, or it isn't promoted in several attempts (16 s).
    pub fn failover(&self, replica: usize) -> io::Result<()> {
        let own = self.id(replica)?;
        let primary = self.primary_of(replica)?;
        self.view(primary)?;
        let election = self.election(replica)?;
        // Redis 7.0 still counts the votes of a node's last election as long as one may take: it would win at once, in an epoch
        // that is over, and lose its place a moment later with all that was written to it.
        if let Some(promoted) = self.promoted_at(replica) {
            std::thread::sleep(election.saturating_sub(promoted.elapsed()));
        }
        // A primary ignores a replica that it doesn't know as its own yet.
        self.await_within(CHANGE, || {
            let known = self.view(primary)?.replicates_own(&own);
            Ok((!known).then(|| format!("node {primary} doesn't know that node {replica} replicates it")))
        })?;
        let deadline = Instant::now() + election + 2 * PROMOTION;
        loop {
            self.change(replica, &["CLUSTER", "FAILOVER"])?;
            let promoted = self.await_within(PROMOTION, || {
                // That the old primary follows is what tells that the votes were good.
                let promoted = self.view(replica)?.own().is_primary();
                let followed = self.view(primary)?.own().primary.as_ref() == Some(&own);
                let text = || format!("node {replica} isn't promoted: do more than half of the primaries live?");
                Ok((!(promoted && followed)).then(text))
            });
            if promoted.is_ok() {
                self.promoted.lock().unwrap_or_else(PoisonError::into_inner).insert(replica, Instant::now());
            }
            if promoted.is_ok() || Instant::now() > deadline {
                return promoted;
            }
        }
    }

    fn promoted_at(&self, node: usize) -> Option<Instant> {
        self.promoted.lock().unwrap_or_else(PoisonError::into_inner).get(&node).copied()
    }

    /// How long after the beginning of an election a node may begin another.
    fn election(&self, node: usize) -> io::Result<Duration> {
        let reply = self.ask(node, ANSWER, &["CONFIG", "GET", "cluster-node-timeout"])?;
        let timeout = reply.map().get("cluster-node-timeout").and_then(|ms| ms.parse().ok());
        let timeout =
            timeout.ok_or_else(|| io::Error::other("the server has no cluster-node-timeout: is it a node?"))?;
        Ok(4 * Duration::from_millis(timeout).max(Duration::from_secs(1)))
    }

    /// The node that a replica replicates.
    fn primary_of(&self, replica: usize) -> io::Result<usize> {
        let view = self.view(replica)?;
        let port = view.own().primary.as_ref().and_then(|id| view.port_of(id));
        let primary = port.and_then(|port| self.nodes.iter().position(|node| node.port() == port));
        primary.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("node {replica} is no replica: ask `replicas_of` for one"),
            )
        })
    }

    /// Opens the move of a slot from a primary to another: keys that aren't at `from` any more are asked for at `to`.
    ///
    /// # Errors
    /// A node doesn't answer, `from` doesn't serve the slot, or `to` is no primary.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let (slot, from_id, to_id) = (slot.to_string(), self.id(from)?, self.id(to)?);
        self.change(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id])?;
        self.change(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id])
    }

    /// Moves all keys of a slot, whose move was begun, until none is left.
    ///
    /// # Errors
    /// A node doesn't answer or doesn't take a key, or new ones come faster than they are moved.
    ///
    /// # Panics
    /// There are not that many nodes.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let (slot, port) = (slot.to_string(), self.nodes[to].port().to_string());
        let deadline = Instant::now() + CHANGE;
        loop {
            let keys = self.ask(from, CHANGE, &["CLUSTER", "GETKEYSINSLOT", &slot, BATCH])?;
            let keys = keys.texts();
            if keys.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let text = format!(
                    "slot {slot} still has keys after {CHANGE:?}: are they written without end, or are they no UTF-8?"
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
            if let Some(password) = &self.password {
                command.extend(["AUTH", password]);
            }
            command.push("KEYS");
            command.extend(keys);
            // NOKEY is fine too: they expired, or were deleted meanwhile.
            self.ask(from, CHANGE, &command)?;
        }
    }

    /// Gives a slot whose keys were moved to its new node, and tells the other primaries. Replicas hear of it a moment later: see
    /// [`await_ok`](Cluster::await_ok).
    ///
    /// # Errors
    /// A node doesn't answer, or `from` has keys of the slot again.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let (slot, id) = (slot.to_string(), self.id(to)?);
        let others = (0..self.len())
            .filter(|node| ![from, to].contains(node))
            .filter(|node| self.view(*node).is_ok_and(|view| view.own().is_primary()));
        // The new node first: were the old one first and died, nobody would have the slot.
        for node in [to, from].into_iter().chain(others) {
            self.change(node, &["CLUSTER", "SETSLOT", &slot, "NODE", &id])?;
        }
        Ok(())
    }

    /// Moves a slot with its keys from a primary to another.
    ///
    /// # Errors
    /// As of [`begin_move`](Cluster::begin_move), [`move_keys`](Cluster::move_keys) and [`end_move`](Cluster::end_move).
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        self.begin_move(slot, from, to)?;
        self.move_keys(slot, from, to)?;
        self.end_move(slot, from, to)
    }

    /// Waits until all is well: each living node says that the cluster serves, all of them name the same owner for every slot,
    /// and these owners live. Directly after a death that isn't so, though the nodes themselves haven't noticed yet.
    ///
    /// # Errors
    /// It isn't within that time.
    pub fn await_ok(&self, patience: Duration) -> io::Result<()> {
        self.await_within(patience, || self.wrong())
    }

    /// What is wrong with the cluster, if anything is.
    fn wrong(&self) -> io::Result<Option<String>> {
        let mut views = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let info = match self.ask(index, ANSWER, &["CLUSTER", "INFO"]) {
                Ok(info) => info,
                // Nobody listens: it is dead, and the others must do without it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            if !info.text().is_some_and(|info| info.contains("cluster_state:ok")) {
                return Ok(Some(format!("the node at port {} says that the cluster is down", node.port())));
            }
            views.push(self.view(index)?);
        }
        Ok(view::disagreement(&views))
    }

    /// Waits until nothing is wrong. What can't be asked is wrong too.
    fn await_within(
        &self,
        patience: Duration,
        mut wrong: impl FnMut() -> io::Result<Option<String>>,
    ) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let text = match wrong() {
                Ok(None) => return Ok(()),
                Ok(Some(text)) => text,
                Err(error) => error.to_string(),
            };
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("after {patience:?}: {text}")));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn first_that_answers<T>(&self, question: impl Fn(usize) -> io::Result<T>) -> io::Result<T> {
        let mut last = io::Error::new(io::ErrorKind::NotConnected, "the cluster has no nodes");
        for node in 0..self.len() {
            match question(node) {
                Ok(answer) => return Ok(answer),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn view(&self, index: usize) -> io::Result<View> {
        let reply = self.ask(index, ANSWER, &["CLUSTER", "NODES"])?;
        View::read(reply.text().unwrap_or_default())
    }

    fn change(&self, index: usize, parts: &[&str]) -> io::Result<()> {
        self.ask(index, CHANGE, parts).map(drop)
    }

    fn ask(&self, index: usize, patience: Duration, parts: &[&str]) -> io::Result<Reply> {
        ask(self.nodes[index].port(), self.password.as_deref(), patience, parts)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

fn start_node(settings: &[&str]) -> Result<RedisServer, StartError> {
    let password = settings.iter().position(|s| *s == "--requirepass").and_then(|at| settings.get(at + 1));
    let mut last = StartError { text: String::new() };
    for _ in 0..5 {
        // By default it is the port and 10000, which may lie among those that the system gives to outgoing connections.
        let bus = free_port().map_err(|error| StartError { text: format!("no free port: {error}") })?;
        let bus = bus.to_string();
        let mut all = vec!["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "1000"];
        // Replicas stay where they are, are linked at once, and take over however long their link was down.
        all.extend(["--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0"]);
        all.extend(["--cluster-replica-validity-factor", "0"]);
        if let Some(password) = password {
            all.extend(["--masterauth", password]);
        }
        all.extend(settings);
        match RedisServer::start_with(&all) {
            Ok(node) => return Ok(node),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests;

//! What runs the scripts: the seam between the store and the machine behind it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::{Error, ErrorKind};

#[cfg(feature = "embedded")]
pub mod embedded;
pub mod redis;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A script: its name and its whole text.
#[derive(Debug)]
pub struct Script {
    /// The operation's name, the file's too.
    pub name: &'static str,
    /// What the engine runs.
    pub source: &'static str,
    digest: OnceLock<String>,
}

impl Script {
    /// A script.
    pub const fn new(name: &'static str, source: &'static str) -> Script {
        Script { name, source, digest: OnceLock::new() }
    }

    /// What an engine knows the text by, made on first use.
    pub fn digest(&self, make: impl FnOnce(&str) -> String) -> &str {
        self.digest.get_or_init(|| make(self.source))
    }
}

/// What a script answered, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A whole number.
    Int(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several of them.
    List(Vec<Reply>),
}

/// A marker taken from a shard's baton.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The baton's key.
    pub key: Vec<u8>,
    /// The due time that wants to be watched, ms since 1970.
    pub due_ms: u64,
}

/// How many replicas are waited for, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    /// So many; never 0.
    pub count: u32,
    /// At most so long.
    pub within: Duration,
}

/// One of several servers: how it may be shown, and itself.
pub type Server = (String, Arc<dyn Engine>);

/// Runs scripts on a store.
pub trait Engine: Send + Sync + 'static {
    /// Runs a script once. It is never sent again after it may have run: an error of kind
    /// [`Unknown`](crate::ErrorKind::Unknown) says that it may have.
    fn run<'a>(
        &'a self,
        script: &'static Script,
        keys: &'a [Vec<u8>],
        args: &'a [&'a [u8]],
    ) -> BoxFuture<'a, Result<Reply, Error>>;

    /// Runs a script once, and then waits until so many replicas have confirmed all that was written until then, or `within` is
    /// over. Answers how many have, beside what the script answered. An error after the script ran is of kind
    /// [`Unknown`](crate::ErrorKind::Unknown).
    fn run_and_wait<'a>(
        &'a self,
        script: &'static Script,
        keys: &'a [Vec<u8>],
        args: &'a [&'a [u8]],
        replicas: Replicas,
    ) -> BoxFuture<'a, Result<(Reply, u32), Error>> {
        let _ = (script, keys, args, replicas);
        let error = Error::new(ErrorKind::Unsupported, "this store has no replicas that could be waited for");
        Box::pin(std::future::ready(Err(error)))
    }

    /// Waits for a marker on one of the batons, for `timeout` at most. To be used by one task a time: dropping
    /// the future may cost a marker, and whatever connection it used.
    fn wait<'a>(&'a self, keys: &'a [Vec<u8>], timeout: Duration) -> BoxFuture<'a, Result<Option<Marker>, Error>>;

    /// Asks the server behind the store something, past the scripts: only a diagnosis does. `None` where there is no server.
    fn command<'a>(&'a self, _parts: &'a [&'a [u8]]) -> BoxFuture<'a, Result<Option<Reply>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The servers behind the store, each by how it may be shown, where there are several and each is to be looked at by itself:
    /// only a diagnosis does. None where [`command`](Engine::command) asks the only one.
    fn servers(&self) -> BoxFuture<'_, Result<Vec<Server>, Error>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The same store over connections of its own, shared with nobody.
    fn dedicated(&self) -> Arc<dyn Engine>;

    /// The same store over one connection of its own, which keeps the order of the calls.
    fn in_order(&self) -> Arc<dyn Engine>;
}

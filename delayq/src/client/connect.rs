//! How a client connects.

use std::sync::Arc;
use std::time::Duration;

use super::flush::Flushers;
use super::{Client, Inner};
use crate::engine::redis::Settings;
use crate::engine::{Engine, Replicas, redis};
use crate::error::{Error, ErrorKind};
use crate::limits;
use crate::store::{Prefix, Store};

/// Settings of a [`Client`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens before `connect` is called"]
pub struct ClientBuilder {
    settings: Settings,
    send_deadline: Duration,
    payload_limit: usize,
    prefix: Option<String>,
    durability: Durability,
}

/// When a send, a cancel or a reschedule counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When the server has it. What a failover loses is then what the server had not passed on yet.
    #[default]
    Server,
    /// When so many replicas have it as well, in memory (Redis's `WAIT`). One that they did not confirm `within` that time is asked of them again
    /// until the send deadline, and is then an error of kind [`Unknown`](ErrorKind::Unknown), never a success: the server has it, and it is
    /// lost only if that one is lost.
    ///
    /// A failover must promote a replica that has confirmed: with more than `count` replicas, it may be another.
    Replicas {
        /// How many, at least 1.
        count: u32,
        /// How long one call waits for them; less than the response timeout.
        within: Duration,
    },
}

impl Durability {
    /// So many replicas, for each of which a call waits up to a second.
    pub const fn wait(replicas: u32) -> Durability {
        Durability::Replicas { count: replicas, within: Duration::from_secs(1) }
    }
}

impl Default for ClientBuilder {
    fn default() -> ClientBuilder {
        ClientBuilder {
            settings: Settings::default(),
            send_deadline: limits::SEND_DEADLINE_MAX,
            payload_limit: limits::PAYLOAD_BYTES_DEFAULT,
            prefix: None,
            durability: Durability::Server,
        }
    }
}

impl ClientBuilder {
    /// How many connections commands share; 2 unless said otherwise, at most 1,000. Each carries any number of commands at once. In a
    /// cluster they are so many to each node.
    pub fn pool_size(mut self, connections: u32) -> Self {
        self.settings.pool_size = connections;
        self
    }

    /// How long connecting may take, name lookup, TLS and login included; 3 s unless said otherwise, at most 5 minutes.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How long the store may take to answer; 3 s unless said otherwise, at most 5 minutes.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.settings.response_timeout = timeout;
        self
    }

    /// How long a send, cancel and the like is tried again while the store doesn't answer; 10 s unless said otherwise, and
    /// at most that: for longer the store could not tell a repetition from a new job.
    pub fn send_deadline(mut self, deadline: Duration) -> Self {
        self.send_deadline = deadline;
        self
    }

    /// The largest payload that is sent, in bytes; 1 MiB unless said otherwise, at most 16 MiB.
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.payload_limit = bytes;
        self
    }

    /// What all keys begin with, so that several applications can share a server; `delayq` unless said otherwise.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// When a send, a cancel or a reschedule counts as done: when the server has it, unless said otherwise.
    /// `Durability::wait(1)` wants a replica to have it as well.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    async fn engine(&self, url: &str) -> Result<(Arc<dyn Engine>, String), Error> {
        if url.starts_with("sqlite:") {
            return embedded(url).await;
        }
        redis::connect(url, self.settings.clone()).await
    }

    /// Connects.
    ///
    /// # Errors
    /// A setting is out of its range, or as for [`Client::connect`].
    pub async fn connect(self, url: &str) -> Result<Client, Error> {
        let config = |text: String| Error::new(ErrorKind::Config, text);
        if self.send_deadline.is_zero() || self.send_deadline > limits::SEND_DEADLINE_MAX {
            return Err(config(format!(
                "the send deadline must be above zero and at most {:?}",
                limits::SEND_DEADLINE_MAX
            )));
        }
        if self.payload_limit == 0 || self.payload_limit > limits::PAYLOAD_BYTES_CEILING {
            return Err(config(format!("the payload limit must be 1 to {} bytes", limits::PAYLOAD_BYTES_CEILING)));
        }
        if let Durability::Replicas { count, within } = self.durability {
            if url.starts_with("sqlite:") {
                return Err(config("a file has no replicas: a durability that waits for them is for Redis".to_owned()));
            }
            if count == 0 || within < Duration::from_millis(1) || within >= self.settings.response_timeout {
                return Err(config(format!(
                    "a durability of {count} replicas within {within:?} is out of range: at least 1, and 1 ms up to less than the \
                     response timeout, {:?}",
                    self.settings.response_timeout
                )));
            }
        }
        let prefix = match &self.prefix {
            Some(prefix) => Prefix::new(prefix)?,
            None => Prefix::default(),
        };
        let (engine, shown) = self.engine(url).await?;
        Ok(self.over(engine, shown, prefix))
    }

    fn over(&self, engine: Arc<dyn Engine>, shown: String, prefix: Prefix) -> Client {
        let store = Store::new(engine, prefix);
        let store = match self.durability {
            Durability::Server => store,
            Durability::Replicas { count, within } => store.confirmed_by(Replicas { count, within }),
        };
        Client {
            inner: Arc::new(Inner {
                flushers: Flushers::new(store.clone()),
                store,
                shown,
                send_deadline: self.send_deadline,
                payload_limit: self.payload_limit,
            }),
        }
    }
}

#[cfg(feature = "embedded")]
async fn embedded(url: &str) -> Result<(Arc<dyn Engine>, String), Error> {
    use crate::engine::embedded::{Clock, EmbeddedEngine};

    let engine = EmbeddedEngine::connect(url, Clock::system()).await?;
    let shown = engine.shown().to_owned();
    Ok((Arc::new(engine), shown))
}

#[cfg(not(feature = "embedded"))]
async fn embedded(_url: &str) -> Result<(Arc<dyn Engine>, String), Error> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "this program was built without the embedded engine: add the feature, delayq = { features = [\"embedded\"] }",
    ))
}

#[cfg(feature = "internals")]
impl Client {
    /// A client over an engine of the caller's own. Not covered by semantic versioning.
    #[doc(hidden)]
    pub fn on(engine: Arc<dyn Engine>) -> Client {
        ClientBuilder::default().over(engine, "an engine of the caller's own".to_owned(), Prefix::default())
    }
}

#[cfg(feature = "testing")]
impl Client {
    /// A client on a database of its own in memory, by a clock that the caller moves.
    pub(crate) fn in_memory(now_us: impl Fn() -> u64 + Send + Sync + 'static) -> Result<Client, Error> {
        use crate::engine::embedded::{Clock, EmbeddedEngine};

        let engine = EmbeddedEngine::in_memory(Clock::from(now_us))?;
        let shown = engine.shown().to_owned();
        Ok(ClientBuilder::default().over(Arc::new(engine), shown, Prefix::default()))
    }
}

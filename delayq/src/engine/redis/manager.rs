//! The pool's manager: connections with timeouts, and a flag that tells a dead one without asking the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bb8_redis::bb8::{ErrorSink, ManageConnection};
use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::target::Target;

/// Opens connections for the pool.
pub(super) struct Manager {
    target: Arc<Target>,
}

impl Manager {
    pub(super) fn new(target: Arc<Target>) -> Manager {
        Manager { target }
    }
}

/// A connection, and whether it has been seen to be dead: the flag is shared by all clones.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    broken: Arc<AtomicBool>,
}

impl Live {
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    pub(super) fn mark_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }
}

impl ManageConnection for Manager {
    type Connection = Live;
    type Error = RedisError;

    async fn connect(&self) -> Result<Live, RedisError> {
        let connection = self.target.open(Some(self.target.settings.response_timeout)).await?;
        Ok(Live { connection, broken: Arc::new(AtomicBool::new(false)) })
    }

    async fn is_valid(&self, live: &mut Live) -> Result<(), RedisError> {
        redis::cmd("PING").query_async(&mut live.connection).await
    }

    fn has_broken(&self, live: &mut Live) -> bool {
        live.is_broken()
    }
}

/// Why no connection could be made. It is told at once to those who wait for one: the pool would let them wait for all of its
/// timeout, and then only say that it is over.
#[derive(Debug, Clone, Default)]
pub(super) struct Failures(Arc<Told>);

#[derive(Debug, Default)]
struct Told {
    last: Mutex<Option<RedisError>>,
    another: Notify,
}

impl Failures {
    /// Ready at the next failure; one that comes before it is first polled is missed, unless it was enabled.
    pub(super) fn next(&self) -> Notified<'_> {
        self.0.another.notified()
    }

    pub(super) fn last(&self) -> Option<RedisError> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ErrorSink<RedisError> for Failures {
    fn sink(&self, error: RedisError) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.0.another.notify_waiters();
    }

    fn boxed_clone(&self) -> Box<dyn ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}

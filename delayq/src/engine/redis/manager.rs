//! The pool's manager: connections with timeouts, and a flag that tells a dead one without asking the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bb8_redis::bb8::{ErrorSink, ManageConnection};
use redis::RedisError;
use redis::aio::MultiplexedConnection;

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

/// The cause behind the pool's bare "timed out".
#[derive(Debug, Clone, Default)]
pub(super) struct LastError(Arc<Mutex<Option<RedisError>>>);

impl LastError {
    pub(super) fn take(&self) -> Option<RedisError> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

impl ErrorSink<RedisError> for LastError {
    fn sink(&self, error: RedisError) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
    }

    fn boxed_clone(&self) -> Box<dyn ErrorSink<RedisError>> {
        Box::new(self.clone())
    }
}

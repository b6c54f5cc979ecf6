//! An engine that gives answers which were put into it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delayq::Error;
use delayq::engine::{BoxFuture, Engine, Marker, Reply, Script};

/// Answers each call with the next of its replies, and with the last one from then on.
pub(crate) struct Canned {
    replies: Vec<Reply>,
    next: Mutex<usize>,
}

impl Canned {
    pub(crate) fn new(replies: Vec<Reply>) -> Canned {
        Canned { replies, next: Mutex::new(0) }
    }

    /// From here on the first reply comes again.
    pub(crate) fn rewind(&self) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = 0;
    }

    fn answer(&self) -> Reply {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = self.replies.get(*next).or(self.replies.last()).cloned();
        *next += 1;
        reply.unwrap_or(Reply::Nil)
    }
}

impl Engine for Canned {
    fn run<'a>(
        &'a self,
        _: &'static Script,
        _: &'a [Vec<u8>],
        _: &'a [&'a [u8]],
    ) -> BoxFuture<'a, Result<Reply, Error>> {
        Box::pin(std::future::ready(Ok(self.answer())))
    }

    fn wait<'a>(&'a self, _: &'a [Vec<u8>], _: Duration) -> BoxFuture<'a, Result<Option<Marker>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn dedicated(&self) -> Arc<dyn Engine> {
        Arc::new(Canned::new(self.replies.clone()))
    }

    fn in_order(&self) -> Arc<dyn Engine> {
        self.dedicated()
    }
}

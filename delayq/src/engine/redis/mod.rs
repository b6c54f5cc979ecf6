//! The Redis engine: scripts over a small pool of multiplexed connections, the baton over a connection of its own.

mod address;
mod advice;
mod cluster;
mod eviction;
mod failure;
mod manager;
mod target;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bb8_redis::bb8::{Pool, RunError};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value};
use tokio::sync::Mutex;

use super::{BoxFuture, Engine, Marker, Replicas, Reply, Script};
use crate::error::{Error, ErrorKind};

use address::{Address, Place};
use cluster::ClusterEngine;
use manager::{Failures, Live, Manager};
use target::Mode;
pub use target::{Settings, Target};

/// How much longer than its own timeout a blocking pop is waited for: the server's timeouts overshoot by up to 95 ms,
/// and a connection that is silent beyond this is taken for dead.
const POP_SLACK: Duration = Duration::from_secs(2);

/// Connects to what a URL leads to, and looks at it. Answers too how it may be shown.
///
/// # Errors
/// The URL can't be used, nothing answers, the user or password is refused, or it is no Redis of version 6.2 or later.
pub async fn connect(url: &str, settings: Settings) -> Result<(Arc<dyn Engine>, String), Error> {
    let address = Address::parse(url)?;
    let shown = address.shown.clone();
    let engine: Arc<dyn Engine> = match address.place {
        Place::Cluster(nodes) => Arc::new(ClusterEngine::connect(nodes, shown.clone(), settings).await?),
        _ => Arc::new(RedisEngine::connect(Target::of(address, settings)?).await?),
    };
    Ok((engine, shown))
}

/// Why a call has no reply.
enum Failed {
    /// No connection could be had: nothing was sent.
    Unconnected(Error),
    /// The call failed, or the server refused it.
    Call(RedisError),
    /// Whatever it was, there is nothing to be done about it.
    Final(Error),
}

/// Scripts on a Redis server.
pub struct RedisEngine {
    target: Arc<Target>,
    pool: Pool<Manager>,
    failures: Failures,
    /// The waiting connection between two waits, and how many connections had broken when it was known to be good.
    blocking: Mutex<Option<(u64, MultiplexedConnection)>>,
}

impl RedisEngine {
    /// Connects, and looks at what answers.
    ///
    /// # Errors
    /// Nothing answers, the user or password is refused, or it is no Redis of version 6.2 or later.
    pub async fn connect(target: Target) -> Result<RedisEngine, Error> {
        let pool_size = target.settings.pool_size;
        let engine = RedisEngine::lazy(Arc::new(target), pool_size);
        engine.target.probe(Mode::Standalone).await?;
        Ok(engine)
    }

    fn lazy(target: Arc<Target>, pool_size: u32) -> RedisEngine {
        let failures = Failures::default();
        let pool = Pool::builder()
            .max_size(pool_size)
            .connection_timeout(target.settings.connect_timeout)
            // A dead connection is known by its flag; a PING before each use would double the round trips.
            .test_on_check_out(false)
            .retry_connection(false)
            // Connections are shared by clones and replaced when they break: age is no reason to.
            .max_lifetime(None)
            .idle_timeout(None)
            .error_sink(Box::new(failures.clone()))
            .build_unchecked(Manager::new(target.clone()));
        RedisEngine { target, pool, failures, blocking: Mutex::new(None) }
    }

    /// A connection to share: cloned out of the pool, so that the slot is free again before the first await.
    async fn connection(&self) -> Result<Live, Error> {
        let error = loop {
            let failed = self.failures.next();
            tokio::pin!(failed);
            // From here on none is missed.
            failed.as_mut().enable();
            let got = tokio::select! {
                biased;
                got = self.pool.get() => got,
                () = failed => match self.failures.last() {
                    // What another attempt met is no reason to do without a connection that is there.
                    Some(error) if self.pool.state().idle_connections == 0 => Err(RunError::User(error)),
                    _ => continue,
                },
            };
            match got {
                // The pool looks at a connection only when it is put back: one that broke meanwhile goes back now, and out of it.
                Ok(slot) if slot.is_broken() => drop(slot),
                Ok(slot) => return Ok(slot.clone()),
                Err(RunError::User(error)) => break self.target.passing_failure(&error),
                Err(RunError::TimedOut) => break self.target.no_connection(),
            }
        };
        // A server that answers and refuses, for one reason or another, leaves the connections that there are alone.
        if error.kind() == ErrorKind::Unreachable {
            self.target.distrust();
        }
        Err(error)
    }

    /// Sends a command; `asking` it of a node that a slot is being moved to.
    async fn send(&self, live: &mut Live, command: &Cmd, asking: bool) -> Result<Value, RedisError> {
        // What the server refused comes inside an Ok.
        let answer = if asking {
            // Both at once: what another task sends over this connection can't come in between.
            let mut both = redis::pipe();
            both.cmd("ASKING").add_command(command.clone());
            // A right to ask that is missing is to be heard of too.
            let answers = live.connection.send_packed_commands(&both, 0, 2).await;
            answers.and_then(|answers| answers.into_iter().try_fold(Value::Nil, |_, answer| answer.extract_error()))
        } else {
            live.connection.send_packed_command(command).await.and_then(Value::extract_error)
        };
        if let Err(error) = &answer
            && failure::breaks_connection(error)
        {
            live.mark_broken();
            self.target.distrust();
        }
        answer
    }

    async fn evaluate(
        &self,
        script: &'static Script,
        keys: &[Vec<u8>],
        args: &[&[u8]],
        asking: bool,
    ) -> Result<Reply, Failed> {
        let mut live = self.connection().await.map_err(Failed::Unconnected)?;
        self.evaluate_on(&mut live, script, keys, args, asking).await
    }

    async fn evaluate_on(
        &self,
        live: &mut Live,
        script: &'static Script,
        keys: &[Vec<u8>],
        args: &[&[u8]],
        asking: bool,
    ) -> Result<Reply, Failed> {
        let command = |verb: &str, body: &str| {
            let mut command = redis::cmd(verb);
            command.arg(body).arg(keys.len());
            for part in keys.iter().map(Vec::as_slice).chain(args.iter().copied()) {
                command.arg(part);
            }
            command
        };
        let answer = match self.send(live, &command("EVALSHA", sha1(script)), asking).await {
            // The server doesn't know the script (yet, or any more), so nothing ran: EVAL runs it and makes it known.
            Err(error) if failure::is_no_script(&error) => {
                self.send(live, &command("EVAL", script.source), asking).await
            }
            other => other,
        };
        answer.map(reply).map_err(Failed::Call)
    }

    /// WAIT goes over the connection that wrote: it counts the replicas that have all that this one has written.
    async fn evaluate_and_wait(
        &self,
        script: &'static Script,
        keys: &[Vec<u8>],
        args: &[&[u8]],
        replicas: Replicas,
        asking: bool,
    ) -> Result<(Reply, u32), Failed> {
        let mut live = self.connection().await.map_err(Failed::Unconnected)?;
        let reply = self.evaluate_on(&mut live, script, keys, args, asking).await?;
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas.count).arg(replicas.within.as_millis().max(1) as u64);
        // The script ran: whatever comes now, it is not sent again.
        match self.send(&mut live, &wait, false).await {
            Ok(Value::Int(confirmed)) => Ok((reply, u32::try_from(confirmed).unwrap_or_default())),
            Ok(_) => Err(Failed::Final(Error::new(
                ErrorKind::Unknown,
                "WAIT answered in an unknown form: the replicas may have it or not",
            ))),
            Err(error) => {
                let failed = self.target.call_failure("WAIT", &error);
                let text = "it is not known whether the replicas have what was written: ask again, with the same id";
                Err(Failed::Final(Error::new(ErrorKind::Unknown, text).caused(failed)))
            }
        }
    }

    async fn pop(&self, keys: &[Vec<u8>], timeout: Duration) -> Result<Option<Marker>, Failed> {
        let mut held = self.blocking.lock().await;
        // Taken out while it is used: if this future is dropped midway, the connection goes with it. A pop that is
        // still pending there would swallow the answer of the next one.
        let mut broken = self.target.broken.subscribe();
        let count = *broken.borrow_and_update();
        let mut connection = match held.take() {
            Some((then, connection)) if then == count => connection,
            _ => self
                .target
                .open(None)
                .await
                .map_err(|error| Failed::Unconnected(self.target.connect_failure(&error)))?,
        };
        let mut command = redis::cmd("BZPOPMIN");
        for key in keys {
            command.arg(key.as_slice());
        }
        command.arg(timeout.as_secs_f64());
        let answered = tokio::select! {
            answered = tokio::time::timeout(timeout + POP_SLACK, connection.send_packed_command(&command)) => answered,
            // Half-open, this one would be silent for all that time, and the jobs that come meanwhile late.
            _ = broken.changed() => {
                return Err(Failed::Final(Error::new(
                    ErrorKind::Unreachable,
                    format!("another connection to {} failed: the waiting one is made anew", self.target),
                )));
            }
        };
        let value = match answered {
            Ok(answer) => answer.and_then(Value::extract_error).map_err(Failed::Call)?,
            Err(_) => {
                return Err(Failed::Final(Error::new(
                    ErrorKind::Unreachable,
                    format!("{} is silent on a blocking call", self.target),
                )));
            }
        };
        *held = Some((count, connection));
        marker(value).map_err(Failed::Final)
    }

    /// What a failure means to whoever asked.
    fn told(&self, operation: &str, failed: Failed) -> Error {
        match failed {
            Failed::Unconnected(error) | Failed::Final(error) => error,
            Failed::Call(error) => self.target.call_failure(operation, &error),
        }
    }
}

/// Runs a script's call, and notes how long it took.
async fn timed<T>(script: &'static Script, call: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let answer = call.await;
    metrics::histogram!("delayq_redis_command_seconds", "operation" => script.name).record(started.elapsed());
    answer
}

impl Engine for RedisEngine {
    fn run<'a>(
        &'a self,
        script: &'static Script,
        keys: &'a [Vec<u8>],
        args: &'a [&'a [u8]],
    ) -> BoxFuture<'a, Result<Reply, Error>> {
        Box::pin(timed(script, async move {
            self.evaluate(script, keys, args, false).await.map_err(|failed| self.told(script.name, failed))
        }))
    }

    fn run_and_wait<'a>(
        &'a self,
        script: &'static Script,
        keys: &'a [Vec<u8>],
        args: &'a [&'a [u8]],
        replicas: Replicas,
    ) -> BoxFuture<'a, Result<(Reply, u32), Error>> {
        Box::pin(timed(script, async move {
            let answer = self.evaluate_and_wait(script, keys, args, replicas, false).await;
            answer.map_err(|failed| self.told(script.name, failed))
        }))
    }

    fn wait<'a>(&'a self, keys: &'a [Vec<u8>], timeout: Duration) -> BoxFuture<'a, Result<Option<Marker>, Error>> {
        Box::pin(async move { self.pop(keys, timeout).await.map_err(|failed| self.told("wait", failed)) })
    }

    fn command<'a>(&'a self, parts: &'a [&'a [u8]]) -> BoxFuture<'a, Result<Option<Reply>, Error>> {
        Box::pin(async move {
            let mut live = self.connection().await?;
            let mut command = Cmd::new();
            for part in parts {
                command.arg(*part);
            }
            let name = String::from_utf8_lossy(parts.first().copied().unwrap_or_default());
            match self.send(&mut live, &command, false).await {
                Ok(value) => Ok(Some(reply(value))),
                Err(error) => Err(self.target.call_failure(&name, &error)),
            }
        })
    }

    fn dedicated(&self) -> Arc<dyn Engine> {
        Arc::new(RedisEngine::lazy(self.target.clone(), self.target.settings.pool_size))
    }

    fn in_order(&self) -> Arc<dyn Engine> {
        Arc::new(RedisEngine::lazy(self.target.clone(), 1))
    }
}

fn sha1(script: &'static Script) -> &'static str {
    script.digest(|source| redis::Script::new(source).get_hash().to_owned())
}

/// What a blocking pop brought.
///
/// # Errors
/// It is in a form that no blocking pop answers in.
pub fn marker(popped: Value) -> Result<Option<Marker>, Error> {
    match reply(popped) {
        Reply::Nil => Ok(None),
        Reply::List(parts) => match parts.as_slice() {
            [Reply::Bytes(key), _, Reply::Bytes(score)] => {
                let due = std::str::from_utf8(score).ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
                // A score is a whole number of ms; what else somebody may have put there means "look now".
                Ok(Some(Marker { key: key.clone(), due_ms: due.max(0.0) as u64 }))
            }
            _ => Err(Error::corrupt("a blocking pop answered in an unknown form")),
        },
        _ => Err(Error::corrupt("a blocking pop answered in an unknown form")),
    }
}

/// A server's answer as the operations read it.
pub fn reply(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(n) => Reply::Int(n),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::SimpleString(text) => Reply::Bytes(text.into_bytes()),
        Value::Okay => Reply::Bytes(b"OK".to_vec()),
        Value::Array(parts) | Value::Set(parts) => Reply::List(parts.into_iter().map(reply).collect()),
        Value::Double(n) => Reply::Bytes(n.to_string().into_bytes()),
        Value::Boolean(b) => Reply::Int(i64::from(b)),
        // Over RESP3 INFO is a text of its own kind, and a setting a map.
        Value::VerbatimString { text, .. } => Reply::Bytes(text.into_bytes()),
        Value::Map(pairs) => {
            Reply::List(pairs.into_iter().flat_map(|(name, value)| [reply(name), reply(value)]).collect())
        }
        // Nothing else comes from a script.
        _ => Reply::Nil,
    }
}

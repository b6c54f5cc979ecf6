//! Two engines side by side: the same call at the same instant on both, and what they say and hold compared.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use delayq::engine::embedded::{Clock, EmbeddedEngine};
use delayq::engine::redis::{RedisEngine, Target};
use delayq::engine::{BoxFuture, Engine, Marker, Reply, Script};
use delayq::store::{Prefix, SCRIPTS, Shard, Store};
use delayq::{Error, ErrorKind};
use delayq_tests::Folder;
use delayq_tests::store_kit::{Dump, EmbeddedKeys, RawKeys, RedisKeys, Value, patient};

/// What `lib/base` says, and what Redis is told instead: to take the clock off the end of the arguments. The embedded
/// engine's clock can be any, the server's is its own.
const TIME: (&str, &str) = ("call('TIME')", "{ table.remove(ARGV, #ARGV - 1), table.remove(ARGV) }");

/// The scripts for Redis.
static PATCHED: LazyLock<BTreeMap<&'static str, &'static Script>> = LazyLock::new(|| {
    let patched = |script: &'static Script| {
        assert_eq!(script.source.matches(TIME.0).count(), 1, "{} reads the clock once, by {}", script.name, TIME.0);
        let source: &'static str = String::leak(script.source.replace(TIME.0, TIME.1));
        let patched: &'static Script = Box::leak(Box::new(Script::new(script.name, source)));
        (script.name, patched)
    };
    SCRIPTS.iter().map(|file| patched(file.script)).collect()
});

/// A call of a script.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) script: &'static str,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.script)?;
        for arg in &self.args {
            write!(f, " \"{}\"", arg[..arg.len().min(300)].escape_ascii())?;
        }
        Ok(())
    }
}

/// What came of a call, as far as both engines must agree.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered(Reply),
    /// An error that callers can tell from others: its kind, its code, and all that was said after that.
    Refused(ErrorKind, &'static str, String),
    /// The script ran into what it doesn't expect. Redis keeps what was written by then, so its caller must not know.
    Stumbled,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn show(reply: &Reply, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match reply {
                Reply::Nil => f.write_str("nil"),
                Reply::Int(n) => write!(f, "{n}"),
                Reply::Bytes(bytes) => write!(f, "\"{}\"", bytes[..bytes.len().min(300)].escape_ascii()),
                Reply::List(parts) => parts.iter().try_for_each(|part| {
                    show(part, f)?;
                    f.write_str(" ")
                }),
            }
        }
        match self {
            Outcome::Answered(reply) => show(reply, f),
            Outcome::Refused(kind, code, rest) => write!(f, "{kind:?}: {code} {rest}"),
            Outcome::Stumbled => f.write_str("stumbled"),
        }
    }
}

/// The codes of errors that scripts answer with, or let through.
pub(crate) const ERRORS: [&str; 3] = ["BADARG", "CORRUPT", "WRONGTYPE"];

impl Outcome {
    fn of(result: Result<Reply, Error>, stumbles: &[ErrorKind]) -> Outcome {
        let error = match result {
            Ok(reply) => return Outcome::Answered(reply),
            Err(error) => error,
        };
        let text = error.to_string();
        for code in ERRORS {
            if let Some((_, rest)) = text.split_once(code) {
                // Redis names the script, and its client puts a colon after the code.
                let rest = rest.split(" script: ").next().unwrap_or_default();
                // What to do about it, a server's errors say.
                let rest = rest.split("; ").next().unwrap_or_default();
                let rest = rest.trim_matches(|c: char| c == ':' || c == ' ');
                return Outcome::Refused(error.kind(), code, rest.to_owned());
            }
        }
        assert!(stumbles.contains(&error.kind()), "of what kind is this? {error:?}");
        Outcome::Stumbled
    }
}

/// An engine and its keys.
struct Side {
    engine: Arc<dyn Engine>,
    keys: Arc<dyn RawKeys>,
    /// The scripts as this engine runs them.
    scripts: BTreeMap<&'static str, &'static Script>,
    /// Whether it wants the clock with each call.
    told_time: bool,
    /// The kinds of error that mean that a script stumbled.
    stumbles: &'static [ErrorKind],
    /// us since 1970.
    now: Arc<AtomicU64>,
}

impl Side {
    async fn dump(&self, shard: &Shard) -> Dump {
        let base = shard.key("");
        let keys = self.keys.names(&base).await;
        // All at once: a round trip for each would be what the test spends its time on.
        let values = in_order(keys.iter().map(|key| self.keys.read(key)).collect()).await;
        let name = |key: &Vec<u8>| String::from_utf8_lossy(&key[base.len()..]).into_owned();
        let dump = keys.iter().zip(values).filter_map(|(key, value)| Some((name(key), value?))).collect();
        Dump(dump)
    }

    async fn run(&self, call: &Call) -> Outcome {
        let (script, mut args) = (self.scripts[call.script], Cow::Borrowed(&call.args));
        if self.told_time {
            let now = self.now.load(Ordering::Relaxed);
            args.to_mut().extend([now / 1_000_000, now % 1_000_000].map(|n| n.to_string().into_bytes()));
        }
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        Outcome::of(self.engine.run(script, &call.keys, &args).await, self.stumbles)
    }
}

impl Side {
    async fn audit(&self, call: &Call) -> Outcome {
        let (mut call, mut found) = (call.clone(), BTreeSet::new());
        loop {
            let parts = match self.run(&call).await {
                Outcome::Answered(Reply::List(parts)) => parts,
                other => return other,
            };
            let [code, Reply::Bytes(cursor), _, ids @ ..] = &parts[..] else {
                return Outcome::Answered(Reply::List(parts));
            };
            found.extend(ids.iter().filter_map(|id| if let Reply::Bytes(id) = id { Some(id.clone()) } else { None }));
            if cursor == b"0" {
                let found = found.into_iter().map(Reply::Bytes);
                return Outcome::Answered(Reply::List(std::iter::once(code.clone()).chain(found).collect()));
            }
            call.args[1].clone_from(cursor);
        }
    }
}

/// One queue on both engines.
pub(crate) struct Pair {
    pub(crate) shard: Shard,
    redis: Side,
    embedded: Side,
    now: Arc<AtomicU64>,
    _folder: Option<Folder>,
}

impl Pair {
    /// A fresh queue on a server, and in memory or in a file.
    pub(crate) async fn new(url: &str, queue: &str, in_file: bool) -> Pair {
        let target = Target::parse(url, patient()).unwrap();
        let now = Arc::new(AtomicU64::new(0));
        let redis = Side {
            engine: Arc::new(RedisEngine::connect(target).await.unwrap()),
            keys: Arc::new(RedisKeys::connect(url).await),
            scripts: PATCHED.clone(),
            told_time: true,
            stumbles: &[ErrorKind::Unknown],
            now: now.clone(),
        };
        let folder = in_file.then(|| Folder::new("differential"));
        let place = match &folder {
            Some(folder) => format!("sqlite://{}?synchronous=normal", folder.path().join("jobs.db").display()),
            None => "sqlite::memory:".to_owned(),
        };
        let read = now.clone();
        let engine = EmbeddedEngine::connect(&place, Clock::from(move || read.load(Ordering::Relaxed))).await.unwrap();
        // Of a file, the keys go by a connection of their own: what the engine knows of keys must notice that.
        let keys =
            if in_file { EmbeddedEngine::connect(&place, Clock::system()).await.unwrap() } else { engine.clone() };
        let embedded = Side {
            engine: Arc::new(engine),
            keys: Arc::new(EmbeddedKeys(keys)),
            scripts: SCRIPTS.iter().map(|file| (file.script.name, file.script)).collect(),
            told_time: false,
            stumbles: &[ErrorKind::Corrupt, ErrorKind::Unsupported],
            now: now.clone(),
        };
        let shard = Store::new(redis.engine.clone(), Prefix::default()).shard(queue, 0).unwrap();
        Pair { shard, redis, embedded, now, _folder: folder }
    }

    /// Goes on with another queue, on the same engines.
    pub(crate) fn turn_to(&mut self, queue: &str) {
        self.shard = Store::new(self.redis.engine.clone(), Prefix::default()).shard(queue, 0).unwrap();
    }

    /// Sets the clock that both go by.
    pub(crate) fn set_clock(&self, us: u64) {
        self.now.store(us, Ordering::Relaxed);
    }

    /// One call on both.
    pub(crate) async fn run(&self, call: &Call) -> (Outcome, Outcome) {
        tokio::join!(self.redis.run(call), self.embedded.run(call))
    }

    /// An audit on both, page after page: what they found, in order, since they go through the records in orders of their own.
    pub(crate) async fn audit(&self, call: &Call) -> (Outcome, Outcome) {
        tokio::join!(self.redis.audit(call), self.embedded.audit(call))
    }

    /// Several calls, which the embedded engine gets at once, so that it puts them into one transaction. Ends with the
    /// first that stumbles: what it left differs.
    pub(crate) async fn run_together(&self, calls: &[Call]) -> Vec<(Outcome, Outcome)> {
        let mut redis = Vec::new();
        for call in calls {
            redis.push(self.redis.run(call).await);
            if redis.last() == Some(&Outcome::Stumbled) {
                break;
            }
        }
        let runs = calls[..redis.len()].iter();
        let runs = runs.map(|call| -> BoxFuture<'_, Outcome> { Box::pin(self.embedded.run(call)) });
        redis.into_iter().zip(in_order(runs.collect()).await).collect()
    }

    /// Takes the marker, where there is something to take: an empty baton would be waited for.
    pub(crate) async fn take_marker(
        &self,
    ) -> Option<(Result<Option<Marker>, ErrorKind>, Result<Option<Marker>, ErrorKind>)> {
        let key = self.shard.key("wake");
        self.embedded.keys.read(&key).await?;
        let (keys, patience) = ([key], Duration::from_secs(5));
        let (redis, embedded) =
            tokio::join!(self.redis.engine.wait(&keys, patience), self.embedded.engine.wait(&keys, patience));
        Some((redis.map_err(|error| error.kind()), embedded.map_err(|error| error.kind())))
    }

    /// A key of the shard, as both have it.
    pub(crate) async fn read(&self, name: &str) -> Option<Value> {
        self.embedded.keys.read(&self.shard.key(name)).await
    }

    /// Overwrites a key of the shard on both.
    pub(crate) async fn write(&self, name: &str, value: Option<&Value>) {
        let key = self.shard.key(name);
        tokio::join!(self.redis.keys.write(&key, value), self.embedded.keys.write(&key, value));
    }

    /// All keys of the embedded engine's shard.
    pub(crate) async fn embedded_dump(&self) -> Dump {
        self.embedded.dump(&self.shard).await
    }

    /// All keys of the shard, as both have them.
    pub(crate) async fn dumps(&self) -> (Dump, Dump) {
        tokio::join!(self.redis.dump(&self.shard), self.embedded.dump(&self.shard))
    }

    /// What differs between the shards, as a text.
    pub(crate) async fn difference(&self) -> Option<String> {
        let (redis, embedded) = self.dumps().await;
        difference(("redis", &redis), ("embedded", &embedded))
    }

    /// Makes the server's shard what the embedded engine's is, where they may differ.
    pub(crate) async fn level(&self) {
        let (redis, embedded) = self.dumps().await;
        for name in redis.0.keys().chain(embedded.0.keys()) {
            if redis.0.get(name) != embedded.0.get(name) {
                self.redis.keys.write(&self.shard.key(name), embedded.0.get(name)).await;
            }
        }
    }

    /// Removes the server's shard, so that it has no more keys to look through.
    pub(crate) async fn forget(&self) {
        for key in self.redis.keys.names(&self.shard.key("")).await {
            self.redis.keys.write(&key, None).await;
        }
    }
}

/// The keys that differ between two dumps, as a text.
pub(crate) fn difference(one: (&str, &Dump), other: (&str, &Dump)) -> Option<String> {
    if one.1 == other.1 {
        return None;
    }
    let names: BTreeSet<&String> = one.1.0.keys().chain(other.1.0.keys()).collect();
    let mut text = String::new();
    for name in names {
        let values = [one, other].map(|(side, dump)| (side, dump.0.get(name)));
        if values[0].1 != values[1].1 {
            for (side, value) in values {
                let shown = format!("{value:?}");
                text.push_str(&format!("\n  {name}, {side}: {}", shown.chars().take(1500).collect::<String>()));
            }
        }
    }
    Some(text)
}

/// Polls the futures in their order, all of them before any is waited for.
async fn in_order<T>(mut futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut ready: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, ready) in futures.iter_mut().zip(&mut ready) {
            if ready.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *ready = Some(value);
            }
        }
        if ready.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ready.into_iter().flatten().collect()
}

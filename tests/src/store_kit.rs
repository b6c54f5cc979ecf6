//! Worlds for the conformance suite of the store: one queue on one engine, with its keys laid open.
//!
//! A case takes a [`World`] and nothing else, so that every engine can run every case.

mod conserved;
mod hand;
mod raw;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use delayq::engine::embedded::{Clock, EmbeddedEngine};
use delayq::engine::redis::{RedisEngine, Settings, Target};
use delayq::engine::{Engine, Reply};
use delayq::envelope::Record;
use delayq::store::ops::{Found, NewJob, Options, Place, Sent};
use delayq::store::{Prefix, SCRIPTS, SessionId, Shard, Store};
use delayq::{Error, ErrorKind};
use delayq_redis_fixture::RedisServer;

use crate::{Folder, PATIENCE};

pub use hand::{Hand, Run, Runs, ask};
pub use raw::{EmbeddedKeys, RawKeys, RedisKeys, Value};

/// Timeouts that a busy machine keeps to.
pub fn patient() -> Settings {
    Settings { connect_timeout: PATIENCE, response_timeout: PATIENCE, ..Settings::default() }
}

/// The bytes of a job's id.
pub type Id = [u8; 16];

/// A lease that no case outlives: expiry is made by hand.
pub const LONG: Duration = Duration::from_secs(60);
/// Later than any case runs.
pub const HOUR_MS: u64 = 3_600_000;
/// What never expires, though it says when.
pub const AGES_MS: u64 = 5_000_000_000_000;

/// An id that is easy to tell apart. Its last bytes are zero, so that jitter drawn from them is too.
pub fn id(n: u64) -> Id {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&n.to_be_bytes());
    id
}

/// A job that has long been due ("+0" is due at the next whole millisecond): priority 5, four attempts.
pub fn job(n: u64) -> NewJob {
    NewJob {
        id: id(n),
        when: "@1000".to_owned(),
        options: Options { priority: 5, attempts_max: 4, ..Options::default() },
        envelope: format!("test 1\n{{\"n\":{n}}}").into_bytes(),
    }
}

/// What a case changes about a job.
pub trait With: Sized {
    /// Due then: "+delay" or "@instant", in ms.
    fn due(self, when: impl Into<String>) -> Self;
    /// Its priority.
    fn priority(self, priority: u8) -> Self;
    /// Its attempts.
    fn attempts(self, max: u32) -> Self;
    /// How long it is worth running.
    fn expires(self, ms: u64) -> Self;
    /// How long its record is kept.
    fn retain(self, ms: u64) -> Self;
    /// Its unique key.
    fn unique(self, key: &str) -> Self;
    /// Its envelope.
    fn envelope(self, bytes: Vec<u8>) -> Self;
}

impl With for NewJob {
    fn due(mut self, when: impl Into<String>) -> NewJob {
        self.when = when.into();
        self
    }

    fn priority(mut self, priority: u8) -> NewJob {
        self.options.priority = priority;
        self
    }

    fn attempts(mut self, max: u32) -> NewJob {
        self.options.attempts_max = max;
        self
    }

    fn expires(mut self, ms: u64) -> NewJob {
        self.options.expires_ms = Some(ms);
        self
    }

    fn retain(mut self, ms: u64) -> NewJob {
        self.options.retain_ms = Some(ms);
        self
    }

    fn unique(mut self, key: &str) -> NewJob {
        self.options.unique = Some(key.to_owned());
        self
    }

    fn envelope(mut self, bytes: Vec<u8>) -> NewJob {
        self.envelope = bytes;
        self
    }
}

/// All keys of a shard, by the part of their names after the shard's own.
#[derive(Clone, PartialEq)]
pub struct Dump(pub BTreeMap<String, Value>);

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.0 {
            writeln!(f, "\n  {name}: {value:?}")?;
        }
        Ok(())
    }
}

impl Dump {
    /// The same without what is allowed to differ: fields of `stats`.
    pub fn without_stats(mut self, fields: &[&str]) -> Dump {
        if let Some(Value::Hash(stats)) = self.0.get_mut("stats") {
            stats.retain(|field, _| !fields.iter().any(|prefix| field.starts_with(prefix.as_bytes())));
        }
        self
    }
}

/// One queue of its own on one engine.
pub struct World {
    /// The store under test.
    pub store: Store,
    /// The queue's only shard.
    pub shard: Shard,
    engine: Arc<dyn Engine>,
    keys: Arc<dyn RawKeys>,
    /// Set by a case that leaves damage behind on purpose.
    damaged: AtomicBool,
    /// Kept running as long as a world needs it.
    server: Option<Arc<RedisServer>>,
    folder: Option<Arc<Folder>>,
}

impl World {
    /// A fresh queue on an engine.
    pub fn new(engine: Arc<dyn Engine>, keys: Arc<dyn RawKeys>) -> World {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let queue = format!("q{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let store = Store::new(engine.clone(), Prefix::default());
        let shard = store.shard(&queue, 0).expect("a valid name");
        World { store, shard, engine, keys, damaged: AtomicBool::new(false), server: None, folder: None }
    }

    /// A fresh queue on a server.
    pub async fn on(server: &RedisServer) -> World {
        let target = Target::parse(&server.url(), patient()).expect("the fixture's URL is valid");
        let engine = RedisEngine::connect(target).await.expect("the server runs");
        World::new(Arc::new(engine), Arc::new(RedisKeys::connect(&server.url()).await))
    }

    /// A fresh queue on the server that all cases of the binary share, started when nobody has it.
    pub async fn on_shared_redis() -> World {
        // Held weakly, since statics are never dropped: the last world stops the server.
        static SHARED: Mutex<Weak<RedisServer>> = Mutex::new(Weak::new());
        let server = {
            let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            match shared.upgrade() {
                Some(server) => server,
                None => {
                    let server = Arc::new(RedisServer::start().expect("redis-server starts"));
                    *shared = Arc::downgrade(&server);
                    server
                }
            }
        };
        let mut world = World::on(&server).await;
        world.server = Some(server);
        world
    }

    /// A fresh queue in memory.
    pub async fn in_memory() -> World {
        let engine = EmbeddedEngine::connect("sqlite::memory:", Clock::system()).await.expect("SQLite opens");
        World::new(Arc::new(engine.clone()), Arc::new(EmbeddedKeys(engine)))
    }

    /// A fresh queue in a file. Its keys are looked at by another connection, as another process would.
    pub async fn in_file() -> World {
        let folder = Folder::new("store");
        // Nobody cuts the power here, and a thousand flushes take their time.
        let url = format!("sqlite://{}?synchronous=normal", folder.path().join("jobs.db").display());
        let engine = EmbeddedEngine::connect(&url, Clock::system()).await.expect("the file opens");
        let other = EmbeddedEngine::connect(&url, Clock::system()).await.expect("the file opens twice");
        let mut world = World::new(Arc::new(engine), Arc::new(EmbeddedKeys(other)));
        world.folder = Some(Arc::new(folder));
        world
    }

    /// Another fresh queue on the same engine.
    pub fn sibling(&self) -> World {
        let mut sibling = World::new(self.engine.clone(), self.keys.clone());
        sibling.server.clone_from(&self.server);
        sibling.folder.clone_from(&self.folder);
        sibling
    }

    /// The same queue as a program with another prefix or queue name would see it.
    pub fn named(&self, prefix: &str, queue: &str) -> World {
        let mut named = self.sibling();
        named.store = Store::new(self.engine.clone(), Prefix::new(prefix).expect("a valid prefix"));
        named.shard = named.store.shard(queue, 0).expect("a valid name");
        named
    }

    /// What this case leaves behind breaks the counts on purpose.
    pub fn leaves_damage(&self) {
        self.damaged.store(true, Ordering::Relaxed);
    }

    /// The end of every case: nothing was lost or doubled.
    pub async fn finish(&self) {
        if !self.damaged.load(Ordering::Relaxed) {
            self.assert_conserved().await;
        }
        self.forget().await;
    }

    /// Removes every key of the shard, so that other cases' dumps needn't walk over them.
    pub async fn forget(&self) {
        for key in self.keys.names(&self.shard.key("")).await {
            self.keys.write(&key, None).await;
        }
    }

    /// Runs a script with arguments that the typed operations would never send.
    pub async fn raw(&self, script: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Result<Reply, Error> {
        let file = SCRIPTS.iter().find(|file| file.script.name == script).expect("a script of that name");
        self.engine.run(file.script, keys, &args.iter().map(Vec::as_slice).collect::<Vec<_>>()).await
    }

    /// The keys in the order of `lua/lib/shard.lua`.
    pub fn all_keys(&self, session: &SessionId) -> Vec<Vec<u8>> {
        let names = ["jobs", "stats", "wake", "sessions", "", "dead", "error", "done", "unique", "tombs"];
        let mut keys: Vec<Vec<u8>> = names
            .iter()
            .map(|name| if name.is_empty() { self.shard.held(session) } else { self.shard.key(name) })
            .collect();
        keys.extend((0..10).map(|p| self.shard.key(&format!("due:{p}"))));
        keys
    }

    /// The keys of `enqueue` with these priorities.
    pub fn enqueue_keys(&self, priorities: &str) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> =
            ["jobs", "stats", "wake", "tombs", "unique"].iter().map(|name| self.shard.key(name)).collect();
        keys.extend(priorities.chars().map(|p| self.shard.key(&format!("due:{p}"))));
        keys
    }

    /// Sends jobs.
    pub async fn send(&self, jobs: &[NewJob]) -> Vec<Sent> {
        self.store.enqueue(&self.shard, jobs).await.expect("the store takes jobs")
    }

    /// Sends jobs that are all new.
    pub async fn create(&self, jobs: &[NewJob]) {
        let sent = self.send(jobs).await;
        assert!(sent.iter().all(|sent| *sent == Sent::Created), "{sent:?}");
    }

    /// Opens a session that no case outlives.
    pub async fn open(&self) -> Hand<'_> {
        self.open_for(LONG).await
    }

    /// Opens a session.
    pub async fn open_for(&self, lease: Duration) -> Hand<'_> {
        let id = *uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, &NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes())
            .as_bytes();
        self.store.open(&self.shard, &id, lease).await.expect("a session opens");
        Hand::new(self, id, lease)
    }

    /// The whole state of the shard.
    pub async fn dump(&self) -> Dump {
        let base = self.shard.key("");
        let mut dump = BTreeMap::new();
        for key in self.keys.names(&base).await {
            if let Some(value) = self.keys.read(&key).await {
                dump.insert(String::from_utf8_lossy(&key[base.len()..]).into_owned(), value);
            }
        }
        Dump(dump)
    }

    /// One key.
    pub async fn read(&self, name: &str) -> Option<Value> {
        self.keys.read(&self.shard.key(name)).await
    }

    /// Overwrites one key.
    pub async fn write(&self, name: &str, value: Option<Value>) {
        self.keys.write(&self.shard.key(name), value.as_ref()).await;
    }

    /// A field of a hash.
    pub async fn field(&self, name: &str, field: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        match self.read(name).await? {
            Value::Hash(fields) => fields.get(field.as_ref()).cloned(),
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Sets a field of a hash, or removes it.
    pub async fn set_field(&self, name: &str, field: impl AsRef<[u8]>, value: Option<Vec<u8>>) {
        let mut fields = match self.read(name).await {
            Some(Value::Hash(fields)) => fields,
            None => BTreeMap::new(),
            Some(other) => panic!("{name} is {other:?}"),
        };
        match value {
            Some(value) => fields.insert(field.as_ref().to_vec(), value),
            None => fields.remove(field.as_ref()),
        };
        self.write(name, Some(Value::Hash(fields))).await;
    }

    /// A counter or clock of `stats`, 0 where there is none.
    pub async fn stat(&self, field: &str) -> u64 {
        let value = self.field("stats", field).await.unwrap_or_default();
        String::from_utf8_lossy(&value).parse().unwrap_or(0)
    }

    /// A member's score.
    pub async fn score(&self, name: &str, member: impl AsRef<[u8]>) -> Option<u64> {
        match self.read(name).await? {
            Value::Sorted(members) => members.get(member.as_ref()).map(|score| *score as u64),
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Sets a member's score, or removes it.
    pub async fn set_score(&self, name: &str, member: impl AsRef<[u8]>, score: Option<u64>) {
        let mut members = match self.read(name).await {
            Some(Value::Sorted(members)) => members,
            None => BTreeMap::new(),
            Some(other) => panic!("{name} is {other:?}"),
        };
        match score {
            Some(score) => members.insert(member.as_ref().to_vec(), score as f64),
            None => members.remove(member.as_ref()),
        };
        self.write(name, Some(Value::Sorted(members))).await;
    }

    /// The marker's due time, if one lies in the baton.
    pub async fn marker(&self) -> Option<u64> {
        self.score("wake", "m").await
    }

    /// Takes the marker away, as a blocked worker would.
    pub async fn take_marker(&self) -> Option<u64> {
        let due = self.marker().await;
        self.write("wake", None).await;
        due
    }

    /// When a timer is armed for.
    pub async fn timer_at(&self) -> Option<u64> {
        let at = self.field("stats", "timer_at").await?;
        String::from_utf8_lossy(&at).parse().ok()
    }

    /// The store's clock.
    pub async fn now_us(&self) -> u64 {
        self.keys.now_us().await
    }

    /// The store's clock, in whole ms.
    pub async fn now_ms(&self) -> u64 {
        self.now_us().await / 1000
    }

    /// Waits until an instant of the store's clock has come.
    pub async fn sleep_until(&self, ms: u64) {
        while let Some(left) = ms.checked_sub(self.now_ms().await).filter(|left| *left > 0) {
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
    }

    /// Makes a session look as if its lease had run out.
    pub async fn expire(&self, session: &SessionId) {
        self.set_score("sessions", session, Some(1)).await;
    }

    /// The stored record, taken apart.
    pub async fn record(&self, id: &Id) -> Record {
        let bytes = self.field("jobs", id).await.expect("a record");
        Record::decode(&Bytes::from(bytes)).expect("a readable record")
    }

    /// Where a job is.
    pub async fn find(&self, id: &Id) -> Found {
        self.store.inspect(&self.shard, id).await.expect("inspect answers")
    }

    /// In which place a job is that has a record.
    pub async fn place(&self, id: &Id) -> Option<Place> {
        match self.find(id).await {
            Found::Job { place, .. } => Some(place),
            _ => None,
        }
    }

    /// The note of a job's last failure.
    pub async fn note(&self, id: &Id) -> String {
        String::from_utf8_lossy(&self.field("error", id).await.unwrap_or_default()).into_owned()
    }
}

/// Sessions are numbered through the whole binary, so that no id comes twice.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The kind of a call's failure.
///
/// # Panics
/// It succeeded.
pub fn kind<T: fmt::Debug>(answer: Result<T, Error>) -> ErrorKind {
    answer.expect_err("the call must be refused").kind()
}

/// Makes a test of each case for every engine: a further engine is a further `mod` in here, with a world of its own.
#[macro_export]
macro_rules! store_cases {
    ($($case:ident),+ $(,)?) => {
        mod redis {
            $(#[tokio::test]
            async fn $case() {
                let world = $crate::store_kit::World::on_shared_redis().await;
                super::$case(&world).await;
                world.finish().await;
            })+
        }

        mod memory {
            $(#[tokio::test]
            async fn $case() {
                let world = $crate::store_kit::World::in_memory().await;
                super::$case(&world).await;
                world.finish().await;
            })+
        }

        mod file {
            $(#[tokio::test]
            async fn $case() {
                let world = $crate::store_kit::World::in_file().await;
                super::$case(&world).await;
                world.finish().await;
            })+
        }
    };
}

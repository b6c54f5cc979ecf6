//! The keys behind a store as they are stored: to look at, and to damage.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use delayq::engine::BoxFuture;
use delayq::engine::embedded::{EmbeddedEngine, Stored};
use redis::aio::MultiplexedConnection;

/// A key's value, of one of the types that the store uses.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// A HASH.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// A ZSET.
    Sorted(BTreeMap<Vec<u8>, f64>),
    /// A SET.
    Set(BTreeSet<Vec<u8>>),
    /// A string: no key of the store is one.
    Text(Vec<u8>),
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn short(bytes: &[u8]) -> String {
            bytes[..bytes.len().min(80)].escape_ascii().to_string()
        }
        match self {
            Value::Hash(fields) => f.debug_map().entries(fields.iter().map(|(k, v)| (short(k), short(v)))).finish(),
            Value::Sorted(members) => f.debug_map().entries(members.iter().map(|(k, v)| (short(k), v))).finish(),
            Value::Set(members) => f.debug_set().entries(members.iter().map(|m| short(m))).finish(),
            Value::Text(bytes) => f.write_str(&short(bytes)),
        }
    }
}

/// The keyspace behind an engine. Methods panic where it can't be reached.
pub trait RawKeys: Send + Sync {
    /// The names of all keys that begin with `prefix`.
    fn names<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Vec<Vec<u8>>>;
    /// A key's value.
    fn read<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Option<Value>>;
    /// Puts a value in place of a key's, or removes the key.
    fn write<'a>(&'a self, key: &'a [u8], value: Option<&'a Value>) -> BoxFuture<'a, ()>;
    /// The store's clock, µs since 1970.
    fn now_us(&self) -> BoxFuture<'_, u64>;
}

/// The keyspace of a Redis server.
pub struct RedisKeys(MultiplexedConnection);

impl RedisKeys {
    /// Connects.
    pub async fn connect(url: &str) -> RedisKeys {
        let client = redis::Client::open(url).expect("a valid URL");
        // The client's own timeout is half a second, which a busy machine may take.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        RedisKeys(client.get_multiplexed_async_connection_with_config(&config).await.expect("the server runs"))
    }

    async fn ask<T: redis::FromRedisValue>(&self, verb: &str, args: &[&[u8]]) -> T {
        let mut command = redis::cmd(verb);
        for arg in args {
            command.arg(*arg);
        }
        command.query_async(&mut self.0.clone()).await.expect("the server answers")
    }
}

impl RawKeys for RedisKeys {
    fn names<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Vec<Vec<u8>>> {
        Box::pin(async move {
            // Names have no character that a pattern gives a meaning to.
            let pattern = [prefix, b"*"].concat();
            let mut names = BTreeSet::new();
            let mut cursor = b"0".to_vec();
            loop {
                let (next, page): (Vec<u8>, Vec<Vec<u8>>) =
                    self.ask("SCAN", &[&cursor, b"MATCH", &pattern, b"COUNT", b"10000"]).await;
                names.extend(page);
                cursor = next;
                if cursor == b"0" {
                    return names.into_iter().collect();
                }
            }
        })
    }

    fn read<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move {
            let kind: String = self.ask("TYPE", &[key]).await;
            Some(match kind.as_str() {
                "none" => return None,
                "hash" => Value::Hash(self.ask("HGETALL", &[key]).await),
                "zset" => {
                    let members: Vec<(Vec<u8>, f64)> = self.ask("ZRANGE", &[key, b"0", b"-1", b"WITHSCORES"]).await;
                    Value::Sorted(members.into_iter().collect())
                }
                "set" => Value::Set(self.ask("SMEMBERS", &[key]).await),
                "string" => Value::Text(self.ask("GET", &[key]).await),
                other => panic!("no key of the store is a {other}"),
            })
        })
    }

    fn write<'a>(&'a self, key: &'a [u8], value: Option<&'a Value>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _: i64 = self.ask("DEL", &[key]).await;
            let (verb, parts): (&str, Vec<Vec<u8>>) = match value {
                None => return,
                Some(Value::Text(text)) => ("SET", vec![text.clone()]),
                Some(Value::Set(members)) => ("SADD", members.iter().cloned().collect()),
                Some(Value::Hash(fields)) => {
                    ("HSET", fields.iter().flat_map(|(f, v)| [f.clone(), v.clone()]).collect())
                }
                Some(Value::Sorted(members)) => {
                    ("ZADD", members.iter().flat_map(|(m, s)| [s.to_string().into_bytes(), m.clone()]).collect())
                }
            };
            for some in parts.chunks(2000) {
                let args: Vec<&[u8]> = std::iter::once(key).chain(some.iter().map(Vec::as_slice)).collect();
                let _: redis::Value = self.ask(verb, &args).await;
            }
        })
    }

    fn now_us(&self) -> BoxFuture<'_, u64> {
        Box::pin(async move {
            let (seconds, micros): (u64, u64) = self.ask("TIME", &[]).await;
            seconds * 1_000_000 + micros
        })
    }
}

/// The keyspace of an embedded engine.
pub struct EmbeddedKeys(pub EmbeddedEngine);

impl RawKeys for EmbeddedKeys {
    fn names<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Vec<Vec<u8>>> {
        Box::pin(async move { self.0.names(prefix).await.expect("the database answers") })
    }

    fn read<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move {
            Some(match self.0.read(key).await.expect("the database answers")? {
                Stored::Hash(fields) => Value::Hash(fields),
                Stored::Sorted(members) => Value::Sorted(members),
                Stored::Set(members) => Value::Set(members),
                Stored::Text(text) => Value::Text(text),
            })
        })
    }

    fn write<'a>(&'a self, key: &'a [u8], value: Option<&'a Value>) -> BoxFuture<'a, ()> {
        let value = value.cloned().map(|value| match value {
            Value::Hash(fields) => Stored::Hash(fields),
            Value::Sorted(members) => Stored::Sorted(members),
            Value::Set(members) => Stored::Set(members),
            Value::Text(text) => Stored::Text(text),
        });
        Box::pin(async move { self.0.write(key, value).await.expect("the database answers") })
    }

    fn now_us(&self) -> BoxFuture<'_, u64> {
        Box::pin(async move { self.0.now_us().await.expect("the database answers") })
    }
}

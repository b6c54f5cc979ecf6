//! What the store holds in the end, read key by key and written into the history.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use delayq::BoxError;
use delayq::engine::embedded::{Clock, EmbeddedEngine, Stored};
use delayq::envelope::{Envelope, Record};
use uuid::Uuid;

use crate::history::{Journal, Place, What, checksum};

/// Reads keys as they are.
pub(crate) enum Keys {
    Redis(Box<redis::aio::MultiplexedConnection>),
    Embedded(EmbeddedEngine),
}

impl Keys {
    pub(crate) async fn open(url: &str) -> Result<Keys, BoxError> {
        if url.starts_with("sqlite:") {
            return Ok(Keys::Embedded(EmbeddedEngine::connect(url, Clock::system()).await?));
        }
        Ok(Keys::Redis(Box::new(patient(url).await?)))
    }

    async fn names(&mut self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BoxError> {
        match self {
            Keys::Embedded(engine) => Ok(engine.names(prefix).await?),
            Keys::Redis(redis) => {
                let (mut names, mut cursor) = (BTreeSet::new(), b"0".to_vec());
                let pattern = [prefix, b"*"].concat();
                loop {
                    let (next, page): (Vec<u8>, Vec<Vec<u8>>) = redis::cmd("SCAN")
                        .arg(&cursor)
                        .arg("MATCH")
                        .arg(&pattern)
                        .arg("COUNT")
                        .arg(10_000)
                        .query_async(redis.as_mut())
                        .await?;
                    names.extend(page);
                    cursor = next;
                    if cursor == b"0" {
                        return Ok(names.into_iter().collect());
                    }
                }
            }
        }
    }

    pub(crate) async fn read(&mut self, key: &[u8]) -> Result<Option<Stored>, BoxError> {
        let redis = match self {
            Keys::Embedded(engine) => return Ok(engine.read(key).await?),
            Keys::Redis(redis) => redis.as_mut(),
        };
        let kind: String = redis::cmd("TYPE").arg(key).query_async(redis).await?;
        let mut read = redis::Cmd::new();
        Ok(match kind.as_str() {
            "hash" => Some(Stored::Hash(read.arg("HGETALL").arg(key).query_async(redis).await?)),
            "set" => Some(Stored::Set(read.arg("SMEMBERS").arg(key).query_async(redis).await?)),
            "zset" => {
                read.arg("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES");
                let members: Vec<(Vec<u8>, f64)> = read.query_async(redis).await?;
                Some(Stored::Sorted(members.into_iter().collect()))
            }
            _ => None,
        })
    }
}

/// A connection that waits long for its answers.
pub(crate) async fn patient(url: &str) -> Result<redis::aio::MultiplexedConnection, BoxError> {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(std::time::Duration::from_secs(5)))
        .set_response_timeout(Some(std::time::Duration::from_secs(60)));
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

/// All of a queue, key by key without the keys' common beginning.
pub(crate) async fn read_all(keys: &mut Keys, prefix: &str) -> Result<BTreeMap<String, Stored>, BoxError> {
    let mut all = BTreeMap::new();
    for name in keys.names(prefix.as_bytes()).await? {
        let short = String::from_utf8_lossy(&name[prefix.len()..]).into_owned();
        if let Some(value) = keys.read(&name).await? {
            all.insert(short, value);
        }
    }
    Ok(all)
}

/// Writes into the history what the store has: each job in its places, tombstones, counts.
pub(crate) fn tell(journal: &Journal, all: &BTreeMap<String, Stored>) {
    let empty = BTreeMap::new();
    let records = match all.get("jobs") {
        Some(Stored::Hash(records)) => records,
        _ => &empty,
    };
    let mut places: BTreeMap<Vec<u8>, Vec<Place>> = records.keys().map(|id| (id.clone(), Vec::new())).collect();
    let mut counters: BTreeMap<String, i64> = BTreeMap::new();
    let mut foreign = 0;
    let mut put = |counters: &mut BTreeMap<String, i64>, id: &[u8], place: Place, count: &str| {
        *counters.entry(count.to_owned()).or_default() += 1;
        if id.len() == 16 {
            places.entry(id.to_vec()).or_default().push(place);
        } else {
            foreign += 1;
        }
    };
    for (name, value) in all {
        match (name.as_str(), value) {
            ("dead", Stored::Sorted(members)) => {
                members.keys().for_each(|id| put(&mut counters, id, Place::Dead, "dead_now"));
            }
            ("done", Stored::Sorted(members)) => {
                members.keys().for_each(|id| put(&mut counters, id, Place::Retained, "retained"));
            }
            (name, Stored::Sorted(members)) if name.starts_with("due:") => {
                let priority = name["due:".len()..].parse().unwrap_or(u8::MAX);
                members.keys().for_each(|id| put(&mut counters, id, Place::Due(priority), "waiting"));
            }
            (name, Stored::Set(members)) if name.starts_with("held:") => {
                let session = &name["held:".len()..];
                for member in members {
                    let id = member.get(..16).unwrap_or(member);
                    put(&mut counters, id, Place::Held(session.to_owned()), "running");
                }
            }
            ("sessions", Stored::Sorted(members)) => drop(counters.insert("sessions".to_owned(), members.len() as i64)),
            ("stats", Stored::Hash(fields)) => {
                for (field, value) in fields {
                    let field = String::from_utf8_lossy(field).into_owned();
                    if field.starts_with("seq:") {
                        *counters.entry("seqs".to_owned()).or_default() += 1;
                    } else if let Some(number) = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()) {
                        counters.entry(field).or_insert(number);
                    }
                }
            }
            _ => {}
        }
    }
    let placed = places.values().filter(|places| !places.is_empty()).count();
    counters.insert("orphans".to_owned(), records.len() as i64 - placed as i64);
    let notes = all.get("error");
    for (id, places) in places {
        tell_job(journal, &id, places, records.get(&id), notes);
    }
    if let Some(Stored::Sorted(tombs)) = all.get("tombs") {
        for (id, score) in tombs {
            if let (Ok(id), false) = (Uuid::from_slice(id), records.contains_key(id)) {
                journal.tell(What::Tomb { id, how: ended_as(*score).to_owned() });
            }
        }
    }
    journal.tell(What::Counted { counters, foreign });
}

fn tell_job(journal: &Journal, id: &[u8], places: Vec<Place>, record: Option<&Vec<u8>>, notes: Option<&Stored>) {
    let Ok(uuid) = Uuid::from_slice(id) else { return };
    let bytes = record.map(|record| Bytes::from(record.clone()));
    let read = bytes.as_ref().and_then(|bytes| Record::decode(bytes).ok());
    let payload = read.as_ref().map(|record| match Envelope::decode(&record.envelope) {
        Ok(envelope) => record.envelope.slice(envelope.payload_at..),
        Err(_) => record.envelope.clone(),
    });
    let reason = match notes {
        Some(Stored::Hash(notes)) => notes.get(id).map(|note| {
            let text = String::from_utf8_lossy(note);
            text.split(' ').next().unwrap_or_default().to_owned()
        }),
        _ => None,
    };
    journal.tell(What::Stored {
        id: uuid,
        places,
        attempts: read.as_ref().map_or(0, |record| record.attempts.into()),
        crashes: read.as_ref().map_or(0, |record| record.crashes.into()),
        bytes: payload.as_ref().map_or(0, |payload| checksum(payload)),
        reason,
        record: record.is_some(),
    });
}

/// How a job ended, by its tombstone.
fn ended_as(score: f64) -> &'static str {
    match score as u64 % 8 {
        1 => "done",
        2 => "cancelled",
        3 => "expired",
        4 => "deleted",
        5 => "discarded",
        _ => "unknown",
    }
}

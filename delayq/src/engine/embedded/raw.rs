//! Keys as they are stored: for tests that look at them, and damage them.

use std::collections::{BTreeMap, BTreeSet};

use super::failure::Fault;
use super::keyspace::{Keyspace, Kind};
use super::small::Elements;
use super::{Done, EmbeddedEngine, Work, hashes, sets, sorted, sql};
use crate::error::Error;

/// What a key holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// Fields and their values.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Members and their scores.
    Sorted(BTreeMap<Vec<u8>, f64>),
    /// Members.
    Set(BTreeSet<Vec<u8>>),
    /// A string.
    Text(Vec<u8>),
}

pub(super) enum Request {
    Names { prefix: Vec<u8> },
    Read { key: Vec<u8> },
    Write { key: Vec<u8>, value: Option<Stored> },
    Now,
}

pub(super) enum Answer {
    Names(Vec<Vec<u8>>),
    Value(Option<Stored>),
    Written,
    Now(u64),
}

impl EmbeddedEngine {
    async fn raw(&self, request: Request) -> Result<Answer, Error> {
        match self.ask(Work::Raw(request)).await? {
            Done::Raw(answer) => Ok(answer),
            _ => Err(Error::corrupt("a raw request was answered by something else")),
        }
    }

    /// The names of all keys that begin with `prefix`.
    ///
    /// # Errors
    /// The database can't be worked with.
    pub async fn names(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        match self.raw(Request::Names { prefix: prefix.to_vec() }).await? {
            Answer::Names(names) => Ok(names),
            _ => Ok(Vec::new()),
        }
    }

    /// What a key holds.
    ///
    /// # Errors
    /// The database can't be worked with.
    pub async fn read(&self, key: &[u8]) -> Result<Option<Stored>, Error> {
        match self.raw(Request::Read { key: key.to_vec() }).await? {
            Answer::Value(value) => Ok(value),
            _ => Ok(None),
        }
    }

    /// Puts a value in place of a key's, or removes the key.
    ///
    /// # Errors
    /// The database can't be worked with.
    pub async fn write(&self, key: &[u8], value: Option<Stored>) -> Result<(), Error> {
        self.raw(Request::Write { key: key.to_vec(), value }).await.map(drop)
    }

    /// The store's clock, µs since 1970.
    ///
    /// # Errors
    /// The database can't be worked with.
    pub async fn now_us(&self) -> Result<u64, Error> {
        match self.raw(Request::Now).await? {
            Answer::Now(now) => Ok(now),
            _ => Ok(0),
        }
    }
}

pub(super) fn answer(space: &mut Keyspace, request: &Request) -> Result<Answer, Fault> {
    Ok(match request {
        Request::Names { prefix } => {
            space.flush()?;
            Answer::Names(names(space, prefix)?)
        }
        Request::Read { key } => Answer::Value(read(space, key)?),
        Request::Write { key, value } => {
            write(space, key, value.as_ref())?;
            Answer::Written
        }
        Request::Now => Answer::Now(space.now_us()),
    })
}

fn names(space: &mut Keyspace, prefix: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
    let mut find = space.db.prepare_cached(sql::KEYS_FROM)?;
    let mut rows = find.query([prefix])?;
    let mut names = Vec::new();
    while let Some(row) = rows.next()? {
        let name: Vec<u8> = row.get(0)?;
        if !name.starts_with(prefix) {
            break;
        }
        names.push(name);
    }
    Ok(names)
}

fn read(space: &mut Keyspace, key: &[u8]) -> Result<Option<Stored>, Fault> {
    let slot = space.slot(key)?;
    let id = space.id(slot);
    let kind = space.kind(slot);
    if let Some(small) = space.small(slot) {
        return Ok(match (kind, small.elements.clone()) {
            (Kind::Hash, Elements::Hash(fields)) => Some(Stored::Hash(fields)),
            (Kind::Text, Elements::Hash(fields)) => Some(Stored::Text(fields.into_values().next().unwrap_or_default())),
            (Kind::Set, Elements::Set(members)) => Some(Stored::Set(members)),
            (Kind::Sorted, Elements::Sorted(members)) => {
                Some(Stored::Sorted(members.into_iter().map(|(score, member)| (member, score)).collect()))
            }
            _ => None,
        });
    }
    let pairs = |db: &rusqlite::Connection| -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Fault> {
        let mut all = db.prepare_cached(sql::HASH_ALL)?;
        let pairs = all.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(pairs.collect::<Result<_, _>>()?)
    };
    Ok(match kind {
        Kind::Nothing => None,
        Kind::Hash => Some(Stored::Hash(pairs(&space.db)?)),
        Kind::Text => Some(Stored::Text(pairs(&space.db)?.into_values().next().unwrap_or_default())),
        Kind::Set => Some(Stored::Set(sets::first(space, slot, i64::MAX)?.into_iter().collect())),
        Kind::Sorted => {
            let mut all = space.db.prepare_cached(sql::SORTED_UP)?;
            let members = all.query_map([id], |row| Ok((row.get(1)?, row.get(0)?)))?;
            Some(Stored::Sorted(members.collect::<Result<_, _>>()?))
        }
    })
}

fn write(space: &mut Keyspace, key: &[u8], value: Option<&Stored>) -> Result<(), Fault> {
    let slot = space.slot(key)?;
    if space.small(slot).is_none() {
        let id = space.id(slot);
        for clear in [sql::HASH_CLEAR, sql::SET_CLEAR, sql::SORTED_CLEAR] {
            space.db.prepare_cached(clear)?.execute([id])?;
        }
    }
    let (kind, count) = (space.kind(slot), space.count(slot));
    space.grew(slot, kind, -count);
    match value {
        None => Ok(()),
        Some(Stored::Hash(fields)) => {
            let pairs: Vec<_> = fields.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect();
            hashes::put(space, slot, Kind::Hash, &pairs).map(drop)
        }
        Some(Stored::Text(text)) => hashes::put(space, slot, Kind::Text, &[Vec::new(), text.clone()]).map(drop),
        Some(Stored::Set(members)) => sets::put(space, slot, &members.iter().cloned().collect::<Vec<_>>()).map(drop),
        Some(Stored::Sorted(members)) => {
            let scored: Vec<_> = members.iter().map(|(member, score)| (*score, member.clone())).collect();
            sorted::put(space, slot, &scored).map(drop)
        }
    }
}

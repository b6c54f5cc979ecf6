//! The keys: hashes, sets and sorted sets in SQLite tables, under a transaction that the caller begins and ends.
//!
//! What is known of a key is kept in memory until another process writes or a transaction fails, and written down when the
//! transaction ends: its type, its size and, where they are few, its elements. Those of a larger key are in the tables alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Fault;
use super::place::Place;
use super::small::{self, Elements, Small};
use super::{Clock, opening, sql, tables};

/// How long another process may hold the file. None of ours holds it longer than a group of scripts takes.
pub(super) const LOCKED_MAX: Duration = Duration::from_secs(5);
/// How long the log's new start may wait for readers: nobody else can write meanwhile, and some read for hours.
pub(super) const LOG_WAIT_MAX: Duration = Duration::from_millis(50);
/// As many pages as the log may have before readers and writers are made to start it anew: a plain checkpoint never gets
/// there while several processes write.
const WAL_PAGES_MAX: i64 = 2000;
/// How many commits pass between two looks at the log.
const WAL_LOOK_EVERY: u32 = 64;
/// How many keys are known at most when a transaction begins.
const KNOWN_MAX: usize = 4096;

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Nothing = 0,
    Hash = 1,
    Set = 2,
    Sorted = 3,
    /// No script has such keys; they are there to be refused.
    Text = 4,
}

impl Kind {
    fn from_stored(number: i64) -> Kind {
        match number {
            1 => Kind::Hash,
            2 => Kind::Set,
            3 => Kind::Sorted,
            4 => Kind::Text,
            _ => Kind::Nothing,
        }
    }
}

/// A key by its place among the known ones.
pub(super) type Slot = usize;

struct Row {
    name: Vec<u8>,
    id: i64,
    kind: Kind,
    count: i64,
    /// The elements, where they are few; `None` where they are in the tables.
    small: Option<Small>,
    waited: bool,
    dirty: bool,
    /// What it was before the running script is in `undo`.
    kept: bool,
}

/// A key as it was before the running script.
struct Before {
    slot: Slot,
    kind: Kind,
    count: i64,
    small: Option<Small>,
}

/// The last member that a look at the first ones of a sorted set passed.
pub(super) struct Mark {
    pub(super) slot: Slot,
    /// How many come before it.
    pub(super) rank: i64,
    pub(super) score: f64,
    pub(super) member: Vec<u8>,
}

/// One database.
pub(super) struct Keyspace {
    pub(super) db: Connection,
    clock: Clock,
    /// The busy handler gives up early.
    hurried: Arc<AtomicBool>,
    /// Keys by name, as good as read while no other connection writes.
    slots: HashMap<Vec<u8>, Slot>,
    rows: Vec<Row>,
    free: Vec<Slot>,
    dirty: Vec<Slot>,
    /// The script is inside a savepoint: what it changes is taken back with it.
    apart: bool,
    undo: Vec<Before>,
    /// Good until its key changes.
    mark: Option<Mark>,
    last_id: Option<i64>,
    /// `PRAGMA data_version` when they were read; other processes' commits change it.
    version: i64,
    in_file: bool,
    /// What elements may weigh to count as few.
    small_max: usize,
    /// Something was added to a key that is waited for.
    woke: bool,
    commits: u32,
}

impl Keyspace {
    /// Opens the database, and makes it if there is none.
    pub(super) fn open(place: &Place, clock: Clock) -> Result<Keyspace, Fault> {
        let (db, hurried) = opening::open(place)?;
        Ok(Keyspace {
            db,
            clock,
            hurried,
            slots: HashMap::default(),
            rows: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            apart: false,
            undo: Vec::new(),
            mark: None,
            last_id: None,
            version: -1,
            in_file: matches!(place, Place::File { .. }),
            small_max: small::WEIGHT_MAX,
            woke: false,
            commits: 0,
        })
    }

    pub(super) fn now_us(&self) -> u64 {
        (self.clock.0)()
    }

    /// Begins a transaction; others wait until it ends.
    pub(super) fn begin(&mut self) -> Result<(), Fault> {
        self.db.prepare_cached(sql::BEGIN)?.execute(())?;
        self.mark = None;
        if self.rows.len() > KNOWN_MAX {
            self.forget();
        }
        if self.in_file {
            // Read inside the transaction: before it, another process could still slip in between.
            let version: i64 = self.db.prepare_cached(sql::DATA_VERSION)?.query_row((), |row| row.get(0))?;
            if version != self.version {
                self.forget();
                self.version = version;
            }
        }
        Ok(())
    }

    /// Ends it. Answers whether something was added to a key that is waited for.
    pub(super) fn commit(&mut self) -> Result<bool, Fault> {
        let changed = self.flush()?;
        self.db.prepare_cached(sql::COMMIT)?.execute(())?;
        if self.in_file && changed {
            self.bound_log();
        }
        Ok(std::mem::take(&mut self.woke))
    }

    /// Writes down what is known of keys and was not written yet; answers whether there was any.
    pub(super) fn flush(&mut self) -> Result<bool, Fault> {
        let mut changed = false;
        for slot in std::mem::take(&mut self.dirty) {
            let row = &mut self.rows[slot];
            row.dirty = false;
            changed = true;
            if row.count == 0 && !row.waited {
                self.db.prepare_cached(sql::KEY_DROP)?.execute([row.id])?;
                self.slots.remove(&row.name);
                self.free.push(slot);
            } else {
                self.db.prepare_cached(sql::KEY_WRITE)?.execute(params![
                    row.id,
                    row.name,
                    row.kind as i64,
                    row.count,
                    row.waited,
                    row.small.as_ref().map(Small::pack)
                ])?;
            }
        }
        Ok(changed)
    }

    /// Takes back all since `begin`.
    pub(super) fn roll_back(&mut self) {
        self.forget();
        self.apart = false;
        self.woke = false;
        if !self.db.is_autocommit() {
            // Where this fails too, the next `begin` says so.
            let _ = self.db.execute_batch(sql::ROLLBACK);
        }
    }

    /// A script begins inside a transaction of several.
    pub(super) fn save(&mut self) -> Result<(), Fault> {
        self.db.prepare_cached(sql::SAVE)?.execute(())?;
        self.apart = true;
        Ok(())
    }

    /// It ended well.
    pub(super) fn release(&mut self) -> Result<(), Fault> {
        self.apart = false;
        for before in self.undo.drain(..) {
            self.rows[before.slot].kept = false;
        }
        self.db.prepare_cached(sql::RELEASE)?.execute(())?;
        Ok(())
    }

    /// It failed: what it did is taken back, what others did before it stays.
    pub(super) fn undo(&mut self) -> Result<(), Fault> {
        self.mark = None;
        for Before { slot, kind, count, small } in self.undo.drain(..) {
            let row = &mut self.rows[slot];
            (row.kind, row.count, row.small, row.kept) = (kind, count, small, false);
        }
        self.db.prepare_cached(sql::UNDO)?.execute(())?;
        self.release()
    }

    /// Keeps what the key is now, in case that the running script fails. To be called before any change.
    fn keep(&mut self, slot: Slot) {
        let row = &mut self.rows[slot];
        if self.apart && !row.kept {
            row.kept = true;
            self.undo.push(Before { slot, kind: row.kind, count: row.count, small: row.small.clone() });
        }
    }

    fn forget(&mut self) {
        self.slots.clear();
        self.rows.clear();
        self.free.clear();
        self.dirty.clear();
        self.undo.clear();
        self.mark = None;
        self.last_id = None;
    }

    /// Several writers never leave SQLite a moment to start its log anew: now and then they are made to.
    fn bound_log(&mut self) {
        self.commits += 1;
        if !self.commits.is_multiple_of(WAL_LOOK_EVERY) {
            return;
        }
        let log = self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |row| row.get::<_, i64>(1));
        // Where another connection is about its own checkpoint there is no answer, and the log isn't short.
        if log.is_ok_and(|pages| !(0..=WAL_PAGES_MAX).contains(&pages)) {
            // Busy is no harm: the next look comes soon.
            self.hurried.store(true, Ordering::Relaxed);
            let since = Instant::now();
            let mut busy = true;
            while busy && since.elapsed() < LOG_WAIT_MAX {
                // At once if another connection is about its own checkpoint, which the busy handler isn't asked about.
                let answer = self.db.query_row("PRAGMA wal_checkpoint(RESTART)", (), |row| row.get(0));
                busy = answer.unwrap_or(false);
            }
            self.hurried.store(false, Ordering::Relaxed);
        }
    }

    /// The key of this name, there or not.
    pub(super) fn slot(&mut self, name: &[u8]) -> Result<Slot, Fault> {
        if let Some(slot) = self.slots.get(name) {
            return Ok(*slot);
        }
        let stored = self.read(name)?;
        let row = match stored {
            Some(row) => row,
            None => Row {
                name: name.to_vec(),
                id: self.new_id()?,
                kind: Kind::Nothing,
                count: 0,
                small: Some(Small::new(Kind::Nothing)),
                waited: false,
                dirty: false,
                kept: false,
            },
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.rows[slot] = row;
                slot
            }
            None => {
                self.rows.push(row);
                self.rows.len() - 1
            }
        };
        self.slots.insert(name.to_vec(), slot);
        Ok(slot)
    }

    fn read(&self, name: &[u8]) -> Result<Option<Row>, Fault> {
        let mut read = self.db.prepare_cached(sql::KEY_READ)?;
        let row = read.query_row([name], |row| {
            let (kind, count): (i64, i64) = (row.get(1)?, row.get(2)?);
            let kind = Kind::from_stored(kind);
            if count < 0 || (count > 0 && kind == Kind::Nothing) {
                return Err(rusqlite::Error::IntegralValueOutOfRange(2, count));
            }
            let small = match row.get_ref(4)?.as_blob_or_null()? {
                _ if count == 0 => Some(Small::new(kind)),
                None => None,
                Some(packed) => {
                    let odd = || rusqlite::Error::InvalidColumnType(4, "small".to_owned(), Type::Blob);
                    Some(Small::unpack(kind, count, packed).ok_or_else(odd)?)
                }
            };
            let (name, id, waited) = (name.to_vec(), row.get(0)?, row.get(3)?);
            Ok(Row { name, id, kind, count, small, waited, dirty: false, kept: false })
        });
        Ok(row.optional()?)
    }

    fn new_id(&mut self) -> Result<i64, Fault> {
        let last = match self.last_id {
            Some(last) => last,
            None => {
                self.db.prepare_cached(sql::KEY_LAST)?.query_row((), |row| row.get::<_, Option<i64>>(0))?.unwrap_or(0)
            }
        };
        self.last_id = Some(last + 1);
        Ok(last + 1)
    }

    /// The key of this name, if it holds what is wanted, or nothing.
    pub(super) fn typed(&mut self, name: &[u8], kind: Kind) -> Result<Slot, Fault> {
        let slot = self.slot(name)?;
        let is = self.rows[slot].kind;
        if is == kind || is == Kind::Nothing {
            return Ok(slot);
        }
        Err(Fault::said("WRONGTYPE Operation against a key holding the wrong kind of value"))
    }

    pub(super) fn id(&self, slot: Slot) -> i64 {
        self.rows[slot].id
    }

    pub(super) fn count(&self, slot: Slot) -> i64 {
        self.rows[slot].count
    }

    pub(super) fn kind(&self, slot: Slot) -> Kind {
        self.rows[slot].kind
    }

    /// The elements of a key that has few; `None` where they are in the tables.
    pub(super) fn small(&self, slot: Slot) -> Option<&Small> {
        self.rows[slot].small.as_ref()
    }

    /// The same to change them; whoever does says so by `grew` or `touch`. A key without any gets ready for its new type.
    pub(super) fn small_mut(&mut self, slot: Slot, kind: Kind) -> Option<&mut Small> {
        self.keep(slot);
        let row = &mut self.rows[slot];
        if row.count == 0 {
            row.small = Some(Small::new(kind));
        }
        row.small.as_mut()
    }

    /// Gets ready for so many more elements of this weight. Answers whether they are to be put beside the few that there
    /// are; else those were moved into the tables, where these belong too.
    pub(super) fn stays_small(&mut self, slot: Slot, kind: Kind, more: usize, weight: usize) -> Result<bool, Fault> {
        let row = &self.rows[slot];
        let has = match &row.small {
            _ if row.count == 0 => 0,
            Some(small) => small.weight(),
            None => return Ok(false),
        };
        let few = kind != Kind::Sorted || row.count as usize + more <= small::SORTED_MAX;
        if few && has + weight <= self.small_max {
            return Ok(true);
        }
        self.keep(slot);
        let row = &mut self.rows[slot];
        let (id, small) = (row.id, row.small.take());
        match small.filter(|_| row.count > 0).map(|small| small.elements) {
            None => {}
            Some(Elements::Hash(fields)) => {
                let pairs: Vec<Vec<u8>> = fields.into_iter().flat_map(|(field, value)| [field, value]).collect();
                tables::put_fields(&self.db, id, &pairs)?;
            }
            Some(Elements::Set(members)) => {
                tables::add_members(&self.db, id, &members.into_iter().collect::<Vec<_>>())?;
            }
            Some(Elements::Sorted(members)) => {
                tables::add_scored(&self.db, id, &members)?;
            }
        }
        self.touch(slot);
        Ok(false)
    }

    /// So many elements were added or, below zero, removed.
    pub(super) fn grew(&mut self, slot: Slot, kind: Kind, by: i64) {
        self.unmark(slot);
        if by == 0 {
            return;
        }
        self.keep(slot);
        let row = &mut self.rows[slot];
        row.count += by;
        row.kind = kind;
        if row.count == 0 {
            // Its tables are empty: it begins anew as a small one.
            (row.kind, row.small) = (Kind::Nothing, Some(Small::new(Kind::Nothing)));
        }
        self.woke |= row.waited && by > 0;
        self.touch(slot);
    }

    /// Something is waited for on this key from now on, here or in another process.
    pub(super) fn wait_for(&mut self, slot: Slot) {
        if !self.rows[slot].waited {
            self.rows[slot].waited = true;
            self.touch(slot);
        }
    }

    /// The key is to be written down when the transaction ends.
    pub(super) fn touch(&mut self, slot: Slot) {
        let row = &mut self.rows[slot];
        if !row.dirty {
            row.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Remembers where a look at the first members of a sorted set ended: they are often removed next.
    pub(super) fn set_mark(&mut self, mark: Mark) {
        self.mark = Some(mark);
    }

    pub(super) fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    /// The order of a sorted set changes.
    pub(super) fn unmark(&mut self, slot: Slot) {
        if self.mark.as_ref().is_some_and(|mark| mark.slot == slot) {
            self.mark = None;
        }
    }
}

#[cfg(test)]
mod tests;

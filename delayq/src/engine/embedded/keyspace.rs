//! The keys: hashes, sets and sorted sets in SQLite tables, under a transaction that the caller begins and ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Fault;
use super::place::{Durability, Place};
use super::{Clock, sql};

/// Marks a file as ours: "dlyq".
const APPLICATION_ID: i32 = 0x646c_7971;
/// The form of the tables.
const FORMAT: i32 = 1;
/// How long another process may hold the file. None of ours holds it longer than a group of scripts takes.
pub(super) const LOCKED_MAX: Duration = Duration::from_secs(5);
/// How long the log's new start may wait for readers: nobody else can write meanwhile, and some read for hours.
const LOG_WAIT_MAX: Duration = Duration::from_millis(50);
/// As many pages as the log may have before readers and writers are made to start it anew: a plain checkpoint never gets
/// there while several processes write.
const WAL_PAGES_MAX: i64 = 2000;
/// How many commits pass between two looks at the log.
const WAL_LOOK_EVERY: u32 = 64;

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
    waited: bool,
    dirty: bool,
}

/// One database.
pub(super) struct Keyspace {
    pub(super) db: Connection,
    clock: Clock,
    /// The busy handler gives up early.
    hurried: Arc<AtomicBool>,
    /// Type and size of keys, as good as read while no other connection writes.
    slots: HashMap<Vec<u8>, Slot>,
    rows: Vec<Row>,
    free: Vec<Slot>,
    dirty: Vec<Slot>,
    /// What the running script changed of them, to take back.
    undo: Vec<(Slot, Kind, i64)>,
    last_id: Option<i64>,
    /// `PRAGMA data_version` when they were read; other processes' commits change it.
    version: i64,
    in_file: bool,
    /// Something was added to a key that is waited for.
    woke: bool,
    commits: u32,
}

impl Keyspace {
    /// Opens the database, and makes it if there is none.
    pub(super) fn open(place: &Place, clock: Clock) -> Result<Keyspace, Fault> {
        let mut db = match place {
            Place::Memory => Connection::open_in_memory()?,
            Place::File { path, .. } => Connection::open(path)?,
        };
        if db.is_readonly(rusqlite::MAIN_DB)? {
            // Left to itself SQLite would read it all the same, and leave companions that nobody may write to later.
            return Err(Fault::File(Arc::new(std::io::ErrorKind::PermissionDenied.into())));
        }
        // Yields, then sleeps a little: SQLite's own waiting backs off so far that some wait for seconds.
        let mut since = std::time::Instant::now();
        let hurried = Arc::new(AtomicBool::new(false));
        let hurries = hurried.clone();
        db.busy_handler(Some(move |tries| {
            if tries == 0 {
                since = std::time::Instant::now();
            }
            if tries < 20 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(100));
            }
            since.elapsed() < if hurries.load(Ordering::Relaxed) { LOG_WAIT_MAX } else { LOCKED_MAX }
        }))?;
        // Else a new bound may change a plan, and each binding of one costs a preparation.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        db.set_prepared_statement_cache_capacity(64);
        // One look at both: another process may be making the tables.
        db.execute_batch("BEGIN")?;
        let id: i32 = db.query_row("PRAGMA application_id", (), |row| row.get(0))?;
        let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
        db.execute_batch("COMMIT")?;
        if id != APPLICATION_ID && (id != 0 || tables > 0) {
            return Err(Fault::Foreign);
        }
        if let Place::File { durability, .. } = place {
            let mode: String = db.query_row("PRAGMA journal_mode = WAL", (), |row| row.get(0))?;
            if mode != "wal" {
                return Err(Fault::NoWal(mode));
            }
            db.pragma_update(
                None,
                "synchronous",
                match durability {
                    Durability::Full => "FULL",
                    Durability::Normal => "NORMAL",
                },
            )?;
            // Of a log that was long once, no more than this stays on disk.
            db.pragma_update(None, "journal_size_limit", 16 << 20)?;
        }
        db.pragma_update(None, "cache_size", -32_000)?;
        db.pragma_update(None, "temp_store", "MEMORY")?;
        let mut space = Keyspace {
            db,
            clock,
            hurried,
            slots: HashMap::new(),
            rows: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            undo: Vec::new(),
            last_id: None,
            version: -1,
            in_file: matches!(place, Place::File { .. }),
            woke: false,
            commits: 0,
        };
        space.make()?;
        Ok(space)
    }

    /// Makes the tables, unless somebody else just did.
    fn make(&mut self) -> Result<(), Fault> {
        self.db.execute_batch(sql::BEGIN)?;
        let made = (|| {
            let id: i32 = self.db.query_row("PRAGMA application_id", (), |row| row.get(0))?;
            if id == 0 {
                self.db.execute_batch(sql::SCHEMA)?;
                self.db.pragma_update(None, "application_id", APPLICATION_ID)?;
                self.db.pragma_update(None, "user_version", FORMAT)?;
            }
            let format: i32 = self.db.query_row("PRAGMA user_version", (), |row| row.get(0))?;
            if format == FORMAT { Ok(()) } else { Err(Fault::Format(format)) }
        })();
        self.db.execute_batch(if made.is_ok() { sql::COMMIT } else { sql::ROLLBACK })?;
        made
    }

    pub(super) fn now_us(&self) -> u64 {
        (self.clock.0)()
    }

    /// Begins a transaction; others wait until it ends.
    pub(super) fn begin(&mut self) -> Result<(), Fault> {
        self.db.prepare_cached(sql::BEGIN)?.execute(())?;
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
        self.undo.clear();
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
                    row.waited
                ])?;
            }
        }
        Ok(changed)
    }

    /// Takes back all since `begin`.
    pub(super) fn roll_back(&mut self) {
        self.forget();
        self.woke = false;
        if !self.db.is_autocommit() {
            // Where this fails too, the next `begin` says so.
            let _ = self.db.execute_batch(sql::ROLLBACK);
        }
    }

    /// A script begins inside a transaction of several.
    pub(super) fn save(&mut self) -> Result<(), Fault> {
        self.undo.clear();
        self.db.prepare_cached(sql::SAVE)?.execute(())?;
        Ok(())
    }

    /// It ended well.
    pub(super) fn release(&mut self) -> Result<(), Fault> {
        self.undo.clear();
        self.db.prepare_cached(sql::RELEASE)?.execute(())?;
        Ok(())
    }

    /// It failed: what it did is taken back, what others did before it stays.
    pub(super) fn undo(&mut self) -> Result<(), Fault> {
        while let Some((slot, kind, count)) = self.undo.pop() {
            let row = &mut self.rows[slot];
            (row.kind, row.count) = (kind, count);
        }
        self.db.prepare_cached(sql::UNDO)?.execute(())?;
        self.release()
    }

    fn forget(&mut self) {
        self.slots.clear();
        self.rows.clear();
        self.free.clear();
        self.dirty.clear();
        self.undo.clear();
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
            let since = std::time::Instant::now();
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
        let stored = self
            .db
            .prepare_cached(sql::KEY_READ)?
            .query_row([name], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, bool>(3)?))
            })
            .optional()?;
        let (id, kind, count, waited) = match stored {
            Some((id, kind, count, waited)) => (id, Kind::from_stored(kind), count, waited),
            None => (self.new_id()?, Kind::Nothing, 0, false),
        };
        let row = Row { name: name.to_vec(), id, kind, count, waited, dirty: false };
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

    /// So many elements were added or, below zero, removed.
    pub(super) fn grew(&mut self, slot: Slot, kind: Kind, by: i64) {
        if by == 0 {
            return;
        }
        let row = &mut self.rows[slot];
        self.undo.push((slot, row.kind, row.count));
        row.count += by;
        row.kind = if row.count == 0 { Kind::Nothing } else { kind };
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

    fn touch(&mut self, slot: Slot) {
        let row = &mut self.rows[slot];
        if !row.dirty {
            row.dirty = true;
            self.dirty.push(slot);
        }
    }
}

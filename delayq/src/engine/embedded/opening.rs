//! Opens a database, and makes it if there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::failure::Fault;
use super::keyspace::{LOCKED_MAX, LOG_WAIT_MAX};
use super::place::{Durability, Place};
use super::sql;

/// Marks a file as ours: "dlyq".
const APPLICATION_ID: i32 = 0x646c_7971;
/// The form of the tables.
const FORMAT: i32 = 2;

/// A connection to a database whose tables are there. While the flag is up it waits less for others.
pub(super) fn open(place: &Place) -> Result<(Connection, Arc<AtomicBool>), Fault> {
    let mut db = match place {
        Place::Memory => Connection::open_in_memory()?,
        Place::File { path, .. } => Connection::open(path)?,
    };
    if db.is_readonly(rusqlite::MAIN_DB)? {
        // Left to itself SQLite would read it all the same, and leave companions that nobody may write to later.
        return Err(Fault::File(Arc::new(std::io::ErrorKind::PermissionDenied.into())));
    }
    // Yields, then sleeps a little: SQLite's own waiting backs off so far that some wait for seconds.
    let mut since = Instant::now();
    let hurried = Arc::new(AtomicBool::new(false));
    let hurries = hurried.clone();
    db.busy_handler(Some(move |tries| {
        if tries == 0 {
            since = Instant::now();
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
    db.set_prepared_statement_cache_capacity(sql::PREPARED_MAX);
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
    make(&db)?;
    Ok((db, hurried))
}

/// Makes the tables, or brings them into today's form, unless somebody else just did.
fn make(db: &Connection) -> Result<(), Fault> {
    db.execute_batch(sql::BEGIN)?;
    let made = (|| -> Result<(), Fault> {
        let number = |pragma: &str| db.query_row(pragma, (), |row| row.get::<_, i32>(0));
        let id = number("PRAGMA application_id")?;
        let old = if id == 0 { None } else { Some(number("PRAGMA user_version")?) };
        match old {
            Some(FORMAT) => return Ok(()),
            None => {
                db.execute_batch(sql::SCHEMA)?;
                db.pragma_update(None, "application_id", APPLICATION_ID)?;
            }
            Some(1) => db.execute_batch(sql::FROM_FORM_1)?,
            Some(other) => return Err(Fault::Format(other)),
        }
        Ok(db.pragma_update(None, "user_version", FORMAT)?)
    })();
    db.execute_batch(if made.is_ok() { sql::COMMIT } else { sql::ROLLBACK })?;
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_a_file_is_written_through_unless_said_otherwise() {
        let file = std::env::temp_dir().join(format!("delayq-synchronous-{}.db", std::process::id()));
        for (query, expected) in [("", 2), ("?synchronous=full", 2), ("?synchronous=normal", 1)] {
            let place = Place::parse(&format!("sqlite://{}{query}", file.display())).expect("it can be used");
            let Ok((db, _)) = open(&place) else { panic!("{query}: the file can't be opened") };
            let set: i64 = db.query_row("PRAGMA synchronous", (), |row| row.get(0)).expect("it is told");
            assert_eq!(set, expected, "{query}");
        }
        for companion in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{companion}", file.display()));
        }
    }
}

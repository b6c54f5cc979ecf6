//! Every statement that runs more than once. Each goes by an index whatever the backlog; a test reads the plans.

use std::sync::LazyLock;

macro_rules! statements {
    ($($name:ident = $text:literal;)+) => {
        $(pub(super) const $name: &str = $text;)+
        #[cfg(test)]
        const ALL: &[(&str, &str)] = &[$((stringify!($name), $text)),+];
    };
}

/// Tables are made once; `WITHOUT ROWID` makes the primary key the order on disk. A key of few elements has them all in
/// `small`; where that is NULL they are in the other tables.
pub(super) const SCHEMA: &str = "
    CREATE TABLE keys (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, kind INTEGER NOT NULL, size INTEGER NOT NULL,
                       waited INTEGER NOT NULL, small BLOB);
    CREATE TABLE hashes (k INTEGER NOT NULL, f BLOB NOT NULL, v BLOB NOT NULL, PRIMARY KEY (k, f)) WITHOUT ROWID;
    CREATE TABLE sets (k INTEGER NOT NULL, m BLOB NOT NULL, PRIMARY KEY (k, m)) WITHOUT ROWID;
    CREATE TABLE sorted (k INTEGER NOT NULL, s REAL NOT NULL, m BLOB NOT NULL, PRIMARY KEY (k, s, m)) WITHOUT ROWID;
    CREATE UNIQUE INDEX sorted_members ON sorted (k, m);
";

/// From form 1, which had no `small`. The new name keeps whoever still has the file open in the old form from working on:
/// it would not see what is in there.
pub(super) const FROM_FORM_1: &str = "
    ALTER TABLE keys RENAME COLUMN count TO size;
    ALTER TABLE keys ADD COLUMN small BLOB;
";

statements! {
    KEY_READ = "SELECT id, kind, size, waited, small FROM keys WHERE name = ?1";
    KEY_WRITE = "INSERT INTO keys (id, name, kind, size, waited, small) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                 ON CONFLICT (id) DO UPDATE SET kind = ?3, size = ?4, waited = ?5, small = ?6";
    KEY_DROP = "DELETE FROM keys WHERE id = ?1";
    KEY_LAST = "SELECT max(id) FROM keys";
    KEYS_FROM = "SELECT name FROM keys WHERE name >= ?1 AND size > 0 ORDER BY name";

    HASH_GET = "SELECT v FROM hashes WHERE k = ?1 AND f = ?2";
    HASH_HAS = "SELECT 1 FROM hashes WHERE k = ?1 AND f = ?2";
    HASH_SET = "UPDATE hashes SET v = ?3 WHERE k = ?1 AND f = ?2";
    HASH_DROP = "DELETE FROM hashes WHERE k = ?1 AND f = ?2";
    HASH_DROP_RANGE = "DELETE FROM hashes WHERE k = ?1 AND f >= ?2 AND f <= ?3";
    HASH_FROM = "SELECT f, v FROM hashes WHERE k = ?1 AND f >= ?2 ORDER BY f";
    HASH_NAMES_FROM = "SELECT f FROM hashes WHERE k = ?1 AND f >= ?2 ORDER BY f";
    HASH_ALL = "SELECT f, v FROM hashes WHERE k = ?1";
    HASH_CLEAR = "DELETE FROM hashes WHERE k = ?1";

    SET_HAS = "SELECT 1 FROM sets WHERE k = ?1 AND m = ?2";
    SET_DROP = "DELETE FROM sets WHERE k = ?1 AND m = ?2";
    SET_DROP_RANGE = "DELETE FROM sets WHERE k = ?1 AND m >= ?2 AND m <= ?3";
    SET_FROM = "SELECT m FROM sets WHERE k = ?1 AND m >= ?2 ORDER BY m";
    SET_ALL = "SELECT m FROM sets WHERE k = ?1 ORDER BY m";
    SET_CLEAR = "DELETE FROM sets WHERE k = ?1";

    SORTED_SCORE = "SELECT s FROM sorted WHERE k = ?1 AND m = ?2";
    SORTED_SCORES_FROM = "SELECT m, s FROM sorted WHERE k = ?1 AND m >= ?2 ORDER BY m";
    SORTED_MOVE = "UPDATE sorted SET s = ?2 WHERE k = ?1 AND m = ?3";
    SORTED_DROP = "DELETE FROM sorted WHERE k = ?1 AND m = ?2";
    SORTED_DROP_AT = "DELETE FROM sorted WHERE k = ?1 AND s = ?2 AND m = ?3";
    SORTED_DROP_TO = "DELETE FROM sorted WHERE k = ?1 AND (s, m) <= (?2, ?3)";
    SORTED_BETWEEN = "SELECT s, m FROM sorted WHERE k = ?1 AND s >= ?2 AND s <= ?3 ORDER BY s, m";
    SORTED_COUNT = "SELECT count(*) FROM sorted WHERE k = ?1 AND s >= ?2 AND s <= ?3";
    SORTED_UP = "SELECT s, m FROM sorted WHERE k = ?1 ORDER BY s, m";
    SORTED_DOWN = "SELECT s, m FROM sorted WHERE k = ?1 ORDER BY s DESC, m DESC";
    SORTED_RANK = "SELECT count(*) FROM sorted WHERE k = ?1 AND (s, m) < (?2, ?3)";
    SORTED_CLEAR = "DELETE FROM sorted WHERE k = ?1";

    DATA_VERSION = "PRAGMA data_version";
    BEGIN = "BEGIN IMMEDIATE";
    COMMIT = "COMMIT";
    ROLLBACK = "ROLLBACK";
    SAVE = "SAVEPOINT script";
    UNDO = "ROLLBACK TO script";
    RELEASE = "RELEASE script";
}

/// How many statements are kept prepared: all of them.
pub(super) const PREPARED_MAX: usize = 128;

/// How many rows one statement puts in, the most first: each number is a statement to prepare.
const SIZES: [usize; 4] = [64, 16, 4, 1];

/// Statements that put rows of one key in unless they are there: ?1 is the key, the rest is the rows' one after the other.
pub(super) struct Rows {
    /// What a row has beside the key.
    pub(super) columns: usize,
    /// By how many rows it puts in.
    pub(super) texts: Vec<(usize, String)>,
}

impl Rows {
    fn new(head: &str, columns: usize) -> Rows {
        let row = |nth: usize| {
            let values: String = (0..columns).map(|column| format!(", ?{}", 2 + nth * columns + column)).collect();
            format!("(?1{values})")
        };
        let text = |size: usize| format!("{head} {}", (0..size).map(row).collect::<Vec<_>>().join(", "));
        Rows { columns, texts: SIZES.iter().map(|size| (*size, text(*size))).collect() }
    }
}

pub(super) static HASH_ADD: LazyLock<Rows> =
    LazyLock::new(|| Rows::new("INSERT OR IGNORE INTO hashes (k, f, v) VALUES", 2));
pub(super) static SET_ADD: LazyLock<Rows> = LazyLock::new(|| Rows::new("INSERT OR IGNORE INTO sets (k, m) VALUES", 1));
pub(super) static SORTED_ADD: LazyLock<Rows> =
    LazyLock::new(|| Rows::new("INSERT OR IGNORE INTO sorted (k, s, m) VALUES", 2));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_goes_by_an_index() {
        let db = rusqlite::Connection::open_in_memory().expect("SQLite opens");
        db.execute_batch(SCHEMA).expect("the schema is valid");
        for (name, text) in ALL {
            if !["SELECT", "UPDATE", "DELETE"].iter().any(|verb| text.starts_with(verb)) {
                continue;
            }
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {text}")).expect("the statement is valid");
            let steps: Vec<String> = plan
                .query_map(rusqlite::params_from_iter((0..plan.parameter_count()).map(|_| 0)), |row| row.get(3))
                .expect("a plan")
                .collect::<Result<_, _>>()
                .expect("a plan");
            assert!(!steps.is_empty(), "{name} has no plan");
            for step in steps {
                assert!(step.starts_with("SEARCH"), "{name} walks a whole table or sorts: {step}");
            }
        }
        let plan: String =
            db.query_row(&format!("EXPLAIN QUERY PLAN {SORTED_BETWEEN}"), (0, 0, 0), |row| row.get(3)).expect("a plan");
        assert_eq!(plan, "SEARCH sorted USING PRIMARY KEY (k=? AND s>? AND s<?)", "what is due is found by its time");
        let rows = [&*HASH_ADD, &*SET_ADD, &*SORTED_ADD];
        assert!(ALL.len() + rows.len() * SIZES.len() <= PREPARED_MAX, "some would be prepared again and again");
        for (size, text) in rows.iter().flat_map(|rows| &rows.texts) {
            let parameters = db.prepare(text).expect("the statement is valid").parameter_count();
            assert!(parameters == 1 + size || parameters == 1 + 2 * size, "{text}");
        }
    }
}

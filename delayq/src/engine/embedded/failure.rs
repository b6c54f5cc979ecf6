//! What went wrong in the embedded engine, and what it means for the caller.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{ErrorCode, ffi};

use super::wake;

use crate::error::{Error, ErrorKind};

/// Why a script or command did not happen.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// What Redis would have answered: a code, then text.
    Said(String),
    /// SQLite's own.
    Sqlite(Arc<rusqlite::Error>),
    /// The file system's, of the file or of one that is kept beside it.
    File(Arc<io::Error>),
    /// The script itself, or the interpreter.
    Lua(String),
    /// The file is a database of another program.
    Foreign,
    /// The tables are of another release.
    Format(i32),
    /// The file system can't do write-ahead logging.
    NoWal(String),
}

impl Fault {
    pub(super) fn said(text: impl Into<String>) -> Fault {
        Fault::Said(text.into())
    }

    /// Another connection has the file locked.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
    }

    /// SQLite says of many things only that a file can't be opened: the file system says why.
    pub(super) fn looked_into(self, database: &Path) -> Fault {
        if !matches!(&self, Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen)) {
            return self;
        }
        let beside = wake::beside(database);
        let open = |path| OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        match open(database).and_then(|_| open(&beside)) {
            Ok(_) => self,
            Err(error) => Fault::File(Arc::new(error)),
        }
    }

    /// Whether the transaction is beyond repair, not just the script.
    pub(super) fn ends_transaction(&self) -> bool {
        !matches!(self, Fault::Said(_) | Fault::Lua(_))
    }

    /// As callers see it. `what` is the script or command, `shown` the database. Nothing of it was done.
    pub(super) fn into_error(self, what: &str, shown: &str) -> Error {
        let (kind, text) = match &self {
            Fault::Said(text) => {
                let code = text.split(' ').next().unwrap_or_default();
                let kind = match code {
                    "BADARG" => ErrorKind::InvalidArgument,
                    "WRONGTYPE" | "CORRUPT" => ErrorKind::Corrupt,
                    _ => ErrorKind::Unsupported,
                };
                return Error::new(kind, format!("{what} failed: {text}"));
            }
            Fault::Lua(text) => return Error::new(ErrorKind::Corrupt, format!("{what} failed: {text}")),
            Fault::Foreign => (
                ErrorKind::Config,
                format!("{shown} is the database of another program: give delayq a file of its own"),
            ),
            Fault::Format(found) => (
                ErrorKind::Unsupported,
                format!(
                    "{shown} has tables of form {found}, which this release doesn't know: use one that goes with the file"
                ),
            ),
            Fault::NoWal(mode) => (
                ErrorKind::Unsupported,
                format!(
                    "{shown} can't be kept in WAL mode, only in mode {mode}: put it on a local disk that SQLite may write to"
                ),
            ),
            Fault::Sqlite(error) => sorted(error, what, shown),
            Fault::File(error) => match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => denied(what, shown),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(what, shown),
                io::ErrorKind::IsADirectory => {
                    (ErrorKind::Config, format!("{shown} is a folder: name a file, in it or elsewhere"))
                }
                _ => not_opened(shown),
            },
        };
        let error = Error::new(kind, text);
        match self {
            Fault::Sqlite(cause) => error.caused(cause),
            Fault::File(cause) => error.caused(cause),
            _ => error,
        }
    }
}

fn sorted(error: &rusqlite::Error, what: &str, shown: &str) -> (ErrorKind, String) {
    let Some(code) = error.sqlite_error_code() else {
        return (ErrorKind::Corrupt, format!("{what}: {shown} holds what delayq doesn't store there"));
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            ErrorKind::Unavailable,
            format!("{what}: another program has {shown} locked; nothing was done, try again or close that program"),
        ),
        ErrorCode::DiskFull => full(what, shown),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => {
            denied(what, shown)
        }
        ErrorCode::CannotOpen => not_opened(shown),
        ErrorCode::NotADatabase => {
            (ErrorKind::Corrupt, format!("{shown} is no SQLite database: give another path, or move that file away"))
        }
        ErrorCode::DatabaseCorrupt => (
            ErrorKind::Corrupt,
            format!("{what}: {shown} is damaged: restore it from a copy, or salvage it with sqlite3's .recover"),
        ),
        // A disk takes writes into its cache and fails later: what fails at once is a quota, or a limit for files.
        ErrorCode::SystemIoFailure
            if error.sqlite_error().is_some_and(|error| {
                matches!(error.extended_code, ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMSIZE)
            }) =>
        {
            full(what, shown)
        }
        ErrorCode::SystemIoFailure => {
            (ErrorKind::Unavailable, format!("{what}: the disk that holds {shown} failed; nothing was done"))
        }
        _ => (ErrorKind::Unavailable, format!("{what} failed on {shown}; nothing was done")),
    }
}

fn full(what: &str, shown: &str) -> (ErrorKind, String) {
    let text = format!(
        "{what}: there is no room for {shown}, on its disk or within this user's quota; nothing was written, make room and try again"
    );
    (ErrorKind::Full, text)
}

fn denied(what: &str, shown: &str) -> (ErrorKind, String) {
    let text =
        format!("{what}: {shown} can't be written to: give this user the right to write the file and its folder");
    (ErrorKind::Denied, text)
}

fn not_opened(shown: &str) -> (ErrorKind, String) {
    let text = format!("{shown} can't be opened: does its folder exist, and may this user write in it?");
    (ErrorKind::Unreachable, text)
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sqlite(Arc::new(error))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Said(text) | Fault::Lua(text) => f.write_str(text),
            Fault::Sqlite(error) => error.fmt(f),
            Fault::File(error) => error.fmt(f),
            Fault::Foreign => f.write_str("another program's database"),
            Fault::Format(found) => write!(f, "tables of form {found}"),
            Fault::NoWal(mode) => write!(f, "journal mode {mode}"),
        }
    }
}

impl std::error::Error for Fault {}

//! Where the database is: `sqlite://` URLs.

use std::fmt;
use std::path::PathBuf;

use crate::error::{Error, ErrorKind};

/// When a commit counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// It is on the disk: not even a power cut takes it back.
    Full,
    /// It is with the operating system: a crash of the program is survived, a power cut may take the last seconds back.
    Normal,
}

/// A database to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In memory, gone with the client.
    Memory,
    /// In a file that processes of one machine may share.
    #[allow(private_interfaces)]
    File { path: PathBuf, durability: Durability },
}

impl Place {
    /// Reads `sqlite::memory:`, `sqlite://path` or `sqlite://path?synchronous=normal`.
    pub(crate) fn parse(url: &str) -> Result<Place, Error> {
        let refused = |why: &str| {
            Error::new(
                ErrorKind::Config,
                format!(
                    "the URL can't be used ({why}): give sqlite://jobs.db for a file in the working folder, \
                     sqlite:///var/lib/app/jobs.db for one by its whole path, or sqlite::memory:"
                ),
            )
        };
        if matches!(url, "sqlite::memory:" | "sqlite://:memory:") {
            return Ok(Place::Memory);
        }
        let rest = url.strip_prefix("sqlite://").ok_or_else(|| refused("it doesn't start with sqlite://"))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() || path.ends_with('/') {
            return Err(refused("it names no file"));
        }
        if path.contains(['%', '#', '\0']) {
            return Err(refused("'%', '#' and NUL can't be part of the path"));
        }
        let mut durability = Durability::Full;
        for option in query.split('&').filter(|option| !option.is_empty()) {
            durability = match option {
                "synchronous=full" => Durability::Full,
                "synchronous=normal" => Durability::Normal,
                _ => return Err(refused("the only option is synchronous=full or synchronous=normal")),
            };
        }
        Ok(Place::File { path: PathBuf::from(path), durability })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Memory => f.write_str("sqlite::memory:"),
            Place::File { path, .. } => write!(f, "sqlite://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where() {
        let file = |path: &str, durability| Place::File { path: PathBuf::from(path), durability };
        let parsed = |url| Place::parse(url).expect("it can be used");
        assert_eq!(parsed("sqlite::memory:"), Place::Memory);
        assert_eq!(parsed("sqlite://jobs.db"), file("jobs.db", Durability::Full));
        assert_eq!(parsed("sqlite:///var/jobs.db?synchronous=normal"), file("/var/jobs.db", Durability::Normal));
        for url in ["sqlite:", "sqlite:jobs.db", "sqlite://", "sqlite:///tmp/", "sqlite://a?mode=rw", "sqlite://a%20b"]
        {
            let error = Place::parse(url).expect_err("it can't be used");
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("sqlite://jobs.db"), "{error}");
        }
    }
}

//! How a marker put into the file reaches those who wait: at once in this process, by a watched file from the others.

use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;

/// How often is looked where the file system can't be watched.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Rings when a marker may be there.
pub(super) struct Bell {
    rings: watch::Sender<u64>,
    outside: Option<Outside>,
}

/// The other processes of a file.
struct Outside {
    /// Written to when a marker was put; its content means nothing.
    touched: Mutex<File>,
    /// `None` where it can't be watched.
    watching: Option<RecommendedWatcher>,
}

impl Bell {
    /// For a database in memory: nobody else has it.
    pub(super) fn inside() -> Bell {
        Bell { rings: watch::Sender::new(0), outside: None }
    }

    /// For a database in a file.
    pub(super) fn beside(database: &Path) -> std::io::Result<Bell> {
        let path = beside(database);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        let rings = watch::Sender::new(0);
        let ring = rings.clone();
        let watching = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !event.kind.is_access()) {
                ring.send_modify(|count| *count += 1);
            }
        })
        .and_then(|mut watcher| {
            watcher.watch(&path, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        if let Err(error) = &watching {
            tracing::warn!(%error, ?path, again_every = ?LOOK_EVERY, "the file can't be watched: it is looked at now and then");
        }
        Ok(Bell { rings, outside: Some(Outside { touched: Mutex::new(file), watching: watching.ok() }) })
    }

    /// A marker was put.
    pub(super) fn ring(&self) {
        self.rings.send_modify(|count| *count += 1);
        if let Some(outside) = &self.outside {
            let mut file = outside.touched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // Where this fails, the others look when their wait is over.
            let _ = file.rewind().and_then(|()| file.write_all(b"."));
        }
    }

    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        self.rings.subscribe()
    }

    /// How long to wait for a ring before looking all the same.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.outside.as_ref().filter(|outside| outside.watching.is_none()).map(|_| LOOK_EVERY)
    }
}

/// Named like SQLite's own companions of the file.
pub(super) fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wake");
    PathBuf::from(name)
}

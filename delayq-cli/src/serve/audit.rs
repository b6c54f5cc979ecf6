//! The audit log: a line of JSON before each change and one after it, with who asked from where, and no payload.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

use super::problem::Problem;
use super::roles::Caller;
use crate::failure::{Failure, Outcome};
use crate::output::{escaped, remark};

/// Where changes are written down: a file, or standard error.
#[derive(Debug)]
pub(super) struct Audit(Option<Mutex<File>>);

/// A line of the log. The first fields are those of the other commands.
#[derive(Debug, Serialize)]
struct Line<'a> {
    at: String,
    user: &'a str,
    pid: u32,
    command: &'static str,
    /// `begins`, then `ends`.
    event: &'static str,
    queue: Option<&'a str>,
    what: &'a str,
    operation: &'static str,
    from: String,
    request: &'a str,
}

impl Audit {
    pub(super) fn open(path: Option<&Path>) -> Outcome<Audit> {
        let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else { return Ok(Audit(None)) };
        let opened = OpenOptions::new().append(true).create(true).open(path);
        let what = || format!("the audit log {} can't be written", path.display());
        Ok(Audit(Some(Mutex::new(opened.map_err(|error| Failure::io(what(), error))?))))
    }

    /// Makes a change, written down before and after. What can't be written down isn't done.
    pub(super) async fn change<T>(
        &self,
        caller: &Caller,
        queue: Option<&str>,
        what: &str,
        change: impl Future<Output = Result<T, Problem>>,
        told: impl FnOnce(&T) -> String,
    ) -> Result<T, Problem> {
        self.write(caller, "begins", queue, what).map_err(|error| Problem::unwritten(&error))?;
        let result = change.await;
        let came_of_it = match &result {
            Ok(done) => told(done),
            Err(problem) => format!("{what}: {}", problem.title()),
        };
        if let Err(error) = self.write(caller, "ends", queue, &came_of_it) {
            // It is done: to say that it isn't would be wrong.
            remark(format!(
                "the audit log can't be written: {error}: {} of {}: {came_of_it}",
                caller.operation, caller.who
            ));
        }
        result
    }

    fn write(&self, caller: &Caller, event: &'static str, queue: Option<&str>, what: &str) -> io::Result<()> {
        let queue = queue.map(shown);
        let line = Line {
            at: Timestamp::now().to_string(),
            user: &caller.who,
            pid: std::process::id(),
            command: "serve",
            event,
            queue: queue.as_deref(),
            what,
            operation: caller.operation,
            from: caller.from.to_string(),
            request: &caller.request,
        };
        let mut text = serde_json::to_string(&line)?;
        match &self.0 {
            None => remark(text),
            Some(file) => {
                text.push('\n');
                // In one call, so that lines of several processes don't mix.
                file.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes())?;
            }
        }
        Ok(())
    }
}

/// A name as somebody gave it, who may have given anything: no longer than a name is, and with nothing that a terminal obeys.
pub(super) fn shown(name: &str) -> String {
    let short: String = name.chars().take(delayq::limits::NAME_BYTES_MAX).collect();
    escaped(&short).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s16_names_of_any_kind_are_short_and_inert_in_the_log() {
        assert_eq!(shown("orders"), "orders");
        assert_eq!(shown(&"x".repeat(1_000_000)).len(), delayq::limits::NAME_BYTES_MAX);
        let hostile = shown("a\r\nb\u{1b}[2J\u{9b}31m\u{202e}");
        assert!(!hostile.contains(|c: char| c.is_control() || c == '\u{202e}'), "{hostile:?}");
    }
}

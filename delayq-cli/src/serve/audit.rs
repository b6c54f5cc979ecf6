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
use crate::output::remark;

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
            remark(format!("the audit log can't be written: {error}: {} of {}: {came_of_it}", caller.operation, caller.who));
        }
        result
    }

    fn write(&self, caller: &Caller, event: &'static str, queue: Option<&str>, what: &str) -> io::Result<()> {
        let line = Line {
            at: Timestamp::now().to_string(),
            user: &caller.who,
            pid: std::process::id(),
            command: "serve",
            event,
            queue,
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

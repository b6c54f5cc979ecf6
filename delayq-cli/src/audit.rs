//! The audit log: a line of JSON before a change and one after it, no payload in either.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::remark;

/// Where changes are written down, if anywhere.
#[derive(Debug)]
pub(crate) struct Audit {
    log: Option<(PathBuf, File)>,
    command: &'static str,
}

/// A line of the log.
#[derive(Debug, Serialize)]
struct Line<'a> {
    at: String,
    user: Option<String>,
    pid: u32,
    command: &'a str,
    /// `begins`, then `ends`.
    event: &'a str,
    queue: Option<&'a str>,
    what: &'a str,
}

impl Audit {
    /// Opens the log. A change that can't be written down isn't made.
    pub(crate) fn open(path: Option<&Path>, command: &'static str) -> Outcome<Audit> {
        let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(Audit { log: None, command });
        };
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(|error| refused(path, error))?;
        Ok(Audit { log: Some((path.to_owned(), file)), command })
    }

    /// What the changes that follow are called in the log, where a command makes several kinds of them.
    pub(crate) fn name(&mut self, command: &'static str) {
        self.command = command;
    }

    /// Before a change: what is about to be done.
    pub(crate) fn begins(&mut self, queue: Option<&str>, what: &str) -> Outcome {
        self.write("begins", queue, what)
    }

    /// After it: what came of it.
    pub(crate) fn ends(&mut self, queue: Option<&str>, what: &str) -> Outcome {
        self.write("ends", queue, what)
    }

    /// After a change that may have failed: what came of it, or of `what` why nothing did. Hands the result on.
    pub(crate) fn ended<T, E: Into<Failure>>(
        &mut self,
        queue: Option<&str>,
        what: &str,
        result: Result<T, E>,
        told: impl FnOnce(&T) -> String,
    ) -> Outcome<T> {
        match result {
            Ok(done) => self.ends(queue, &told(&done)).map(|()| done),
            Err(error) => {
                let failure = error.into();
                let text = match failure.text() {
                    Some(why) if what.is_empty() => why,
                    Some(why) => format!("{what}: {why}"),
                    None => what.to_owned(),
                };
                // Why it failed is the graver news.
                if let Err(unwritten) = self.ends(queue, &text) {
                    unwritten.text().iter().for_each(remark);
                }
                Err(failure)
            }
        }
    }

    fn write(&mut self, event: &str, queue: Option<&str>, what: &str) -> Outcome {
        let Some((path, file)) = &mut self.log else { return Ok(()) };
        let line = Line {
            at: Timestamp::now().to_string(),
            user: env::var("SUDO_USER").or_else(|_| env::var("USER")).or_else(|_| env::var("USERNAME")).ok(),
            pid: std::process::id(),
            command: self.command,
            event,
            queue,
            what,
        };
        // In one call, so that lines of several processes don't mix.
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        file.write_all(&text).map_err(|error| refused(path, error))
    }
}

fn refused(path: &Path, error: std::io::Error) -> Failure {
    Failure::io(format!("the audit log {} can't be written", path.display()), error)
}

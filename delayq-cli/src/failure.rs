//! What went wrong: one line that says what to do, and an exit code.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::fmt::Display;
use std::io;

use delayq::ErrorKind;

use crate::output::remark;

/// Why a command ends without success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library says no.
    Store(delayq::Error),
    /// It was refused, or is not there.
    Refused(String),
    /// The command line is wrong.
    Usage(String),
    /// What was written to is gone or full.
    Output(io::Error),
    /// What went wrong was told already; only the code is left to say.
    Told(u8),
}

/// What most functions of a command answer.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

pub(crate) const REFUSED: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const UNREACHABLE: u8 = 3;

impl Failure {
    pub(crate) fn io(what: impl Display, error: io::Error) -> Failure {
        Failure::Refused(format!("{what}: {error}"))
    }

    /// What is to be said of it, in one line.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Failure::Store(error) => Some(told(error)),
            Failure::Refused(text) | Failure::Usage(text) => Some(text.clone()),
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            Failure::Output(error) => Some(format!("the output can't be written: {error}")),
            Failure::Told(_) => None,
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Store(error) => code(error),
            Failure::Refused(_) => REFUSED,
            Failure::Usage(_) => USAGE,
            // Whoever read has seen enough.
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Failure::Output(_) => REFUSED,
            Failure::Told(code) => *code,
        }
    }
}

/// Several things that are tried each on its own: what is refused is told, and the rest goes on.
#[derive(Debug, Default)]
pub(crate) struct OneByOne {
    is_refused: bool,
    /// What was said, so that what several of them meet is said once.
    told: BTreeSet<String>,
}

impl OneByOne {
    /// Takes the result of one of them. What is no refusal ends them all.
    pub(crate) fn take(&mut self, result: Outcome) -> Outcome {
        match result {
            Err(failure) if failure.code() == REFUSED => {
                self.is_refused = true;
                if let Some(text) = failure.text()
                    && self.told.insert(text.clone())
                {
                    remark(text);
                }
                Ok(())
            }
            other => other,
        }
    }

    pub(crate) fn end(self) -> Outcome {
        if self.is_refused { Err(Failure::Told(REFUSED)) } else { Ok(()) }
    }
}

/// An error of the library in one line: what it says, and its causes where it doesn't repeat them.
pub(crate) fn told(error: &delayq::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// The exit code of an error of the library.
pub(crate) fn code(error: &delayq::Error) -> u8 {
    match error.kind() {
        ErrorKind::Unreachable
        | ErrorKind::Unavailable
        | ErrorKind::Unknown
        | ErrorKind::Denied
        | ErrorKind::Unsupported => UNREACHABLE,
        ErrorKind::Config | ErrorKind::InvalidArgument | ErrorKind::Payload => USAGE,
        _ => REFUSED,
    }
}

impl From<delayq::Error> for Failure {
    fn from(error: delayq::Error) -> Failure {
        Failure::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

//! What a script answered, taken apart in one place: an unknown code is an error, never a success.

use crate::engine::Reply;
use crate::error::Error;

/// An answer: its code, then its parts.
#[derive(Debug)]
pub(super) struct Answer {
    operation: &'static str,
    code: String,
    parts: std::vec::IntoIter<Reply>,
}

/// How much of an answer an error quotes, in characters.
const QUOTED_MAX: usize = 40;

pub(super) fn odd(operation: &str, what: &str) -> Error {
    Error::corrupt(format!(
        "{operation} answered in an unknown form ({}): do all programs use releases that go together?",
        quoted(what)
    ))
}

/// A part of an answer as an error shows it: whoever wrote it can't fill a log with it, nor forge a line of one.
pub(super) fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_MAX).flat_map(char::escape_debug).collect()
}

impl Answer {
    pub(super) fn read(operation: &'static str, reply: Reply) -> Result<Answer, Error> {
        let Reply::List(parts) = reply else { return Err(odd(operation, "no list")) };
        let mut parts = parts.into_iter();
        match parts.next() {
            Some(Reply::Bytes(code)) => match String::from_utf8(code) {
                Ok(code) => Ok(Answer { operation, code, parts }),
                Err(_) => Err(odd(operation, "code")),
            },
            _ => Err(odd(operation, "no code")),
        }
    }

    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// The answer where only this code says that it was done.
    pub(super) fn require(self, code: &str) -> Result<Answer, Error> {
        if self.code == code { Ok(self) } else { Err(self.unknown()) }
    }

    pub(super) fn unknown(&self) -> Error {
        odd(self.operation, &self.code)
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn int(&mut self) -> Result<i64, Error> {
        match self.parts.next() {
            Some(Reply::Int(n)) => Ok(n),
            _ => Err(odd(self.operation, "no number")),
        }
    }

    /// A number that can't be negative.
    pub(super) fn count(&mut self) -> Result<u64, Error> {
        u64::try_from(self.int()?).map_err(|_| odd(self.operation, "a negative count"))
    }

    /// An instant or a score, ms since 1970. What a foreign hand made endless or negative reads as 0: it spoils no page.
    pub(super) fn instant(&mut self) -> Result<u64, Error> {
        self.int().map(|ms| u64::try_from(ms).unwrap_or(0))
    }

    /// A priority.
    pub(super) fn priority(&mut self) -> Result<u8, Error> {
        match self.int()? {
            n @ 0..=9 => Ok(n as u8),
            _ => Err(odd(self.operation, "a priority beyond 9")),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        match self.parts.next() {
            Some(Reply::Bytes(bytes)) => Ok(bytes),
            _ => Err(odd(self.operation, "no bytes")),
        }
    }

    /// So many letters, one for each thing that was asked about.
    pub(super) fn letters<T>(&mut self, count: usize, read: impl Fn(u8) -> Option<T>) -> Result<Vec<T>, Error> {
        let letters = self.bytes()?;
        if letters.len() != count {
            return Err(odd(self.operation, "as many letters as were asked for are wanted"));
        }
        letters.into_iter().map(|letter| read(letter).ok_or_else(|| odd(self.operation, "a letter"))).collect()
    }

    pub(super) fn list(&mut self) -> Result<Vec<Reply>, Error> {
        match self.parts.next() {
            Some(Reply::List(parts)) => Ok(parts),
            _ => Err(odd(self.operation, "no list")),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, Error> {
        String::from_utf8(self.bytes()?).map_err(|_| odd(self.operation, "no text"))
    }

    pub(super) fn id(&mut self) -> Result<[u8; 16], Error> {
        self.bytes()?.try_into().map_err(|_| odd(self.operation, "no id"))
    }

    pub(super) fn next(&mut self) -> Option<Reply> {
        self.parts.next()
    }
}

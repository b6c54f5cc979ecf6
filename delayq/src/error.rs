//! The error of everything but handlers: what went wrong, and what to do.

use std::borrow::Cow;
use std::fmt;

/// Any error, boxed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong when delayq was asked for something.
///
/// [`kind`](Error::kind) sorts errors, the text says what to do, and `source` has the cause. No error holds a password.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    text: Cow<'static, str>,
    owner: Option<[u8; 16]>,
    source: Option<BoxError>,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting or URL can't be used.
    Config,
    /// An argument is out of its range: nothing was sent.
    InvalidArgument,
    /// The payload can't be encoded, or is over the limit: nothing was sent.
    Payload,
    /// The store can't be reached.
    Unreachable,
    /// The store refused the user or password, or the user may not do this.
    Denied,
    /// What answers is not Redis, or is too old.
    Unsupported,
    /// The store refuses work at the moment: it is loading, busy, read-only, or has too many clients.
    Unavailable,
    /// The store's memory is full: new jobs are refused, nothing was written.
    Full,
    /// No answer came: the operation may have happened. Repeating it with the same id is safe.
    Unknown,
    /// Another job that hasn't ended has this unique key; [`Error::owner`] is its id.
    Duplicate,
    /// There is no such job (any more).
    NotFound,
    /// The job is not in a state that allows this.
    WrongState,
    /// The worker can't start as it was put together.
    Registry,
    /// What is stored is not what delayq stores.
    Corrupt,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Inner { kind, text: text.into(), owner: None, source: None }))
    }

    pub(crate) fn caused(mut self, source: impl Into<BoxError>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn owned_by(mut self, owner: [u8; 16]) -> Error {
        self.0.owner = Some(owner);
        self
    }

    pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::InvalidArgument, text)
    }

    pub(crate) fn corrupt(text: impl Into<Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::Corrupt, text)
    }

    /// The same error once more, for each of several callers who shared a call.
    pub(crate) fn again(&self) -> Error {
        let mut text = self.0.text.to_string();
        if let Some(source) = &self.0.source {
            text = format!("{text}: {source}");
        }
        Error(Box::new(Inner { kind: self.0.kind, text: text.into(), owner: self.0.owner, source: None }))
    }

    /// What kind of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub(crate) fn owner_bytes(&self) -> Option<[u8; 16]> {
        self.0.owner
    }

    /// Whether the operation may have happened although it failed: repeat it with the same id.
    pub fn is_unknown(&self) -> bool {
        self.0.kind == ErrorKind::Unknown
    }

    /// Whether another job holds the unique key.
    pub fn is_duplicate(&self) -> bool {
        self.0.kind == ErrorKind::Duplicate
    }

    /// Whether the same call may succeed later without any change to it.
    pub fn is_temporary(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unreachable | ErrorKind::Unavailable | ErrorKind::Full | ErrorKind::Unknown)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Error {
    // `main` prints an error by Debug: it should read like one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.text)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

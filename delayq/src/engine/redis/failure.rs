//! What an error of the Redis client means: did the call run, and is the connection still good?

use redis::{ErrorKind as RedisKind, RedisError, ServerErrorKind};

use crate::error::ErrorKind;

/// The server doesn't have the script, so nothing ran.
pub(super) fn is_no_script(error: &RedisError) -> bool {
    matches!(error.kind(), RedisKind::Server(ServerErrorKind::NoScript))
}

/// After this error nothing sensible comes from the connection any more.
pub(super) fn breaks_connection(error: &RedisError) -> bool {
    error.is_io_error() || error.is_timeout() || error.is_unrecoverable_error() || is_read_only(error)
}

/// The server was demoted: a new connection may find the new primary.
fn is_read_only(error: &RedisError) -> bool {
    matches!(error.kind(), RedisKind::Server(ServerErrorKind::ReadOnly))
}

/// Sorts a failed call.
pub(super) fn kind_of_call(error: &RedisError) -> ErrorKind {
    if let Some(code) = error.code() {
        return match code {
            // Refused before it ran.
            "LOADING" | "BUSY" | "MASTERDOWN" | "READONLY" | "MISCONF" | "CLUSTERDOWN" | "TRYAGAIN" | "NOREPLICAS" => {
                ErrorKind::Unavailable
            }
            "OOM" => ErrorKind::Full,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => ErrorKind::Denied,
            "WRONGTYPE" | "CORRUPT" => ErrorKind::Corrupt,
            "BADARG" => ErrorKind::InvalidArgument,
            "UNKILLABLE" => ErrorKind::Unavailable,
            // A script that was killed, or stumbled: what it had written by then stays.
            _ if said(error, "OOM command not allowed") || said(error, "-OOM") => ErrorKind::Full,
            _ if said(error, "WRONGTYPE") => ErrorKind::Corrupt,
            // The user may run scripts, but not a command in this one.
            _ if said(error, "The user executing the script can't") || said(error, "ACL failure in script") => {
                ErrorKind::Denied
            }
            _ if said(error, "max number of clients") => ErrorKind::Unavailable,
            _ => ErrorKind::Unknown,
        };
    }
    if error.is_connection_refusal() {
        return ErrorKind::Unreachable;
    }
    ErrorKind::Unknown
}

fn said(error: &RedisError, text: &str) -> bool {
    error.to_string().contains(text)
}

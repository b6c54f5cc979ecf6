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
    code(error) == "READONLY"
}

/// The code of what the server said. Redis 6.2 puts what stopped a script's command behind words of its own:
/// `ERR Error running script (call to f_..): @user_script:1: @user_script: 1: -READONLY You can't write ..`
pub(super) fn code(error: &RedisError) -> &str {
    match (error.code(), error.detail()) {
        (Some("ERR"), Some(detail)) if detail.starts_with("Error running script") => {
            let inner = detail.split_once(": -").map(|(_, inner)| inner.split(' ').next().unwrap_or_default());
            inner.filter(|code| code.bytes().all(|b| b.is_ascii_uppercase())).unwrap_or("ERR")
        }
        (code, _) => code.unwrap_or_default(),
    }
}

/// Sorts a failed call.
pub(super) fn kind_of_call(error: &RedisError) -> ErrorKind {
    if error.code().is_some() {
        return match code(error) {
            // Refused before it ran.
            "LOADING" | "BUSY" | "MASTERDOWN" | "READONLY" | "MISCONF" | "CLUSTERDOWN" | "TRYAGAIN" | "NOREPLICAS"
            | "MOVED" | "ASK" => ErrorKind::Unavailable,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stopped_a_script_is_found_behind_the_words_of_an_older_server() {
        let error =
            |text: &str| RedisError::from((RedisKind::Server(ServerErrorKind::ResponseError), "said", text.to_owned()));
        let in_script = |text: &str| {
            error(&format!("Error running script (call to f_0a1b): @user_script:1: @user_script: 1: {text}"))
        };
        let refused = in_script("-READONLY You can't write against a read only replica.");
        assert_eq!((code(&refused), kind_of_call(&refused)), ("READONLY", ErrorKind::Unavailable));
        assert!(breaks_connection(&refused), "the next connection may lead to the new primary");
        assert_eq!(
            kind_of_call(&in_script("-MISCONF Redis is configured to save RDB snapshots")),
            ErrorKind::Unavailable
        );
        assert_eq!(
            kind_of_call(&in_script("-OOM command not allowed when used memory > 'maxmemory'.")),
            ErrorKind::Full
        );
        assert_eq!(kind_of_call(&in_script("-WRONGTYPE Operation against a key")), ErrorKind::Corrupt);
        for other in ["attempt to index a nil value", "Script killed by user with SCRIPT KILL...", "-no code"] {
            assert_eq!(kind_of_call(&in_script(other)), ErrorKind::Unknown, "{other}");
        }
        assert_eq!(code(&error("a reply that quotes: -READONLY")), "ERR");
    }
}

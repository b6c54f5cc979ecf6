//! Names of jobs and queues: one alphabet, so that a name can't reach into a key, a log line or a terminal.

use crate::error::Error;
use crate::limits::NAME_BYTES_MAX;

/// Checks a job's or queue's name: 1 to 64 bytes of ASCII letters, digits, `_`, `-` and `.`, a letter or digit first.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let starts_well = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if starts_well && name.len() <= NAME_BYTES_MAX && name.bytes().all(legal) {
        return Ok(());
    }
    let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
    Err(Error::invalid(format!(
        "{what} {shown:?} is not a name: use 1 to {NAME_BYTES_MAX} ASCII letters, digits, '_', '-' and '.', a letter or digit first"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b96_odd_names_are_refused() {
        for odd in
            ["", " ", "a b", "a:b", "{a}", "x}:dead", "*?[", "a%2Fb", "ä", ".a", "-a", "a\r\nb", "a\0", &"a".repeat(65)]
        {
            assert!(check_name("queue", odd).is_err(), "{odd:?}");
        }
        for fine in ["a", "orders", "Orders-2.eu_west", "9", &"a".repeat(64)] {
            assert!(check_name("queue", fine).is_ok(), "{fine:?}");
        }
    }
}

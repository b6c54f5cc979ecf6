//! `HSCAN`: a hash, page by page.

use rusqlite::params;

use super::super::failure::Fault;
use super::super::keyspace::{Keyspace, Kind};
use super::super::small::Elements;
use super::super::sql;
use super::{Answer, Args, integer, syntax};

/// A page of the fields in the order of their bytes, so that each that is there all the while comes once, where Redis may give
/// some twice. The cursor is the field to go on with, in hex digits behind a 1; "0" is the beginning and the end.
pub(super) fn hscan(space: &mut Keyspace, key: &[u8], args: Args<'_>) -> Result<Answer, Fault> {
    let [cursor, word, count] = args else { return Err(syntax()) };
    let from = scan_from(cursor)?;
    let slot = space.typed(key, Kind::Hash)?;
    let count = integer(count)?;
    if word != b"COUNT" || count < 1 {
        return Err(syntax());
    }
    let (mut next, mut parts) = (b"0".to_vec(), Vec::new());
    let room = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(2);
    let mut take = |field: &[u8], value: &[u8]| {
        let full = parts.len() >= room;
        if full {
            next = scan_cursor(field);
        } else {
            parts.extend([field.to_vec(), value.to_vec()]);
        }
        !full
    };
    match space.small(slot).map(|small| &small.elements) {
        _ if space.count(slot) == 0 => {}
        Some(Elements::Hash(fields)) => {
            fields.range(from..).all(|(field, value)| take(field, value));
        }
        Some(_) => {}
        None => {
            let mut walk = space.db.prepare_cached(sql::HASH_FROM)?;
            let mut rows = walk.query(params![space.id(slot), from])?;
            while let Some(row) = rows.next()? {
                let blob = |column: usize| row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from);
                if !take(blob(0)?, blob(1)?) {
                    break;
                }
            }
        }
    }
    Ok(Answer::Page(next, parts))
}

fn scan_cursor(field: &[u8]) -> Vec<u8> {
    let hex = field.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("1".to_owned()).chain(hex).collect::<String>().into_bytes()
}

fn scan_from(cursor: &[u8]) -> Result<Vec<u8>, Fault> {
    let invalid = || Fault::said("ERR invalid cursor");
    if cursor == b"0" {
        return Ok(Vec::new());
    }
    let digits = cursor.strip_prefix(b"1").and_then(|hex| std::str::from_utf8(hex).ok()).ok_or_else(invalid)?;
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(invalid());
    }
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| invalid());
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_says_where_to_go_on() {
        for field in [&b""[..], b"a", &[0, 255, 7]] {
            assert_eq!(scan_from(&scan_cursor(field)).expect("it was made here"), field);
        }
        assert_eq!(scan_from(b"0").expect("the beginning"), b"");
        for wrong in ["", "2", "1a", "1xy", "1\u{e9}"] {
            assert!(scan_from(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}

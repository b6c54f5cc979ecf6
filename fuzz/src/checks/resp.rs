//! Answers as they stand on the wire, read into the client library's values: its own reader is not what is put to the test.

use redis::Value;

/// How deep a value may lie in others. A script's answer has two levels.
const DEPTH_MAX: usize = 16;
/// How many values are read at most: no operation makes more calls.
const VALUES_MAX: usize = 4;

/// The values that the bytes begin with.
pub(crate) fn values(mut bytes: &[u8]) -> Vec<Value> {
    std::iter::from_fn(|| value(&mut bytes, DEPTH_MAX)).take(VALUES_MAX).collect()
}

fn value(bytes: &mut &[u8], depth: usize) -> Option<Value> {
    let (kind, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(match kind {
        b':' => Value::Int(number(bytes)?),
        b'+' => match text(bytes)? {
            "OK" => Value::Okay,
            text => Value::SimpleString(text.to_owned()),
        },
        b'$' => match usize::try_from(number(bytes)?) {
            Ok(length) => Value::BulkString(taken(bytes, length)?.to_vec()),
            Err(_) => Value::Nil,
        },
        b'*' => Value::Array(list(bytes, depth)?),
        b'~' => Value::Set(list(bytes, depth)?),
        b'%' => Value::Map(list(bytes, depth)?.into_iter().map(|value| (value, Value::Nil)).collect()),
        b',' => Value::Double(text(bytes)?.parse().ok()?),
        b'#' => Value::Boolean(text(bytes)? == "t"),
        b'_' => text(bytes).map(|_| Value::Nil)?,
        _ => return None,
    })
}

fn list(bytes: &mut &[u8], depth: usize) -> Option<Vec<Value>> {
    let length = usize::try_from(number(bytes)?).ok()?;
    let depth = depth.checked_sub(1)?;
    let mut values = Vec::new();
    while values.len() < length {
        values.push(value(bytes, depth)?);
    }
    Some(values)
}

fn line<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &bytes[..end];
    *bytes = &bytes[end + 2..];
    Some(line)
}

fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(line(bytes)?).ok()
}

fn number(bytes: &mut &[u8]) -> Option<i64> {
    text(bytes)?.parse().ok()
}

/// So many bytes, and the line end behind them.
fn taken<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let taken = bytes.get(..length)?;
    *bytes = bytes.get(length + 2..)?;
    Some(taken)
}

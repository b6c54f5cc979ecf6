//! The stored record: what is accepted says all that it holds, and is written anew as the same bytes.

use bytes::Bytes;
use delayq::envelope::{Extension, Record};

use super::within;

/// Bytes of the fixed header, by docs/wire-format.md.
const HEAD: usize = 29;
/// The shortest extension.
const EXTENSION: usize = 12;

pub(crate) fn record(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    // It copies nothing: the envelope is a part of the record.
    match within(256, || Record::decode(&bytes)) {
        Ok(read) => accepted(data, &read),
        Err(malformed) => assert!(!is_whole(data), "refused, and it is a record: {malformed}"),
    }
    made_up(data);
}

/// Whether the documents call this a record.
fn is_whole(data: &[u8]) -> bool {
    let Some(head) = data.get(..HEAD) else { return false };
    let extension = usize::from(head[28]);
    head[0] == 1
        && head[1].is_ascii_digit()
        && (extension == 0 || extension >= EXTENSION)
        && data.len() >= HEAD + extension
}

fn accepted(data: &[u8], read: &Record) {
    assert!(is_whole(data), "accepted, and it is no record");
    let extension = &data[HEAD..HEAD + usize::from(data[28])];
    let mut wanted = data.to_vec();
    if wanted[2] != 1 {
        // Anything but 1 says that no cancel waits.
        wanted[2] = 0;
    }
    assert!(encode(read, extension) == wanted, "it reads as {read:?}, which is written differently");
}

/// A record made of whatever the bytes say comes back as it was.
fn made_up(data: &[u8]) {
    let Some((head, rest)) = data.split_at_checked(HEAD) else { return };
    let six = |at: usize| head[at..at + 6].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let two = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let extension = &rest[..rest.len().min(usize::from(head[28]))];
    let extension = if extension.len() < EXTENSION { &[] } else { extension };
    let record = Record {
        priority: head[1] % 10,
        cancel_waits: head[2].is_multiple_of(2),
        crashes: head[3],
        free_returns: two(4),
        attempts: two(6),
        attempts_max: Some(two(8)).filter(|max| *max != u16::MAX).map(u32::from),
        run: six(10),
        due_ms: six(16),
        enqueued_ms: six(22),
        extension: (!extension.is_empty()).then(|| extension_of(extension)),
        envelope: Bytes::copy_from_slice(&rest[extension.len()..]),
    };
    let bytes = Bytes::from(encode(&record, extension));
    assert_eq!(Record::decode(&bytes).as_ref(), Ok(&record));
}

/// What an extension says: two instants, where 0 is none, then a key.
fn extension_of(bytes: &[u8]) -> Extension {
    let six =
        |at: usize| Some(bytes[at..at + 6].iter().fold(0, |n, byte| n << 8 | u64::from(*byte))).filter(|ms| *ms > 0);
    let unique = Some(&bytes[EXTENSION..]).filter(|key| !key.is_empty()).map(Bytes::copy_from_slice);
    Extension { expires_ms: six(0), retain_ms: six(6), unique }
}

/// The header as docs/wire-format.md lays it out, the extension, the envelope.
fn encode(record: &Record, extension: &[u8]) -> Vec<u8> {
    let mut out = vec![1, b'0' + record.priority, u8::from(record.cancel_waits), record.crashes];
    let limit = record.attempts_max.map_or(u16::MAX, |max| u16::try_from(max).expect("a number of two bytes"));
    for two in [record.free_returns, record.attempts, limit] {
        out.extend_from_slice(&two.to_be_bytes());
    }
    for six in [record.run, record.due_ms, record.enqueued_ms] {
        out.extend_from_slice(&six.to_be_bytes()[2..]);
    }
    out.push(u8::try_from(extension.len()).expect("a length of one byte"));
    out.extend_from_slice(extension);
    out.extend_from_slice(&record.envelope);
    out
}

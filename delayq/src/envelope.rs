//! The stored record: a header that the scripts read, then the envelope; encode, decode, nothing else.
//!
//! The envelope is one head line and the payload's bytes: `cancel_order 1 traceparent=00-..-01\n{"order_id":42}`.
//! See `docs/wire-format.md`.

use bytes::Bytes;

use crate::job::check_name;
use crate::limits::{ATTEMPTS_COUNTED_MAX, ENVELOPE_HEAD_BYTES_MAX};

/// Bytes of the fixed header; `lua/lib/record.lua` has the same table.
const HEAD: usize = 29;
const FORMAT: u8 = 1;
const NO_LIMIT: u16 = u16::MAX;

/// A record taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// 0 first, 9 last.
    pub priority: u8,
    /// Whether a cancel waits for the end of the run.
    pub cancel_waits: bool,
    /// How many lost sessions held it.
    pub crashes: u8,
    /// How often it came back without spending an attempt.
    pub free_returns: u16,
    /// Attempts spent.
    pub attempts: u16,
    /// Attempts allowed, `None` without limit.
    pub attempts_max: Option<u32>,
    /// The run number.
    pub run: u64,
    /// Due, ms since 1970.
    pub due_ms: u64,
    /// Sent, ms since 1970.
    pub enqueued_ms: u64,
    /// What few jobs have: an expiry, a retention, a unique key.
    pub extension: Option<Extension>,
    /// What the sender wrote.
    pub envelope: Bytes,
}

/// The part of a header that few records have. Its end concerns more than the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// When the job is no longer worth starting, ms since 1970.
    pub expires_ms: Option<u64>,
    /// How long its record is kept once it is done, ms.
    pub retain_ms: Option<u64>,
    /// Its unique key.
    pub unique: Option<Bytes>,
}

/// An envelope taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The job's name.
    pub name: &'a str,
    /// The payload's version.
    pub version: u32,
    /// W3C trace context of the sender.
    pub trace_parent: Option<&'a str>,
    /// Where the payload starts.
    pub payload_at: usize,
}

/// What is wrong with stored bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

fn be16(bytes: &[u8]) -> u16 {
    u16::from(bytes[0]) << 8 | u16::from(bytes[1])
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// It is no record of a format that this version knows.
    pub fn decode(bytes: &Bytes) -> Result<Record, Malformed> {
        let head = bytes.get(..HEAD).ok_or(Malformed("the record is shorter than its header"))?;
        if head[0] != FORMAT {
            return Err(Malformed("the record is of a format that this version doesn't know"));
        }
        let ext = usize::from(head[28]);
        if !head[1].is_ascii_digit() || bytes.len() < HEAD + ext || (ext > 0 && ext < 12) {
            return Err(Malformed("the record's header is damaged"));
        }
        let limit = be16(&head[8..10]);
        Ok(Record {
            priority: head[1] - b'0',
            cancel_waits: head[2] == 1,
            crashes: head[3],
            free_returns: be16(&head[4..6]),
            attempts: be16(&head[6..8]),
            attempts_max: (limit != NO_LIMIT).then_some(u32::from(limit)),
            run: be(&head[10..16]),
            due_ms: be(&head[16..22]),
            enqueued_ms: be(&head[22..28]),
            extension: (ext > 0).then(|| {
                let some = |ms: u64| (ms > 0).then_some(ms);
                Extension {
                    expires_ms: some(be(&bytes[HEAD..HEAD + 6])),
                    retain_ms: some(be(&bytes[HEAD + 6..HEAD + 12])),
                    unique: (ext > 12).then(|| bytes.slice(HEAD + 12..HEAD + ext)),
                }
            }),
            envelope: bytes.slice(HEAD + ext..),
        })
    }
}

/// The attempts limit as the scripts take it.
pub(crate) fn attempts_limit(max_retries: u32) -> u32 {
    let attempts = max_retries.saturating_add(1);
    if attempts > ATTEMPTS_COUNTED_MAX { u32::from(NO_LIMIT) } else { attempts }
}

/// Writes the head line of an envelope; the payload's bytes come after it.
pub fn head(name: &str, version: u32, trace_parent: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(name.as_bytes());
    out.push(b' ');
    out.extend_from_slice(version.to_string().as_bytes());
    if let Some(parent) = trace_parent {
        out.extend_from_slice(b" traceparent=");
        out.extend_from_slice(parent.as_bytes());
    }
    out.push(b'\n');
    out
}

impl Envelope<'_> {
    /// Reads an envelope. Tokens of the head line that this version doesn't know are passed over.
    ///
    /// # Errors
    /// The head line is missing, too long, or has no valid name and version.
    pub fn decode(envelope: &[u8]) -> Result<Envelope<'_>, Malformed> {
        let searched = &envelope[..envelope.len().min(ENVELOPE_HEAD_BYTES_MAX)];
        let end = searched
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or(Malformed("the envelope has no head line; it is \"name version\", a line feed, then the payload"))?;
        let head =
            std::str::from_utf8(&envelope[..end]).map_err(|_| Malformed("the envelope's head line is not UTF-8"))?;
        let mut tokens = head.split(' ');
        let name = tokens.next().unwrap_or_default();
        check_name("job", name).map_err(|_| Malformed("the envelope's head line has no valid job name"))?;
        let version = tokens
            .next()
            .filter(|text| !text.starts_with('+'))
            .and_then(|text| text.parse().ok())
            .filter(|version| *version > 0)
            .ok_or(Malformed("the envelope's head line has no version after the job name"))?;
        let trace_parent = tokens.find_map(|token| token.strip_prefix("traceparent="));
        Ok(Envelope { name, version, trace_parent, payload_at: end + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        let payload = b"{\"text\":\"line\\n \\u0000 \xF0\x9F\x98\x80\"}\n";
        let mut bytes = head("cancel_order", 7, Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        bytes.extend_from_slice(payload);
        let read = Envelope::decode(&bytes).expect("valid");
        assert_eq!((read.name, read.version), ("cancel_order", 7));
        assert_eq!(read.trace_parent, Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        assert_eq!(&bytes[read.payload_at..], payload);
    }

    #[test]
    fn unknown_tokens_are_passed_over() {
        let read = Envelope::decode(b"a 1 tenant=7 traceparent=x later=1\n").expect("valid");
        assert_eq!((read.trace_parent, read.payload_at), (Some("x"), 35));
    }

    #[test]
    fn b50_garbage_is_refused() {
        for garbage in [
            &b""[..],
            b"\n",
            b"a\n",
            b"a 0\n",
            b"a -1\n",
            b"a +1\n",
            b"a x\n",
            b"a 4294967296\n",
            b"a b\xff\n",
            b" 1\n",
            b"a:b 1\n",
            b"[]",
            b"a 1",
            &[b'a'; 5000],
        ] {
            assert!(Envelope::decode(garbage).is_err(), "{garbage:?}");
        }
        for garbage in [&b""[..], b"x", &[0; 40], &[255; 40], &[1; 40]] {
            assert!(Record::decode(&Bytes::from_static(garbage)).is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn b39_limits_never_overflow() {
        assert_eq!(attempts_limit(0), 1);
        assert_eq!(attempts_limit(3), 4);
        assert_eq!(attempts_limit(65_533), 65_534);
        assert_eq!(attempts_limit(65_534), 65_535);
        assert_eq!(attempts_limit(u32::MAX), 65_535);
    }
}

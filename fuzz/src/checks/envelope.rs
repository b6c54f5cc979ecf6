//! The envelope: a head line that can't reach beyond itself, and a payload that comes out as it went in.

use delayq::envelope::{Envelope, head};
use delayq::limits::{ENVELOPE_HEAD_BYTES_MAX, NAME_BYTES_MAX};

use super::within;

pub(crate) fn envelope(data: &[u8]) {
    // Nothing of it is copied; what a name is refused for is said in a few words.
    if let Ok(read) = within(4096, || Envelope::decode(data)) {
        accepted(data, &read);
    }
    made_up(data);
}

fn accepted(data: &[u8], read: &Envelope<'_>) {
    let feed = data.iter().position(|byte| *byte == b'\n').expect("an envelope has a head line");
    assert_eq!(read.payload_at, feed + 1, "the payload begins behind the first line feed");
    assert!(read.payload_at <= ENVELOPE_HEAD_BYTES_MAX);
    assert!(is_name(read.name), "{:?} is no name", read.name);
    assert!(read.version > 0);
    let parent = read.trace_parent.unwrap_or_default();
    assert!(!parent.contains([' ', '\n']), "{parent:?} is more than one token");

    let (line, payload) = (&data[..feed], &data[read.payload_at..]);
    let again = [&head(read.name, read.version, read.trace_parent)[..], payload].concat();
    let second = Envelope::decode(&again).expect("what was read can be written and read again");
    assert_eq!((second.name, second.version, second.trace_parent), (read.name, read.version, read.trace_parent));
    assert!(again[second.payload_at..] == *payload, "another payload");
    if is_plain(line, read.version) {
        assert!(again == data, "written anew, it has other bytes");
    }
}

/// Whether the head line has nothing but what this version writes, in the way that it does.
fn is_plain(line: &[u8], version: u32) -> bool {
    let tokens: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let plain_version = tokens.get(1).is_some_and(|token| *token == version.to_string().as_bytes());
    plain_version && (tokens.len() == 2 || (tokens.len() == 3 && tokens[2].starts_with(b"traceparent=")))
}

fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(legal) && name.as_bytes()[0].is_ascii_alphanumeric()
}

/// An envelope made of whatever the bytes say comes back as it was.
fn made_up(data: &[u8]) {
    const LETTERS: &[u8] = b"aZ09_-.";
    let Some((say, payload)) = data.split_at_checked(8) else { return };
    let letter = |at: usize| char::from(LETTERS[(usize::from(say[0]) + at * usize::from(say[1])) % LETTERS.len()]);
    let name: String = std::iter::once('j').chain((1..1 + usize::from(say[2]) % NAME_BYTES_MAX).map(letter)).collect();
    let version = u32::from_be_bytes([say[3], say[4], say[5], say[6]]).max(1);
    let parent = format!("00-{:032x}-{:016x}-01", u128::from(version) + 1, u64::from(say[7]));
    let parent = say[7].is_multiple_of(2).then_some(parent.as_str());
    let bytes = [&head(&name, version, parent)[..], payload].concat();
    let read = Envelope::decode(&bytes).expect("what this version writes it reads");
    assert_eq!((read.name, read.version, read.trace_parent), (name.as_str(), version, parent));
    assert!(bytes[read.payload_at..] == *payload, "another payload");
}

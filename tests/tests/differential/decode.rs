//! The keys of a shard, read as the model's state.

use std::collections::BTreeMap;
use std::str::FromStr;

use delayq_model::{COUNTERS, Code, Key, Lock, Member, Note, Record, Session, State, Stats, Tomb};
use delayq_tests::store_kit::{Dump, Value};

use super::wording::{end, job_of, member_of};

fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

fn number<T: FromStr>(text: &[u8]) -> T {
    let text = String::from_utf8_lossy(text);
    text.parse().unwrap_or_else(|_| panic!("a number is wanted: {text}"))
}

fn key_of(bytes: &[u8]) -> Key {
    number(bytes.strip_prefix(b"key ").expect("a key of these tests"))
}

/// A record's header, as `lua/lib/record.lua` has it.
fn record(bytes: &[u8]) -> Record {
    assert_eq!(bytes[0], 1, "the format");
    let extension = &bytes[29..29 + usize::from(bytes[28])];
    let extended = |from: usize| extension.get(from..from + 6).map_or(0, be);
    Record {
        priority: bytes[1] - b'0',
        cancel_waits: bytes[2] == 1,
        crashes: bytes[3],
        free: be(&bytes[4..6]) as u16,
        attempts: be(&bytes[6..8]) as u16,
        limit: be(&bytes[8..10]) as u16,
        run: be(&bytes[10..16]),
        due: be(&bytes[16..22]),
        enqueued: be(&bytes[22..28]),
        expires: extended(0),
        retain: extended(6),
        key: extension.get(12..).filter(|key| !key.is_empty()).map(key_of),
    }
}

fn note(bytes: &[u8]) -> Note {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let mut word = || words.next().expect("a note begins with three words");
    let code = match word() {
        b"retry" => Code::Retry,
        b"crash" => Code::Crash,
        b"crash_loop" => Code::CrashLoop,
        b"retries_exhausted" => Code::Exhausted,
        b"buried" => Code::Buried,
        other => panic!("no note's code is {}", other.escape_ascii()),
    };
    Note { code, at: number(word()), attempts: number(word()) }
}

fn stats(fields: &BTreeMap<Vec<u8>, Vec<u8>>) -> Stats {
    let mut stats = Stats::default();
    for (field, value) in fields {
        if let Some(session) = field.strip_prefix(b"seq:") {
            stats.seqs.insert(session[0], number(value));
            continue;
        }
        let name = String::from_utf8_lossy(field);
        if name.starts_with("mark_") || name.starts_with("worker:") {
            // For whoever looks on: no rule depends on them.
            continue;
        }
        match &*name {
            "schema" => stats.schema = Some(number(value)),
            "shards" => stats.shards = Some(number(value)),
            "priorities" => stats.priorities = value.iter().map(|digit| 1 << (digit - b'0')).sum(),
            "paused" => stats.paused = Some(number(value)),
            "timer_at" => stats.timer_at = Some(number(value)),
            "cancelling" => stats.cancelling = number(value),
            "last_beat" => stats.last_beat = Some(number(value)),
            "hold_until" => stats.hold_until = Some(number(value)),
            "lease_max" => stats.lease_max = Some(number(value)),
            name => {
                let at = COUNTERS.iter().position(|counter| *counter == name);
                let at = at.unwrap_or_else(|| panic!("the model knows no field {name} of stats"));
                stats.counters[at] = number(value);
            }
        }
    }
    stats
}

fn tomb(score: f64) -> Tomb {
    let score = score as u64;
    Tomb { at: score / 8, how: end((score % 8) as i64) }
}

fn session_of(hex: &str) -> Session {
    Session::from_str_radix(&hex[..2], 16).expect("a session in hex digits")
}

/// Reads all keys of a shard.
pub(crate) fn state(dump: &Dump) -> State {
    let mut state = State::default();
    for (name, value) in &dump.0 {
        match (name.as_str(), value) {
            ("jobs", Value::Hash(fields)) => {
                state.jobs = fields.iter().map(|(id, r)| (job_of(id), record(r))).collect();
            }
            ("error", Value::Hash(fields)) => {
                state.notes = fields.iter().map(|(id, n)| (job_of(id), note(n))).collect();
            }
            ("unique", Value::Hash(fields)) => {
                let lock = |entry: &Vec<u8>| Lock { owner: job_of(&entry[..16]), until: be(&entry[16..]) };
                state.unique = fields.iter().map(|(key, entry)| (key_of(key), lock(entry))).collect();
            }
            ("stats", Value::Hash(fields)) => state.stats = stats(fields),
            ("sessions", Value::Sorted(scores)) => {
                state.sessions = scores.iter().map(|(id, ends)| (id[0], *ends as u64)).collect();
            }
            ("dead", Value::Sorted(scores)) => {
                state.dead = scores.iter().map(|(id, at)| (job_of(id), *at as u64)).collect();
            }
            ("done", Value::Sorted(scores)) => {
                state.done = scores.iter().map(|(id, at)| (job_of(id), *at as u64)).collect();
            }
            ("tombs", Value::Sorted(scores)) => {
                state.tombs = scores.iter().map(|(id, at)| (job_of(id), tomb(*at))).collect();
            }
            ("wake", Value::Sorted(scores)) => state.wake = scores.get(&b"m"[..]).map(|due| *due as u64),
            (name, Value::Sorted(scores)) if name.starts_with("due:") => {
                let priority = name.as_bytes()[4] - b'0';
                state.due.extend(scores.iter().map(|(id, due)| ((priority, job_of(id)), *due as u64)));
            }
            (name, Value::Set(members)) if name.starts_with("held:") => {
                let session = session_of(&name["held:".len()..]);
                let members = members.iter().map(|member| -> Member { member_of(member) });
                state.held.extend(members.map(|member| (session, member)));
            }
            (name, value) => panic!("the model knows no key {name}: {value:?}"),
        }
    }
    state
}

//! Stored records of each release: every later one must still read them, and today's writes today's set byte for byte.
//!
//! `tests/golden/README.md` says what the sets are and when one is added.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[path = "golden/make.rs"]
mod make;
#[path = "golden/read.rs"]
mod read;

/// The queue of all of them.
const QUEUE: &str = "golden";
/// The longest name that a job may have.
const LONGEST: &str = "a-job-whose-name-has.as_many_bytes-as-a-name-may-have-0123456789";

/// A job as a release stored it, and what must be read out of it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Golden {
    about: String,
    id: Uuid,
    place: Place,
    /// The field of `jobs`, in hex.
    record: String,
    /// A part of it that is too long to be written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filler: Option<Filler>,
    /// The field of `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The entry of `unique`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique: Option<Unique>,
    reads: Reads,
    then: Then,
}

/// Where the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Place {
    /// In the due set of its priority.
    Due {
        score_ms: u64,
    },
    Dead {
        since_ms: u64,
    },
    Done {
        until_ms: u64,
    },
    /// A session holds it, by this run.
    Held {
        run: u64,
    },
}

/// A byte, so many times, with so many bytes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filler {
    byte: u8,
    count: usize,
    before_end: usize,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unique {
    key: String,
    /// In hex.
    entry: String,
}

/// What the record says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reads {
    name: String,
    version: u32,
    trace_parent: Option<String>,
    priority: u8,
    cancel_waits: bool,
    crashes: u8,
    free_returns: u16,
    attempts: u16,
    attempts_max: Option<u32>,
    run: u64,
    due_ms: u64,
    enqueued_ms: u64,
    /// Without the filler.
    payload: Payload,
}

/// Bytes, as text where they are one that can be looked at.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Payload {
    Text(String),
    Hex(String),
}

/// What becomes of it once a worker of today's comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Then {
    /// It is run, as this attempt.
    Runs {
        attempt: u32,
    },
    /// Its time is far away: it is run when it is moved to now.
    Waits,
    Expires,
    EndsAsCancelled,
    /// It is a dead letter and stays one until it is redriven.
    IsDead,
    /// It is done, and its record is kept.
    IsDone,
}

impl Golden {
    /// The whole record.
    fn bytes(&self) -> Vec<u8> {
        self.filled(unhex(&self.record))
    }

    /// The whole payload.
    fn payload(&self) -> Vec<u8> {
        self.filled(match &self.reads.payload {
            Payload::Text(text) => text.clone().into_bytes(),
            Payload::Hex(hex) => unhex(hex),
        })
    }

    fn filled(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if let Some(Filler { byte, count, before_end }) = self.filler {
            let at = bytes.len() - before_end;
            bytes.splice(at..at, std::iter::repeat_n(byte, count));
        }
        bytes
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "an odd number of digits");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// The sets, by number, each with its folder.
fn sets() -> BTreeMap<u32, PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    folders.map(|path| (path.file_name().unwrap().to_str().unwrap().parse().unwrap(), path)).collect()
}

/// The records of a set, by name.
fn set(folder: &Path) -> BTreeMap<String, Golden> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            (name, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        })
        .collect()
}

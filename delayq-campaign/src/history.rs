//! The history of a run: what each process saw and did, a JSON line an event, all by one clock.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// When, µs of CLOCK_MONOTONIC: one for all processes of a machine.
    pub(crate) t: u64,
    /// Which process says so.
    pub(crate) by: String,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// When a job shall be due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum When {
    /// So many ms after it arrives in the store.
    In(u64),
    /// At this ms since 1970 by the store's clock.
    At(u64),
}

/// How a job must end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    Done,
    Discarded,
    RetriesExhausted,
    Buried,
    CrashLoop,
    UnknownJob,
    UnknownVersion,
    Undecodable,
    /// It may be cancelled by one hand while another runs it: either end is right.
    Any,
}

/// Where the store has a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// In this due set.
    Due(u8),
    /// Held by this session.
    Held(String),
    Dead,
    Retained,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub(crate) enum What {
    /// What the wall clock said at this moment, µs since 1970.
    Anchor {
        wall_us: u64,
    },
    /// A send begins. `bytes` is a checksum of the payload.
    EnqueueInvoke {
        id: Uuid,
        when: When,
        ending: Ending,
        attempts_max: u32,
        bytes: u32,
    },
    /// Many sends of one kind begin, and all were acknowledged: one line for what would be hundreds.
    ManyInvoke {
        ids: Vec<Uuid>,
        when: When,
        attempts_max: u32,
        bytes: u32,
    },
    ManyOk {
        ids: Vec<Uuid>,
    },
    /// It was acknowledged; `new` unless the id was there already.
    EnqueueOk {
        id: Uuid,
        new: bool,
    },
    /// It was refused for good: nothing of it is in the store.
    EnqueueFail {
        id: Uuid,
        kind: String,
        text: String,
    },
    /// It may have happened.
    EnqueueUnknown {
        id: Uuid,
        text: String,
    },
    /// A worker was given the job; `now_us` is the store's clock then.
    Claim {
        id: Uuid,
        token: u64,
        attempt: u32,
        due_ms: u64,
        now_us: u64,
    },
    /// Its handler was called.
    Start {
        id: Uuid,
        token: u64,
    },
    /// Its handler did what it is for; `bytes` is a checksum of the payload that it got.
    Effect {
        id: Uuid,
        token: u64,
        bytes: u32,
    },
    /// What the stack made of the run: done, retry, snooze, discard or dead.
    Outcome {
        id: Uuid,
        token: u64,
        how: String,
        delay_ms: u64,
    },
    /// Claim, start, effect and a good outcome of a quick job in one.
    Ran {
        id: Uuid,
        token: u64,
        attempt: u32,
        due_ms: u64,
        now_us: u64,
        bytes: u32,
    },
    /// A settle was sent by hand, by a session that does not hold this run; what the store said.
    Settle {
        id: Uuid,
        token: u64,
        accepted: bool,
        answer: String,
    },
    /// A cancel begins.
    CancelInvoke {
        id: Uuid,
    },
    /// What the store said to it: cancelled, running, or an error's kind.
    CancelTold {
        id: Uuid,
        answer: String,
    },
    /// A dead letter was sent to work again.
    Redriven {
        id: Uuid,
    },
    /// A worker said something at the level of a warning.
    Alarm {
        text: String,
    },
    /// A process began.
    Up {
        pid: u32,
        lease_ms: u64,
        clock_off_ms: i64,
    },
    /// A process of this name is no more. `asked` unless it ended by itself.
    Down {
        name: String,
        how: String,
        asked: bool,
    },
    /// A signal was sent.
    Signal {
        to: String,
        signal: String,
    },
    /// A process, or everyone, can't reach the store or can't run, from here to its end.
    Disturbed {
        who: Option<String>,
        what: String,
    },
    /// That is over.
    Calm {
        who: Option<String>,
    },
    /// Since then this process was not run, or the store did not answer, though nobody had fired anything: the machine is slow.
    Stalled {
        since: u64,
        everyone: bool,
    },
    /// What was acknowledged between these two moments may be gone, and what was settled may come back.
    MayLose {
        since: u64,
        until: u64,
        why: String,
    },
    /// What was settled between these two moments may come back. What was acknowledged is there still.
    RolledBack {
        since: u64,
        until: u64,
        why: String,
    },
    /// The store's clock is off by so many ms from here on.
    Clock {
        offset_ms: i64,
    },
    /// The fault begins.
    FaultOn {
        number: u8,
        name: String,
    },
    /// It is over; whether it was seen to have struck, and by what.
    FaultOff {
        fired: bool,
        seen: String,
    },
    /// How long the load itself may delay jobs, ms.
    Slack {
        ms: u64,
        why: String,
    },
    /// These jobs can't end, and the store says so.
    Reported {
        ids: Vec<Uuid>,
        how: String,
    },
    /// What this fault demands in particular.
    Demand {
        invariant: char,
        met: bool,
        text: String,
    },
    /// All is as it should be again; from here on late is late.
    Healed,
    /// Everything that was sent is over, or the patience is.
    Drained {
        whole: bool,
    },
    /// What a process takes.
    Sample {
        name: String,
        rss_kib: u64,
        fds: u64,
    },
    /// A process panicked where nobody had planned it.
    Panic {
        name: String,
        text: String,
    },
    /// The store has a record of this job, in these places.
    Stored {
        id: Uuid,
        places: Vec<Place>,
        attempts: u32,
        crashes: u32,
        bytes: u32,
        reason: Option<String>,
        record: bool,
    },
    /// The store remembers how this job ended.
    Tomb {
        id: Uuid,
        how: String,
    },
    /// The store's own counters, and how many members of its sets are no job's id.
    Counted {
        counters: BTreeMap<String, i64>,
        foreign: u64,
    },
}

/// Now, µs of CLOCK_MONOTONIC.
pub(crate) fn now_us() -> u64 {
    clock_us(rustix::time::ClockId::Monotonic)
}

/// How far the clock that this process's libraries show is off, ms.
pub(crate) fn clock_off_ms() -> i64 {
    let shown = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    shown.as_millis() as i64 - (wall_us() / 1000) as i64
}

/// Now, µs since 1970. It asks the kernel, whatever a preloaded library makes of the clock.
pub(crate) fn wall_us() -> u64 {
    clock_us(rustix::time::ClockId::Realtime)
}

fn clock_us(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    (now.tv_sec as u64) * 1_000_000 + (now.tv_nsec as u64) / 1000
}

/// A checksum of a payload (FNV-1a).
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Writes events of one process.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    by: String,
}

impl Journal {
    pub(crate) fn open(path: &Path, by: &str) -> io::Result<Journal> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Journal { file, by: by.to_owned() })
    }

    /// Writes one event, whole or not at all: a single write to a file that is appended to.
    pub(crate) fn tell(&self, what: What) {
        self.tell_at(now_us(), what);
    }

    pub(crate) fn tell_at(&self, t: u64, what: What) {
        let event = Event { t, by: self.by.clone(), what };
        let Ok(mut line) = serde_json::to_vec(&event) else { return };
        line.push(b'\n');
        if let Err(error) = (&self.file).write_all(&line) {
            // Without its history a run proves nothing: the judge must not take it for a quiet one.
            eprintln!("{}: the history can't be written: {error}", self.by);
            std::process::abort();
        }
    }
}

/// Reads events as they come.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    file: File,
    part: Vec<u8>,
    /// Lines that were no events.
    pub(crate) malformed: Vec<String>,
}

impl Tail {
    pub(crate) fn open(path: &Path) -> io::Result<Tail> {
        Ok(Tail { path: path.to_owned(), file: File::open(path)?, part: Vec::new(), malformed: Vec::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What came since the last time.
    pub(crate) fn read(&mut self, into: &mut Vec<Event>) -> io::Result<()> {
        self.file.read_to_end(&mut self.part)?;
        let mut at = 0;
        while let Some(end) = self.part[at..].iter().position(|byte| *byte == b'\n') {
            let line = &self.part[at..at + end];
            match serde_json::from_slice(line) {
                Ok(event) => into.push(event),
                Err(_) => self.malformed.push(String::from_utf8_lossy(line).into_owned()),
            }
            at += end + 1;
        }
        self.part.drain(..at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let path = std::env::temp_dir().join(format!("delayq-campaign-history-{}", std::process::id()));
        let journal = Journal::open(&path, "w1").expect("a file");
        let mut tail = Tail::open(&path).expect("the file");
        let id = Uuid::from_u128(7);
        let told = [
            What::EnqueueInvoke { id, when: When::In(5), ending: Ending::Done, attempts_max: 4, bytes: 9 },
            What::Stored {
                id,
                places: vec![Place::Due(5), Place::Held("ab".to_owned()), Place::Dead],
                attempts: 1,
                crashes: 0,
                bytes: 9,
                reason: Some("buried".to_owned()),
                record: true,
            },
            What::Healed,
        ];
        told.iter().for_each(|what| journal.tell(what.clone()));
        let mut events = Vec::new();
        tail.read(&mut events).expect("readable");
        std::fs::remove_file(&path).expect("it was there");
        assert_eq!(events.iter().map(|event| event.what.clone()).collect::<Vec<_>>(), told);
        assert!(events.iter().all(|event| event.by == "w1") && tail.malformed.is_empty());
    }
}

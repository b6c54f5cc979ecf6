//! What was seen: calls by script and by what came of them, against what the headers of the scripts promise.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use delayq::engine::Reply;
use delayq::store::{SCRIPTS, ScriptFile};

use super::pair::{Call, ERRORS, Outcome};

/// What answers must also have been about, beside their codes.
const ALSO: &[(&str, &[&str])] = &[
    ("audit", &["orphan"]),
    ("beat", &["timer", "no timer", "lost session"]),
    ("claim", &["o", "n", "c", "m", "job", "alone", "solo", "more", "timer"]),
    ("dead_delete", &["o", "n"]),
    ("dead_list", &["letter", "record", "after", "before"]),
    ("dead_redrive", &["o", "n", "u", "m"]),
    ("done_list", &["job", "next page"]),
    ("due_list", &["job", "all", "next page", "from an instant"]),
    ("enqueue", &["created", "already", "duplicate"]),
    ("pause", &["changed", "unchanged"]),
    ("queues", &["name", "next page"]),
    ("reconcile", &["missing"]),
    ("register", &["new", "known"]),
    ("repair", &["g", "d", "r", "f", "n"]),
    ("rescue", &["given", "buried", "cancelled", "quarantined"]),
    ("running_list", &["job", "next page"]),
    ("sessions", &["lost session", "session"]),
    ("settle", &["o", "n", "c", "m"]),
    ("workers", &["session", "no session", "report"]),
];

/// Counts by script and by what was seen.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    /// Scripts that stumbled in Redis with part of their work done.
    pub(crate) partial: u64,
    pub(crate) markers: u64,
    seen: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

impl Tally {
    pub(crate) fn count(&mut self, call: &Call, outcome: &Outcome) {
        self.calls += 1;
        let seen = self.seen.entry(call.script).or_default();
        let mut see = |what: &str| *seen.entry(what.to_owned()).or_default() += 1;
        match outcome {
            Outcome::Refused(_, code, _) => see(code),
            Outcome::Stumbled => see("stumbled"),
            Outcome::Answered(Reply::List(parts)) => {
                let Some(Reply::Bytes(code)) = parts.first() else { panic!("{call:?} answers without a code") };
                see(&String::from_utf8_lossy(code));
                if matches!(code.as_slice(), b"OK" | b"PAUSED") || call.script == "rescue" {
                    look(call, parts, &mut see);
                }
            }
            Outcome::Answered(other) => panic!("{call:?} answers {other:?}"),
        }
    }

    /// The table, a script a line.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        for (script, seen) in &self.seen {
            let counts: Vec<String> = seen.iter().map(|(what, count)| format!("{what} {count}")).collect();
            let _ = writeln!(table, "{script:>12}: {}", counts.join(", "));
        }
        table
    }

    /// What should have been seen, and wasn't.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for file in SCRIPTS {
            let name = file.script.name;
            let mut wanted = promised(file);
            wanted.insert("WRONGTYPE".to_owned());
            let also = ALSO.iter().filter(|(script, _)| *script == name).flat_map(|(_, what)| what.iter());
            wanted.extend(also.map(|what| (*what).to_owned()));
            let seen = self.seen.get(name);
            missing.extend(
                wanted
                    .into_iter()
                    .filter(|what| !seen.is_some_and(|seen| seen.contains_key(what)))
                    .map(|what| format!("{name}: {what}")),
            );
        }
        missing
    }
}

/// The codes in the header of a script, those in its RETURNS, and of the errors that its text has.
fn promised(file: &ScriptFile) -> BTreeSet<String> {
    let header = file.own.lines().map_while(|line| line.strip_prefix("-- "));
    let returns: Vec<&str> = header
        .skip_while(|line| !line.starts_with("RETURNS"))
        .enumerate()
        .take_while(|(at, line)| *at == 0 || line.starts_with(' '))
        .map(|(_, line)| line.trim_start_matches("RETURNS"))
        .collect();
    let mut codes: BTreeSet<String> = returns
        .join(" ")
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase()))
        .map(str::to_owned)
        .collect();
    assert!(!codes.is_empty(), "the header of {} promises no code", file.script.name);
    codes.extend(
        ERRORS.iter().filter(|code| file.script.source.contains(&format!("'{code} "))).map(|c| (*c).to_owned()),
    );
    codes
}

/// What an answer was about.
fn look(call: &Call, parts: &[Reply], see: &mut impl FnMut(&str)) {
    let int = |at: usize| match parts.get(at) {
        Some(Reply::Int(n)) => *n,
        other => panic!("{call:?} answers {other:?} at {at}"),
    };
    let mut letters = |at: usize| match &parts[at] {
        Reply::Bytes(letters) => {
            let letters: BTreeSet<char> = letters.iter().map(|letter| char::from(*letter)).collect();
            letters.iter().for_each(|letter| see(&letter.to_string()));
        }
        other => panic!("{call:?} answers {other:?} at {at}"),
    };
    let some = |at: usize| matches!(&parts[at], Reply::Bytes(bytes) if !bytes.is_empty());
    match call.script {
        "settle" | "dead_redrive" | "dead_delete" | "repair" => letters(1),
        "audit" if parts.len() > 1 => see("orphan"),
        "claim" => {
            letters(6);
            let found = [(some(7), "job"), (some(7) && !call.args[5].is_empty(), "alone"), (some(5), "solo")];
            found.into_iter().chain([(int(4) == 1, "more"), (int(2) >= 0, "timer")]).for_each(|(is, what)| {
                if is {
                    see(what);
                }
            });
        }
        "enqueue" => parts[1..].iter().for_each(|part| match part {
            Reply::Int(1) => see("created"),
            Reply::Int(0) => see("already"),
            _ => see("duplicate"),
        }),
        "beat" => {
            see(if int(3) >= 0 { "timer" } else { "no timer" });
            if parts.len() > 4 {
                see("lost session");
            }
        }
        "pause" => see(if int(1) == 1 { "changed" } else { "unchanged" }),
        "reconcile" if parts.len() > 2 => see("missing"),
        "due_list" if parts.len() > 1 => {
            see(match (call.args[1].is_empty(), call.args[3].is_empty()) {
                (true, _) => "job",
                (false, true) => "from an instant",
                (false, false) => "next page",
            });
            if call.args[0].is_empty() {
                see("all");
            }
        }
        "done_list" | "running_list" if parts.len() > 1 => {
            see(if call.args[0].is_empty() { "job" } else { "next page" });
        }
        "queues" if parts.len() > 1 => see(if call.args[0].is_empty() { "name" } else { "next page" }),
        "register" => see(if int(1) > 0 { "new" } else { "known" }),
        "workers" => {
            for at in (2..parts.len()).step_by(3) {
                see(if int(at) < 0 { "no session" } else { "session" });
                if some(at + 2) {
                    see("report");
                }
            }
        }
        "dead_list" if parts.len() > 1 => {
            see("letter");
            see(if call.args[0] == b"after" { "after" } else { "before" });
            if some(3) {
                see("record");
            }
        }
        "rescue" if parts.len() > 1 => {
            for (at, what) in [(1, "given"), (2, "buried"), (3, "cancelled"), (4, "quarantined")] {
                if int(at) > 0 {
                    see(what);
                }
            }
        }
        "sessions" => {
            for at in (3..parts.len()).step_by(2) {
                see(if int(at) == 0 { "lost session" } else { "session" });
            }
        }
        _ => {}
    }
}

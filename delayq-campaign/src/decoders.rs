//! The decoders of what is stored and answered, under changed inputs: the fuzz targets' checks, for a bounded number of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{fs, io};

use serde::Serialize;

use crate::dice::Dice;
use crate::judge::Verdict;

#[path = "../../fuzz/src/checks/mod.rs"]
mod checks;

/// The fuzz targets count the memory that a decoder takes; counting it slows a whole program down.
fn within<T>(_: usize, decode: impl FnOnce() -> T) -> T {
    decode()
}

/// Large inputs are looked at as they are, and cut before they are changed.
const CHANGED_BYTES_MAX: usize = 4096;

type Check = fn(&[u8]);

const TARGETS: [(&str, Check); 3] =
    [("record", checks::record), ("envelope", checks::envelope), ("reply", checks::reply)];

/// What became of the inputs.
#[derive(Debug, Serialize)]
pub(crate) struct Decoded {
    pub(crate) verdict: Verdict,
    /// How many inputs each decoder got.
    pub(crate) inputs: u64,
    /// Which input broke what: the decoder, what its check said, and the input's bytes.
    pub(crate) findings: Vec<String>,
}

/// Gives each decoder the kept inputs and so many changed ones for each seed. The same seed makes the same inputs.
pub(crate) fn torment(seeds: impl Iterator<Item = u64> + Clone, each: u64) -> Decoded {
    let mut decoded = Decoded { verdict: Verdict::Pass, inputs: 0, findings: Vec::new() };
    for (target, check) in TARGETS {
        let kept = match corpus(target) {
            Ok(kept) if !kept.is_empty() => kept,
            other => {
                decoded.verdict = Verdict::Unknown;
                decoded.findings.push(format!("{target}: its corpus could not be read: {:?}", other.err()));
                continue;
            }
        };
        let mut inputs = 0;
        let mut try_it = |bytes: &[u8]| {
            inputs += 1;
            let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(bytes))) else { return };
            let said =
                panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            decoded.findings.push(format!("{target}: {}: {}", said.unwrap_or("a panic"), bytes.escape_ascii()));
        };
        kept.iter().for_each(|bytes| try_it(bytes));
        for seed in seeds.clone() {
            let mut dice = Dice::part(seed, 0xdec0de);
            (0..each).for_each(|_| try_it(&changed(&kept, &mut dice)));
        }
        decoded.inputs = decoded.inputs.max(inputs);
    }
    if decoded.verdict == Verdict::Pass && !decoded.findings.is_empty() {
        decoded.verdict = Verdict::Fail;
    }
    decoded
}

/// One input of each form, and what was found by fuzzing.
fn corpus(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus").join(target);
    let mut paths =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().map(fs::read).collect()
}

/// A kept input, changed in one to five places.
fn changed(kept: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let start = |dice: &mut Dice| {
        let bytes = dice.pick(kept);
        bytes[..bytes.len().min(CHANGED_BYTES_MAX)].to_vec()
    };
    let mut bytes = start(dice);
    for _ in 0..dice.between(1, 5) {
        let at = dice.between(0, bytes.len() as u64) as usize;
        let end = bytes.len().min(at + dice.between(1, 40) as usize);
        let edge = [0, 1, b'0', b'\n', b'\r', 0xff, dice.roll() as u8];
        match dice.between(0, 4) {
            0 if at < bytes.len() => bytes[at] = *dice.pick(&edge),
            0 | 1 => {
                let more: Vec<u8> = (0..dice.between(1, 8)).map(|_| *dice.pick(&edge)).collect();
                bytes.splice(at..at, more);
            }
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            // From here on it is another input's end.
            _ => {
                let other = start(dice);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[dice.between(0, other.len() as u64) as usize..]);
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_inputs_again_and_they_differ_from_what_was_kept() {
        let kept = corpus("record").expect("the corpus");
        let of = |seed| -> Vec<Vec<u8>> {
            let mut dice = Dice::part(seed, 0xdec0de);
            (0..100).map(|_| changed(&kept, &mut dice)).collect()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let same = of(1).iter().filter(|bytes| kept.contains(bytes)).count();
        assert!(same < 50, "{same} of 100 are as they were kept");
    }

    #[test]
    fn the_decoders_hold() {
        let decoded = torment(1..=1, 50);
        assert_eq!(decoded.verdict, Verdict::Pass, "{decoded:#?}");
        assert!(decoded.inputs > 50);
    }
}

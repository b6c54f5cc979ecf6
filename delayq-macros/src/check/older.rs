//! Checks the payload types of older versions.

use syn::{LitInt, Type};

use crate::parse::Older;
use crate::problems::Problems;

/// The older versions in ascending order, with the mistakes recorded.
///
/// `own` is the version of the job itself, if that is right.
pub(super) fn check(written: &Older, own: Option<u32>, problems: &mut Problems) -> Vec<(u32, Type)> {
    if written.entries.is_empty() && written.complete {
        problems.at(&written.key, "`from` names no version: write `from(1 = CancelOrderV1)`, or leave it out");
        return Vec::new();
    }

    let mut sorted: Vec<(u32, &LitInt, &Type)> = Vec::new();
    for (literal, ty) in &written.entries {
        let version = literal.base10_parse::<u32>().unwrap_or(0);
        let wrong = match own {
            _ if version == 0 => Some(format!("versions are 1 to {}: write `1 = CancelOrderV1`", u32::MAX)),
            _ if sorted.iter().any(|(earlier, ..)| *earlier == version) => {
                Some(format!("version {version} is given twice: remove one of the two"))
            }
            Some(own) if version == own => Some(format!(
                "version {version} is this struct itself: raise `version` to {}, or remove this entry",
                u64::from(own) + 1
            )),
            Some(own) if version > own => Some(format!(
                "version {version} is newer than this struct's {own}: raise `version`, or remove this entry"
            )),
            _ => None,
        };
        match wrong {
            Some(message) => problems.at(literal, message),
            None => sorted.push((version, literal, ty)),
        }
    }
    sorted.sort_by_key(|(version, ..)| *version);

    // With an entry missing for its form, or the own version unknown, a gap may not be one.
    if let (true, Some(own)) = (written.complete, own) {
        no_gap(&sorted, own, problems);
    }
    sorted.into_iter().map(|(version, _, ty)| (version, ty.clone())).collect()
}

/// From its oldest version on, every step up to the struct itself needs a type.
fn no_gap(sorted: &[(u32, &LitInt, &Type)], own: u32, problems: &mut Problems) {
    let above = sorted.iter().skip(1).map(|(version, ..)| *version).chain([own]);
    for ((version, literal, _), next) in sorted.iter().zip(above) {
        // Both are versions from 1 on, and `next` is the larger.
        let (first, last) = (version + 1, next - 1);
        if first > last {
            continue;
        }
        let missing =
            if first == last { format!("version {first} is") } else { format!("versions {first} to {last} are") };
        problems.at(
            literal,
            format!(
                "{missing} missing between {version} and {next}: add `{first} = PayloadV{first}`, or drop {version}"
            ),
        );
    }
}

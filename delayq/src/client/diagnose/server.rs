//! The server's version, and what is publicly known to be wrong with it.

use std::collections::BTreeMap;

use super::Finding;
use crate::store::Info;

/// The numbers of a release.
type Version = (u32, u32, u32);

/// The oldest that has every command the scripts use.
const OLDEST: Version = (6, 2, 0);

/// A security fix: what it is about, and in which release of each line it came. A line of Redis without one here ended before it,
/// or began after it; of Valkey nothing is said where the line is not here. The facts are those of release notes and CVE records.
struct Fix {
    cves: &'static str,
    about: &'static str,
    redis: &'static [Version],
    valkey: &'static [Version],
}

/// When the latest of those below came.
const KNOWN_TO: &str = "August 2026";

/// The latest first.
const FIXES: &[Fix] = &[
    Fix {
        cves: "CVE-2026-81934",
        about: "over TLS, a client may run code in the server",
        redis: &[(6, 2, 24), (7, 2, 16), (7, 4, 11), (8, 2, 9), (8, 4, 6), (8, 6, 6), (8, 8, 2), (8, 10, 1)],
        valkey: &[],
    },
    Fix {
        cves: "CVE-2026-56684, CVE-2026-63639",
        about: "a user may run code in the server, over TLS or by a damaged RDB file",
        redis: &[],
        valkey: &[(7, 2, 14), (8, 0, 10), (8, 1, 9), (9, 0, 5), (9, 1, 1)],
    },
    Fix {
        cves: "CVE-2025-49844, CVE-2025-46817, CVE-2025-46818, CVE-2025-46819",
        about: "a Lua script of a user may run code in the server",
        redis: &[(6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)],
        valkey: &[(7, 2, 11), (8, 0, 6), (8, 1, 4)],
    },
    Fix {
        cves: "CVE-2024-46981",
        about: "a Lua script of a user may run code in the server",
        redis: &[(6, 2, 17), (7, 2, 7), (7, 4, 2)],
        valkey: &[],
    },
    Fix {
        cves: "CVE-2024-31449",
        about: "a Lua script of a user may overflow the server's stack",
        redis: &[(6, 2, 16), (7, 2, 6), (7, 4, 1)],
        valkey: &[],
    },
    Fix {
        cves: "CVE-2025-32023",
        about: "HyperLogLog commands may write out of bounds",
        redis: &[(6, 2, 19), (7, 2, 10), (7, 4, 5), (8, 0, 3)],
        valkey: &[],
    },
    Fix {
        cves: "CVE-2025-21605",
        about: "a client without a password may fill the server's memory",
        redis: &[(6, 2, 18), (7, 2, 8), (7, 4, 3)],
        valkey: &[],
    },
    Fix {
        cves: "CVE-2022-24834",
        about: "a Lua script of a user may overflow the server's heap",
        redis: &[(6, 2, 13), (7, 0, 12)],
        valkey: &[],
    },
];

fn parse(version: &str) -> Option<Version> {
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

/// Name and version. A fork tells the version of the Redis that it is compatible with, and its own.
fn product(info: &Info) -> Option<(&str, Version, &str)> {
    let own = info.get("valkey_version").map(|version| ("Valkey", version));
    let (name, version) = own.or_else(|| info.get("redis_version").map(|version| ("Redis", version)))?;
    Some((name, parse(version)?, version))
}

pub(super) fn version(info: &Info) -> Option<Finding> {
    let text = info.get("redis_version")?;
    let (name, _, own) = product(info).unwrap_or(("Redis", OLDEST, text));
    Some(match parse(text) {
        Some(version) if version < OLDEST => Finding::wrong(
            "version",
            format!("{name} {own} lacks commands that the scripts need"),
            format!("use Redis {}.{} or later", OLDEST.0, OLDEST.1),
        ),
        Some(_) => Finding::good("version", format!("{name} {own}")),
        None => Finding::unknown(
            "version",
            format!("the version {text:?} can't be read"),
            format!("it must be compatible with Redis {}.{} or later", OLDEST.0, OLDEST.1),
        ),
    })
}

fn line(version: Version) -> (u32, u32) {
    (version.0, version.1)
}

/// Whether this version lacks a fix, and then the release of its line that has it, if there is one.
fn lacking(version: Version, fixed: &[Version]) -> Option<Option<Version>> {
    let newest = fixed.iter().max()?;
    match fixed.iter().find(|fix| line(**fix) == line(version)) {
        Some(fix) if version < *fix => Some(Some(*fix)),
        Some(_) => None,
        // A line that ended before the fix, or one that began after it.
        None if line(version) < line(*newest) => Some(None),
        None => None,
    }
}

pub(super) fn security(info: &Info) -> Finding {
    let Some((name, version, text)) = product(info) else {
        return Finding::unknown("security", "the version is not told", "keep the server up to date");
    };
    let is_valkey = name == "Valkey";
    let fixes_of = |fix: &Fix| if is_valkey { fix.valkey } else { fix.redis };
    let missing: Vec<(&Fix, Option<Version>)> = FIXES
        .iter()
        .filter_map(|fix| Some((fix, lacking(version, fixes_of(fix))?)))
        .filter(|(_, fixed)| fixed.is_some() || !is_valkey)
        .collect();
    if missing.is_empty() {
        return Finding::good(
            "security",
            format!("{name} {text} has the fixes that are known here, the latest of {KNOWN_TO}"),
        );
    }
    let list: Vec<String> = missing.iter().map(|(fix, _)| format!("{} ({})", fix.cves, fix.about)).collect();
    let shown = |v: &Version| format!("{}.{}.{}", v.0, v.1, v.2);
    let to = if missing.iter().any(|(_, fixed)| fixed.is_none()) {
        let all = missing.iter().flat_map(|(fix, _)| fixes_of(fix)).filter(|fixed| line(**fixed) > line(version));
        // Of each later line the first release that has all of them.
        let mut first: BTreeMap<(u32, u32), Version> = BTreeMap::new();
        for fixed in all {
            let best = first.entry(line(*fixed)).or_insert(*fixed);
            *best = (*best).max(*fixed);
        }
        // Some lines ended before the latest.
        let whole = |to: &&Version| missing.iter().all(|(fix, _)| lacking(**to, fixes_of(fix)).is_none());
        let first: Vec<String> = first.values().filter(whole).map(shown).collect();
        format!("this line gets no fixes any more: move to {name} {}, or a later one of these lines", first.join(", "))
    } else {
        let fixed = missing.iter().filter_map(|(_, fixed)| fixed.as_ref()).max();
        format!("update to {name} {} or later", fixed.map(shown).unwrap_or_default())
    };
    Finding::warning(
        "security",
        format!("going by its number, {name} {text} lacks fixes: {}", list.join(", ")),
        format!(
            "{to}; a distribution may have mended an older number: look for these in its changelog. Until then let only users \
             that you trust run scripts"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn info(version: &str) -> Info {
        Info::parse(&format!("redis_version:{version}\r\n"))
    }

    #[test]
    fn versions_are_told_apart() {
        for (text, level) in [
            ("6.2.0", Level::Good),
            ("8.2.2", Level::Good),
            ("7.0", Level::Good),
            ("6.0.20", Level::Wrong),
            ("5.0.14", Level::Wrong),
            ("unstable", Level::Unknown),
        ] {
            assert_eq!(version(&info(text)).expect("a finding").level, level, "{text}");
        }
        assert_eq!(version(&Info::default()), None);
        let valkey = Info::parse("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.4\r\n");
        assert_eq!(version(&valkey).expect("a finding").what, "Valkey 8.1.4");
    }

    #[test]
    fn a_number_below_a_fix_of_its_line_lacks_it() {
        for (text, lacks) in [
            ("6.2.12", 7),
            ("6.2.20", 1),
            ("6.2.24", 0),
            ("7.0.15", 6),
            ("7.2.10", 2),
            ("7.2.16", 0),
            ("7.4.0", 6),
            ("7.4.11", 0),
            ("8.0.3", 2),
            ("8.0.6", 1),
            ("8.2.1", 2),
            ("8.2.9", 0),
            ("8.4.0", 1),
            ("8.10.1", 0),
            ("9.0.0", 0),
        ] {
            let version = parse(text).expect("a version");
            let lacking = FIXES.iter().filter(|fix| lacking(version, fix.redis).is_some()).count();
            assert_eq!(lacking, lacks, "{text}");
        }
        let found = security(&info("7.0.15"));
        assert_eq!(found.level, Level::Warning);
        let advice = found.advice.expect("advice");
        assert!(
            advice.contains("no fixes any more")
                && advice.contains("7.2.16, 7.4.11, 8.2.9, 8.4.6, 8.6.6, 8.8.2, 8.10.1,"),
            "{advice}"
        );
        let advice = security(&info("7.2.10")).advice.expect("advice");
        assert!(advice.starts_with("update to Redis 7.2.16 or later"), "{advice}");
        let valkey = Info::parse("redis_version:7.2.4\r\nvalkey_version:8.1.3\r\n");
        assert!(security(&valkey).advice.expect("advice").contains("Valkey 8.1.9"));
        let other = Info::parse("redis_version:7.2.4\r\nvalkey_version:8.2.0\r\n");
        assert_eq!(security(&other).level, Level::Good, "nothing is said of what is not known");
    }
}

//! Memory: what the server does when it is full, and how far off that is.

use super::{Finding, Level};
use crate::store::{Info, Told};

pub(super) const POLICY: &str = "maxmemory-policy";
/// How full the memory may be, in percent: above the first it is time to do something, above the second it is late.
const FULL_SOON: u64 = 80;
const FULL_NOW: u64 = 95;

pub(super) fn policy(info: &Info) -> Finding {
    match info.get("maxmemory_policy") {
        Some(policy) => policy_of(policy, info.number("maxmemory").is_none_or(|bytes| bytes > 0)),
        None => Finding::unknown(POLICY, "INFO doesn't tell it", "see to it that it is noeviction"),
    }
}

pub(super) fn policy_setting(setting: &Told<String>) -> Finding {
    match setting {
        Told::Answer(policy) => policy_of(policy, true),
        Told::Withheld(why) => Finding::unknown(
            POLICY,
            format!("it is not told: {why}"),
            "give the user +info or +config|get, or see to it that it is noeviction",
        ),
        Told::NoServer => Finding::good(POLICY, "there is no server"),
    }
}

fn policy_of(policy: &str, limited: bool) -> Finding {
    let advice = "set maxmemory-policy to noeviction, by CONFIG SET and in the server's configuration";
    if policy == "noeviction" {
        return Finding::good(POLICY, "noeviction: a full server refuses new jobs and deletes none");
    }
    let what = if policy.starts_with("volatile-") {
        format!(
            "the policy is {policy}: keys with a time to live are deleted when the memory is full; delayq's have none, but another \
             program's EXPIRE on one of them would be the end of a whole queue"
        )
    } else if limited {
        format!("the policy is {policy}: keys are deleted when the memory is full, and a queue's jobs are in one key")
    } else {
        format!("the policy is {policy}: once a maxmemory is set, keys are deleted when it is reached, jobs among them")
    };
    Finding::wrong(POLICY, what, advice)
}

/// Whether connecting to such a server has warned of its policy already.
pub(super) fn connecting_warns(info: &Info) -> bool {
    let evicts = info.get("maxmemory_policy").is_some_and(|policy| policy.starts_with("allkeys-"));
    evicts && info.number("maxmemory").is_some_and(|bytes| bytes > 0)
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// How much room there is, and for how many more jobs like the `records` that there are.
pub(super) fn headroom(info: &Info, records: u64) -> Finding {
    const CHECK: &str = "memory";
    let Some(used) = info.number("used_memory") else {
        return Finding::unknown(CHECK, "INFO doesn't tell how much is used", "watch the server's memory");
    };
    let system = info.number("total_system_memory").filter(|bytes| *bytes > 0);
    let (limit, is_set) = match info.number("maxmemory").filter(|bytes| *bytes > 0) {
        Some(limit) => (limit, true),
        None => match system {
            Some(system) => (system, false),
            None => return Finding::note(CHECK, format!("{} used, without a limit", mib(used))),
        },
    };
    let percent = used.saturating_mul(100) / limit;
    // What all data takes is more than what the jobs take: the room is for that many at least.
    let data = info.number("used_memory_dataset").unwrap_or(used);
    let room = match records {
        0 => String::new(),
        records => {
            let each = (data / records).max(1);
            let more = limit.saturating_sub(used) / each;
            format!(
                "; room for {more} more jobs at least, at {each} bytes a job at most, as the {records} that there are"
            )
        }
    };
    let kind = if is_set { "maxmemory" } else { "the machine's memory" };
    let what = format!("{} of {} ({kind}) used, {percent} %{room}", mib(used), mib(limit));
    let advice = "raise maxmemory, free some, or let more workers take jobs out";
    match percent {
        FULL_NOW.. if is_set => Finding::wrong(CHECK, format!("{what}: new jobs are refused, or will be soon"), advice),
        FULL_SOON.. if is_set => Finding::warning(CHECK, what, advice),
        FULL_SOON.. => Finding::warning(
            CHECK,
            format!("{what}: the system ends the server when there is none left"),
            "set a maxmemory below the machine's memory, and free some",
        ),
        _ if is_set => Finding::good(CHECK, what),
        _ => Finding::new(
            CHECK,
            Level::Note,
            format!("{what}; no maxmemory is set"),
            Some("set a maxmemory below the machine's memory: a full server then refuses new jobs instead of being ended".to_owned()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(max: u64, policy: &str, used: u64) -> Info {
        Info::parse(&format!(
            "used_memory:{used}\r\nmaxmemory:{max}\r\nmaxmemory_policy:{policy}\r\ntotal_system_memory:1000000\r\nused_memory_dataset:{used}\r\n"
        ))
    }

    #[test]
    fn any_policy_but_one_is_wrong() {
        assert_eq!(policy(&info(0, "noeviction", 1)).level, Level::Good);
        for name in ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl", "of-a-later-release"] {
            for max in [0, 1000] {
                assert_eq!(policy(&info(max, name, 1)).level, Level::Wrong, "{name}");
            }
        }
        assert_eq!(policy(&Info::default()).level, Level::Unknown);
        assert!(connecting_warns(&info(1000, "allkeys-lru", 1)));
        assert!(!connecting_warns(&info(0, "allkeys-lru", 1)) && !connecting_warns(&info(1000, "volatile-lru", 1)));
    }

    #[test]
    fn a_full_memory_is_told_before_it_is_one() {
        for (used, level) in [(100, Level::Good), (799, Level::Good), (800, Level::Warning), (950, Level::Wrong)] {
            assert_eq!(headroom(&info(1000, "noeviction", used), 0).level, level, "{used}");
        }
        assert_eq!(headroom(&info(0, "noeviction", 100_000), 0).level, Level::Note);
        assert_eq!(headroom(&info(0, "noeviction", 900_000), 0).level, Level::Warning);
        assert_eq!(headroom(&Info::default(), 0).level, Level::Unknown);
        let what = headroom(&info(100_000, "noeviction", 10_000), 20).what;
        assert!(what.contains("room for 180 more jobs at least, at 500 bytes a job at most"), "{what}");
    }
}

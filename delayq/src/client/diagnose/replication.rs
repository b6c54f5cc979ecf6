//! Replicas: whether this is the primary, who follows it, and what a failover would lose.

use super::Finding;
use crate::store::{Info, Told};

pub(super) const ROLE: &str = "role";
const REPLICAS: &str = "replicas";
const MIN_REPLICAS: &str = "min-replicas-to-write";
/// How long ago a replica that is in touch was last heard of, in seconds, at most.
const LAG_MAX: u64 = 10;
/// How many replicas are looked at.
const REPLICAS_MAX: u64 = 1000;

/// Whether jobs can be worked with here at all.
pub(super) fn role(info: &Info) -> Option<Finding> {
    match info.get("role")? {
        "master" => None,
        "slave" => {
            let of = match (info.get("master_host"), info.get("master_port")) {
                (Some(host), Some(port)) => format!(" of {host}:{port}"),
                _ => String::new(),
            };
            Some(Finding::wrong(
                ROLE,
                format!("this is a replica{of}: it takes no jobs"),
                "give the address of the primary, or one that follows it",
            ))
        }
        other => Some(Finding::wrong(ROLE, format!("the server is a {other}"), "give the address of the primary")),
    }
}

/// A replica as INFO tells it: whether it is online, and how long ago it was heard of.
fn replica(text: &str) -> (bool, u64) {
    let field = |name: &str| text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    (field("state") == Some("online"), field("lag").and_then(|lag| lag.parse().ok()).unwrap_or(0))
}

/// `wanted` is the setting `min-replicas-to-write`.
pub(super) fn of(info: &Info, wanted: &Told<String>) -> Vec<Finding> {
    if let Some(wrong) = role(info) {
        return vec![wrong];
    }
    let Some(count) = info.number("connected_slaves") else {
        return vec![Finding::unknown(REPLICAS, "INFO doesn't tell of replicas", "ask whoever runs the server")];
    };
    let all: Vec<(bool, u64)> =
        (0..count.min(REPLICAS_MAX)).filter_map(|n| info.get(&format!("slave{n}")).map(replica)).collect();
    let good = all.iter().filter(|(online, lag)| *online && *lag <= LAG_MAX).count();
    let mut findings = vec![Finding::good(ROLE, "this is the primary")];
    findings.push(match (count, good) {
        (0, _) => Finding::note(REPLICAS, "there is no replica: if the machine's disk is lost, the jobs are"),
        (_, good) if good < all.len() => Finding::warning(
            REPLICAS,
            format!("{good} of {} replicas are in touch: a failover to another loses jobs", all.len()),
            "look at the logs of the others, and at the network between",
        ),
        (count, _) => Finding::good(REPLICAS, format!("{count} in touch")),
    });
    findings.extend(min_replicas(count, good as u64, wanted));
    findings
}

fn min_replicas(count: u64, good: u64, wanted: &Told<String>) -> Option<Finding> {
    let wanted = match wanted {
        Told::Answer(wanted) => wanted.parse::<u64>().ok()?,
        Told::Withheld(why) if count > 0 => {
            return Some(Finding::unknown(
                MIN_REPLICAS,
                format!("it is not told: {why}"),
                "give the user +config|get, or see to it that it is 1 or more",
            ));
        }
        _ => return None,
    };
    if wanted > good {
        return Some(Finding::wrong(
            MIN_REPLICAS,
            format!("{wanted} replicas must be in touch, {good} are: new jobs are refused"),
            "bring replicas back, or lower min-replicas-to-write",
        ));
    }
    if count == 0 {
        return None;
    }
    Some(match wanted {
        0 => Finding::warning(
            MIN_REPLICAS,
            "0: a primary that is cut off from its replicas goes on taking jobs, which a failover then loses",
            "CONFIG SET min-replicas-to-write 1, and in the server's configuration",
        ),
        wanted => Finding::good(MIN_REPLICAS, format!("{wanted}")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn levels(info: &str, wanted: &str) -> Vec<(&'static str, Level)> {
        let found = of(&Info::parse(info), &Told::Answer(wanted.to_owned()));
        found.iter().map(|finding| (finding.check, finding.level)).collect()
    }

    #[test]
    fn replicas_are_counted_that_are_in_touch() {
        let primary = (ROLE, Level::Good);
        let alone = "role:master\r\nconnected_slaves:0\r\n";
        assert_eq!(levels(alone, "0"), [primary, (REPLICAS, Level::Note)]);
        assert_eq!(levels(alone, "1"), [primary, (REPLICAS, Level::Note), (MIN_REPLICAS, Level::Wrong)]);
        let one = "role:master\r\nconnected_slaves:1\r\nslave0:ip=::1,port=1,state=online,offset=1,lag=0\r\n";
        assert_eq!(levels(one, "1"), [primary, (REPLICAS, Level::Good), (MIN_REPLICAS, Level::Good)]);
        assert_eq!(levels(one, "0"), [primary, (REPLICAS, Level::Good), (MIN_REPLICAS, Level::Warning)]);
        for late in [one.replace("lag=0", "lag=11"), one.replace("online", "wait_bgsave")] {
            assert_eq!(levels(&late, "0"), [primary, (REPLICAS, Level::Warning), (MIN_REPLICAS, Level::Warning)]);
            assert_eq!(levels(&late, "1")[2], (MIN_REPLICAS, Level::Wrong));
        }
        assert_eq!(levels("role:slave\r\nmaster_host:a\r\nmaster_port:1\r\n", "0"), [(ROLE, Level::Wrong)]);
        let unknown = of(&Info::parse(one), &Told::Withheld("no".to_owned()));
        assert_eq!(unknown[2].level, Level::Unknown);
    }
}

//! What a crash or a power cut would lose: the append-only file, snapshots, and whether they can be written.

use super::Finding;
use crate::store::{Info, Told};

const AOF: &str = "aof";
const FSYNC: &str = "appendfsync";
const RDB: &str = "rdb";

/// The settings that INFO doesn't tell.
pub(super) struct Settings {
    /// `appendfsync`.
    pub(super) fsync: Told<String>,
    /// `stop-writes-on-bgsave-error`.
    pub(super) stops: Told<String>,
    /// `save`: when snapshots are made; where none are, a failed one stops nothing.
    pub(super) save: Told<String>,
}

pub(super) fn of(info: &Info, settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    if info.get("loading") == Some("1") {
        let what = "the server still reads its data: nothing else is answered until it has";
        findings.push(Finding::wrong("loading", what, "wait; INFO persistence has the progress, loading_loaded_perc"));
    }
    match info.get("aof_enabled") {
        Some("1") => {
            findings.push(aof(info));
            findings.push(appendfsync(&settings.fsync));
        }
        Some(_) => findings.push(Finding::warning(
            AOF,
            "there is no append-only file: a crash of the server loses what was acknowledged since its last snapshot, or all",
            "CONFIG SET appendonly yes, and in the server's configuration",
        )),
        None => findings.push(Finding::unknown(AOF, "INFO doesn't tell of persistence", "ask whoever runs the server")),
    }
    findings.extend(rdb(info, settings));
    findings
}

fn aof(info: &Info) -> Finding {
    let failed = |field: &str| info.get(field).is_some_and(|status| status != "ok");
    if failed("aof_last_write_status") {
        let what = "the append-only file can't be written: new jobs are refused, or not on the disk";
        return Finding::wrong(AOF, what, "look at the server's log, and at its disk's free space");
    }
    if failed("aof_last_bgrewrite_status") {
        let what = "the append-only file could not be rewritten: it grows, and a start takes longer and longer";
        return Finding::warning(AOF, what, "look at the server's log and memory, then BGREWRITEAOF");
    }
    Finding::good(AOF, "there is an append-only file, and it is written")
}

fn appendfsync(fsync: &Told<String>) -> Finding {
    match fsync {
        Told::Answer(fsync) => match fsync.as_str() {
            "always" => Finding::good(FSYNC, "always: what is acknowledged is on the disk"),
            "everysec" => Finding::good(
                FSYNC,
                "everysec: a power cut loses the last second or two, a crash of the server nothing",
            ),
            other => Finding::warning(
                FSYNC,
                format!("{other}: a power cut loses what the system has not written yet, half a minute or more"),
                "CONFIG SET appendfsync everysec, or always",
            ),
        },
        Told::Withheld(why) => Finding::unknown(
            FSYNC,
            format!("it is not told: {why}"),
            "give the user +config|get, or see to it that it is everysec or always",
        ),
        Told::NoServer => Finding::good(FSYNC, "there is no server"),
    }
}

fn rdb(info: &Info, settings: &Settings) -> Option<Finding> {
    if info.get("rdb_last_bgsave_status")? == "ok" {
        return Some(Finding::good(RDB, "the last snapshot could be written"));
    }
    let advice = "look at the server's log, disk and memory; a BGSAVE that succeeds ends this";
    let text = |told: &Told<String>| told.answer().cloned();
    Some(match (text(&settings.stops).as_deref(), text(&settings.save).as_deref()) {
        (Some("no"), _) | (_, Some("")) => Finding::warning(RDB, "the last snapshot could not be written", advice),
        (Some(_), Some(_)) => {
            Finding::wrong(RDB, "the last snapshot could not be written: the server refuses all writes", advice)
        }
        _ => Finding::warning(
            RDB,
            "the last snapshot could not be written; with stop-writes-on-bgsave-error, as it is by default, all writes are refused",
            advice,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn levels(info: &str, fsync: &str, stops: Told<String>) -> Vec<(&'static str, Level)> {
        let told = |text: &str| Told::Answer(text.to_owned());
        let found = of(&Info::parse(info), &Settings { fsync: told(fsync), stops, save: told("3600 1") });
        found.iter().map(|finding| (finding.check, finding.level)).collect()
    }

    #[test]
    fn what_would_be_lost_is_told_by_setting() {
        let on = "loading:0\r\naof_enabled:1\r\naof_last_write_status:ok\r\naof_last_bgrewrite_status:ok\r\nrdb_last_bgsave_status:ok\r\n";
        let yes = || Told::Answer("yes".to_owned());
        let good = [(AOF, Level::Good), (FSYNC, Level::Good), (RDB, Level::Good)];
        assert_eq!(levels(on, "always", yes()), good);
        assert_eq!(levels(on, "everysec", yes()), good);
        assert_eq!(levels(on, "no", yes())[1], (FSYNC, Level::Warning));
        assert_eq!(levels(&on.replace("enabled:1", "enabled:0"), "always", yes())[0], (AOF, Level::Warning));
        assert_eq!(levels(&on.replace("write_status:ok", "write_status:err"), "always", yes())[0], (AOF, Level::Wrong));
        assert_eq!(
            levels(&on.replace("rewrite_status:ok", "rewrite_status:err"), "no", yes())[0],
            (AOF, Level::Warning)
        );
        let unsaved = on.replace("bgsave_status:ok", "bgsave_status:err");
        assert_eq!(levels(&unsaved, "no", yes())[2], (RDB, Level::Wrong));
        assert_eq!(levels(&unsaved, "no", Told::Answer("no".to_owned()))[2], (RDB, Level::Warning));
        assert_eq!(levels(&unsaved, "no", Told::Withheld("no".to_owned()))[2], (RDB, Level::Warning));
        let told = |text: &str| Told::Answer(text.to_owned());
        let found = of(&Info::parse(&unsaved), &Settings { fsync: told("no"), stops: yes(), save: told("") });
        assert_eq!(found[2].level, Level::Warning, "none is made by itself, so none stops writes");
        assert_eq!(levels("loading:1\r\n", "no", yes()), [("loading", Level::Wrong), (AOF, Level::Unknown)]);
    }
}

//! What to do about an error of the server or of the way to it: the end of each message.

use redis::{ConnectionAddr, RedisError};

/// What the server's words have in them, and what to do then. The first that fits counts.
const ADVICE: &[(&str, &str)] = &[
    ("LOADING", "it reads its data after a start: wait until it has, nothing else helps"),
    ("BUSY", "a script that is not delayq's keeps it busy: wait for its end, or send SCRIPT KILL"),
    ("READONLY", "it is a replica: give the address of the primary, or one that follows it"),
    ("MASTERDOWN", "it is a replica that lost its primary: give the address of the primary"),
    ("writing to the AOF", "it can't write its append-only file: make room on its disk, and it goes on by itself"),
    ("MISCONF", "it can't save its data: look at its log and its disk; a BGSAVE that succeeds ends this"),
    ("NOREPLICAS", "too few of its replicas are in touch: bring them back, or lower min-replicas-to-write"),
    ("CLUSTERDOWN", "a part of the cluster is missing: CLUSTER INFO says which"),
    ("TRYAGAIN", "the cluster is being rearranged: wait until it is done"),
    ("max number of clients", "raise its maxclients, or let fewer programs connect"),
    ("OOM", "raise its maxmemory, or free some; jobs that are in it still run"),
    ("NOPERM", "give the user the rights that SECURITY.md lists"),
    ("ACL failure", "give the user the rights that SECURITY.md lists"),
    ("The user executing the script", "give the user the rights that SECURITY.md lists"),
    ("WRONGTYPE", "another program has written to a key of the queue: find it, and delete that key"),
    ("MOVED ", "the slot was given to another node: nothing was done, ask again"),
    ("ASK ", "the slot is being given to another node: nothing was done, ask again"),
];

/// What to do after the server said this.
pub(super) fn on_answer(text: &str) -> &'static str {
    ADVICE.iter().find(|(words, _)| text.contains(words)).map_or("look at the server's log", |(_, advice)| advice)
}

/// What to do where no connection came about. Without an address, Sentinels were to name one.
pub(super) fn on_connection(error: &RedisError, text: &str, addr: Option<&ConnectionAddr>) -> &'static str {
    let Some(addr) = addr else {
        return match () {
            () if error.is_connection_refusal() => {
                "do Sentinels run there, and the primary that they name? start them, or correct hosts and ports in the URL"
            }
            () if error.is_timeout() => {
                "are the addresses right, and does a firewall let this machine reach the Sentinels and the primary?"
            }
            () => "do Sentinels run there, and can the address that they give for the primary be reached from here?",
        };
    };
    let tls = matches!(addr, ConnectionAddr::TcpTls { .. });
    if matches!(addr, ConnectionAddr::Unix(_)) && error.is_connection_refusal() {
        "does a Redis run there, with this path as its `unixsocket`?"
    } else if error.is_connection_refusal() {
        "does a Redis run there? start it, or correct host and port in the URL"
    } else if error.is_timeout() && tls {
        "is the address right, does a firewall let this machine reach it, and does that port speak TLS?"
    } else if error.is_timeout() {
        "is the address right, and does a firewall let this machine reach it?"
    } else if text.contains("lookup address") {
        "correct the host's name in the URL, or the name service of this machine"
    } else if tls {
        "does that port speak TLS (redis:// is without), with a certificate for this host that the system trusts?"
    } else {
        "is the address right? if so, look at the server's log"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_that_fit_count() {
        assert!(on_answer("BUSY Redis is busy running a script").contains("SCRIPT KILL"));
        assert!(on_answer("ERR max number of clients reached").contains("maxclients"));
        assert!(on_answer("READONLY You can't write against a read only replica").contains("primary"));
        assert_eq!(on_answer("ERR of a new kind"), "look at the server's log");
    }

    #[test]
    fn a_log_that_can_not_be_written_is_not_a_snapshot_that_could_not_be_saved() {
        let log = on_answer("MISCONF Errors writing to the AOF file: No space left on device");
        let snapshot = on_answer(
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk",
        );
        assert!(log.contains("append-only file") && !log.contains("BGSAVE"), "{log}");
        assert!(snapshot.contains("BGSAVE"), "{snapshot}");
    }
}

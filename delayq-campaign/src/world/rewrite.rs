//! Mutants: a proxy that changes a script on its way to the server, to see that the judge notices.
//!
//! A client sends EVALSHA first. The server never learns the text of that digest, only the changed one, so it answers NOSCRIPT, the
//! client sends the text by EVAL, and that is where it is changed: each call of a changed script takes two steps.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A change to the scripts that must not go unnoticed.
#[derive(Debug)]
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// What stands there, and what in its place.
    changes: &'static [(&'static str, &'static str)],
    /// A fault under which it shows.
    pub(crate) under: &'static str,
}

/// The mutants.
pub(crate) static MUTANTS: &[Mutant] = &[
    Mutant {
        name: "no-token-check",
        about: "a settle counts whether or not its session holds that run",
        changes: &[(
            "local is_held = call('SMISMEMBER', K.held, unpack(members))",
            "local is_held = {} for i = 1, #members do is_held[i] = 1 end",
        )],
        under: "freeze-past-lease",
    },
    Mutant {
        name: "settle-keeps-record",
        about: "a settled job's record stays",
        changes: &[("  call('HDEL', K.jobs, unpack(ids))\n  if byte(verdict", "  if byte(verdict")],
        under: "kill-after-claim",
    },
    Mutant {
        name: "settle-keeps-held",
        about: "a settled run stays held",
        changes: &[("local gone = call('SREM', K.held, unpack(members))", "local gone = #members")],
        under: "kill-after-claim",
    },
    Mutant {
        name: "no-run-bump",
        about: "a job that is taken back keeps its run number, and is given out under it again",
        changes: &[
            (".. be6(next_run(r, run)) .. be6(due)", ".. sub(r, 11, 16) .. be6(due)"),
            ("  return now_run\nend", "  return sub(r, 11, 16)\nend"),
        ],
        under: "kill-after-claim",
    },
    Mutant {
        name: "claim-before-due",
        about: "a claim takes jobs whose time has not come",
        changes: &[(
            "call('ZRANGEBYSCORE', key, '-inf', num(now), 'LIMIT', 0, count)",
            "call('ZRANGEBYSCORE', key, '-inf', '+inf', 'LIMIT', 0, count)",
        )],
        under: "kill-after-claim",
    },
    Mutant {
        name: "claim-keeps-due",
        about: "what is claimed stays in its due set",
        changes: &[("    if l[2] > 0 then call('ZREMRANGEBYRANK', l[1], 0, l[2] - 1) end\n", "")],
        under: "script-flush",
    },
    Mutant {
        name: "no-dedupe",
        about: "a send that is repeated makes a second job",
        changes: &[
            ("local gone = ended[j] and ended_as(ended[j])", "local gone = false"),
            ("elseif gone or there[j] or fresh[id] then", "elseif gone then"),
        ],
        under: "lost-enqueue-reply",
    },
    Mutant {
        name: "beat-needs-memory",
        about: "a renewal is refused while memory is full",
        changes: &[(
            "call('ZREM', K.sessions, '') -- removes nothing: at maxmemory old work must get through (rule t)\n\
             call('ZADD', K.sessions, 'XX', num(now + lease_ms), session)",
            "call('ZADD', K.sessions, 'XX', num(now + lease_ms), session)",
        )],
        under: "full-memory",
    },
    Mutant {
        name: "bury-forgets-letter",
        about: "a buried job is not put among the dead",
        changes: &[(
            "  call('HSET', K.error, id, note(code, attempts, text))\n  call('ZADD', K.dead, num(now), id)",
            "",
        )],
        under: "unknown-name-or-version",
    },
];

/// The proxy that changes scripts.
#[derive(Debug)]
pub(crate) struct Rewriter {
    port: u16,
    accepting: JoinHandle<()>,
    rewritten: Arc<AtomicU64>,
}

impl Rewriter {
    pub(super) async fn start(upstream: u16, mutant: &'static Mutant) -> std::io::Result<Rewriter> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let rewritten = Arc::new(AtomicU64::new(0));
        let count = rewritten.clone();
        let accepting = tokio::spawn(async move {
            let mut lines = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                lines.spawn(carry(client, upstream, mutant, count.clone()));
                while lines.try_join_next().is_some() {}
            }
        });
        Ok(Rewriter { port, accepting, rewritten })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn rewritten(&self) -> u64 {
        self.rewritten.load(Ordering::SeqCst)
    }
}

impl Drop for Rewriter {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn carry(mut client: TcpStream, upstream: u16, mutant: &'static Mutant, count: Arc<AtomicU64>) {
    let Ok(mut server) = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, upstream))).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let requests = async {
        let (mut buffer, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
        while let Ok(read) = from_client.read(&mut piece).await
            && read > 0
        {
            buffer.extend_from_slice(&piece[..read]);
            while let Some((parts, length)) = command(&buffer) {
                let changed = change(&parts, mutant);
                count.fetch_add(u64::from(changed.is_some()), Ordering::SeqCst);
                let sent = to_server.write_all(changed.as_deref().unwrap_or(&buffer[..length])).await;
                buffer.drain(..length);
                if sent.is_err() {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = requests => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}

/// The first whole command of a stream: its parts, and how many bytes it takes.
fn command(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let number = |at: usize, mark: u8| -> Option<(usize, usize)> {
        let end = at + bytes.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
        let text = std::str::from_utf8(bytes.get(at..end)?.strip_prefix(&[mark])?).ok()?;
        Some((text.parse().ok()?, end + 2))
    };
    let (count, mut at) = number(0, b'*')?;
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, start) = number(at, b'$')?;
        parts.push(bytes.get(start..start + length)?);
        at = start + length + 2;
        if at > bytes.len() {
            return None;
        }
    }
    Some((parts, at))
}

/// The same command with its script changed, if it is one that the mutant changes.
fn change(parts: &[&[u8]], mutant: &Mutant) -> Option<Vec<u8>> {
    let [verb, source, rest @ ..] = parts else { return None };
    if !verb.eq_ignore_ascii_case(b"EVAL") {
        return None;
    }
    let source = std::str::from_utf8(source).ok()?;
    let changed = mutate(source, mutant)?;
    let mut out = format!("*{}\r\n", parts.len()).into_bytes();
    for part in [*verb, changed.as_bytes()].iter().chain(rest) {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
    Some(out)
}

fn mutate(source: &str, mutant: &Mutant) -> Option<String> {
    let changed = mutant.changes.iter().fold(source.to_owned(), |text, (there, instead)| text.replace(there, instead));
    (changed != source).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutant_changes_a_script_of_today() {
        for mutant in MUTANTS {
            for (there, _) in mutant.changes {
                let found = delayq::store::SCRIPTS.iter().any(|file| file.script.source.contains(there));
                assert!(found, "{}: no script has `{there}` any more: see what it says now", mutant.name);
            }
        }
    }

    #[test]
    fn a_command_is_taken_apart_and_put_together() {
        let mutant = Mutant { name: "m", about: "", changes: &[("abc", "x")], under: "" };
        let bytes = b"*3\r\n$4\r\nEVAL\r\n$7\r\n1abc2\r\n\r\n$1\r\n0\r\n*1\r\n$4\r\nPI";
        let (parts, length) = command(bytes).expect("one whole command");
        assert_eq!((parts.len(), parts[1], length), (3, &b"1abc2\r\n"[..], bytes.len() - 10));
        assert_eq!(change(&parts, &mutant).expect("changed"), b"*3\r\n$4\r\nEVAL\r\n$5\r\n1x2\r\n\r\n$1\r\n0\r\n");
        assert!(command(&bytes[..20]).is_none());
        assert!(change(&[b"PING"], &mutant).is_none());
    }
}

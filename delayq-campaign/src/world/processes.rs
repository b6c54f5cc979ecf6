//! Worker and producer processes: this program once more, under a hidden command.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::Proxy;
use crate::work::PLANNED;

/// What a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Worker,
    Producer,
}

/// A process of the world.
#[derive(Debug)]
pub(crate) struct Proc {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    child: Child,
    /// What stands between it and the store.
    pub(crate) proxy: Option<Proxy>,
    errors: PathBuf,
    /// Its end is wanted.
    pub(crate) asked: bool,
    pub(crate) frozen: bool,
}

/// How a process ended, and what it said that nobody had planned.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) how: String,
    pub(crate) panics: Vec<String>,
}

impl Proc {
    /// Starts this program with these arguments, and with variables in its environment.
    pub(crate) fn start(
        name: &str,
        kind: Kind,
        args: &[String],
        environment: &[(String, String)],
        folder: &Path,
    ) -> io::Result<Proc> {
        let errors = folder.join(format!("{name}.err"));
        let child = Command::new(std::env::current_exe()?)
            .args(args)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            // Where a shell ends, the kernel wakes what is stopped in the group that it leaves behind: a frozen process must be in
            // another.
            .process_group(0)
            // Its end tells the process that this one is gone.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&errors)?)
            .spawn()?;
        Ok(Proc { name: name.to_owned(), kind, child, proxy: None, errors, asked: false, frozen: false })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_raw(self.pid() as i32).ok_or_else(|| io::Error::other("no process"))?;
        Ok(kill_process(pid, signal)?)
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<End> {
        let status = self.child.try_wait().ok().flatten()?;
        let text = std::fs::read(&self.errors).unwrap_or_default();
        Some(End { how: how(status), panics: panics(&String::from_utf8_lossy(&text)) })
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        _ => status.to_string(),
    }
}

/// The panics in what a process said, but for those that a plan asked for.
fn panics(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("panicked at")) {
        let said = lines.get(at + 1).copied().unwrap_or_default();
        if !said.contains(PLANNED) {
            found.push(format!("{line} {said}"));
        }
    }
    found
}

/// KiB in memory, and open files.
pub(crate) fn takes(pid: u32) -> Option<(u64, u64)> {
    let mut status = String::new();
    File::open(format!("/proc/{pid}/status")).ok()?.read_to_string(&mut status).ok()?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let rss = rss.trim().trim_end_matches(" kB").parse().ok()?;
    Some((rss, std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64))
}

/// Ends this process when the one that started it is gone.
pub(crate) fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(3);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_panics_are_none() {
        let text = "thread 'a' panicked at src/work.rs:1:2:\nit panics, as planned\nnote: run\nthread 'b' panicked at x.rs:3:4:\nindex 5\n";
        assert_eq!(panics(text), ["thread 'b' panicked at x.rs:3:4: index 5"]);
    }
}

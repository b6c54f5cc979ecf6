//! A running adapter: its lines, the CPU of its processes, and its end.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::install::Adapter;

/// How many of its last lines of errors are kept.
const ERRORS: usize = 20;

/// Clock ticks a second in /proc: 100 on every Linux of today.
const TICK: Duration = Duration::from_millis(10);

/// What an adapter says.
pub(crate) enum Message {
    /// The worker is about to ask for its first job.
    Ready,
    /// The producer is about to send its first job.
    Begin,
    /// The producer's last job is acknowledged.
    End,
    /// Jobs that ran: each one's number and its start, in microseconds since 1970.
    Ran(Vec<(usize, u64)>),
}

/// What came, when.
pub(crate) struct Line {
    pub(crate) at: Instant,
    pub(crate) wall: SystemTime,
    pub(crate) message: Message,
}

/// A running adapter. Dropped, it is ended with all processes that it started.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<Line>,
    errors: Arc<Mutex<VecDeque<String>>>,
}

impl Running {
    /// Starts an adapter as the leader of a process group of its own.
    pub(crate) fn start(adapter: &Adapter, args: &[&str]) -> Result<Running, String> {
        let mut child = Command::new(&adapter.program)
            .args(&adapter.first_args)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{} can't be started: {error}", adapter.program.display()))?;
        let (send, lines) = mpsc::channel();
        let out = child.stdout.take();
        std::thread::spawn(move || {
            for text in out.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
                let (at, wall) = (Instant::now(), SystemTime::now());
                // Other lines are the peer's own talk.
                let Some(message) = parse(&text) else { continue };
                if send.send(Line { at, wall, message }).is_err() {
                    break;
                }
            }
        });
        let errors = Arc::new(Mutex::new(VecDeque::new()));
        let (err, kept) = (child.stderr.take(), errors.clone());
        std::thread::spawn(move || {
            for text in err.into_iter().flat_map(|err| BufReader::new(err).lines()).map_while(Result::ok) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == ERRORS {
                    kept.pop_front();
                }
                kept.push_back(text);
            }
        });
        Ok(Running { child, lines, errors })
    }

    /// The next message before a deadline; `None` at the deadline.
    pub(crate) fn next(&mut self, deadline: Instant) -> Result<Option<Line>, String> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.how_it_ended()),
        }
    }

    fn how_it_ended(&mut self) -> String {
        // Its output is closed; the process follows, and its last errors are being read.
        std::thread::sleep(Duration::from_millis(200));
        let status = match self.child.try_wait() {
            Ok(Some(status)) => format!("ended with {status}"),
            _ => "closed its output".to_owned(),
        };
        match self.last_error() {
            Some(error) => format!("{status}: {error}"),
            None => status,
        }
    }

    /// The last thing that it complained about.
    pub(crate) fn last_error(&self) -> Option<String> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let loud = errors.iter().rev().find(|line| line.to_lowercase().contains("error"));
        let text = loud.or_else(|| errors.iter().rev().find(|line| !line.trim().is_empty()))?.trim();
        Some(text.chars().take(200).collect())
    }

    /// The CPU time that its processes have used, all together.
    pub(crate) fn cpu(&self) -> Duration {
        let group = self.child.id().to_string();
        let mut ticks = 0;
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            // After the name in brackets: state, parent, group; user and system time are the 12th and 13th.
            let Some((_, rest)) = stat.rsplit_once(')') else { continue };
            let fields: Vec<&str> = rest.split_whitespace().collect();
            if fields.get(2) == Some(&group.as_str()) {
                let field = |at: usize| fields.get(at).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
                ticks += field(11) + field(12);
            }
        }
        TICK * ticks
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

fn parse(text: &str) -> Option<Message> {
    let value: Value = serde_json::from_str(text).ok()?;
    if value.get("ready").is_some() {
        return Some(Message::Ready);
    }
    if value.get("begin").is_some() {
        return Some(Message::Begin);
    }
    if value.get("end").is_some() {
        return Some(Message::End);
    }
    let flat: Vec<u64> = value.get("ran")?.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    Some(Message::Ran(flat.chunks_exact(2).map(|pair| (pair[0] as usize, pair[1])).collect()))
}

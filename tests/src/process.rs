//! Processes that a test starts, listens to, and kills.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use tokio::sync::mpsc;

use crate::soon;

/// A process that tells what it does on standard output, a line each. It is killed with its test.
#[derive(Debug)]
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Process {
    /// Starts a command.
    ///
    /// # Panics
    /// It can't be started.
    pub fn start(command: &mut Command) -> Process {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take();
        let (sender, lines) = mpsc::unbounded_channel();
        if let Some(out) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Process { child, input, lines }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line; none when it ended.
    pub async fn line(&mut self) -> Option<String> {
        soon("a line of the process", self.lines.recv()).await
    }

    /// Waits for a line.
    ///
    /// # Panics
    /// It ended without it, or doesn't say it within the patience.
    pub async fn says(&mut self, wanted: &str) {
        loop {
            let line = soon(wanted, self.lines.recv()).await.unwrap_or_else(|| panic!("it ended without {wanted:?}"));
            if line == wanted {
                return;
            }
        }
    }

    /// Gives it a line to read.
    pub fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            // What it says afterwards shows whether it was heard.
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    /// Sends it a signal, by its name without "SIG".
    ///
    /// # Panics
    /// It can't be sent.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("bash").args(["-c", &format!("kill -{signal} {}", self.pid())]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal {signal} is sent");
    }

    /// Kills it at once, without a chance to tidy up, and gives what it had said.
    ///
    /// # Panics
    /// It can't be killed.
    pub async fn kill(&mut self) -> Vec<String> {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a killed child ends");
        self.rest().await
    }

    /// Waits for its end; the rest of what it said.
    pub async fn rest(&mut self) -> Vec<String> {
        let mut rest = Vec::new();
        while let Some(line) = soon("its end", self.lines.recv()).await {
            rest.push(line);
        }
        let _ = self.child.wait();
        rest
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

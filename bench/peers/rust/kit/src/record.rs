//! The record of what ran: kept in memory, told to the driver in lines of many jobs, so that telling costs next to nothing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many jobs a line tells.
const LINE: usize = 512;

/// How long a line that isn't full waits.
const FLUSH: Duration = Duration::from_millis(200);

struct Record {
    line: String,
    in_line: usize,
    ran: usize,
    expected: usize,
}

static RECORD: Mutex<Record> = Mutex::new(Record { line: String::new(), in_line: 0, ran: 0, expected: 0 });

fn record() -> MutexGuard<'static, Record> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many jobs will come: the line with the last isn't kept back.
pub fn expect(jobs: usize) {
    record().expected = jobs;
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(FLUSH);
            record().flush();
        }
    });
}

/// The worker is about to ask for its first job.
pub fn ready() {
    tell("{\"ready\":true}");
}

/// A job's handler was called, now.
pub fn ran(number: usize) {
    let start_us = crate::now().as_micros();
    let mut record = record();
    if record.in_line > 0 {
        record.line.push(',');
    }
    // Writing to a String can't fail.
    let _ = write!(record.line, "{number},{start_us}");
    record.in_line += 1;
    record.ran += 1;
    if record.in_line == LINE || record.ran >= record.expected {
        record.flush();
    }
}

impl Record {
    fn flush(&mut self) {
        if self.in_line > 0 {
            tell(&format!("{{\"ran\":[{}]}}", self.line));
            self.line.clear();
            self.in_line = 0;
        }
    }
}

/// A line to the driver.
pub(crate) fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0); // Nobody listens any more.
    }
}

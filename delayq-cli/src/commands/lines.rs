//! `enqueue --lines`: jobs as JSON lines, in batches, several under way. A wrong line is told, and the rest goes on.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::{fmt, future};

use delayq::{AnyJob, Client, Error, ErrorKind, JobHandle, JobId, RawJob};
use futures_util::{Stream, StreamExt, stream};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::Session;
use super::enqueue::noted;
use crate::failure::{self, Failure, Outcome};
use crate::new_job::{Fields, present};
use crate::output::{Out, remark};
use crate::progress::Progress;

/// How many lines go together.
const BATCH_LINES: usize = 1000;
/// How many bytes of them, so that large payloads don't fill the memory.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// How many batches are under way, and how many more are read ahead.
const BATCHES: usize = 4;
/// The longest line: the largest payload in base64, and room for the rest.
const LINE_BYTES_MAX: usize = delayq::limits::PAYLOAD_BYTES_CEILING / 3 * 4 + 64 * 1024;

/// A job as a line has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    version: u32,
    #[serde(default, borrow, deserialize_with = "present")]
    payload: Option<&'a RawValue>,
    #[serde(default, borrow)]
    payload_base64: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    queue: Option<Cow<'a, str>>,
    #[serde(default, borrow, rename = "in")]
    delay: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    at: Option<Cow<'a, str>>,
    #[serde(default)]
    id: Option<Cow<'a, str>>,
    #[serde(default)]
    priority: Option<u8>,
    #[serde(default)]
    max_retries: Option<u32>,
    #[serde(default)]
    unique: Option<String>,
    #[serde(default, borrow)]
    expires_in: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    retain_for: Option<Cow<'a, str>>,
    #[serde(default)]
    trace_parent: Option<String>,
    /// Why it died, of an exported letter: for people.
    #[serde(default)]
    #[allow(dead_code)]
    dead: Option<IgnoredAny>,
}

/// A line that was read: its number, and what it says.
type ReadLine = (u64, Result<(String, RawJob), String>);
/// A line that was sent, or wasn't.
type SentLine = (u64, Result<JobHandle<AnyJob>, NotSent>);

/// Why a line was not sent.
enum NotSent {
    /// It is wrong by itself.
    Wrong(String),
    /// The store's answer.
    Refused(Error),
    /// The store was lost before its turn came.
    Untried,
}

/// What came of the lines.
#[derive(Debug, Default, Serialize)]
struct Summary {
    sent: u64,
    /// Lines whose ids were there already.
    existing: u64,
    wrong: u64,
    /// No answer came: they may have been sent.
    unsure: u64,
    /// They were read, and not sent since the store was lost.
    unsent: u64,
}

#[derive(Debug, Serialize)]
struct View<'a> {
    line: u64,
    id: String,
    queue: &'a str,
    new: bool,
}

pub(super) async fn run(session: &mut Session, file: &Path, queue: &str, print_ids: bool) -> Outcome {
    let source: Box<dyn Read + Send> = if file.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let opened = File::open(file);
        Box::new(opened.map_err(|error| Failure::io(format!("{} can't be read", file.display()), error))?)
    };
    session.audit.begins(Some(queue), &format!("lines of {}", file.display()))?;
    let batches = read_ahead(source, queue.to_owned());
    let mut sending = Sending::new(&mut session.out, print_ids);
    let result = sending.all(&session.client, batches).await;
    let Sending { summary, queues, unsure, unsent, last, .. } = sending;
    noted(&session.client, &queues).await;
    let (text, is_cut_off) = (summary.told(), result.is_err());
    let ended = session.audit.ended(None, &text, result, |()| text.clone());
    let shown = if session.out.json { session.out.json_line(&summary) } else { session.out.flush() };
    remark(&text);
    if is_cut_off {
        for (lines, what) in [(&unsure, "may have been sent"), (&unsent, "not sent")] {
            if !lines.0.is_empty() {
                remark(format!("{what}: {lines}"));
            }
        }
        remark(format!("nothing beyond line {last} was sent; lines that have ids can all be sent again"));
    }
    ended?;
    shown?;
    if summary.wrong > 0 { Err(Failure::Told(failure::REFUSED)) } else { Ok(()) }
}

impl Summary {
    fn told(&self) -> String {
        let mut told = format!("{} sent", self.sent);
        for (count, what) in [
            (self.existing, "were there already or had ended moments ago"),
            (self.unsure, "may have been sent"),
            (self.wrong + self.unsent, "not sent"),
        ] {
            if count > 0 {
                told.push_str(&format!(", {count} {what}"));
            }
        }
        told
    }
}

/// Lines on their way, and what came of those before.
struct Sending<'a> {
    out: &'a mut Out,
    print_ids: bool,
    summary: Summary,
    queues: BTreeSet<String>,
    unsure: Spans,
    unsent: Spans,
    /// The last line that was read.
    last: u64,
}

impl<'a> Sending<'a> {
    fn new(out: &'a mut Out, print_ids: bool) -> Sending<'a> {
        Sending {
            out,
            print_ids,
            summary: Summary::default(),
            queues: BTreeSet::new(),
            unsure: Spans::default(),
            unsent: Spans::default(),
            last: 0,
        }
    }

    /// Sends batches as they are read, and tells of each line in the order of the lines. Where the store is lost, no further batch is
    /// begun, and what comes of those that are under way is waited for and counted.
    async fn all(&mut self, client: &Client, batches: impl Stream<Item = io::Result<Vec<ReadLine>>>) -> Outcome {
        let progress = Progress::counting("sending");
        let ends = &Cell::new(false);
        let sends = batches.take_while(|_| future::ready(!ends.get())).map(|batch| async move {
            match batch {
                Ok(batch) => Ok(send(client, batch, ends).await),
                Err(error) => Err(error),
            }
        });
        let mut sends = std::pin::pin!(sends.buffered(BATCHES));
        let mut result = Ok(());
        while let Some(sent) = sends.next().await {
            let sent = sent.map_err(|error| Failure::io("the lines can't be read", error));
            let taken = sent.and_then(|sent| {
                progress.more(sent.len());
                self.take(sent)
            });
            if let Err(failure) = taken {
                ends.set(true);
                if result.is_ok() {
                    result = Err(failure);
                }
            }
        }
        result
    }

    /// Counts what came of a batch, and tells it where that is asked for. The first error that is no line's own comes back.
    fn take(&mut self, batch: Vec<SentLine>) -> Outcome {
        let mut result = Ok(());
        for (line, sent) in batch {
            self.last = self.last.max(line);
            match sent {
                Ok(handle) => {
                    if handle.is_new() {
                        self.summary.sent += 1;
                    } else {
                        self.summary.existing += 1;
                    }
                    if !self.queues.contains(handle.queue()) {
                        self.queues.insert(handle.queue().to_owned());
                    }
                    if self.print_ids && result.is_ok() {
                        result = self.tell(line, &handle);
                    }
                }
                Err(NotSent::Refused(error)) if is_of_all(&error) => {
                    if error.is_unknown() {
                        self.summary.unsure += 1;
                        self.unsure.add(line);
                    } else {
                        self.summary.unsent += 1;
                        self.unsent.add(line);
                    }
                    if result.is_ok() {
                        result = Err(error.into());
                    }
                }
                Err(NotSent::Untried) => {
                    self.summary.unsent += 1;
                    self.unsent.add(line);
                }
                Err(NotSent::Wrong(why)) => self.wrong(line, &why),
                Err(NotSent::Refused(error)) => self.wrong(line, &failure::told(&error)),
            }
        }
        result
    }

    fn wrong(&mut self, line: u64, why: &str) {
        self.summary.wrong += 1;
        remark(format!("line {line}: {why}"));
    }

    fn tell(&mut self, line: u64, handle: &JobHandle<AnyJob>) -> Outcome {
        if self.out.json {
            let view = View { line, id: handle.id().to_string(), queue: handle.queue(), new: handle.is_new() };
            self.out.json_line(&view)?;
        } else {
            self.out.line(handle.id())?;
        }
        Ok(())
    }
}

/// Whether an error is no line's own: the next ones would meet it too.
fn is_of_all(error: &Error) -> bool {
    error.kind() == ErrorKind::Full || failure::code(error) == failure::UNREACHABLE
}

/// Sends a batch, queue by queue, until the store is lost: by this batch or by one beside it.
async fn send(client: &Client, batch: Vec<ReadLine>, ends: &Cell<bool>) -> Vec<SentLine> {
    let mut sent: Vec<SentLine> = Vec::with_capacity(batch.len());
    let mut by_queue: BTreeMap<String, (Vec<u64>, Vec<RawJob>)> = BTreeMap::new();
    for (line, read) in batch {
        match read {
            Ok((queue, job)) => {
                let (lines, jobs) = by_queue.entry(queue).or_default();
                lines.push(line);
                jobs.push(job);
            }
            Err(why) => sent.push((line, Err(NotSent::Wrong(why)))),
        }
    }
    for (queue, (lines, jobs)) in by_queue {
        if ends.get() {
            sent.extend(lines.into_iter().map(|line| (line, Err(NotSent::Untried))));
            continue;
        }
        let answers = client.send_raw(&queue, jobs).await;
        if answers.iter().any(|answer| answer.as_ref().is_err_and(is_of_all)) {
            ends.set(true);
        }
        sent.extend(lines.into_iter().zip(answers.into_iter().map(|answer| answer.map_err(NotSent::Refused))));
    }
    sent.sort_by_key(|(line, _)| *line);
    sent
}

/// Numbers of lines, the rising ones of a file: those that follow each other are one span.
#[derive(Debug, Default)]
struct Spans(Vec<(u64, u64)>);

impl Spans {
    fn add(&mut self, line: u64) {
        match self.0.last_mut() {
            Some((_, last)) if *last + 1 == line => *last = line,
            _ => self.0.push((line, line)),
        }
    }
}

impl fmt::Display for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self.0.as_slice(), [(first, last)] if first == last) { "line " } else { "lines " })?;
        for (nth, (first, last)) in self.0.iter().enumerate() {
            let comma = if nth > 0 { ", " } else { "" };
            if first == last { write!(f, "{comma}{first}")? } else { write!(f, "{comma}{first} to {last}")? }
        }
        Ok(())
    }
}

/// Reads lines on a thread of its own, a few batches ahead.
fn read_ahead(source: Box<dyn Read + Send>, queue: String) -> impl Stream<Item = io::Result<Vec<ReadLine>>> {
    let (batches, read) = mpsc::channel(BATCHES);
    tokio::task::spawn_blocking(move || {
        let mut reader = BufReader::with_capacity(256 * 1024, source);
        let mut number = 0;
        while let Some(batch) = next_batch(&mut reader, &mut number, &queue).transpose() {
            let is_last = batch.is_err();
            // Where nobody takes them any more, there is nothing left to read for.
            if batches.blocking_send(batch).is_err() || is_last {
                return;
            }
        }
    });
    stream::unfold(read, |mut read| async move { read.recv().await.map(|batch| (batch, read)) })
}

/// The next lines, of which all may be blank; `None` at the end.
fn next_batch(reader: &mut impl BufRead, number: &mut u64, queue: &str) -> io::Result<Option<Vec<ReadLine>>> {
    let mut batch = Vec::with_capacity(BATCH_LINES);
    let (mut text, mut bytes) = (Vec::new(), 0);
    while batch.len() < BATCH_LINES && bytes < BATCH_BYTES {
        text.clear();
        let is_whole = match next_line(reader, &mut text)? {
            Some(is_whole) => is_whole,
            None if batch.is_empty() => return Ok(None),
            None => break,
        };
        *number += 1;
        bytes += text.len();
        let line = text.strip_prefix(b"\xef\xbb\xbf").filter(|_| *number == 1).unwrap_or(&text).trim_ascii();
        if !is_whole {
            batch.push((*number, Err(format!("it is longer than {LINE_BYTES_MAX} bytes"))));
        } else if !line.is_empty() {
            batch.push((*number, job_of(line, queue)));
        }
    }
    Ok(Some(batch))
}

/// Reads a line into `text`, and says whether all of it is there; nothing at the end.
fn next_line(reader: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let most = LINE_BYTES_MAX as u64;
    if reader.by_ref().take(most).read_until(b'\n', text)? == 0 {
        return Ok(None);
    }
    if text.len() < LINE_BYTES_MAX || text.ends_with(b"\n") {
        return Ok(Some(true));
    }
    // The rest of it is passed over, a piece at a time.
    text.clear();
    loop {
        text.clear();
        let read = reader.by_ref().take(most).read_until(b'\n', text)?;
        if read == 0 || text.ends_with(b"\n") {
            text.clear();
            return Ok(Some(false));
        }
    }
}

/// The job that a line is, and its queue.
fn job_of(line: &[u8], queue: &str) -> Result<(String, RawJob), String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| at_column(&error))?;
    let fields = Fields {
        name: line.name.into_owned(),
        version: line.version,
        payload: line.payload,
        payload_base64: line.payload_base64.as_deref(),
        delay: line.delay.as_deref(),
        at: line.at.as_deref(),
        priority: line.priority,
        max_retries: line.max_retries,
        unique: line.unique,
        expires_in: line.expires_in.as_deref(),
        retain_for: line.retain_for.as_deref(),
        trace_parent: line.trace_parent,
    };
    let mut job = fields.job()?;
    if let Some(id) = line.id {
        job = job.id(id.parse::<JobId>().map_err(|error| error.to_string())?);
    }
    Ok((line.queue.map_or_else(|| queue.to_owned(), Cow::into_owned), job))
}

/// An error of serde_json without the line's number, which would count within the line.
pub(super) fn at_column(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what}, at column {}", error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_job::WRONG;

    fn batches(text: &[u8]) -> Vec<ReadLine> {
        let (mut reader, mut number, mut all) = (text, 0, Vec::new());
        while let Some(batch) = next_batch(&mut reader, &mut number, "q").expect("it can be read") {
            all.extend(batch);
        }
        all
    }

    #[test]
    fn lines_are_read_with_their_numbers() {
        let read = batches(b"\xef\xbb\xbf{\"name\":\"a\",\"version\":1,\"payload\":null}\r\n\n  \nno JSON\n{\"name\":\"b\",\"version\":2,\"payload\":{},\"queue\":\"r\"}");
        let said: Vec<(u64, Result<&str, ()>)> = read
            .iter()
            .map(|(line, job)| (*line, job.as_ref().map(|(queue, _)| queue.as_str()).map_err(|_| ())))
            .collect();
        assert_eq!(said, [(1, Ok("q")), (4, Err(())), (5, Ok("r"))]);
    }

    #[test]
    fn lines_that_follow_each_other_are_one_span() {
        let mut spans = Spans::default();
        spans.add(7);
        assert_eq!(spans.to_string(), "line 7");
        [8, 9, 11].into_iter().for_each(|line| spans.add(line));
        assert_eq!(spans.to_string(), "lines 7 to 9, 11");
    }

    #[test]
    fn a_line_without_an_end_is_passed_over() {
        let mut text = vec![b'x'; LINE_BYTES_MAX * 2 + 5];
        text.extend_from_slice(b"\n{\"name\":\"a\",\"version\":1,\"payload\":1}\n");
        let read = batches(&text);
        assert_eq!(read.len(), 2);
        assert!(read[0].1.as_ref().is_err_and(|why| why.contains("longer")), "{:?}", read[0].0);
        assert!(read[1].0 == 2 && read[1].1.is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        let of_lines = (r#"{"name":"a","version":1,"payload":{"a":}}"#, "column 40");
        for (line, why) in WRONG.iter().chain([&of_lines]) {
            match job_of(line.as_bytes(), "q") {
                Err(said) => assert!(said.contains(why) && !said.contains("line 1"), "{line}: {said}"),
                Ok(_) => panic!("{line}: taken"),
            }
        }
    }
}

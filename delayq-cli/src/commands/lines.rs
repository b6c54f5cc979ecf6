//! `enqueue --lines`: jobs as JSON lines, in batches, several under way. A wrong line is told, and the rest goes on.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

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
}

/// What came of the lines.
#[derive(Debug, Default, Serialize)]
struct Summary {
    sent: u64,
    /// Lines whose ids were there already.
    existing: u64,
    wrong: u64,
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
    let (client, out) = (&session.client, &mut session.out);
    let mut summary = Summary::default();
    let mut queues = BTreeSet::new();
    let result = send_all(client, batches, out, print_ids, &mut summary, &mut queues).await;
    noted(client, &queues).await;
    let text = format!(
        "{} sent{}{}",
        summary.sent,
        if summary.existing > 0 {
            format!(", {} were there already or had ended moments ago", summary.existing)
        } else {
            String::new()
        },
        if summary.wrong > 0 { format!(", {} not sent", summary.wrong) } else { String::new() },
    );
    session.audit.ends(None, &text)?;
    if session.out.json {
        session.out.json_line(&summary)?;
    } else {
        session.out.flush()?;
        remark(&text);
    }
    result?;
    if summary.wrong > 0 { Err(Failure::Told(failure::REFUSED)) } else { Ok(()) }
}

/// Sends batches as they are read, and tells of each line in the order of the lines.
async fn send_all(
    client: &Client,
    batches: impl Stream<Item = io::Result<Vec<ReadLine>>>,
    out: &mut Out,
    print_ids: bool,
    summary: &mut Summary,
    queues: &mut BTreeSet<String>,
) -> Outcome {
    let progress = Progress::counting("sending");
    let sends = batches.map(|batch| async move {
        match batch {
            Ok(batch) => Ok(send(client, batch).await),
            Err(error) => Err(error),
        }
    });
    let mut sends = std::pin::pin!(sends.buffered(BATCHES));
    while let Some(sent) = sends.next().await {
        let sent = sent.map_err(|error| Failure::io("the lines can't be read", error))?;
        progress.more(sent.len());
        let mut lost = None;
        for (line, result) in sent {
            match result {
                Ok(handle) => {
                    if handle.is_new() {
                        summary.sent += 1;
                    } else {
                        summary.existing += 1;
                    }
                    if !queues.contains(handle.queue()) {
                        queues.insert(handle.queue().to_owned());
                    }
                    if print_ids {
                        tell(out, line, &handle)?;
                    }
                }
                Err(NotSent::Refused(error)) if is_of_all(&error) => {
                    summary.wrong += 1;
                    lost.get_or_insert((line, error));
                }
                Err(not_sent) => {
                    summary.wrong += 1;
                    let why = match not_sent {
                        NotSent::Wrong(why) => why,
                        NotSent::Refused(error) => failure::told(&error),
                    };
                    remark(format!("line {line}: {why}"));
                }
            }
        }
        if let Some((line, error)) = lost {
            drop(progress);
            remark(format!(
                "line {line} was not sent, and nothing is read beyond its batch; lines that have ids can all be sent again"
            ));
            return Err(error.into());
        }
    }
    Ok(())
}

/// Whether an error is no line's own: the next ones would meet it too.
fn is_of_all(error: &Error) -> bool {
    error.kind() == ErrorKind::Full || failure::code(error) == failure::UNREACHABLE
}

fn tell(out: &mut Out, line: u64, handle: &JobHandle<AnyJob>) -> Outcome {
    if out.json {
        out.json_line(&View { line, id: handle.id().to_string(), queue: handle.queue(), new: handle.is_new() })?;
    } else {
        out.line(handle.id())?;
    }
    Ok(())
}

/// Sends a batch, queue by queue.
async fn send(client: &Client, batch: Vec<ReadLine>) -> Vec<SentLine> {
    let mut sent = Vec::with_capacity(batch.len());
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
        let answers = client.send_raw(&queue, jobs).await;
        sent.extend(lines.into_iter().zip(answers.into_iter().map(|answer| answer.map_err(NotSent::Refused))));
    }
    sent.sort_by_key(|(line, _)| *line);
    sent
}

/// Reads lines on a thread of its own, a few batches ahead.
fn read_ahead(source: Box<dyn Read + Send>, queue: String) -> impl Stream<Item = io::Result<Vec<ReadLine>>> {
    let (batches, read) = mpsc::channel(BATCHES);
    tokio::task::spawn_blocking(move || {
        let mut reader = BufReader::with_capacity(256 * 1024, source);
        let mut number = 0;
        loop {
            let batch = next_batch(&mut reader, &mut number, &queue);
            let is_last = batch.as_ref().map_or(true, Vec::is_empty);
            // Where nobody takes them any more, there is nothing left to read for.
            if batch.as_ref().is_ok_and(Vec::is_empty) || batches.blocking_send(batch).is_err() || is_last {
                return;
            }
        }
    });
    stream::unfold(read, |mut read| async move { read.recv().await.map(|batch| (batch, read)) })
}

/// The next lines; none at the end.
fn next_batch(reader: &mut impl BufRead, number: &mut u64, queue: &str) -> io::Result<Vec<ReadLine>> {
    let mut batch = Vec::with_capacity(BATCH_LINES);
    let (mut text, mut bytes) = (Vec::new(), 0);
    while batch.len() < BATCH_LINES && bytes < BATCH_BYTES {
        text.clear();
        let is_whole = match next_line(reader, &mut text)? {
            Some(is_whole) => is_whole,
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
    Ok(batch)
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

    fn batches(text: &[u8]) -> Vec<ReadLine> {
        let (mut reader, mut number, mut all) = (text, 0, Vec::new());
        loop {
            let batch = next_batch(&mut reader, &mut number, "q").expect("it can be read");
            if batch.is_empty() {
                return all;
            }
            all.extend(batch);
        }
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
        for (line, why) in [
            (r#"{"name":"a","version":1}"#, "no payload"),
            (r#"{"name":"a","payload":1}"#, "missing field `version`"),
            (r#"{"name":"a","version":1,"payload":1,"payload_base64":"e30="}"#, "both payload"),
            (r#"{"name":"a","version":1,"payload_base64":"?"}"#, "no base64"),
            (r#"{"name":"a","version":1,"payload":1,"in":"1m","at":"2026-12-24T18:00:00Z"}"#, "both in and at"),
            (r#"{"name":"a","version":1,"payload":1,"in":"soon"}"#, "no duration"),
            (r#"{"name":"a","version":1,"payload":1,"at":"soon"}"#, "no instant"),
            (r#"{"name":"a","version":1,"payload":1,"id":"7"}"#, "not a job id"),
            (r#"{"name":"a","version":1,"payload":1,"delay":"1m"}"#, "unknown field `delay`"),
            (r#"{"name":"a","version":1,"payload":{"a":}}"#, "column 40"),
            (r#"{"name":"a","name":"b","version":1,"payload":1}"#, "duplicate field `name`"),
        ] {
            match job_of(line.as_bytes(), "q") {
                Err(said) => assert!(said.contains(why) && !said.contains("line 1"), "{line}: {said}"),
                Ok(_) => panic!("{line}: taken"),
            }
        }
    }
}

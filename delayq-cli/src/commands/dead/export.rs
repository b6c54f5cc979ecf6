//! `dead export`: letters as JSON lines, which `enqueue --lines` reads.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use delayq::{Client, JobState};

use crate::bulk::PAGE;
use crate::commands::Session;
use crate::failure::{Failure, OneByOne, Outcome};
use crate::filter::{DeadFilter, Narrow};
use crate::find;
use crate::output::json::Letter;
use crate::output::{Out, remark};
use crate::progress::Progress;

/// Which letters, and where to.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq dead export --queue orders > letters.jsonl
  delayq dead export --reason undecodable --output letters.jsonl
  jq -c 'select(.dead.attempts < 3)' letters.jsonl | delayq enqueue --lines

The payload of a letter is its JSON as it was sent, or base64 where it is none that fits into a line. A letter keeps its id:
sent back to a queue that still has it, nothing happens.")]
pub(crate) struct Options {
    /// Only this queue; may be given several times
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    #[command(flatten)]
    filter: DeadFilter,
    /// A new file to write to, readable by its owner alone; standard output unless this is given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What was exported.
#[derive(Debug, Default)]
struct Exported {
    letters: u64,
    /// Those whose names can't be read.
    nameless: u64,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    let Session { client, out, .. } = session;
    let queues = find::queues(client, &options.queues).await?;
    let mut to = match &options.output {
        Some(path) => To::File(BufWriter::new(created(path)?), path),
        None => To::Out(out),
    };
    let mut exported = Exported::default();
    let mut each = OneByOne::default();
    for queue in &queues {
        let result = export(client, queue, &options.filter, &mut to, &mut exported).await;
        find::spare(&mut each, queue, result)?;
    }
    to.end()?;
    let odd = match exported.nameless {
        0 => String::new(),
        n => format!("; {n} of them can't be sent again: their names can't be read"),
    };
    remark(format!("{} exported{odd}", exported.letters));
    each.end()
}

async fn export(
    client: &Client,
    queue: &str,
    filter: &DeadFilter,
    to: &mut To<'_>,
    exported: &mut Exported,
) -> Outcome {
    let stats = client.stats(queue).await?;
    let progress = Progress::of(usize::try_from(stats.dead).unwrap_or(usize::MAX), format!("{queue}: exporting"));
    let mut query = filter.query(JobState::Dead, stats.now).limit(PAGE);
    loop {
        let page = client.jobs(queue).list(&query).await?;
        progress.more(page.scanned);
        let is_past = page.jobs.iter().any(|job| job.dead_since > Some(stats.now));
        // What dies while this runs is for the next time.
        for job in page.jobs.iter().filter(|job| job.dead_since <= Some(stats.now)) {
            to.write(&Letter::of(job))?;
            exported.letters += 1;
            exported.nameless += u64::from(job.name.is_none());
        }
        match page.next {
            Some(next) if !is_past => query = query.after(next),
            _ => return Ok(()),
        }
    }
}

/// Where letters are written to.
enum To<'a> {
    Out(&'a mut Out),
    File(BufWriter<File>, &'a Path),
}

impl To<'_> {
    fn write(&mut self, letter: &Letter<'_>) -> Outcome {
        match self {
            To::Out(out) => Ok(out.json_line(letter)?),
            To::File(file, path) => serde_json::to_writer(&mut *file, letter)
                .map_err(io::Error::from)
                .and_then(|()| file.write_all(b"\n"))
                .map_err(|error| unwritable(path, error)),
        }
    }

    fn end(self) -> Outcome {
        match self {
            To::Out(out) => Ok(out.flush()?),
            To::File(file, path) => file
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
                .and_then(|file| file.sync_all())
                .map_err(|error| unwritable(path, error)),
        }
    }
}

/// A file that wasn't there. Payloads are not for everybody.
fn created(path: &Path) -> Outcome<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| unwritable(path, error))
}

fn unwritable(path: &Path, error: io::Error) -> Failure {
    Failure::io(format!("{} can't be written", path.display()), error)
}

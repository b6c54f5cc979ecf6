//! What the driver asks for, on the command line: `enqueue URL N one|many now|FROM_MS:STEP_US` or `work URL N`.

use std::time::Duration;

use crate::Outcome;

/// What to do.
pub enum Task {
    /// Send jobs, and end.
    Enqueue {
        /// Where Redis is.
        url: String,
        /// How many.
        jobs: usize,
        /// One after another or many at once.
        how: How,
        /// When the first is due, since 1970, and how much later each next one; none: all run at once.
        due: Option<(Duration, Duration)>,
    },
    /// Run jobs until the driver ends the process.
    Work {
        /// Where Redis is.
        url: String,
        /// How many will come.
        jobs: usize,
    },
}

/// How jobs are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Each when the one before is acknowledged.
    One,
    /// The fastest way that the API has.
    Many,
}

impl Task {
    /// Reads the command line, and sees to it that the process doesn't outlive the driver.
    ///
    /// # Errors
    /// It is none of ours.
    pub fn from_args() -> Outcome<Task> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let task = match args.as_slice() {
            ["enqueue", url, jobs, how, due] => Task::Enqueue {
                url: (*url).to_owned(),
                jobs: jobs.parse()?,
                how: if *how == "one" { How::One } else { How::Many },
                due: match due.split_once(':') {
                    None => None,
                    Some((from, step)) => {
                        Some((Duration::from_millis(from.parse()?), Duration::from_micros(step.parse()?)))
                    }
                },
            },
            ["work", url, jobs] => Task::Work { url: (*url).to_owned(), jobs: jobs.parse()? },
            _ => return Err("usage: enqueue URL N one|many now|FROM_MS:STEP_US, or work URL N".into()),
        };
        std::thread::spawn(|| {
            // The driver holds the other end, and never writes.
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            std::process::exit(0);
        });
        Ok(task)
    }
}

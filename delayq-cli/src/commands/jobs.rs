//! `jobs`: pages of jobs, by state and filter; says how far it looked and how to go on.

use clap::{Args, ValueEnum};
use delayq::limits::SEARCH_SCAN_DEFAULT;
use delayq::{JobCursor, JobInfo, JobQuery, JobState};
use jiff::Timestamp;

use super::Session;
use crate::bulk::PAGE;
use crate::failure::{Failure, OneByOne, Outcome};
use crate::filter::{Filter, Narrow};
use crate::find;
use crate::output::json::JobView;
use crate::output::table::{Cell, Column, Table, cell, styled};
use crate::output::{Out, colour, remark};
use crate::time;

/// Which jobs, and how many.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq jobs --queue orders --state waiting --due-before +10m
  delayq jobs --name cancel_order --payload '\"order_id\":42'
  delayq jobs --state running --json | jq -r .id")]
pub(crate) struct Options {
    /// Only this queue; may be given several times
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// Only this state; may be given several times
    #[arg(long = "state", value_name = "STATE")]
    states: Vec<State>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    page: Paging,
}

/// How much of a list.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pages")]
pub(crate) struct Paging {
    /// How many are shown
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// How many are looked at for it
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    scan: u32,
    /// Go on where a page ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<JobCursor>,
    /// Show all, however many there are
    #[arg(long, conflicts_with_all = ["limit", "scan"])]
    all: bool,
}

impl Paging {
    pub(crate) fn goes_on(&self) -> bool {
        self.after.is_some()
    }
}

/// The states by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    Waiting,
    Running,
    Dead,
    Retained,
}

impl State {
    fn state(self) -> JobState {
        match self {
            State::Waiting => JobState::Waiting,
            State::Running => JobState::Running,
            State::Dead => JobState::Dead,
            State::Retained => JobState::Retained,
        }
    }
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    let states: Vec<JobState> = if options.states.is_empty() {
        vec![JobState::Running, JobState::Waiting, JobState::Dead, JobState::Retained]
    } else {
        options.states.iter().map(|state| state.state()).collect()
    };
    if options.page.goes_on() && (options.queues.len() != 1 || states.len() != 1) {
        return Err(Failure::Usage(
            "--after goes on in one list: give the one --queue and the one --state that it ended in".to_owned(),
        ));
    }
    list(session, &options.queues, &states, &options.filter, &options.page, "jobs", false).await
}

/// Shows the jobs of these states in these queues, list by list.
pub(crate) async fn list(
    session: &mut Session,
    named: &[String],
    states: &[JobState],
    filter: &impl Narrow,
    paging: &Paging,
    command: &str,
    newest_first: bool,
) -> Outcome {
    let queues = find::queues(&session.client, named).await?;
    let (left, scans) = if paging.all { (u64::MAX, u64::MAX) } else { (paging.limit.into(), paging.scan.into()) };
    let page = Shown { json: session.out.json, now: Timestamp::UNIX_EPOCH, table: Shown::table() };
    let looked = Looked::default();
    let mut lists = Lists { filter, paging, command, newest_first, left, scans, looked, page };
    let mut each = OneByOne::default();
    for (nth, queue) in queues.iter().enumerate() {
        let shown = lists.queue(session, queue, states).await;
        find::spare(&mut each, queue, shown)?;
        if lists.looked.goes_on.is_some() {
            lists.looked.queues_left = queues[nth + 1..].to_vec();
            break;
        }
    }
    lists.page.write(&mut session.out)?;
    session.out.flush()?;
    lists.looked.told();
    each.end()
}

/// Lists one after the other, as far as they are wanted in all.
struct Lists<'a, F> {
    filter: &'a F,
    paging: &'a Paging,
    command: &'a str,
    newest_first: bool,
    /// How many more are shown.
    left: u64,
    /// How many more are looked at.
    scans: u64,
    looked: Looked,
    page: Shown,
}

impl<F: Narrow> Lists<'_, F> {
    /// The lists of a queue.
    async fn queue(&mut self, session: &mut Session, queue: &str, states: &[JobState]) -> Outcome {
        let now = session.client.stats(queue).await?.now;
        self.page.now = now;
        for (nth, state) in states.iter().enumerate() {
            let mut query = self.filter.query(*state, now);
            if self.newest_first {
                query = query.newest_first();
            }
            let mut next = self.paging.after.clone();
            loop {
                if self.left == 0 || self.scans == 0 {
                    let list = named_list(self.command, queue, *state);
                    let after = next.map_or(String::new(), |cursor| format!(" --after {cursor}"));
                    self.looked.goes_on = Some(format!("delayq {list}{after}"));
                    let left = states[nth + 1..].iter().map(|state| state.as_str());
                    self.looked.states_left = (queue.to_owned(), left.collect());
                    return Ok(());
                }
                if let Some(cursor) = next {
                    query = query.after(cursor);
                }
                next = self.one_page(session, queue, &query).await?;
                if next.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn one_page(&mut self, session: &mut Session, queue: &str, query: &JobQuery) -> Outcome<Option<JobCursor>> {
        let limit = usize::try_from(self.left).unwrap_or(PAGE).min(PAGE);
        let scan = usize::try_from(self.scans).unwrap_or(usize::MAX).min(SEARCH_SCAN_DEFAULT);
        let found = session.client.jobs(queue).list(&query.clone().limit(limit).scan(scan)).await?;
        self.left -= found.jobs.len() as u64;
        self.scans -= (found.scanned as u64).min(self.scans);
        self.looked.shown += found.jobs.len();
        self.looked.scanned += found.scanned;
        for job in &found.jobs {
            self.page.job(&mut session.out, job)?;
        }
        if self.paging.all {
            self.page.write(&mut session.out)?;
        }
        Ok(found.next)
    }
}

fn named_list(command: &str, queue: &str, state: JobState) -> String {
    if command == "jobs" {
        format!("jobs --queue {queue} --state {state}")
    } else {
        format!("{command} --queue {queue}")
    }
}

/// How far a list went.
#[derive(Debug, Default)]
struct Looked {
    shown: usize,
    scanned: usize,
    /// The command that goes on where this one ended.
    goes_on: Option<String>,
    /// The queue that it ended in, and the states there that weren't come to.
    states_left: (String, Vec<&'static str>),
    /// The queues that weren't come to.
    queues_left: Vec<String>,
}

impl Looked {
    fn told(&self) {
        let looked = if self.scanned > self.shown { format!(", {} looked at", self.scanned) } else { String::new() };
        let more = match &self.goes_on {
            Some(command) => {
                format!("; there may be more: {command}, with the same filters{}", self.left())
            }
            None => String::new(),
        };
        remark(format!("{} shown{looked}{more}", self.shown));
    }

    /// The lists that the command which goes on doesn't come to either.
    fn left(&self) -> String {
        const NAMED_MAX: usize = 10;
        let (queue, states) = &self.states_left;
        let mut left = Vec::new();
        if !states.is_empty() {
            left.push(format!("the {} jobs of {queue}", states.join(" and ")));
        }
        if !self.queues_left.is_empty() {
            let named = self.queues_left.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
            left.push(match self.queues_left.len() {
                1 => format!("the queue {named}"),
                count if count > NAMED_MAX => format!("{count} queues: {named}, ..."),
                _ => format!("the queues {named}"),
            });
        }
        if left.is_empty() { String::new() } else { format!("; not looked at: {}", left.join("; ")) }
    }
}

/// What is shown: a table, or a line of JSON each.
struct Shown {
    json: bool,
    /// The clock of the store, when the queue's jobs were asked for.
    now: Timestamp,
    table: Table,
}

impl Shown {
    fn table() -> Table {
        Table::new(&[
            Column::Left("ID"),
            Column::Left("QUEUE"),
            Column::Left("STATE"),
            Column::Left("NAME"),
            Column::Right("V"),
            Column::Right("P"),
            Column::Left("WHEN"),
            Column::Right("ATTEMPTS"),
            Column::Rest("LAST FAILURE"),
        ])
    }

    fn job(&mut self, out: &mut Out, job: &JobInfo) -> Outcome {
        if self.json {
            return Ok(out.json_line(&JobView::of(job))?);
        }
        self.table.row(row(job, self.now));
        Ok(())
    }

    fn write(&mut self, out: &mut Out) -> Outcome {
        if !self.table.is_empty() {
            self.table.write(out)?;
            // One head is enough for all pages.
            self.table = Shown::table().without_head();
        }
        Ok(())
    }
}

fn row(job: &JobInfo, now: Timestamp) -> [Cell; 9] {
    let number = |n: Option<u32>| n.map_or("?".to_owned(), |n| n.to_string());
    let failure = job.failure.as_ref().map_or(String::new(), |failure| format!("{}: {}", failure.code, failure.text));
    let style = colour::of_state(job.state);
    [
        cell(job.id.to_string()),
        cell(&job.queue),
        styled(job.state.as_str(), style),
        cell(job.name.as_deref().unwrap_or("?")),
        cell(number(job.version)),
        cell(number(job.priority.map(u32::from))),
        styled(when(job, now), style),
        cell(attempts(job)),
        cell(failure),
    ]
}

/// How many attempts it has spent, of how many.
pub(crate) fn attempts(job: &JobInfo) -> String {
    match job.attempts_max {
        Some(most) => format!("{}/{most}", job.attempts),
        None => job.attempts.to_string(),
    }
}

/// What the time is of a job in its state: when due, for how long running, since when dead, until when kept.
pub(crate) fn when(job: &JobInfo, now: Timestamp) -> String {
    match job.state {
        JobState::Waiting => job.due.map(|due| format!("due {}", time::from_now(due, now))),
        JobState::Running => job.running_since.map(|since| format!("for {}", time::since(since, now))),
        JobState::Dead => job.dead_since.map(|since| time::from_now(since, now)),
        JobState::Retained => job.retained_until.map(|until| format!("goes {}", time::from_now(until, now))),
        _ => None,
    }
    .unwrap_or_default()
}

//! Bulk changes: exactly the jobs that a filter means, counted first.

use std::cell::Cell;
use std::collections::HashSet;
use std::future;
use std::time::Duration;

use delayq::{Client, Error, ErrorKind, JobId, JobInfo, JobState};
use futures_util::{StreamExt, stream};
use jiff::Timestamp;

use crate::failure::{Failure, Outcome};
use crate::filter::Narrow;
use crate::output::remark;
use crate::progress::Progress;

/// How many changes are under way at once: they share the connection.
pub(crate) const AT_ONCE: usize = 64;
/// The library's largest page.
pub(crate) const PAGE: usize = delayq::limits::JOBS_PAGE_MAX;
/// How many jobs a page looks at for those of a filter: after each, the count and the list's end are looked at.
const SCAN: usize = 1000;
/// So many jobs in a row, beyond as many as were there, that are none of those: then the list grows faster than it is read, and has
/// no end.
const OTHERS_MAX: u64 = 10_000;
/// As far ahead as a forecast sees.
const FAR: Duration = Duration::from_secs(100 * 366 * 86_400);
/// How exactly the last due time is found out: so long it may take longer until a list ends to which jobs are added.
const DUE_WITHIN: Duration = Duration::from_secs(1);

/// A bulk command names its jobs by ids, by a filter, or says that it means all.
pub(crate) fn check(ids: &[JobId], filter: &impl Narrow, all: bool, queues: &[String]) -> Outcome {
    let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
    if !ids.is_empty() {
        return if !filter.is_empty() || all {
            usage("give ids, or a filter, not both")
        } else if queues.len() > 1 {
            usage("ids are looked for in all queues, or in one --queue")
        } else {
            Ok(())
        };
    }
    if filter.is_empty() && !all {
        return usage("which ones? Give ids, a filter such as --name, or --all for every one of the queue");
    }
    if queues.is_empty() {
        return usage("a filter needs its queue: add --queue");
    }
    Ok(())
}

/// What a filter means now in a queue, each job once, in the order of its list. What comes after that moment is left, and doesn't keep
/// the list from ending.
pub(crate) async fn matching(
    client: &Client,
    queue: &str,
    filter: &impl Narrow,
    states: &[JobState],
    mut each: impl FnMut(JobInfo),
) -> Outcome<usize> {
    let progress = Progress::counting(format!("{queue}: looking"));
    let stats = client.stats(queue).await?;
    let now = stats.now;
    // A job that was retried or moved meanwhile is met again.
    let mut met = HashSet::new();
    for state in states {
        let there = match state {
            JobState::Waiting => stats.waiting,
            JobState::Running => stats.running,
            JobState::Dead => stats.dead,
            _ => stats.retained,
        };
        let mut query = filter.query(*state, now).limit(PAGE).scan(SCAN);
        let (mut others, mut ends_at) = (0, None);
        loop {
            let page = client.jobs(queue).list(&query).await?;
            progress.more(page.scanned);
            let before = met.len();
            let mut is_past = false;
            for job in page.jobs {
                if is_later(&job, now) {
                    // Letters are in the order of their deaths: there are none of before behind it.
                    is_past |= job.state == JobState::Dead;
                } else if met.insert(job.id) {
                    each(job);
                }
            }
            let Some(next) = page.next.filter(|_| !is_past) else { break };
            others = if met.len() == before { others + page.scanned as u64 } else { 0 };
            if *state == JobState::Waiting && ends_at.is_none() && others > 0 {
                let end = all_due_by(client, queue).await?;
                let end = filter.due_before(now).map_or(end, |until| until.min(end));
                query = query.due_before(end);
                ends_at = Some(end);
            }
            if others > there + OTHERS_MAX && ends_at.is_none_or(|end| end == Timestamp::MAX) {
                remark(format!(
                    "{queue}: {state} jobs come faster than they can be looked at, and the last are left out"
                ));
                break;
            }
            query = query.after(next);
        }
    }
    Ok(met.len())
}

/// Whether a job came into its state after this moment, as far as that can be told.
fn is_later(job: &JobInfo, moment: Timestamp) -> bool {
    let since = match job.state {
        JobState::Waiting => job.enqueued_at,
        JobState::Running => job.running_since,
        JobState::Dead => job.dead_since,
        _ => None,
    };
    since.is_some_and(|since| since > moment)
}

/// An instant by which all jobs that wait at this moment are due, found by halves: behind it are only those that come. One that can
/// only be beyond all instants is `MAX`.
async fn all_due_by(client: &Client, queue: &str) -> Outcome<Timestamp> {
    let (mut least, mut most) = (Duration::ZERO, FAR);
    let forecast = client.forecast(queue, most, 1).await?;
    if forecast.later > 0 {
        return Ok(Timestamp::MAX);
    }
    let mut now = forecast.now;
    while most - least > DUE_WITHIN {
        let middle = least + (most - least) / 2;
        let forecast = client.forecast(queue, middle, 1).await?;
        if forecast.later == 0 {
            (most, now) = (middle, forecast.now);
        } else {
            least = middle;
        }
    }
    Ok(now.saturating_add(most + Duration::from_millis(1)).unwrap_or(Timestamp::MAX))
}

/// What came of a bulk change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Done as asked for.
    pub(crate) done: u64,
    /// Cancelled while they ran.
    pub(crate) running: u64,
    /// They were no longer there, or no longer in a state that allows it.
    pub(crate) passed: u64,
    /// No answer came: they may have been changed.
    pub(crate) unsure: u64,
    /// They stay as they were, since the store was lost before, or said no.
    pub(crate) left: u64,
}

impl Tally {
    /// What wasn't done, in words; nothing where all was.
    pub(crate) fn told_of_rest(&self) -> String {
        let mut told = String::new();
        if self.unsure > 0 {
            told.push_str(&format!("; {} may have been changed, no answer came", self.unsure));
        }
        if self.left > 0 {
            told.push_str(&format!("; {} are as they were: the same command goes on", self.left));
        }
        told
    }
}

/// One change of a bulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Done,
    Running,
}

/// Changes each of these jobs, many at once. Where the store is lost, the rest stays as it is. What came of those that were under way
/// by then is waited for and counted.
pub(crate) async fn each<F, Fut>(ids: Vec<JobId>, what: String, change: F) -> (Tally, Outcome)
where
    F: Fn(JobId) -> Fut,
    Fut: Future<Output = Result<Change, Error>>,
{
    let progress = Progress::of(ids.len(), what);
    let (total, is_lost) = (ids.len() as u64, Cell::new(false));
    let mut tally = Tally::default();
    let mut result = Ok(());
    let ids = stream::iter(ids).take_while(|_| future::ready(!is_lost.get()));
    let mut changes = std::pin::pin!(ids.map(change).buffer_unordered(AT_ONCE));
    while let Some(changed) = changes.next().await {
        progress.more(1);
        match changed {
            Ok(Change::Done) => tally.done += 1,
            Ok(Change::Running) => tally.running += 1,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WrongState) => tally.passed += 1,
            Err(error) => {
                // Also of one that wasn't reached at last an earlier try may have been carried out.
                tally.unsure += u64::from(error.is_temporary());
                is_lost.set(true);
                if result.is_ok() {
                    result = Err(error.into());
                }
            }
        }
    }
    tally.left = total - tally.done - tally.running - tally.passed - tally.unsure;
    (tally, result)
}

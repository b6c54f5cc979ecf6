//! Bulk changes: exactly the jobs that a filter means, counted first.

use delayq::{Client, Error, ErrorKind, JobId, JobInfo, JobState};
use futures_util::{StreamExt, stream};

use crate::failure::{Failure, Outcome};
use crate::filter::Narrow;
use crate::output::remark;
use crate::progress::Progress;

/// How many changes are under way at once: they share the connection.
pub(crate) const AT_ONCE: usize = 64;
/// The library's largest page.
pub(crate) const PAGE: usize = delayq::limits::JOBS_PAGE_MAX;

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

/// What a filter means now in a queue, in the order of its list. What comes meanwhile is left where it can be told apart.
pub(crate) async fn matching(
    client: &Client,
    queue: &str,
    filter: &impl Narrow,
    states: &[JobState],
    mut each: impl FnMut(JobInfo),
) -> Outcome<usize> {
    let progress = Progress::counting(format!("{queue}: looking"));
    let now = client.stats(queue).await?.now;
    let (mut count, mut is_past) = (0, false);
    for state in states {
        let mut query = filter.query(*state, now).limit(PAGE);
        loop {
            let page = client.jobs(queue).list(&query).await?;
            progress.more(page.scanned);
            for job in page.jobs {
                // What died since then is for the next time.
                is_past |= job.dead_since.is_some_and(|since| since > now);
                if !is_past {
                    count += 1;
                    each(job);
                }
            }
            match page.next {
                Some(next) if !is_past => query = query.after(next),
                _ => break,
            }
        }
    }
    Ok(count)
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
}

/// One change of a bulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Done,
    Running,
}

/// Changes each of these jobs, many at once. Where the store is lost, the rest stays as it is.
pub(crate) async fn each<F, Fut>(ids: Vec<JobId>, what: String, change: F) -> Outcome<Tally>
where
    F: Fn(JobId) -> Fut,
    Fut: Future<Output = Result<Change, Error>>,
{
    let progress = Progress::of(ids.len(), what);
    let total = ids.len();
    let mut tally = Tally::default();
    let mut changes = stream::iter(ids).map(change).buffer_unordered(AT_ONCE);
    while let Some(changed) = changes.next().await {
        progress.more(1);
        match changed {
            Ok(Change::Done) => tally.done += 1,
            Ok(Change::Running) => tally.running += 1,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::WrongState) => tally.passed += 1,
            Err(error) => {
                drop(progress);
                let changed = tally.done + tally.running;
                remark(format!("{changed} of {total} were changed, then the store said no: the same command goes on"));
                return Err(error.into());
            }
        }
    }
    Ok(tally)
}

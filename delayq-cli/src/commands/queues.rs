//! `queues`: what waits, runs and died in each queue, and how fast.

use std::time::Duration;

use clap::Args;
use delayq::{Client, Error, QueueStats};
use serde::Serialize;

use super::Session;
use crate::failure::{OneByOne, Outcome, told};
use crate::find::{self, Answers};
use crate::output::colour::{BAD, FAINT, GOOD, PLAIN, WARN};
use crate::output::json::{in_ms, instant, ms};
use crate::output::table::{Column, Table, cell, count, styled};
use crate::output::{Out, remark};
use crate::time;

/// How long a due job waits for a worker until that is worth a colour.
pub(crate) const LATE: Duration = Duration::from_secs(60);

/// Which queues, and how often.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  delayq queues
  delayq queues orders mail --watch
  delayq queues --json | jq 'select(.dead > 0)'")]
pub(crate) struct Options {
    /// Only these
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
    /// Show them again and again, each 2 s unless said otherwise: --watch=500ms
    #[arg(
        long,
        value_name = "DURATION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s",
        value_parser = time::duration
    )]
    watch: Option<Duration>,
}

/// A queue as JSON.
#[derive(Debug, Serialize)]
struct View<'a> {
    queue: &'a str,
    now: String,
    waiting: u64,
    due: u64,
    running: u64,
    dead: u64,
    retained: u64,
    paused: bool,
    sessions: u64,
    next_due: Option<String>,
    oldest_due_ms: u64,
    rates: Option<Rates>,
    orphans: i64,
    totals: Totals,
}

/// A queue whose keys are damaged, as JSON.
#[derive(Debug, Serialize)]
struct Damaged<'a> {
    queue: &'a str,
    error: String,
}

/// What happened each second.
#[derive(Debug, Serialize)]
struct Rates {
    over_ms: u64,
    enqueued: f64,
    done: f64,
    retried: f64,
    dead: f64,
}

/// What happened since the queue was made.
#[derive(Debug, Serialize)]
struct Totals {
    enqueued: u64,
    done: u64,
    retried: u64,
    dead: u64,
    cancelled: u64,
    expired: u64,
    discarded: u64,
    crashed: u64,
    snoozed: u64,
    returned: u64,
    redriven: u64,
    deleted: u64,
    sessions_lost: u64,
    quarantined: u64,
    repaired: u64,
}

pub(crate) async fn run(session: &mut Session, options: Options) -> Outcome {
    let mut each = OneByOne::default();
    loop {
        // New queues appear as they come.
        let names = find::queues(&session.client, &options.queues).await?;
        let queues = counted(&session.client, names).await?;
        if options.watch.is_some() && !session.out.json {
            session.out.clear()?;
        }
        show(&mut session.out, &queues)?;
        session.out.flush()?;
        for (name, counted) in &queues {
            if let Err(error) = counted {
                each.take(Err(find::damaged(name, error)))?;
            }
        }
        let Some(pause) = options.watch else { return each.end() };
        tokio::time::sleep(pause.max(Duration::from_millis(100))).await;
    }
}

async fn counted(client: &Client, names: Vec<String>) -> Outcome<Answers<QueueStats>> {
    let counts = names.into_iter().map(|name| {
        let (client, queue) = (client.clone(), name.clone());
        (name, async move { client.stats(&queue).await })
    });
    find::ask(counts.collect()).await
}

fn show(out: &mut Out, queues: &[(String, Result<QueueStats, Error>)]) -> Outcome {
    if out.json {
        for (queue, counted) in queues {
            match counted {
                Ok(stats) => out.json_line(&View::of(queue, stats))?,
                Err(error) => out.json_line(&Damaged { queue, error: told(error) })?,
            }
        }
        return Ok(());
    }
    if queues.is_empty() {
        remark("no queue was used yet under this prefix");
        return Ok(());
    }
    let mut table = Table::new(&[
        Column::Left("QUEUE"),
        Column::Right("WAITING"),
        Column::Right("DUE"),
        Column::Right("RUNNING"),
        Column::Right("DEAD"),
        Column::Right("IN/S"),
        Column::Right("DONE/S"),
        Column::Right("FAILED/S"),
        Column::Right("OLDEST DUE"),
        Column::Left("NEXT DUE"),
        Column::Right("WORKERS"),
        Column::Left("STATE"),
    ]);
    for (name, counted) in queues {
        let Ok(stats) = counted else {
            let mut row = ["-"; 12].map(|unknown| styled(unknown, FAINT));
            (row[0], row[11]) = (cell(name), styled("damaged", BAD));
            table.row(row);
            continue;
        };
        let rate = |of: fn(&delayq::QueueRates) -> f64| {
            let text = stats.rates.as_ref().map_or("-".to_owned(), |rates| format!("{:.1}", of(rates)));
            cell(text)
        };
        let is_late = stats.oldest_due > LATE;
        let oldest = if stats.due == 0 { "-".to_owned() } else { time::short(stats.oldest_due) };
        let next = stats.next_due.filter(|next| *next > stats.now);
        table.row([
            cell(name),
            count(stats.waiting, PLAIN),
            count(stats.due, if is_late { WARN } else { PLAIN }),
            count(stats.running, GOOD),
            count(stats.dead, BAD),
            rate(|rates| rates.enqueued),
            rate(|rates| rates.done),
            rate(|rates| rates.retried + rates.dead),
            styled(oldest, if is_late { WARN } else { PLAIN }),
            cell(next.map_or("-".to_owned(), |next| time::from_now(next, stats.now))),
            // Work and nobody to do it.
            styled(stats.sessions.to_string(), if stats.sessions == 0 && stats.due > 0 { BAD } else { PLAIN }),
            if stats.paused { styled("paused", WARN) } else { styled("open", FAINT) },
        ]);
    }
    Ok(table.write(out)?)
}

impl<'a> View<'a> {
    fn of(queue: &'a str, stats: &QueueStats) -> View<'a> {
        View {
            queue,
            now: in_ms(stats.now),
            waiting: stats.waiting,
            due: stats.due,
            running: stats.running,
            dead: stats.dead,
            retained: stats.retained,
            paused: stats.paused,
            sessions: stats.sessions,
            next_due: instant(stats.next_due),
            oldest_due_ms: ms(stats.oldest_due),
            rates: stats.rates.as_ref().map(|rates| Rates {
                over_ms: ms(rates.over),
                enqueued: rates.enqueued,
                done: rates.done,
                retried: rates.retried,
                dead: rates.dead,
            }),
            orphans: stats.orphans,
            totals: Totals {
                enqueued: stats.enqueued_total,
                done: stats.done_total,
                retried: stats.retried_total,
                dead: stats.dead_total,
                cancelled: stats.cancelled_total,
                expired: stats.expired_total,
                discarded: stats.discarded_total,
                crashed: stats.crashed_total,
                snoozed: stats.snoozed_total,
                returned: stats.returned_total,
                redriven: stats.redriven_total,
                deleted: stats.deleted_total,
                sessions_lost: stats.sessions_lost_total,
                quarantined: stats.quarantined_total,
                repaired: stats.repaired_total,
            },
        }
    }
}

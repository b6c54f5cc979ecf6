//! A queue from within: its counts, and its lists of workers and jobs.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Tabs};

use super::grid::{Column, Grid, Item, item};
use super::line::{Part, parts, wrapped};
use super::note;
use super::paint::Paint;
use super::queues::count;
use crate::commands::forecast::bar;
use crate::commands::queues::LATE;
use crate::output::colour::{BAD, FAINT, GOOD, PLAIN, WARN};
use crate::time;
use crate::top::app::{App, Open};
use crate::top::model::{JobRow, List, Queue, Rows, WorkerRow};

/// From so many columns on ids are whole; else they end with their last, random part.
const WHOLE_IDS_FROM: u16 = 100;
/// From so many rows on there is room for all that is known of the chosen failure.
const FAILURE_FROM: u16 = 14;
const FAILURE_ROWS: u16 = 4;
/// How wide the bar of a worker's load is.
const LOAD_WIDTH: usize = 8;

pub(super) fn draw(app: &App, open: &Open, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let is_dead = open.list == List::Dead;
    let failure_rows = if is_dead && area.height >= FAILURE_FROM { FAILURE_ROWS } else { 0 };
    let rows = [Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1), Constraint::Length(failure_rows)];
    let [sum, tabs, table, failure] = Layout::vertical(rows).areas(area);
    if let Some(queue) = &open.queue {
        let line = match &queue.trouble {
            Some(trouble) => parts([(trouble.clone(), paint.of(BAD))], "", sum.width.into()),
            None => parts(sums(app, queue, paint), "  ", sum.width.into()),
        };
        frame.render_widget(Paragraph::new(line), sum);
        draw_tabs(open, queue, frame, tabs, paint);
    }
    let Some(rows) = &open.rows else { return note(frame, table, "looking ...", paint) };
    let (grid, at) = match rows {
        Rows::Workers(_) => {
            let workers = open.workers();
            let keys: Vec<String> = workers.iter().map(|worker| worker.session.clone()).collect();
            (worker_grid(&workers, paint), open.cursor.position(&keys))
        }
        Rows::Jobs(_) => {
            let jobs = open.jobs();
            let keys: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
            let ids_whole = area.width >= WHOLE_IDS_FROM;
            (job_grid(open.list, &jobs, ids_whole, paint), open.cursor.position(&keys))
        }
    };
    if at.is_none() {
        return note(frame, table, &nothing(open), paint);
    }
    grid.draw(frame, table, paint, &open.cursor, at);
    if let Some(job) = app.job().filter(|_| failure_rows > 0) {
        draw_failure(job, frame, failure, paint);
    }
}

fn sums(app: &App, queue: &Queue, paint: Paint) -> Vec<Part> {
    let counts = &queue.counts;
    let rates = app.history.rates(&queue.name, counts);
    let plain = paint.of(PLAIN);
    let late = paint.of(if counts.oldest_due > LATE { WARN } else { PLAIN });
    let mut parts = vec![
        if counts.is_paused { ("paused".to_owned(), paint.of(WARN)) } else { ("open".to_owned(), paint.of(GOOD)) },
        (format!("due now {}", counts.due), late),
    ];
    if counts.due > 0 {
        parts.push((format!("the oldest for {}", time::short(counts.oldest_due)), late));
    }
    parts.push((format!("within 1m {}", counts.next_minute), plain));
    parts.push((format!("1h {}", counts.next_hour), plain));
    if let Some(rates) = rates {
        parts.push((format!("done/s {:.1}", rates.done), plain));
        parts.push((format!("failed/s {:.1}", rates.failed), plain));
        parts.push((format!("sent/s {:.1}", rates.sent), plain));
    }
    parts
}

fn draw_tabs(open: &Open, queue: &Queue, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let counts = &queue.counts;
    let titles = List::ALL.map(|list| match list {
        List::Workers => format!(" workers {} ", counts.sessions),
        List::Running => format!(" running {} ", counts.running),
        List::Waiting => format!(" waiting {} ", counts.waiting),
        List::Dead => format!(" dead {} ", counts.dead),
    });
    let used: usize = titles.iter().map(|title| title.len() + 1).sum();
    let at = List::ALL.iter().position(|list| *list == open.list);
    let tabs = Tabs::new(titles)
        .select(at)
        .highlight_style(paint.chosen())
        .divider("")
        .padding("", " ")
        .style(paint.of(PLAIN));
    frame.render_widget(tabs, area);
    let rest = Rect {
        x: area.x + u16::try_from(used).unwrap_or(u16::MAX).min(area.width),
        width: area.width.saturating_sub(u16::try_from(used).unwrap_or(u16::MAX)),
        ..area
    };
    let text = page(open);
    if rest.width >= 12 && !text.is_empty() {
        let line = parts([(text, paint.always(FAINT))], "", rest.width.into()).right_aligned();
        frame.render_widget(Paragraph::new(line), rest);
    }
}

/// Which page this is, and what of it the filter leaves.
fn page(open: &Open) -> String {
    let mut text = String::new();
    let (shown, rows) = match &open.rows {
        Some(Rows::Workers(workers)) => (open.workers().len(), workers.len()),
        Some(Rows::Jobs(jobs)) => (open.jobs().len(), jobs.len()),
        None => return text,
    };
    if !open.filter.is_empty() {
        text = format!("/{}: {shown} of {rows} here", open.filter);
    }
    if open.pages.len() > 1 || open.next.is_some() {
        let gap = if text.is_empty() { "" } else { "  " };
        let more = if open.next.is_some() { ", more below" } else { "" };
        text.push_str(&format!("{gap}page {}{more}", open.pages.len()));
    }
    text
}

/// Why there is no row.
fn nothing(open: &Open) -> String {
    let is_empty = match &open.rows {
        Some(Rows::Workers(workers)) => workers.is_empty(),
        Some(Rows::Jobs(jobs)) => jobs.is_empty(),
        None => true,
    };
    if !is_empty {
        return format!("no row of this page has {:?} in it: Esc clears the filter", open.filter);
    }
    match open.list {
        List::Workers => "no worker serves this queue",
        List::Running => "no job runs",
        List::Waiting => "no job waits",
        List::Dead => "no dead letter",
    }
    .to_owned()
}

fn worker_grid(workers: &[&WorkerRow], paint: Paint) -> Grid {
    let mut grid = Grid::new(vec![
        Column::text("WORKER", 0).at_most(28),
        Column::number("PID", 7),
        Column::number("UP", 6),
        Column::number("RUNNING", 0),
        Column::number("OF", 3),
        Column::text("LOAD", 2),
        Column::number("LATE", 1),
        Column::number("LATE MAX", 4),
        Column::number("LEASE", 5),
        Column::number("RUNS", 8),
        Column::text("RELEASE", 9).at_most(12),
        Column::text("RUNS NOW", 0).elastic(12),
    ]);
    let number = |n: Option<u64>| item(n.map_or("-".to_owned(), |n| n.to_string()), paint.of(PLAIN));
    let length = |length: Option<Duration>| {
        let style = if length.is_some_and(|length| length > LATE) { WARN } else { PLAIN };
        item(length.map_or("-".to_owned(), time::short), paint.of(style))
    };
    for worker in workers {
        grid.row(vec![
            item(&worker.name, paint.of(PLAIN)),
            number(worker.pid.map(u64::from)),
            item(worker.up.map_or("-".to_owned(), time::short), paint.of(PLAIN)),
            count(worker.running, GOOD, paint),
            number(worker.concurrency),
            load(worker, paint),
            length(worker.late.map(|(mean, _)| mean)),
            length(worker.late.map(|(_, most)| most)),
            worker
                .lease_left
                .map_or_else(|| item("lost", paint.of(BAD)), |left| item(time::short(left), paint.of(PLAIN))),
            number(worker.runs_total),
            item(worker.release.as_deref().unwrap_or("-"), paint.of(PLAIN)),
            item(runs(worker), paint.of(PLAIN)),
        ]);
    }
    grid
}

/// How much of what it may run at once it runs, for this queue.
fn load(worker: &WorkerRow, paint: Paint) -> Item {
    let Some(most) = worker.concurrency.filter(|most| *most > 0) else { return item("-", paint.of(FAINT)) };
    let running = worker.running.min(most);
    let style = if running == most { WARN } else { GOOD };
    item(format!("{:<LOAD_WIDTH$}", bar(running, most, LOAD_WIDTH)), paint.of(style))
}

/// The names of the jobs that it runs, those of which it runs most first.
fn runs(worker: &WorkerRow) -> String {
    let names: Vec<String> = worker.runs.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let seen: usize = worker.runs.iter().map(|(_, count)| count).sum();
    // Only the first running jobs of a queue are looked at.
    let more = worker.running.saturating_sub(u64::try_from(seen).unwrap_or(u64::MAX));
    match (names.is_empty(), more) {
        (true, 0) => "-".to_owned(),
        (true, more) => format!("{more} not looked at"),
        (false, 0) => names.join(", "),
        (false, more) => format!("{}, {more} more", names.join(", ")),
    }
}

fn job_grid(list: List, jobs: &[&JobRow], ids_whole: bool, paint: Paint) -> Grid {
    let id = |job: &JobRow| {
        let text = job.id.to_string();
        let end = text.len().saturating_sub(12);
        item(if ids_whole { text } else { format!("…{}", &text[end..]) }, paint.of(PLAIN))
    };
    let name = |job: &JobRow| item(&job.name, paint.of(PLAIN));
    let number = |n: Option<u32>| item(n.map_or("?".to_owned(), |n| n.to_string()), paint.of(PLAIN));
    let attempts = |job: &JobRow| item(&job.attempts, paint.of(PLAIN));
    let mut grid;
    match list {
        List::Workers | List::Running => {
            grid = Grid::new(vec![
                Column::text("JOB", 0),
                Column::text("NAME", 0).at_most(32),
                Column::number("V", 4),
                Column::text("RUNS", 0),
                Column::number("LATE", 1),
                Column::number("ATTEMPTS", 3),
                Column::text("WORKER", 2).elastic(12),
            ]);
            for job in jobs {
                grid.row(vec![
                    id(job),
                    name(job),
                    number(job.version),
                    item(&job.when, paint.of(GOOD)),
                    item(job.late.map_or("-".to_owned(), time::short), paint.of(PLAIN)),
                    attempts(job),
                    item(job.worker.as_deref().unwrap_or("-"), paint.of(PLAIN)),
                ]);
            }
        }
        List::Waiting => {
            grid = Grid::new(vec![
                Column::text("JOB", 0),
                Column::text("NAME", 0).elastic(12),
                Column::number("V", 3),
                Column::number("P", 2),
                Column::number("ATTEMPTS", 1),
                Column::text("WHEN", 0),
            ]);
            for job in jobs {
                grid.row(vec![
                    id(job),
                    name(job),
                    number(job.version),
                    number(job.priority.map(u32::from)),
                    attempts(job),
                    item(&job.when, paint.of(if job.is_due { WARN } else { PLAIN })),
                ]);
            }
        }
        List::Dead => {
            grid = Grid::new(vec![
                Column::text("JOB", 0),
                Column::text("NAME", 1).at_most(32),
                Column::text("DIED", 2),
                Column::number("ATTEMPTS", 4),
                Column::text("REASON", 3),
                Column::text("ERROR", 0).elastic(16),
            ]);
            for job in jobs {
                let (reason, error) = job.failure.clone().unwrap_or_else(|| ("?".to_owned(), String::new()));
                grid.row(vec![
                    id(job),
                    name(job),
                    item(&job.when, paint.of(PLAIN)),
                    attempts(job),
                    item(reason, paint.of(BAD)),
                    item(error, paint.of(PLAIN)),
                ]);
            }
        }
    }
    grid
}

/// The failure of the letter that is chosen, as far as there is room.
fn draw_failure(job: &JobRow, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let block = Block::default().borders(Borders::TOP).border_style(paint.frame()).title(format!(" {} ", job.id));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let (reason, error) = job.failure.clone().unwrap_or_else(|| ("the reason was lost".to_owned(), String::new()));
    let text = format!("{reason} after attempt {}: {error}", job.attempts);
    let lines: Vec<Line<'_>> = wrapped(&text, inner.width.into())
        .into_iter()
        .take(inner.height.into())
        .map(|line| Line::from(Span::styled(line, paint.of(BAD))))
        .collect();
    frame.render_widget(Paragraph::new(lines), inner);
}

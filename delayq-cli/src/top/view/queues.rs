//! The home: a table of all queues, their sum, and the hour ahead of the one that is chosen.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::widgets::Paragraph;

use super::grid::{Column, Grid, Item, item};
use super::line::{Part, parts};
use super::paint::Paint;
use super::{chart, note};
use crate::commands::queues::LATE;
use crate::output::colour::{BAD, FAINT, GOOD, PLAIN, WARN};
use crate::time;
use crate::top::app::App;
use crate::top::model::{Queue, Rates};
use crate::top::sort::By;

/// From so many rows on there is room for the chart.
const CHART_FROM: u16 = 16;
const CHART_ROWS: u16 = 6;
/// Where the table leaves more, so much of it at the most.
const CHART_ROWS_MAX: u16 = 14;

pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let Some(overview) = &app.home.overview else {
        return note(frame, area, "looking ...", paint);
    };
    let queues = app.queues();
    let spare = usize::from(area.height).saturating_sub(queues.len() + 4);
    let spare = u16::try_from(spare).unwrap_or(CHART_ROWS_MAX).clamp(CHART_ROWS, CHART_ROWS_MAX);
    let chart_rows = if area.height >= CHART_FROM { spare } else { 0 };
    let rows = [Constraint::Length(1), Constraint::Fill(1), Constraint::Length(chart_rows)];
    let [sum, table, below] = Layout::vertical(rows).areas(area);
    frame.render_widget(Paragraph::new(parts(sums(app, &queues, paint), "  ", sum.width.into())), sum);
    if queues.is_empty() {
        let text = if overview.known == 0 {
            "no queue was used yet under this prefix".to_owned()
        } else {
            format!("none of {} queues has {:?} in its name: Esc clears the filter", overview.known, app.home.filter)
        };
        return note(frame, table, &text, paint);
    }
    let chosen = app.queue();
    let at = chosen.and_then(|chosen| queues.iter().position(|queue| queue.name == chosen.name));
    let mut grid = Grid::new(By::ALL.into_iter().map(|by| column(app, by)).collect());
    for queue in &queues {
        grid.row(row(app, queue, paint));
    }
    grid.draw(frame, table, paint, &app.home.cursor, at);
    if let Some(queue) = chosen.filter(|_| chart_rows > 0) {
        chart::draw(app, queue, frame, below, paint);
    }
}

/// All of the queues that are shown, together.
fn sums(app: &App, queues: &[&Queue], paint: Paint) -> Vec<Part> {
    let sum = |of: fn(&Queue) -> u64| queues.iter().map(|queue| of(queue)).fold(0, u64::saturating_add);
    let rates = queues.iter().filter_map(|queue| app.history.rates(&queue.name, &queue.counts));
    let rates = rates.fold(Rates::default(), |sum, rates| Rates {
        sent: sum.sent + rates.sent,
        done: sum.done + rates.done,
        failed: sum.failed + rates.failed,
    });
    let (plain, dead) = (paint.of(PLAIN), sum(|queue| queue.counts.dead));
    let late = queues.iter().map(|queue| queue.counts.oldest_due).max().unwrap_or_default();
    let mut parts = vec![(counted(app, queues), plain)];
    parts.push((format!("waiting {}", sum(|queue| queue.counts.waiting)), plain));
    parts.push((format!("due {}", sum(|queue| queue.counts.due)), paint.of(if late > LATE { WARN } else { PLAIN })));
    parts.push((format!("running {}", sum(|queue| queue.counts.running)), plain));
    parts.push((format!("dead {dead}"), paint.of(if dead > 0 { BAD } else { PLAIN })));
    parts.push((format!("done/s {:.1}", rates.done), plain));
    parts.push((format!("failed/s {:.1}", rates.failed), plain));
    parts.push((format!("sent/s {:.1}", rates.sent), plain));
    parts.push((format!("within 1h {}", sum(|queue| queue.counts.next_hour)), plain));
    parts
}

/// How many queues these are, and of how many.
fn counted(app: &App, queues: &[&Queue]) -> String {
    let Some(overview) = &app.home.overview else { return String::new() };
    let plural = if overview.known == 1 { "" } else { "s" };
    let mut text = format!("{} queue{plural}", overview.known);
    if !app.home.filter.is_empty() {
        text = format!("/{}: {} of {text}", app.home.filter, overview.matching.min(queues.len()));
    }
    if overview.matching > overview.queues.len() {
        text.push_str(&format!(", the first {} counted: / narrows", overview.queues.len()));
    }
    text
}

fn column(app: &App, by: By) -> Column {
    let sort = app.home.sort;
    let mark = if sort.goes_up() { "▲" } else { "▼" };
    let title = if sort.by == by { format!("{}{mark}", by.title()) } else { by.title().to_owned() };
    // What is sorted by stays.
    let rank = |rank| if sort.by == by { 0 } else { rank };
    match by {
        By::Name => Column::text(title, 0).elastic(10),
        By::State => Column::text(title, rank(4)),
        By::Waiting => Column::number(title, 0),
        By::Due => Column::number(title, 0),
        By::Minute => Column::number(title, rank(5)),
        By::Hour => Column::number(title, rank(6)),
        By::Running => Column::number(title, rank(1)),
        By::Sent => Column::number(title, rank(9)),
        By::Done => Column::number(title, rank(7)),
        By::Failed => Column::number(title, rank(8)),
        By::Dead => Column::number(title, rank(2)),
        By::Late => Column::number(title, rank(3)),
    }
}

fn row(app: &App, queue: &Queue, paint: Paint) -> Vec<Item> {
    let counts = &queue.counts;
    let rates = app.history.rates(&queue.name, counts);
    By::ALL
        .into_iter()
        .map(|by| match by {
            By::Name => item(&queue.name, paint.of(PLAIN)),
            By::State => state(queue, paint),
            // Zeros that weren't counted would be a lie.
            _ if queue.trouble.is_some() => item("?", paint.of(BAD)),
            By::Waiting => count(counts.waiting, PLAIN, paint),
            By::Due => count(counts.due, if counts.oldest_due > LATE { WARN } else { PLAIN }, paint),
            By::Minute => count(counts.next_minute, PLAIN, paint),
            By::Hour => count(counts.next_hour, PLAIN, paint),
            By::Running => count(counts.running, GOOD, paint),
            By::Sent => rate(rates.map(|rates| rates.sent), PLAIN, paint),
            By::Done => rate(rates.map(|rates| rates.done), PLAIN, paint),
            By::Failed => rate(rates.map(|rates| rates.failed), WARN, paint),
            By::Dead => count(counts.dead, BAD, paint),
            By::Late => late(counts.due, counts.oldest_due, paint),
        })
        .collect()
}

/// Work that nobody does is the worst there is.
fn state(queue: &Queue, paint: Paint) -> Item {
    let counts = &queue.counts;
    match counts {
        _ if queue.trouble.is_some() => item("error", paint.of(BAD)),
        _ if counts.is_paused => item("paused", paint.of(WARN)),
        _ if counts.sessions == 0 && counts.due > 0 => item("no worker", paint.of(BAD)),
        _ if counts.sessions == 0 => item("no worker", paint.of(FAINT)),
        _ => item("open", paint.of(PLAIN)),
    }
}

pub(super) fn count(n: u64, style: anstyle::Style, paint: Paint) -> Item {
    item(n.to_string(), paint.of(if n == 0 { FAINT } else { style }))
}

fn rate(rate: Option<f64>, style: anstyle::Style, paint: Paint) -> Item {
    match rate {
        Some(rate) if rate >= 0.05 => item(format!("{rate:.1}"), paint.of(style)),
        Some(_) => item("0", paint.of(FAINT)),
        None => item("-", paint.of(FAINT)),
    }
}

/// How late the oldest due job is.
fn late(due: u64, oldest: Duration, paint: Paint) -> Item {
    if due == 0 {
        return item("-", paint.of(FAINT));
    }
    item(time::short(oldest), paint.of(if oldest > LATE { WARN } else { PLAIN }))
}

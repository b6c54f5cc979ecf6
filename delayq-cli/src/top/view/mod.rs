//! Drawing: from the state of the view onto a screen of any size, and nothing else.

mod chart;
mod grid;
mod job;
mod line;
mod over;
mod paint;
mod queue;
mod queues;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::app::{App, Mode};
use super::model::List;
use crate::output::colour::{BAD, FAINT, GOOD, HEAD, WARN};
use crate::output::table::cut;
use crate::time;
use line::{Part, parts, spread, wrapped};
use paint::Paint;

/// How many lines an error may take.
const TROUBLE_ROWS: usize = 3;

/// Draws all of it.
pub(super) fn draw(app: &App, frame: &mut Frame<'_>) {
    let paint = Paint { is_coloured: app.about.is_coloured, is_stale: app.trouble.is_some() };
    let trouble = trouble(app, frame.area().width.into());
    let trouble_rows = u16::try_from(trouble.len()).unwrap_or(0);
    let rows = [Constraint::Length(1), Constraint::Length(trouble_rows), Constraint::Fill(1), Constraint::Length(1)];
    let [top, below, body, foot] = Layout::vertical(rows).areas(frame.area());
    draw_top(app, frame, top, paint);
    let trouble: Vec<Line<'_>> =
        trouble.into_iter().map(|text| Line::from(Span::styled(text, paint.always(BAD)))).collect();
    frame.render_widget(Paragraph::new(trouble), below);
    if let Some(sheet) = &app.sheet {
        job::draw(sheet, frame, body, paint);
    } else if let Some(open) = &app.open {
        queue::draw(app, open, frame, body, paint);
    } else {
        queues::draw(app, frame, body, paint);
    }
    draw_foot(app, frame, foot, paint);
    match &app.mode {
        Mode::Help => over::help(app, frame, paint),
        Mode::Asking(change) => over::question(change, frame, paint),
        Mode::Looking | Mode::Typing => {}
    }
}

/// Where we are, and how fresh it is.
fn draw_top(app: &App, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let (bold, faint) = (paint.always(HEAD), paint.always(FAINT));
    let mut left: Vec<Part> = vec![("delayq top".to_owned(), bold)];
    if let Some(open) = &app.open {
        left.push((" > ".to_owned(), faint));
        left.push((open.name.clone(), bold));
    }
    if let Some(sheet) = &app.sheet {
        left.push((" > ".to_owned(), faint));
        left.push((sheet.id.to_string(), bold));
    }
    // Where there is little room, where we are comes first.
    left.push((format!("  {}", app.about.store), faint));
    if app.about.prefix != "delayq" {
        left.push((format!(" {}", app.about.prefix), faint));
    }
    let mut right: Vec<Part> = Vec::new();
    if app.about.is_read_only {
        right.push(("read-only  ".to_owned(), paint.always(WARN)));
    }
    if app.is_frozen {
        right.push(("frozen  ".to_owned(), paint.always(WARN)));
    } else {
        right.push((format!("each {}  ", time::short(app.about.interval)), faint));
    }
    let now = now(app).map_or_else(|| "--:--:--".to_owned(), |now| now.strftime("%H:%M:%S").to_string());
    right.push((format!("{now} UTC"), paint.of(FAINT)));
    frame.render_widget(Paragraph::new(spread(left, right, area.width.into())), area);
}

/// The store's clock, when what is shown was looked at.
fn now(app: &App) -> Option<jiff::Timestamp> {
    if let Some(sheet) = &app.sheet {
        return sheet.sheet.as_ref().map(|sheet| sheet.now);
    }
    match &app.open {
        Some(open) => open.queue.as_ref().map(|queue| queue.counts.now),
        None => app.home.overview.as_ref()?.queues.iter().map(|queue| queue.counts.now).max(),
    }
}

/// What is wrong with the store and since when, in a few lines.
fn trouble(app: &App, room: usize) -> Vec<String> {
    let Some(trouble) = &app.trouble else { return Vec::new() };
    let since = time::short(app.clock.saturating_duration_since(trouble.since));
    let mut lines = wrapped(&format!("no answer for {since}, trying again: {}", trouble.text), room);
    let rest = lines.split_off(lines.len().min(TROUBLE_ROWS - 1)).concat();
    if !rest.is_empty() {
        lines.push(cut(&rest, room));
    }
    lines
}

/// The filter while it is typed, what was said last, or the keys.
fn draw_foot(app: &App, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let room = usize::from(area.width);
    let line = if app.mode == Mode::Typing {
        let typed = vec![("/".to_owned(), paint.key()), (format!("{}_", app.filter()), Style::new())];
        spread(typed, vec![("Enter keeps, Esc clears".to_owned(), paint.always(FAINT))], room)
    } else if let Some(message) = &app.message {
        let style = paint.always(if message.is_bad { BAD } else { GOOD });
        parts([(message.text.clone(), style)], "", room)
    } else {
        keys(app, paint, room)
    };
    frame.render_widget(Paragraph::new(line), area);
}

/// The keys that can be used here, as many as fit; the help has them all.
fn keys(app: &App, paint: Paint, room: usize) -> Line<'static> {
    let mut keys: Vec<(&str, &str)> = vec![("?", "help"), ("q", "quit")];
    let changes: &[(&str, &str)] = match (&app.sheet, &app.open) {
        (Some(_), _) => {
            keys.push(("Esc", "back"));
            &[("R", "retry"), ("D", "delete"), ("X", "cancel")]
        }
        (None, Some(open)) => {
            keys.extend([("Esc", "back"), ("Tab", "next list"), ("Enter", "job"), ("/", "filter")]);
            if open.list == List::Workers {
                keys.retain(|(key, _)| *key != "Enter");
            }
            match open.list {
                List::Workers => &[("p", "pause")],
                List::Running | List::Waiting => &[("X", "cancel"), ("p", "pause")],
                List::Dead => &[("R", "retry"), ("D", "delete"), ("p", "pause")],
            }
        }
        (None, None) => {
            keys.extend([("Enter", "open"), ("/", "filter"), ("s", "sort")]);
            &[("p", "pause")]
        }
    };
    if !app.about.is_read_only {
        keys.extend(changes);
    }
    keys.push(("space", if app.is_frozen { "go on" } else { "freeze" }));
    let mut spans = Vec::new();
    let mut left = room;
    for (key, what) in keys {
        let width = key.len() + 1 + what.len() + 2;
        if width > left + 2 {
            break;
        }
        left = left.saturating_sub(width);
        spans.push(Span::styled(key.to_owned(), paint.key()));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    Line::from(spans)
}

/// A text where there is nothing else to be seen.
fn note(frame: &mut Frame<'_>, area: Rect, text: &str, paint: Paint) {
    let line = parts([(text.to_owned(), paint.always(FAINT))], "", area.width.into());
    frame.render_widget(Paragraph::new(line), area);
}

#[cfg(test)]
mod tests;

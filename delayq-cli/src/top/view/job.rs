//! A job with all that is known of it, as a text that can be scrolled.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::line::wrapped;
use super::note;
use super::paint::Paint;
use crate::output::colour::{FAINT, HEAD, PLAIN, of_state};
use crate::time;
use crate::top::app::Sheet;
use crate::top::model::JobSheet;

/// How far what follows a name is from the edge.
const NAMES: usize = 13;

pub(super) fn draw(open: &Sheet, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let Some(sheet) = &open.sheet else { return note(frame, area, "looking ...", paint) };
    let lines = lines(sheet, &open.queue, area.width.into(), paint);
    let height = usize::from(area.height);
    open.scroll.lines.set(lines.len());
    open.scroll.height.set(height);
    // A larger screen may show more than was scrolled past.
    let from = open.scroll.at.min(lines.len().saturating_sub(height));
    let seen: Vec<Line<'_>> = lines.into_iter().skip(from).take(height).collect();
    frame.render_widget(Paragraph::new(seen), area);
}

fn lines(sheet: &JobSheet, queue: &str, room: usize, paint: Paint) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let (state, style) = match sheet.state {
        Some(state) => (format!("{state} {}", sheet.when), of_state(state)),
        None => (sheet.when.clone(), PLAIN),
    };
    lines.push(Line::from(Span::styled(sheet.id.to_string(), paint.of(HEAD))));
    if !sheet.title.is_empty() {
        field(&mut lines, "name", &sheet.title, paint.of(HEAD), room, paint);
    }
    field(&mut lines, "queue", queue, paint.of(PLAIN), room, paint);
    field(&mut lines, "state", &state, paint.of(style), room, paint);
    for (name, value) in &sheet.fields {
        field(&mut lines, name, value, paint.of(PLAIN), room, paint);
    }
    if !sheet.history.is_empty() {
        heading(&mut lines, "history".to_owned(), paint);
    }
    for (at, what) in &sheet.history {
        // On a narrow screen the day goes: the distance tells it.
        let at_text = if room >= 100 { format!("{at:.3}") } else { at.strftime("%H:%M:%S").to_string() };
        let text = format!("{at_text}  {:<14}  {what}", format!("({})", time::from_now(*at, sheet.now)));
        text_in(&mut lines, &text, 2, at_text.len() + 18, room, paint);
    }
    if sheet.state.is_some() {
        heading(&mut lines, format!("payload, {} bytes", sheet.payload_bytes), paint);
    }
    for line in &sheet.payload {
        text_in(&mut lines, line, 2, 0, room, paint);
    }
    lines
}

fn heading(lines: &mut Vec<Line<'static>>, text: String, paint: Paint) {
    lines.push(Line::default());
    lines.push(Line::from(Span::styled(text, paint.of(FAINT))));
}

fn field(
    lines: &mut Vec<Line<'static>>,
    name: &str,
    value: &str,
    style: ratatui::style::Style,
    room: usize,
    paint: Paint,
) {
    for (nth, part) in wrapped(value, room.saturating_sub(NAMES)).into_iter().enumerate() {
        let name = if nth == 0 { name } else { "" };
        let name = format!("  {name:<width$}", width = NAMES - 2);
        lines.push(Line::from(vec![Span::styled(name, paint.of(FAINT)), Span::styled(part, style)]));
    }
}

/// A text so far from the edge, and what goes on in the next line further still.
fn text_in(lines: &mut Vec<Line<'static>>, text: &str, edge: usize, further: usize, room: usize, paint: Paint) {
    let further = if further * 2 > room { 0 } else { further };
    let mut rest = wrapped(text, room.saturating_sub(edge)).into_iter();
    let Some(first) = rest.next() else { return };
    // What follows has less room than the first line: it is broken anew.
    let tail: String = rest.collect();
    lines.push(Line::from(Span::styled(format!("{}{first}", " ".repeat(edge)), paint.of(PLAIN))));
    if !tail.is_empty() {
        for part in wrapped(&tail, room.saturating_sub(edge + further)) {
            lines.push(Line::from(Span::styled(format!("{}{part}", " ".repeat(edge + further)), paint.of(PLAIN))));
        }
    }
}

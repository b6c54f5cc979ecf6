//! What is drawn over all else: the help, and the question before a change.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};
use unicode_width::UnicodeWidthStr;

use super::line::wrapped;
use super::paint::Paint;
use crate::output::colour::{BAD, FAINT, HEAD, WARN};
use crate::top::app::App;
use crate::top::keys::{CHANGING, LOOKING};
use crate::top::model::{Change, Kind};

/// How wide the question is at the most: an id and its word fit.
const QUESTION_WIDTH: usize = 64;
/// What the names of keys take, at the left and at the right.
const KEYS_WIDTH: usize = 10;
const KEY_WIDTH: usize = 3;

pub(super) fn question(change: &Change, frame: &mut Frame<'_>, paint: Paint) {
    let screen = frame.area();
    let room = usize::from(screen.width).saturating_sub(4).clamp(2, QUESTION_WIDTH);
    let style = paint.always(match change.kind {
        Kind::Cancel { .. } | Kind::Delete { .. } => BAD,
        Kind::Pause | Kind::Resume | Kind::Retry { .. } => WARN,
    });
    let mut lines: Vec<Line<'_>> = Vec::new();
    for text in wrapped(change.question(), room) {
        lines.push(Line::from(Span::styled(text, paint.always(HEAD))));
    }
    for (what, value) in change.object() {
        // Nothing of it is left out: it is what will be acted on.
        for (nth, text) in wrapped(&value, room.saturating_sub(8)).into_iter().enumerate() {
            let what = if nth == 0 { what } else { "" };
            lines.push(Line::from(vec![
                Span::styled(format!("  {what:<6}"), paint.always(FAINT)),
                Span::styled(text, style),
            ]));
        }
    }
    lines.push(Line::from(vec![Span::styled("y", paint.key()), Span::raw(" does it, any other key doesn't")]));
    boxed(frame, screen, lines, " sure? ", room, style);
}

pub(super) fn help(app: &App, frame: &mut Frame<'_>, paint: Paint) {
    let screen = frame.area();
    let mut left: Vec<Vec<Span<'static>>> = vec![vec![Span::styled("look", paint.always(HEAD))]];
    left.extend(LOOKING.iter().map(|(key, what)| entry(key, what, KEYS_WIDTH, paint)));
    let mut right: Vec<Vec<Span<'static>>> = vec![vec![Span::styled("change, after a question", paint.always(HEAD))]];
    right.extend(CHANGING.iter().map(|(key, what)| entry(key, what, KEY_WIDTH, paint)));
    right.push(Vec::new());
    let told =
        if app.about.is_read_only { "off: --read-only".to_owned() } else { "capitals are for one job".to_owned() };
    right.push(vec![Span::styled(told, paint.always(FAINT))]);
    for text in
        ["IN 1M, IN 1H: due by then", "LATE: how long the oldest", "due job has waited", "rates: over the last 10s"]
    {
        right.push(vec![Span::styled(text, paint.always(FAINT))]);
    }
    let width = |spans: &[Span<'_>]| spans.iter().map(|span| span.content.width()).sum::<usize>();
    let column = left.iter().map(|spans| width(spans)).max().unwrap_or(0) + 2;
    let lines: Vec<Line<'static>> = (0..left.len().max(right.len()))
        .map(|at| {
            let mut spans = left.get(at).cloned().unwrap_or_default();
            spans.push(Span::raw(" ".repeat(column.saturating_sub(width(&spans)))));
            spans.extend(right.get(at).cloned().unwrap_or_default());
            Line::from(spans)
        })
        .collect();
    let room = lines.iter().map(Line::width).max().unwrap_or(0);
    boxed(frame, screen, lines, " keys: any of them closes this ", room, paint.frame());
}

fn entry(key: &'static str, what: &'static str, room: usize, paint: Paint) -> Vec<Span<'static>> {
    let gap = " ".repeat(room.saturating_sub(key.width()).max(1));
    vec![Span::styled(key, paint.key()), Span::raw(format!("{gap}{what}"))]
}

/// A box in the middle of the screen.
fn boxed(frame: &mut Frame<'_>, screen: Rect, lines: Vec<Line<'_>>, title: &'static str, room: usize, style: Style) {
    let width = u16::try_from(room + 4).unwrap_or(u16::MAX).min(screen.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(screen.height);
    let area =
        Rect { x: screen.x + (screen.width - width) / 2, y: screen.y + (screen.height - height) / 2, width, height };
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(style).title(title);
    let inner = block.inner(area);
    let text = Rect { x: inner.x + 1_u16.min(inner.width), width: inner.width.saturating_sub(2), ..inner };
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    frame.render_widget(Paragraph::new(lines), text);
}

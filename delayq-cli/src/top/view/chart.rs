//! The chosen queue in bars: what falls due within the hour, and what was done lately.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};

use super::note;
use super::paint::Paint;
use crate::output::colour::{BAD, FAINT, GOOD};
use crate::output::escaped;
use crate::output::table::cut;
use crate::top::app::App;
use crate::top::model::{MINUTES, Queue};

/// From so many columns on there is room for both.
const BOTH_FROM: u16 = 72;

pub(super) fn draw(app: &App, queue: &Queue, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    if let Some(trouble) = &queue.trouble {
        let inner = framed(frame, area, &queue.name, paint);
        return note(frame, inner, trouble, Paint { is_stale: false, ..paint });
    }
    if area.width < BOTH_FROM {
        return ahead(app, queue, frame, area, paint);
    }
    let [left, _, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)]).areas(area);
    ahead(app, queue, frame, left, paint);
    done(app, queue, frame, right, paint);
}

/// How many fall due in each of the coming minutes.
fn ahead(app: &App, queue: &Queue, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let ahead = app.home.overview.as_ref().and_then(|overview| overview.ahead.as_ref());
    // Between two looks another queue may have been chosen: its chart comes at once, and until then there is none.
    let minutes = ahead.filter(|ahead| ahead.queue == queue.name).map_or(&[][..], |ahead| &ahead.minutes);
    let room = usize::from(area.width);
    let each = MINUTES.div_ceil(room.max(1)).max(1);
    let steps: Vec<u64> = minutes.chunks(each).map(|minutes| minutes.iter().sum()).collect();
    let most = steps.iter().copied().max().unwrap_or(0);
    let unit = if each == 1 { "m".to_owned() } else { format!("{each}m") };
    let title = format!("{}: {} due in 1h, max {most}/{unit}", queue.name, queue.counts.next_hour);
    let inner = framed(frame, area, &title, paint);
    let [bars, axis] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(inner);
    // The hour is as wide as the room.
    let data: Vec<u64> = (0..room).filter_map(|column| steps.get(column * steps.len() / room)).copied().collect();
    frame.render_widget(sparkline(&data, bars).style(paint.of(GOOD)), bars);
    let marks = if room >= 40 { &["now", "15m", "30m", "45m", "1h"][..] } else { &["now", "30m", "1h"] };
    let mut text = String::new();
    for (nth, mark) in marks.iter().enumerate() {
        let at = (room * nth / (marks.len() - 1)).min(room.saturating_sub(mark.len()));
        text.push_str(&" ".repeat(at.saturating_sub(text.len())));
        text.push_str(mark);
    }
    frame.render_widget(Line::from(Span::styled(text, paint.of(FAINT))), axis);
}

/// How many were done each second, from look to look, the latest at the right.
fn done(app: &App, queue: &Queue, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let rates = app.history.done(&queue.name);
    let room = usize::from(area.width);
    let seen = &rates[rates.len().saturating_sub(room)..];
    let most = seen.iter().copied().fold(0.0, f64::max);
    let last = seen.last().copied().unwrap_or(0.0);
    let inner = framed(frame, area, &format!("done/s: {last:.1}, max {most:.1}"), paint);
    let [bars, axis] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(inner);
    // In hundredths: bars are of whole numbers.
    let data: Vec<u64> = std::iter::repeat_n(0, room - seen.len())
        .chain(seen.iter().map(|rate| (rate * 100.0).round() as u64))
        .collect();
    frame.render_widget(sparkline(&data, bars).style(paint.of(GOOD)), bars);
    let style = paint.of(if queue.counts.sessions == 0 && queue.counts.due > 0 { BAD } else { FAINT });
    let plural = if queue.counts.sessions == 1 { "" } else { "s" };
    let text = format!("{} worker{plural}, the latest look at the right", queue.counts.sessions);
    frame.render_widget(Paragraph::new(Line::from(Span::styled(cut(&text, room), style))), axis);
}

/// Bars in so much room: what is there at all is seen.
fn sparkline(data: &[u64], area: Rect) -> Sparkline<'static> {
    let eighths = u64::from(area.height.max(1)) * 8;
    let most = data.iter().copied().max().unwrap_or(0).max(1);
    let scaled = |n: &u64| {
        let bar = (*n as f64 / most as f64 * eighths as f64).round() as u64;
        bar.max(u64::from(*n > 0))
    };
    let bars: Vec<u64> = data.iter().map(scaled).collect();
    Sparkline::default().data(bars).max(eighths)
}

fn framed(frame: &mut Frame<'_>, area: Rect, title: &str, paint: Paint) -> Rect {
    let title = cut(&escaped(title), usize::from(area.width.saturating_sub(4)));
    let block = Block::default().borders(Borders::TOP).border_style(paint.frame()).title(format!(" {title} "));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

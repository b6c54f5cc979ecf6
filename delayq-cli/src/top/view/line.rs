//! Lines that fit: parts that go one by one, and texts that go on in the next line.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::escaped;
use crate::output::table::cut;

/// A part of a line.
pub(super) type Part = (String, Style);

/// As many of these parts as there is room for, in order, so far apart. The first one is cut rather than left out.
pub(super) fn parts(parts: impl IntoIterator<Item = Part>, gap: &'static str, room: usize) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut left = room;
    for (text, style) in parts {
        let text = escaped(&text).into_owned();
        if spans.is_empty() {
            let text = cut(&text, room);
            left = room.saturating_sub(text.width());
            spans.push(Span::styled(text, style));
            continue;
        }
        let Some(rest) = left.checked_sub(gap.width() + text.width()) else { break };
        left = rest;
        spans.push(Span::raw(gap));
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

/// One text at the left, one at the right; the left one gives way.
pub(super) fn spread(left: Vec<Part>, right: Vec<Part>, room: usize) -> Line<'static> {
    let right_width: usize = right.iter().map(|(text, _)| text.width()).sum();
    let (right, right_width) = if right_width + 12 > room { (Vec::new(), 0) } else { (right, right_width) };
    let mut left_room = room.saturating_sub(right_width + usize::from(right_width > 0));
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (text, style) in left {
        let text = cut(&escaped(&text), left_room);
        left_room -= text.width().min(left_room);
        spans.push(Span::styled(text, style));
        if left_room == 0 {
            break;
        }
    }
    let gap = left_room + usize::from(right_width > 0);
    spans.push(Span::raw(" ".repeat(gap)));
    spans.extend(right.into_iter().map(|(text, style)| Span::styled(text, style)));
    Line::from(spans)
}

/// A text in lines of so many columns at the most, broken behind a space where there is one in reach. Nothing of it is lost. What
/// could steer a terminal is written out.
pub(super) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let room = room.max(2);
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for c in escaped(text).chars() {
        let width = c.width().unwrap_or(0);
        // A space at the edge isn't seen.
        if used + width > room && !(c == ' ' && used == room) {
            let at = line.rfind(' ').map_or(line.len(), |space| space + 1);
            let at = if line[..at].width() * 2 > room { at } else { line.len() };
            let rest = line.split_off(at);
            used = rest.width();
            lines.push(std::mem::replace(&mut line, rest));
        }
        line.push(c);
        used += width;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &Line<'_>) -> String {
        line.spans.iter().map(|span| span.content.as_ref()).collect()
    }

    fn part(text: &str) -> Part {
        (text.to_owned(), Style::new())
    }

    #[test]
    fn what_has_no_room_goes_and_the_first_is_cut() {
        let all = || [part("12 queues"), part("waiting 3"), part("dead 1")];
        assert_eq!(text(&parts(all(), "  ", 80)), "12 queues  waiting 3  dead 1");
        assert_eq!(text(&parts(all(), "  ", 21)), "12 queues  waiting 3");
        assert_eq!(text(&parts(all(), "  ", 5)), "12 q…");
        assert_eq!(text(&parts([part("\u{1b}[2J")], "", 80)), "\\u{1b}[2J");
    }

    #[test]
    fn two_ends_of_a_line_leave_each_other_room() {
        assert_eq!(text(&spread(vec![part("top")], vec![part("12:00")], 20)), "top            12:00");
        assert_eq!(
            text(&spread(vec![part("a long name of a queue")], vec![part("12:00")], 20)),
            "a long name o… 12:00"
        );
        assert_eq!(text(&spread(vec![part("orders")], vec![part("12:00")], 10)).trim_end(), "orders");
        assert_eq!(text(&spread(vec![part("orders and more")], vec![], 10)), "orders an…");
    }

    #[test]
    fn texts_are_broken_by_columns() {
        assert_eq!(wrapped("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("the bank says no", 8), ["the bank ", "says no"]);
        assert_eq!(wrapped("the bank", 3), ["the ", "ban", "k"]);
        assert_eq!(wrapped("a longword", 6), ["a long", "word"], "too far back to break there");
        assert_eq!(wrapped("   x", 2).concat(), "   x");
        assert_eq!(wrapped("a\tb", 40), ["a\\tb"]);
    }
}

//! Tables that fit: columns as wide as their texts, and one that gives way where the terminal is too narrow.

use std::borrow::Cow;
use std::io;

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Out, colour, escaped};

/// Between two columns.
const GAP: usize = 2;
/// What a column that gives way keeps at the least.
const WIDTH_MIN: usize = 10;

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Left(&'static str),
    /// For numbers.
    Right(&'static str),
    /// Cut off at the terminal's edge; the last one of a table. In a pipe it is whole.
    Rest(&'static str),
    /// Goes on in the next line at the terminal's edge; the last one of a table. In a pipe it is one line.
    Folded(&'static str),
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    has_head: bool,
}

/// A text that is harmless, and its style.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

/// A cell of a plain text. Whatever could steer a terminal is written out.
pub(crate) fn cell(text: impl AsRef<str>) -> Cell {
    styled(text, colour::PLAIN)
}

/// The same, in a style.
pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Cell {
    Cell { text: escaped(text.as_ref()).into_owned(), style }
}

/// A count: what there is none of is faint, what there is has the style.
pub(crate) fn count(n: u64, style: Style) -> Cell {
    styled(n.to_string(), if n == 0 { colour::FAINT } else { style })
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Column::Left(title) | Column::Right(title) | Column::Rest(title) | Column::Folded(title) => title,
        }
    }
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new(), has_head: true }
    }

    /// For what comes below another table.
    pub(crate) fn without_head(mut self) -> Table {
        self.has_head = false;
        self
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len(), "a cell a column");
        self.rows.push(cells.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn write(&self, out: &mut Out) -> io::Result<()> {
        let widths = self.widths(out.columns());
        let head: Vec<Cell> = self.columns.iter().map(|column| styled(column.title(), colour::HEAD)).collect();
        for row in self.has_head.then_some(&head).into_iter().chain(&self.rows) {
            for row in self.folded(row, &widths) {
                let line = self.laid_out(&row, &widths, out);
                out.line(line.trim_end())?;
            }
        }
        Ok(())
    }

    /// The row, and below it what of its last cell needs lines of its own.
    fn folded<'c>(&self, row: &'c [Cell], widths: &[usize]) -> Vec<Cow<'c, [Cell]>> {
        let (Some(Column::Folded(_)), Some((last, others)), Some(width)) =
            (self.columns.last(), row.split_last(), widths.last())
        else {
            return vec![Cow::Borrowed(row)];
        };
        let lines = fold(&last.text, *width).into_iter().enumerate().map(|(at, text)| {
            let beside = others.iter().map(|other| if at == 0 { other.clone() } else { cell("") });
            beside.chain([Cell { text, style: last.style }]).collect::<Vec<Cell>>()
        });
        lines.map(Cow::Owned).collect()
    }

    fn widths(&self, edge: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.title().width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        if let (Some(edge), Some(Column::Rest(_) | Column::Folded(_))) = (edge, self.columns.last())
            && let Some((rest, others)) = widths.split_last_mut()
        {
            let taken: usize = others.iter().map(|width| width + GAP).sum();
            *rest = (*rest).min(edge.saturating_sub(taken).max(WIDTH_MIN));
        }
        widths
    }

    fn laid_out(&self, row: &[Cell], widths: &[usize], out: &Out) -> String {
        let mut line = String::new();
        for (at, ((column, cell), width)) in self.columns.iter().zip(row).zip(widths).enumerate() {
            let text = cut(&cell.text, *width);
            let room = width.saturating_sub(text.width());
            let (before, after) = match column {
                Column::Right(_) => (room, 0),
                Column::Left(_) | Column::Rest(_) | Column::Folded(_) => {
                    (0, if at + 1 == widths.len() { 0 } else { room })
                }
            };
            line.extend(std::iter::repeat_n(' ', if at == 0 { before } else { GAP + before }));
            line.push_str(&out.styled(cell.style, text));
            line.extend(std::iter::repeat_n(' ', after));
        }
        line
    }
}

/// The text in lines of so many columns, broken between words where it can be.
fn fold(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if !line.is_empty() && line.width() + c.width().unwrap_or(0) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

/// The text within so many columns; what was cut off is marked.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide_is_cut_by_columns_not_by_characters() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
        assert_eq!(cut("日本語です", 5), "日本…");
        assert!(cut("日本語です", 5).width() <= 5);
    }

    #[test]
    fn a_text_is_folded_between_words_and_nothing_of_it_is_lost() {
        assert_eq!(fold("set it to noeviction, by CONFIG SET", 12), ["set it to", "noeviction,", "by CONFIG", "SET"]);
        assert_eq!(fold("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(fold("日本語です", 4), ["日本", "語で", "す"]);
        assert_eq!(fold("", 4), [""]);
        let mut table = Table::new(&[Column::Left("CHECK"), Column::Folded("FOUND")]);
        table.row([cell("memory"), cell("one two three four five")]);
        let widths = table.widths(Some(20));
        let lines: Vec<Vec<String>> = table
            .folded(&table.rows[0], &widths)
            .iter()
            .map(|row| row.iter().map(|cell| cell.text.clone()).collect())
            .collect();
        assert_eq!(lines, [["memory", "one two"], ["", "three four"], ["", "five"]]);
        let whole = table.widths(None);
        assert_eq!(table.folded(&table.rows[0], &whole).len(), 1, "a pipe has no edge");
    }

    #[test]
    fn the_last_column_gives_way_and_no_other() {
        let mut table = Table::new(&[Column::Left("ID"), Column::Rest("ERROR")]);
        table.row([cell("0197a3c2-5e1f-7d3a-9c4b-2f6e8d1a0b5c"), cell("x".repeat(200))]);
        assert_eq!(table.widths(Some(80)), [36, 42]);
        assert_eq!(table.widths(Some(20)), [36, WIDTH_MIN], "an id is never cut: people copy it");
        assert_eq!(table.widths(None), [36, 200], "a pipe has no edge");
    }
}

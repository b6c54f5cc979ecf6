//! Tables that fit any terminal: columns go one by one, the least important first, and one column takes the room that is left.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table, TableState};
use unicode_width::UnicodeWidthStr;

use super::paint::Paint;
use crate::output::escaped;
use crate::output::table::cut;
use crate::top::cursor::Cursor;

/// Between two columns.
const GAP: usize = 2;

/// A column.
#[derive(Debug, Clone)]
pub(super) struct Column {
    title: String,
    is_number: bool,
    /// It goes before those of a lower rank; 0 never goes.
    rank: u8,
    /// Its least width where it takes the room that is left.
    elastic: Option<usize>,
    width_max: usize,
}

/// A text that is harmless, and its style.
#[derive(Debug, Clone)]
pub(super) struct Item {
    text: String,
    style: Style,
}

#[derive(Debug)]
pub(super) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Item>>,
}

impl Column {
    pub(super) fn text(title: impl Into<String>, rank: u8) -> Column {
        Column { title: title.into(), is_number: false, rank, elastic: None, width_max: usize::MAX }
    }

    pub(super) fn number(title: impl Into<String>, rank: u8) -> Column {
        Column { is_number: true, ..Column::text(title, rank) }
    }

    /// It takes the room that is left, and has at least so much; one of a table.
    pub(super) fn elastic(mut self, least: usize) -> Column {
        self.elastic = Some(least);
        self
    }

    pub(super) fn at_most(mut self, columns: usize) -> Column {
        self.width_max = columns;
        self
    }
}

/// Whatever could steer a terminal is written out.
pub(super) fn item(text: impl AsRef<str>, style: Style) -> Item {
    Item { text: escaped(text.as_ref()).into_owned(), style }
}

impl Grid {
    pub(super) fn new(columns: Vec<Column>) -> Grid {
        Grid { columns, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, items: Vec<Item>) {
        debug_assert_eq!(items.len(), self.columns.len(), "an item a column");
        self.rows.push(items);
    }

    /// The columns that are shown in so much room, and how wide.
    fn fit(&self, room: usize) -> Vec<(usize, usize)> {
        let natural = |at: usize| {
            let texts = self.rows.iter().map(|row| row[at].text.width());
            let widest = texts.chain([self.columns[at].title.width()]).max().unwrap_or(0);
            widest.min(self.columns[at].width_max)
        };
        let mut shown: Vec<(usize, usize)> = (0..self.columns.len()).map(|at| (at, natural(at))).collect();
        let least = |(at, width): &(usize, usize)| self.columns[*at].elastic.unwrap_or(*width);
        let needed =
            |shown: &[(usize, usize)]| shown.iter().map(least).sum::<usize>() + GAP * shown.len().saturating_sub(1);
        while needed(&shown) > room {
            let Some((last, _)) = shown
                .iter()
                .enumerate()
                .filter(|(_, (at, _))| self.columns[*at].rank > 0)
                .max_by_key(|(_, (at, _))| self.columns[*at].rank)
            else {
                break;
            };
            shown.remove(last);
        }
        let spare = room.saturating_sub(needed(&shown));
        for (at, width) in &mut shown {
            if let Some(least) = self.columns[*at].elastic {
                *width = least + spare;
            }
        }
        shown
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect, paint: Paint, cursor: &Cursor, chosen: Option<usize>) {
        let shown = self.fit(area.width.into());
        let laid_out = |text: &str, style: Style, (at, width): (usize, usize)| {
            let alignment = if self.columns[at].is_number { Alignment::Right } else { Alignment::Left };
            Cell::from(Line::from(Span::styled(cut(text, width), style)).alignment(alignment))
        };
        let head = shown.iter().map(|column| laid_out(&self.columns[column.0].title, Style::new(), *column));
        let rows = self.rows.iter().map(|row| {
            Row::new(shown.iter().map(|column| {
                let item = &row[column.0];
                laid_out(&item.text, item.style, *column)
            }))
        });
        let widths = shown.iter().map(|(_, width)| Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)));
        let table = Table::new(rows, widths)
            .header(Row::new(head).style(paint.head()))
            .column_spacing(GAP as u16)
            .row_highlight_style(paint.chosen());
        let height = usize::from(area.height.saturating_sub(1));
        cursor.height.set(height);
        // A list that has become shorter begins where it still fills the screen.
        let offset = cursor.offset.get().min(self.rows.len().saturating_sub(height));
        let mut state = TableState::new().with_offset(offset).with_selected(chosen);
        frame.render_stateful_widget(table, area, &mut state);
        cursor.offset.set(state.offset());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_go_by_rank_and_one_takes_the_rest() {
        let mut grid = Grid::new(vec![
            Column::text("QUEUE", 0).elastic(8),
            Column::number("WAITING", 0),
            Column::number("DUE", 2),
            Column::text("STATE", 1).at_most(6),
        ]);
        let row = ["日本語の長い名前", "100000", "7", "paused for long"];
        grid.row(row.iter().map(|text| item(text, Style::new())).collect());
        assert_eq!(grid.fit(40), [(0, 18), (1, 7), (2, 3), (3, 6)]);
        assert_eq!(grid.fit(30), [(0, 8), (1, 7), (2, 3), (3, 6)]);
        assert_eq!(grid.fit(29), [(0, 12), (1, 7), (3, 6)]);
        assert_eq!(grid.fit(20), [(0, 11), (1, 7)]);
        assert_eq!(grid.fit(1), [(0, 8), (1, 7)], "what never goes is cut by the screen");
    }
}

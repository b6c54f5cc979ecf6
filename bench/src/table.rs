//! Reports as text: a table of medians, the least and the most of each below it.

use std::fmt::Write;

use crate::report::{Report, Series};

/// What stands where a series has no such measure.
const NOTHING: &str = "-";

/// The whole report.
pub(crate) fn text(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}: {}", report.figure, report.what);
    let _ = writeln!(out, "  {}", report.machine.line());
    for setting in &report.settings {
        let _ = writeln!(out, "  {setting}");
    }
    out.push('\n');
    out.push_str(&table(report));
    for ratio in &report.ratios {
        let (what, s) = (&ratio.what, &ratio.spread);
        let _ = writeln!(out, "  {what}: {:.3} ({:.3} to {:.3})", s.median, s.min, s.max);
    }
    for note in &report.notes {
        let _ = writeln!(out, "  {note}");
    }
    let _ = writeln!(out, "  taken in {:.0} s{}", report.took_s, if report.quick { ", with --quick" } else { "" });
    out
}

/// Series by measures or measures by series, whichever is narrower; medians, then least and most.
fn table(report: &Report) -> String {
    let mut measures: Vec<(&str, &str)> = Vec::new();
    for measured in report.series.iter().flat_map(|series| &series.measures) {
        if !measures.iter().any(|(key, _)| *key == measured.key) {
            measures.push((&measured.key, &measured.title));
        }
    }
    let cell = |series: &Series, key: &str| match series.measure(key) {
        None => (NOTHING.to_owned(), String::new()),
        Some(m) => {
            let s = &m.spread;
            let spread = format!("{}-{}", number(s.min, m.digits), number(s.max, m.digits));
            (number(s.median, m.digits), if s.runs.len() > 1 { spread } else { String::new() })
        }
    };
    let names: Vec<&str> = report.series.iter().map(|series| series.name.as_str()).collect();
    let titles: Vec<&str> = measures.iter().map(|(_, title)| *title).collect();
    let by_series = rows(&titles, &names, |row, column| cell(&report.series[row], measures[column].0));
    let by_measures = rows(&names, &titles, |row, column| cell(&report.series[column], measures[row].0));
    let wide = |rows: &[Vec<String>]| widths(rows).iter().sum::<usize>();
    let rows = if wide(&by_series) <= wide(&by_measures) { by_series } else { by_measures };
    let widths = widths(&rows);
    let mut out = String::new();
    for row in &rows {
        let _ = write!(out, "  {:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(out, "  {cell:>width$}");
        }
        let trimmed = out.trim_end().len();
        out.truncate(trimmed);
        out.push('\n');
    }
    out.push('\n');
    out
}

/// A row of titles, then two for each name.
fn rows(titles: &[&str], names: &[&str], cell: impl Fn(usize, usize) -> (String, String)) -> Vec<Vec<String>> {
    let mut rows = vec![std::iter::once("").chain(titles.iter().copied()).map(str::to_owned).collect()];
    for (row, name) in names.iter().enumerate() {
        let (medians, spreads): (Vec<String>, Vec<String>) = (0..titles.len()).map(|column| cell(row, column)).unzip();
        rows.push(std::iter::once((*name).to_owned()).chain(medians).collect());
        if spreads.iter().any(|spread| !spread.is_empty()) {
            rows.push(std::iter::once(String::new()).chain(spreads).collect());
        }
    }
    rows
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row: &Vec<String>| row[column].chars().count()).max();
    (0..columns).map(|column| width(column).unwrap_or_default()).collect()
}

/// A number with its thousands apart.
pub(crate) fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_kept_apart() {
        assert_eq!(number(1_234_567.891, 1), "1,234,567.9");
        assert_eq!(number(123.0, 0), "123");
        assert_eq!(number(-1234.5, 1), "-1,234.5");
        assert_eq!(number(0.25, 2), "0.25");
    }
}

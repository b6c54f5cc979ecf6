//! What is printed: tables, JSON, colours, on a terminal or into a pipe.

pub(crate) mod colour;
pub(crate) mod json;
pub(crate) mod table;

mod escape;

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use serde::Serialize;

pub(crate) use escape::escaped;

/// Standard output.
#[derive(Debug)]
pub(crate) struct Out {
    to: BufWriter<Stdout>,
    is_coloured: bool,
    /// The terminal's columns, if it is one.
    columns: Option<usize>,
    /// Whether JSON is wanted.
    pub(crate) json: bool,
}

impl Out {
    pub(crate) fn new(json: bool) -> Out {
        let stdout = io::stdout();
        let is_coloured = AutoStream::choice(&stdout) != ColorChoice::Never;
        let columns = stdout
            .is_terminal()
            .then(terminal_size::terminal_size)
            .flatten()
            .map(|(width, _)| usize::from(width.0).max(40));
        Out { to: BufWriter::new(stdout), is_coloured, columns, json }
    }

    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Whether colours are wanted.
    pub(crate) fn is_coloured(&self) -> bool {
        self.is_coloured
    }

    /// A text in a style, where colours are wanted.
    pub(crate) fn styled(&self, style: Style, text: impl Display) -> String {
        if self.is_coloured && style != Style::new() { format!("{style}{text}{style:#}") } else { text.to_string() }
    }

    /// A line of text, as it is.
    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.to, "{text}")
    }

    /// A line of JSON.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, value)?;
        self.to.write_all(b"\n")
    }

    /// Empties the terminal, for what is shown again and again.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if self.columns.is_some() { self.to.write_all(b"\x1b[H\x1b[2J\x1b[3J") } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A remark beside the output: on standard error, so that it is in no pipe's way.
pub(crate) fn remark(text: impl Display) {
    // Where nobody listens, nothing is lost.
    let _ = writeln!(io::stderr(), "{}", escaped(&text.to_string()));
}

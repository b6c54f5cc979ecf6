//! Colours: those of all commands, and what a screen needs beside them. Where colours aren't wanted, bold and reversed do.

use anstyle::{AnsiColor, Effects};
use ratatui::style::{Color, Modifier, Style};

use crate::output::colour;

/// How things are painted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    pub(super) is_coloured: bool,
    /// Old figures are grey.
    pub(super) is_stale: bool,
}

impl Paint {
    /// A style of the other commands.
    pub(super) fn of(self, style: anstyle::Style) -> Style {
        if self.is_stale {
            return self.always(colour::FAINT);
        }
        self.always(style)
    }

    /// The same, whether figures are old or not.
    pub(super) fn always(self, style: anstyle::Style) -> Style {
        let mut painted = Style::new();
        for (effect, modifier) in [(Effects::BOLD, Modifier::BOLD), (Effects::DIMMED, Modifier::DIM)] {
            if style.get_effects().contains(effect) {
                painted = painted.add_modifier(modifier);
            }
        }
        match style.get_fg_color() {
            Some(anstyle::Color::Ansi(ansi)) if self.is_coloured => painted.fg(match ansi {
                AnsiColor::Green => Color::Green,
                AnsiColor::Yellow => Color::Yellow,
                AnsiColor::Red => Color::Red,
                _ => Color::Reset,
            }),
            _ => painted,
        }
    }

    /// The head of a table.
    pub(super) fn head(self) -> Style {
        if self.is_coloured {
            Style::new().fg(Color::Black).bg(Color::Green)
        } else {
            Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
        }
    }

    /// What is chosen.
    pub(super) fn chosen(self) -> Style {
        if self.is_coloured {
            Style::new().fg(Color::Black).bg(Color::Cyan).remove_modifier(Modifier::DIM)
        } else {
            Style::new().add_modifier(Modifier::REVERSED)
        }
    }

    /// A key in a line of keys.
    pub(super) fn key(self) -> Style {
        if self.is_coloured {
            Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD)
        } else {
            Style::new().add_modifier(Modifier::BOLD)
        }
    }

    /// Frames, and what a chart is drawn with.
    pub(super) fn frame(self) -> Style {
        if self.is_coloured { Style::new().fg(Color::Cyan) } else { Style::new() }
    }
}

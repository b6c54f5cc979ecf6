//! The few colours: what needs a look, what is fine, what is beside the point.

use anstyle::{AnsiColor, Style};
use delayq::JobState;

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const HEAD: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();

/// The colour of a state.
pub(crate) fn of_state(state: JobState) -> Style {
    match state {
        JobState::Running => GOOD,
        JobState::Dead => BAD,
        JobState::Retained => FAINT,
        _ => PLAIN,
    }
}

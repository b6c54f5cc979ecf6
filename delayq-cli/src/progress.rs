//! Progress of long work, on standard error where that is a terminal.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often it is drawn at the least.
const TICK: Duration = Duration::from_millis(200);

/// A bar, or a count where the end isn't known. It goes away with its end.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// For so many.
    pub(crate) fn of(total: usize, what: impl Into<Cow<'static, str>>) -> Progress {
        let bar = ProgressBar::new(total as u64).with_message(what);
        Progress::styled(bar, "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}")
    }

    /// For as many as there are.
    pub(crate) fn counting(what: impl Into<Cow<'static, str>>) -> Progress {
        Progress::styled(ProgressBar::new_spinner().with_message(what), "{spinner} {msg} {human_pos} {per_sec}")
    }

    fn styled(bar: ProgressBar, template: &str) -> Progress {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        // A hidden one has nobody to tick for.
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Progress(bar)
    }

    pub(crate) fn more(&self, by: usize) {
        self.0.inc(by as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

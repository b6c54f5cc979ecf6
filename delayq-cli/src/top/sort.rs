//! The columns of the table of queues, and the order of its rows.

use std::cmp::Ordering;

use super::model::Queue;
use super::rates::History;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum By {
    #[default]
    Name,
    State,
    Waiting,
    Due,
    Minute,
    Hour,
    Running,
    Sent,
    Done,
    Failed,
    Dead,
    Late,
}

/// Which column the rows are sorted by. Names go up, and numbers down, unless reversed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sort {
    pub(super) by: By,
    is_reversed: bool,
}

impl By {
    /// As they stand in the table.
    pub(super) const ALL: [By; 12] = [
        By::Name,
        By::State,
        By::Waiting,
        By::Due,
        By::Minute,
        By::Hour,
        By::Running,
        By::Sent,
        By::Done,
        By::Failed,
        By::Dead,
        By::Late,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            By::Name => "QUEUE",
            By::State => "STATE",
            By::Waiting => "WAITING",
            By::Due => "DUE",
            By::Minute => "IN 1M",
            By::Hour => "IN 1H",
            By::Running => "RUN",
            By::Sent => "SENT/S",
            By::Done => "DONE/S",
            By::Failed => "FAILED/S",
            By::Dead => "DEAD",
            By::Late => "LATE",
        }
    }

    /// What a queue is measured by in this column; more comes first.
    fn measure(self, queue: &Queue, history: &History) -> f64 {
        let counts = &queue.counts;
        let rates = || history.rates(&queue.name, counts).unwrap_or_default();
        match self {
            By::Name => 0.0,
            By::State => f64::from(u8::from(counts.is_paused)) + 2.0 * f64::from(u8::from(queue.trouble.is_some())),
            By::Waiting => counts.waiting as f64,
            By::Due => counts.due as f64,
            By::Minute => counts.next_minute as f64,
            By::Hour => counts.next_hour as f64,
            By::Running => counts.running as f64,
            By::Sent => rates().sent,
            By::Done => rates().done,
            By::Failed => rates().failed,
            By::Dead => counts.dead as f64,
            By::Late => counts.oldest_due.as_secs_f64(),
        }
    }
}

impl Sort {
    /// By the next column.
    pub(super) fn next(self) -> Sort {
        let at = By::ALL.iter().position(|by| *by == self.by).unwrap_or(0);
        Sort { by: By::ALL[(at + 1) % By::ALL.len()], is_reversed: false }
    }

    pub(super) fn reversed(self) -> Sort {
        Sort { is_reversed: !self.is_reversed, ..self }
    }

    /// Whether what is small comes first.
    pub(super) fn goes_up(self) -> bool {
        (self.by == By::Name) != self.is_reversed
    }

    pub(super) fn sort(self, queues: &mut [&Queue], history: &History) {
        queues.sort_by(|a, b| {
            let order = match self.by {
                By::Name => a.name.cmp(&b.name),
                by => by.measure(b, history).partial_cmp(&by.measure(a, history)).unwrap_or(Ordering::Equal),
            };
            let order = if self.is_reversed { order.reverse() } else { order };
            // Equals stay where they are from look to look.
            order.then_with(|| a.name.cmp(&b.name))
        });
    }
}

//! What a lane says of a store that it can't work with: each cause at once, then a line a minute while it lasts, and its end.

use std::time::{Duration, Instant};

use crate::error::Error;

/// How often an outage is told of again.
const REMIND: Duration = Duration::from_secs(60);
/// How many causes of one outage are told at once; later ones wait for the next reminder.
const CAUSES_MAX: usize = 8;

/// The present outage, if there is one.
#[derive(Default)]
pub(super) struct Trouble(Option<Outage>);

struct Outage {
    since: Instant,
    told_at: Instant,
    causes: Vec<String>,
}

impl Outage {
    /// Whether this is to be told: a cause that is new, or one that has not been told of for a while.
    fn is_news(&mut self, cause: String, now: Instant) -> bool {
        let new = self.causes.len() < CAUSES_MAX && !self.causes.contains(&cause);
        if new {
            self.causes.push(cause);
        }
        let tells = new || now.duration_since(self.told_at) >= REMIND;
        if tells {
            self.told_at = now;
        }
        tells
    }
}

impl Trouble {
    /// A call failed, and is tried again after this.
    pub(super) fn failed(&mut self, queue: &str, error: &Error, again_in: Duration) {
        let now = Instant::now();
        let outage = self.0.get_or_insert_with(|| Outage { since: now, told_at: now, causes: Vec::new() });
        let lasts = now.duration_since(outage.since);
        if outage.is_news(error.to_string(), now) {
            tracing::warn!(queue, %error, ?again_in, ?lasts, "the store can't be worked with, and is tried again");
        } else {
            tracing::debug!(queue, %error, ?again_in, ?lasts, "the store can't be worked with yet");
        }
    }

    /// Whether the last call failed.
    pub(super) fn lasts(&self) -> bool {
        self.0.is_some()
    }

    /// A call succeeded.
    pub(super) fn over(&mut self, queue: &str) {
        if let Some(outage) = self.0.take() {
            tracing::info!(queue, lasted = ?outage.since.elapsed(), "the store can be worked with again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_by_cause_and_then_once_a_minute() {
        let start = Instant::now();
        let mut outage = Outage { since: start, told_at: start, causes: Vec::new() };
        let mut told = Vec::new();
        for second in 0..=150 {
            let cause = if second % 2 == 0 { "refused" } else { "lost" };
            if outage.is_news(cause.to_owned(), start + Duration::from_secs(second)) {
                told.push(second);
            }
        }
        assert_eq!(told, [0, 1, 61, 121]);
        let many = (0..1000).filter(|n| outage.is_news(format!("cause {n}"), start + Duration::from_secs(150))).count();
        assert_eq!(many, CAUSES_MAX - 2);
    }
}

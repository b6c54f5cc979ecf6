//! Rates as they are now: from the totals of the last looks, where the store's own go back a minute or two.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::model::{Counts, Rates, Totals};

/// How far back a rate looks.
const OVER: Duration = Duration::from_secs(10);
/// How many looks are kept of a queue: a bar of the chart each.
const KEPT: usize = 240;

/// The totals of the last looks, queue by queue.
#[derive(Debug, Default)]
pub(super) struct History {
    looks: HashMap<String, VecDeque<(Timestamp, Totals)>>,
}

impl History {
    pub(super) fn add(&mut self, queue: &str, counts: &Counts) {
        let looks = self.looks.entry(queue.to_owned()).or_default();
        if looks.back().is_some_and(|(at, _)| *at >= counts.now) {
            // A clock that was set back, or the same look: begin anew rather than show nonsense.
            looks.clear();
        }
        looks.push_back((counts.now, counts.totals));
        if looks.len() > KEPT + 1 {
            looks.pop_front();
        }
    }

    /// What happened each second: over the last seconds, or else by the store's own count.
    pub(super) fn rates(&self, queue: &str, counts: &Counts) -> Option<Rates> {
        let looks = self.looks.get(queue)?;
        let (now, last) = looks.back()?;
        let earlier = looks.iter().rev().skip(1);
        // The oldest one within reach, or the one before the last where looks are far between.
        let within = earlier.clone().take_while(|(at, _)| elapsed(*at, *now) <= OVER).last();
        match within.or_else(|| looks.iter().rev().nth(1)) {
            Some((at, first)) => Some(rates(first, last, elapsed(*at, *now))),
            None => counts.lately,
        }
    }

    /// How many jobs were done each second, from look to look, the latest last.
    pub(super) fn done(&self, queue: &str) -> Vec<f64> {
        let Some(looks) = self.looks.get(queue) else { return Vec::new() };
        let pairs = looks.iter().zip(looks.iter().skip(1));
        pairs.map(|((from, first), (to, last))| rates(first, last, elapsed(*from, *to)).done).collect()
    }
}

fn rates(first: &Totals, last: &Totals, over: Duration) -> Rates {
    let each = |first: u64, last: u64| last.saturating_sub(first) as f64 / over.as_secs_f64().max(0.001);
    Rates {
        sent: each(first.sent, last.sent),
        done: each(first.done, last.done),
        failed: each(first.failed, last.failed),
    }
}

fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(at_s: i64, done: u64) -> Counts {
        let now = Timestamp::from_second(at_s).expect("an instant");
        Counts { now, totals: Totals { sent: 0, done, failed: 0 }, ..Counts::default() }
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut history = History::default();
        let lately = Some(Rates { sent: 1.0, done: 2.0, failed: 3.0 });
        let first = Counts { lately, ..counts(100, 1000) };
        assert_eq!(history.rates("a", &first), None);
        history.add("a", &first);
        assert_eq!(history.rates("a", &first), lately, "one look tells no rate: the store's own is shown");
        for (at, done) in [(102, 1020), (104, 1040), (120, 1040), (122, 1100)] {
            history.add("a", &counts(at, done));
        }
        let now = history.rates("a", &first).expect("rates");
        assert_eq!(now.done, 30.0, "60 in 2 s; what was before that is past");
        assert_eq!(history.done("a"), [10.0, 10.0, 0.0, 30.0]);
        // A look after a long time elsewhere.
        history.add("a", &counts(222, 1200));
        assert_eq!(history.rates("a", &first).map(|rates| rates.done), Some(1.0));
        // Counters that began anew, or a clock set back.
        history.add("a", &counts(224, 0));
        assert_eq!(history.rates("a", &first).map(|rates| rates.done), Some(0.0));
        history.add("a", &counts(10, 0));
        assert!(history.done("a").is_empty());
        assert!(history.done("b").is_empty());
    }
}

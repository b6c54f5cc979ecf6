//! Medians, spreads, percentiles.

use serde::{Deserialize, Serialize};

/// One quantity over several runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// In the order in which they were taken.
    pub(crate) runs: Vec<f64>,
}

impl Spread {
    pub(crate) fn of(runs: Vec<f64>) -> Spread {
        let mut spread = Spread { runs, ..Spread::default() };
        spread.look_again();
        spread
    }

    pub(crate) fn push(&mut self, value: f64) {
        self.runs.push(value);
        self.look_again();
    }

    fn look_again(&mut self) {
        let mut sorted = self.runs.clone();
        sorted.sort_by(f64::total_cmp);
        self.min = sorted.first().copied().unwrap_or_default();
        self.max = sorted.last().copied().unwrap_or_default();
        self.median = middle(&sorted);
    }
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// The value that a share of all values doesn't exceed, 0 if there is none: the nearest rank.
pub(crate) fn percentile<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_median_between_least_and_most() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).median, 2.5);
    }

    #[test]
    fn percentiles_are_values_that_were_there() {
        let values: Vec<u32> = (1..=200).collect();
        assert_eq!(percentile(&values, 0.5), 100);
        assert_eq!(percentile(&values, 0.99), 198);
        assert_eq!(percentile(&values, 1.0), 200);
        assert_eq!(percentile(&[7], 0.5), 7);
        assert_eq!(percentile::<u32>(&[], 0.5), 0);
    }
}

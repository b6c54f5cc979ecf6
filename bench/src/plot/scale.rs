//! From values to places on an axis.

/// An axis: values between two bounds, along pixels between two places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// From zero to a round number not below the highest value.
    pub(super) fn linear(highest: f64, from: f64, to: f64) -> Scale {
        let step = step(highest);
        Scale { low: 0.0, high: (highest / step).ceil().max(1.0) * step, from, to, log: false }
    }

    /// Whole powers of ten around all values, which are above zero.
    pub(super) fn log(lowest: f64, highest: f64, from: f64, to: f64) -> Scale {
        let low = lowest.log10().floor();
        let high = highest.log10().ceil().max(low + 1.0);
        Scale { low: 10f64.powf(low), high: 10f64.powf(high), from, to, log: true }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low).log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Where the axis has lines.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (low, high) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
            return (low..=high).map(|power| 10f64.powi(power)).collect();
        }
        let step = step(self.high);
        (0..=(self.high / step).round() as u32).map(|n| f64::from(n) * step).collect()
    }
}

/// 1, 2 or 5 times a power of ten: four to ten of them make up the highest value.
fn step(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf((highest / 4.0).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|n| n * power).find(|step| highest / step >= 4.0).unwrap_or(power)
}

/// A number as short as it can be read: `0.1`, `20`, `150k`, `1M`.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let text = match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let scale = Scale::linear(170_000.0, 0.0, 100.0);
        assert_eq!(scale.ticks().last(), Some(&180_000.0));
        assert_eq!(scale.place(0.0), 0.0);
        assert_eq!(scale.place(180_000.0), 100.0);
        let log = Scale::log(0.3, 40.0, 0.0, 300.0);
        assert_eq!(log.ticks().len(), 4);
        assert!((log.place(1.0) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(0.1, "0.1"), (20.0, "20"), (150_000.0, "150k"), (1e6, "1M"), (6.25, "6.25"), (0.0, "0")]
        {
            assert_eq!(short(value), text);
        }
    }
}

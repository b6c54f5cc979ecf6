//! How long a failed job waits before its next run: a pure function of the attempt.

use std::time::Duration;

/// The wait between a failed run and the next one.
///
/// The wait never overflows, whatever the attempt number: it grows to its cap and stays there.
///
/// ```
/// use delayq::Backoff;
/// use std::time::Duration;
///
/// let backoff = Backoff::exponential(Duration::from_secs(5));
/// assert_eq!(backoff.base_delay(1), Duration::from_secs(5));
/// assert_eq!(backoff.base_delay(2), Duration::from_secs(10));
/// assert_eq!(backoff.base_delay(3), Duration::from_secs(20));
/// assert_eq!(backoff.base_delay(u32::MAX), Duration::from_secs(3600));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    first: Duration,
    factor: f64,
    max: Duration,
    jitter: f64,
}

impl Backoff {
    /// 5 s, 10 s, 20 s and so on up to an hour, each spread by up to 10 % either way.
    pub const DEFAULT: Backoff = Backoff::exponential(Duration::from_secs(5));

    /// Waits `first` after the first failure and twice as long after each further one, up to an
    /// hour, with a jitter of 0.1.
    pub const fn exponential(first: Duration) -> Backoff {
        Backoff { first, factor: 2.0, max: Duration::from_secs(3600), jitter: 0.1 }
    }

    /// Waits `delay` after every failure, without jitter.
    pub const fn fixed(delay: Duration) -> Backoff {
        Backoff { first: delay, factor: 1.0, max: delay, jitter: 0.0 }
    }

    /// What the wait is multiplied by from one failure to the next; below 1 (or not a number) it counts as 1.
    #[must_use]
    pub const fn factor(mut self, factor: f64) -> Backoff {
        self.factor = if factor >= 1.0 { factor } else { 1.0 };
        self
    }

    /// The longest wait, before jitter.
    #[must_use]
    pub const fn max(mut self, max: Duration) -> Backoff {
        self.max = max;
        self
    }

    /// Spreads each wait evenly over `wait * (1 - jitter) ..= wait * (1 + jitter)`, so that jobs that
    /// failed together don't come back together. Clamped to 0 ..= 1.
    #[must_use]
    pub const fn jitter(mut self, jitter: f64) -> Backoff {
        self.jitter = if jitter > 1.0 {
            1.0
        } else if jitter > 0.0 {
            jitter
        } else {
            0.0
        };
        self
    }

    /// The wait after failed attempt number `attempt` (from 1), before jitter.
    pub fn base_delay(&self, attempt: u32) -> Duration {
        let exponent = f64::from(attempt.max(1) - 1);
        // An exponent this large gives infinity, which `min` brings back to the cap.
        let seconds = self.first.as_secs_f64() * self.factor.powf(exponent);
        let capped = seconds.min(self.max.as_secs_f64());
        Duration::try_from_secs_f64(capped).unwrap_or(self.max)
    }

    /// The wait after failed attempt number `attempt` (from 1), spread by `random`, a number in `0.0 ..= 1.0`.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let base = self.base_delay(attempt);
        let spread = 1.0 + self.jitter * (2.0 * random.clamp(0.0, 1.0) - 1.0);
        Duration::try_from_secs_f64(base.as_secs_f64() * spread).unwrap_or(base)
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b36_never_decreases_and_never_leaves_its_cap() {
        let backoff = Backoff::exponential(Duration::from_secs(5)).max(Duration::from_secs(3600));
        let mut last = Duration::ZERO;
        for attempt in [0, 1, 2, 3, 10, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, u32::MAX - 1, u32::MAX] {
            let wait = backoff.base_delay(attempt);
            assert!(wait >= last, "attempt {attempt}: {wait:?} after {last:?}");
            assert!(wait <= Duration::from_secs(3600));
            last = wait;
        }
        assert_eq!(last, Duration::from_secs(3600));
    }

    #[test]
    fn b36_extreme_settings_stay_finite() {
        let wild = Backoff::exponential(Duration::MAX).factor(f64::INFINITY).max(Duration::MAX).jitter(1.0);
        for attempt in [0, 1, 2, 64, u32::MAX] {
            let _ = wild.delay(attempt, 1.0);
        }
        let nan = Backoff::exponential(Duration::ZERO).factor(f64::NAN).jitter(f64::NAN);
        assert_eq!(nan.delay(u32::MAX, 0.5), Duration::ZERO);
    }

    #[test]
    fn b38_jitter_spreads_a_failed_batch() {
        let backoff = Backoff::fixed(Duration::from_secs(1)).jitter(0.5);
        let mut waits: Vec<u128> = (0..1000).map(|_| backoff.delay(1, fastrand::f64()).as_millis()).collect();
        assert!(waits.iter().all(|ms| (500..=1500).contains(ms)));
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 200, "{} distinct waits", waits.len());
    }
}

//! Instants and delays on their way to the store's clock: whole milliseconds, checked.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::error::Error;
use crate::limits;

/// When a job is due: after a delay, or at an instant. Made from a `Duration`, a [`jiff::Timestamp`] or a `SystemTime`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct When(Kind);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    In(Duration),
    At(Timestamp),
    /// A `SystemTime` beyond what a timestamp can say.
    Beyond,
}

impl From<Duration> for When {
    fn from(delay: Duration) -> When {
        When(Kind::In(delay))
    }
}

impl From<Timestamp> for When {
    fn from(at: Timestamp) -> When {
        When(Kind::At(at))
    }
}

impl From<SystemTime> for When {
    fn from(at: SystemTime) -> When {
        When(Timestamp::try_from(at).map_or(Kind::Beyond, Kind::At))
    }
}

impl When {
    /// What the scripts take: "+delay" or "@instant", in ms, rounded up so that no fraction makes a job early.
    pub(crate) fn to_arg(self) -> Result<String, Error> {
        let beyond = || {
            Error::invalid(
                "the due time is beyond the year 9999: give a delay or an instant that a job can live to see",
            )
        };
        match self.0 {
            Kind::In(delay) => {
                let ms = delay_ms(delay).ok_or_else(beyond)?;
                Ok(format!("+{ms}"))
            }
            Kind::At(at) => {
                let floor = at.as_millisecond();
                let ms = if at.as_nanosecond() > i128::from(floor) * 1_000_000 { floor + 1 } else { floor };
                // What was due before 1970 is due now, like everything in the past.
                let ms = u64::try_from(ms).unwrap_or(0);
                if ms > limits::DUE_MAX_MS { Err(beyond()) } else { Ok(format!("@{ms}")) }
            }
            Kind::Beyond => Err(beyond()),
        }
    }
}

/// A delay in whole ms, rounded up; `None` if no due time could be that far off.
pub(crate) fn delay_ms(delay: Duration) -> Option<u64> {
    let ms = delay.as_nanos().div_ceil(1_000_000);
    u64::try_from(ms).ok().filter(|ms| *ms < limits::DUE_MAX_MS)
}

/// A delay that a handler or policy asked for: what is beyond every due time becomes the furthest that there is.
pub(crate) fn delay_ms_clamped(delay: Duration) -> u64 {
    // The store clamps the due time itself once more; a hundred years keep the sum in range.
    delay_ms(delay).unwrap_or(limits::DUE_MAX_MS).min(100 * 365 * 86_400_000)
}

/// An instant of the store's clock.
pub(crate) fn timestamp(ms: u64) -> Timestamp {
    i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or(Timestamp::MAX)
}

/// The same in µs.
pub(crate) fn timestamp_us(us: u64) -> Timestamp {
    i64::try_from(us).ok().and_then(|us| Timestamp::from_microsecond(us).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b01_far_delays_are_exact() {
        for ms in [(1u64 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 32, 400 * 86_400_000] {
            assert_eq!(When::from(Duration::from_millis(ms)).to_arg().expect("in range"), format!("+{ms}"));
        }
    }

    #[test]
    fn h_fractions_round_up() {
        assert_eq!(When::from(Duration::from_micros(4_300)).to_arg().expect("in range"), "+5");
        assert_eq!(When::from(Duration::from_nanos(1)).to_arg().expect("in range"), "+1");
        let at = Timestamp::from_nanosecond(1_700_000_000_000_000_001).expect("valid");
        assert_eq!(When::from(at).to_arg().expect("in range"), "@1700000000001");
    }

    #[test]
    fn b03_absurd_times_are_errors_and_past_ones_are_now() {
        assert!(When::from(Duration::MAX).to_arg().is_err());
        assert!(When::from(Timestamp::MAX).to_arg().is_ok(), "jiff ends with the year 9999, and so do we");
        assert_eq!(When::from(Timestamp::MIN).to_arg().expect("the past is now"), "@0");
        assert_eq!(When::from(SystemTime::UNIX_EPOCH - Duration::from_millis(1)).to_arg().expect("past"), "@0");
    }
}

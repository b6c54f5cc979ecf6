//! Durations and instants as people write and read them.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

/// An instant as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Moment {
    At(Timestamp),
    /// Before or after now, by the store's clock.
    FromNow(SignedDuration),
}

impl Moment {
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Moment::At(at) => at,
            Moment::FromNow(by) => {
                now.saturating_add(by).unwrap_or(if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
            }
        }
    }
}

/// Reads "30m", "1h 30m", "7d" or "PT30M". A day has 24 hours.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let signed = signed_duration(text)?;
    Duration::try_from(signed).map_err(|_| format!("{text:?} is before now: a duration is zero or more"))
}

fn signed_duration(text: &str) -> Result<SignedDuration, String> {
    let span: Span = text
        .trim()
        .parse()
        .map_err(|_| format!("{text:?} is no duration: write 500ms, 30m, 1h 30m, 7d or PT30M, always with a unit"))?;
    span.to_duration(SpanRelativeTo::days_are_24_hours())
        .map_err(|_| format!("{text:?} has no fixed length: use weeks, days, hours, minutes and seconds"))
}

/// Reads an instant of RFC 3339.
pub(crate) fn instant(text: &str) -> Result<Timestamp, String> {
    text.trim().parse().map_err(|_| {
        format!("{text:?} is no instant: write 2026-12-24T18:00:00Z or 2026-12-24T18:00:00+01:00, with its offset")
    })
}

/// Reads an instant, "now", or a duration with its sign: "+10m", "-1h".
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    let trimmed = text.trim();
    if trimmed == "now" {
        return Ok(Moment::FromNow(SignedDuration::ZERO));
    }
    match (trimmed.strip_prefix('+'), trimmed.strip_prefix('-')) {
        (Some(after), _) => signed_duration(after).map(Moment::FromNow),
        (_, Some(before)) => signed_duration(before).map(|by| Moment::FromNow(-by)),
        _ => instant(text)
            .map(Moment::At)
            .map_err(|error| format!("{error}; or now, or a distance from now with its sign: +10m, -1h")),
    }
}

/// A duration in two units at most: "29m 58s", "3d 4h", "250ms".
pub(crate) fn short(duration: Duration) -> String {
    let (seconds, ms) = (duration.as_secs(), duration.subsec_millis());
    let two = |high: u64, high_unit: &str, low: u64, low_unit: &str| {
        if low == 0 { format!("{high}{high_unit}") } else { format!("{high}{high_unit} {low}{low_unit}") }
    };
    match seconds {
        0 if ms == 0 && !duration.is_zero() => format!("{}us", duration.as_micros()),
        0 if ms == 0 => "0s".to_owned(),
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// How far an instant is from now: "in 30m", "2m ago", "now".
pub(crate) fn from_now(at: Timestamp, now: Timestamp) -> String {
    let by = at.duration_since(now);
    match by {
        _ if by.unsigned_abs() < Duration::from_millis(1) => "now".to_owned(),
        _ if by.is_negative() => format!("{} ago", short(by.unsigned_abs())),
        _ => format!("in {}", short(by.unsigned_abs())),
    }
}

/// How long ago an instant was; nothing where it is ahead.
pub(crate) fn since(at: Timestamp, now: Timestamp) -> String {
    let by = now.duration_since(at);
    short(if by.is_negative() { Duration::ZERO } else { by.unsigned_abs() })
}

/// A duration that [`duration`] reads again as it is: "PT1H30M".
pub(crate) fn exact(duration: Duration) -> String {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("500ms", 500),
            ("30m", 1_800_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("2 weeks", 1_209_600_000),
            ("PT30M", 1_800_000),
            ("0s", 0),
            ("1.5h", 5_400_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "30", "m", "30 parsecs", "-5m", "1 month", "1y", "99999999999999999999s", "30m!"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_written_duration_is_read_again() {
        for ms in [0, 1, 999, 60_000, 86_400_000, 90_061_001] {
            let length = Duration::from_millis(ms);
            assert_eq!(duration(&exact(length)), Ok(length), "{}", exact(length));
        }
    }

    #[test]
    fn moments_are_instants_or_distances() {
        let now: Timestamp = "2026-12-24T18:00:00Z".parse().expect("an instant");
        for (text, at) in [
            ("2026-12-24T18:00:00+01:00", "2026-12-24T17:00:00Z"),
            ("now", "2026-12-24T18:00:00Z"),
            ("+10m", "2026-12-24T18:10:00Z"),
            ("-1d", "2026-12-23T18:00:00Z"),
        ] {
            assert_eq!(moment(text).map(|moment| moment.resolve(now).to_string()), Ok(at.to_owned()), "{text}");
        }
        for text in ["10m", "tomorrow", "2026-12-24", "2026-12-24T18:00:00", "+", "+10"] {
            assert!(moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn distances_are_short() {
        for (ms, text) in [
            (0, "0s"),
            (250, "250ms"),
            (1_999, "1s"),
            (60_000, "1m"),
            (1_798_000, "29m 58s"),
            (7_260_000, "2h 1m"),
            (273_600_000, "3d 4h"),
        ] {
            assert_eq!(short(Duration::from_millis(ms)), text);
        }
    }
}

//! Reads a duration such as `30s` or `1h30m`.

use std::time::Duration;

/// What a message adds to say how a duration is written.
pub(crate) const HOW_TO_WRITE: &str =
    "a duration is whole numbers with units (ms, s, m, h, d), largest first, such as \"30s\" or \"1h30m\"";

/// The units, largest first, each with its milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads `text`, or says what is wrong with it.
///
/// ```text
/// duration = part { part }      each unit at most once, larger ones first
/// part     = digits unit        no sign, no fraction, no space
/// unit     = "d" | "h" | "m" | "s" | "ms"
/// ```
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Err("the string is empty".to_owned());
    }
    if text.contains(char::is_whitespace) {
        return Err(format!("`{text}` contains a space"));
    }

    let mut rest = text;
    let mut total_ms: u64 = 0;
    let mut last: Option<usize> = None;
    while !rest.is_empty() {
        let (digits, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, next) = split_where(after, |c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(format!("`{rest}` does not start with a whole number"));
        }
        if unit.is_empty() {
            return Err(format!("`{digits}` has no unit"));
        }
        if unit.starts_with(['.', ',']) {
            return Err(format!("`{text}` has a fraction"));
        }
        let Some(index) = UNITS.iter().position(|(known, _)| *known == unit) else {
            return Err(format!("`{unit}` is not a unit"));
        };
        if last.is_some_and(|last| index <= last) {
            return Err(format!("`{digits}{unit}` comes after a unit that is not larger"));
        }

        total_ms = digits
            .parse::<u64>()
            .ok()
            .and_then(|count| count.checked_mul(UNITS[index].1))
            .and_then(|part_ms| total_ms.checked_add(part_ms))
            .ok_or_else(|| format!("`{text}` is too long a time"))?;
        last = Some(index);
        rest = next;
    }
    Ok(Duration::from_millis(total_ms))
}

/// Splits before the first character that `stops`.
fn split_where(text: &str, stops: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stops).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000), ("7d", 604_800_000)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn units_combine_from_large_to_small() {
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse("1d2h3m4s5ms"), Ok(Duration::from_millis(93_784_005)));
        assert_eq!(parse("1s1ms"), Ok(Duration::from_millis(1_001)));
    }

    #[test]
    fn zero_is_a_duration() {
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        assert_eq!(parse("000d"), Ok(Duration::ZERO));
    }

    #[test]
    fn mistakes_say_what_is_wrong() {
        for (text, reason) in [
            ("", "the string is empty"),
            ("30", "`30` has no unit"),
            ("1h30", "`30` has no unit"),
            ("s", "`s` does not start with a whole number"),
            ("-5s", "`-5s` does not start with a whole number"),
            ("5min", "`min` is not a unit"),
            ("5S", "`S` is not a unit"),
            ("1.5h", "`1.5h` has a fraction"),
            ("30 s", "`30 s` contains a space"),
            ("30m1h", "`1h` comes after a unit that is not larger"),
            ("1s1s", "`1s` comes after a unit that is not larger"),
            ("99999999999999999999s", "`99999999999999999999s` is too long a time"),
            ("18446744073709551615d", "`18446744073709551615d` is too long a time"),
            ("213503982334d18446744073709551615ms", "`213503982334d18446744073709551615ms` is too long a time"),
            ("５s", "`５s` does not start with a whole number"),
        ] {
            assert_eq!(parse(text), Err(reason.to_owned()), "{text}");
        }
    }
}

//! Checks a backoff.

use std::time::Duration;

use syn::LitStr;

use super::duration;
use crate::model::Backoff;
use crate::parse::{self, BackoffKind, Number};
use crate::problems::Problems;

/// The longest wait between two runs.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The cap that the library gives an exponential backoff without `max`.
const DEFAULT_CAP: Duration = Duration::from_secs(60 * 60);

/// The backoff, with its mistakes recorded; `None` if its first wait is wrong.
pub(super) fn check(written: &parse::Backoff, problems: &mut Problems) -> Option<Backoff> {
    let first = wait(&written.first, "backoff", problems);
    let max = written.max.as_ref().map(|max| wait(max, "max", problems));
    let factor = written.factor.as_ref().map(|factor| self::factor(factor, problems));
    let jitter = written.jitter.as_ref().map(|jitter| self::jitter(jitter, problems));
    if let (BackoffKind::Exponential, Some(first)) = (written.kind, first) {
        growth(first, max, written, problems);
    }

    let (first, max, factor, jitter) = (first?, max.flatten(), factor.flatten(), jitter.flatten());
    Some(match written.kind {
        BackoffKind::Exponential => Backoff::Exponential { first, factor, max, jitter },
        BackoffKind::Fixed => Backoff::Fixed { delay: first, jitter },
    })
}

fn wait(literal: &LitStr, setting: &str, problems: &mut Problems) -> Option<Duration> {
    let wait = duration(literal, setting, problems)?;
    if wait > WAIT_MAX {
        problems.at(literal, format!("`{setting}` is at most 365 days: write `\"365d\"` or less"));
        return None;
    }
    Some(wait)
}

/// The waits must be able to grow from `first` to the cap.
fn growth(first: Duration, max: Option<Option<Duration>>, written: &parse::Backoff, problems: &mut Problems) {
    let first_text = written.first.value();
    if first.is_zero() {
        problems.at(
            &written.first,
            "an exponential wait that starts at zero stays zero: write `\"1s\"`, or `fixed(\"0s\")`",
        );
    }
    match (max, &written.max) {
        (Some(Some(max)), Some(literal)) if max < first => {
            problems.at(literal, format!("`max` is shorter than the first wait: write `\"{first_text}\"` or more"));
        }
        (None, _) if first > DEFAULT_CAP => {
            let message =
                format!("the first wait is longer than the default `max` of 1h: add `max = \"{first_text}\"` or more");
            problems.at(&written.first, message);
        }
        _ => {}
    }
}

fn factor(number: &Number, problems: &mut Problems) -> Option<f64> {
    let is_right = number.value.is_finite() && number.value >= 1.0;
    if !is_right {
        problems.at(&number.literal, "`factor` is 1 or more, or the waits would shrink: write `factor = 2`");
    }
    is_right.then_some(number.value)
}

fn jitter(number: &Number, problems: &mut Problems) -> Option<f64> {
    let is_right = (0.0..=1.0).contains(&number.value);
    if !is_right {
        problems.at(&number.literal, "`jitter` is a share of the wait, 0 to 1: write `jitter = 0.1` for 10 %");
    }
    is_right.then_some(number.value)
}

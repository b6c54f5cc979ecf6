//! What a worker says of itself with its signs of life, for those who list the workers of a queue.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::error::{Error, ErrorKind};
use crate::limits::WORKER_NAME_BYTES_MAX;
use crate::store::ops::Report;

/// Lateness is told of the window that is over and of the one under way.
const WINDOW: Duration = Duration::from_secs(30);

/// What doesn't change while a worker runs.
#[derive(Debug)]
pub(super) struct About {
    name: String,
    started_ms: u64,
}

impl About {
    pub(super) fn new(name: Option<String>) -> Result<About, Error> {
        let name = name.unwrap_or_else(|| {
            let host = gethostname::gethostname().to_string_lossy().replace(char::is_control, "?");
            // 64 characters are the most that Linux has.
            let host: String = host.chars().filter(char::is_ascii).take(64).collect();
            format!("{host}:{}", std::process::id())
        });
        if name.is_empty() || name.len() > WORKER_NAME_BYTES_MAX || name.contains(char::is_control) {
            return Err(Error::new(
                ErrorKind::Config,
                format!("a worker's name has 1 to {WORKER_NAME_BYTES_MAX} bytes without control characters: {name:?}"),
            ));
        }
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(About { name, started_ms: since_1970.as_millis() as u64 })
    }

    /// The report of a lane, of a worker that runs so many jobs at once.
    pub(super) fn report(&self, concurrency: usize, lateness: &Lateness, now: Instant) -> Report {
        let (runs, late) = lateness.told(now);
        Report {
            name: self.name.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_ms: self.started_ms,
            concurrency: concurrency as u64,
            runs,
            late_us: (late.runs > 0).then(|| (late.sum_us / late.runs, late.max_us)),
        }
    }
}

/// How late runs began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Late {
    runs: u64,
    sum_us: u64,
    max_us: u64,
}

impl Late {
    pub(super) fn add(&mut self, late: Duration) {
        let late_us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        *self = self.and(Late { runs: 1, sum_us: late_us, max_us: late_us });
    }

    fn and(self, other: Late) -> Late {
        Late {
            runs: self.runs + other.runs,
            sum_us: self.sum_us.saturating_add(other.sum_us),
            max_us: self.max_us.max(other.max_us),
        }
    }
}

/// How late the runs of a lane began, lately. Noted once a claim, read once a sign of life.
#[derive(Debug, Default)]
pub(super) struct Lateness(Mutex<Windows>);

#[derive(Debug, Default)]
struct Windows {
    runs: u64,
    began: Option<Instant>,
    now: Late,
    before: Late,
}

impl Windows {
    fn turn(&mut self, now: Instant) {
        let age = self.began.map(|began| now.saturating_duration_since(began));
        if age.is_none_or(|age| age >= WINDOW) {
            self.before = if age.is_some_and(|age| age < WINDOW * 2) { self.now } else { Late::default() };
            self.now = Late::default();
            self.began = Some(now);
        }
    }
}

impl Lateness {
    fn lock(&self) -> MutexGuard<'_, Windows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, late: &Late, now: Instant) {
        let mut windows = self.lock();
        windows.turn(now);
        windows.runs += late.runs;
        windows.now = windows.now.and(*late);
    }

    /// How many runs there were in all, and how late those of the last 30 to 60 s were.
    fn told(&self, now: Instant) -> (u64, Late) {
        let mut windows = self.lock();
        windows.turn(now);
        (windows.runs, windows.before.and(windows.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(us: u64) -> Late {
        let mut late = Late::default();
        late.add(Duration::from_micros(us));
        late
    }

    #[test]
    fn what_is_older_than_two_windows_is_forgotten_but_counted() {
        let (lateness, start) = (Lateness::default(), Instant::now());
        lateness.note(&late(900), start);
        lateness.note(&late(100), start + WINDOW / 2);
        assert_eq!(lateness.told(start + WINDOW / 2), (2, Late { runs: 2, sum_us: 1000, max_us: 900 }));
        lateness.note(&late(50), start + WINDOW);
        assert_eq!(lateness.told(start + WINDOW), (3, Late { runs: 3, sum_us: 1050, max_us: 900 }));
        assert_eq!(lateness.told(start + WINDOW * 2), (3, late(50)));
        assert_eq!(lateness.told(start + WINDOW * 9), (3, Late::default()));
    }

    #[test]
    fn a_name_is_bounded_and_fits_on_a_line() {
        assert!(About::new(None).is_ok());
        assert!(About::new(Some("mail-1".to_owned())).is_ok());
        for name in ["", "a\nb", &"x".repeat(129)] {
            assert_eq!(About::new(Some(name.to_owned())).expect_err(name).kind(), ErrorKind::Config);
        }
    }

    #[test]
    fn the_longest_report_fits_into_the_bound_of_the_script() {
        let about = About::new(Some("\u{1F600}".repeat(32))).expect("128 bytes");
        let lateness = Lateness::default();
        lateness.note(&Late { runs: u64::MAX, sum_us: u64::MAX, max_us: u64::MAX }, Instant::now());
        let report = serde_json::to_vec(&about.report(usize::MAX, &lateness, Instant::now())).expect("JSON");
        assert!(report.len() <= 1024, "{} bytes", report.len());
    }
}

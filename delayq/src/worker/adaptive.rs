//! How many jobs may run at once, found by how long they take: `Worker::adaptive_concurrency`.
//!
//! Time is cut into windows. In each the runs that began in it are compared with the best that runs of their type did lately. While
//! they take no longer and all places are used, the limit rises; when they take much longer, more at once doesn't get more done, and the
//! limit falls in proportion. Once in a while the limit is halved for one window, so that what is called the best is measured without
//! a crowd: else a crowd that stays would in time pass for normal.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A window lasts at least so long ..
const WINDOW: Duration = Duration::from_secs(1);
/// .. and until so many runs that began in it are over, or half of the limit.
const RUNS_LEAST: usize = 20;
/// Runs that end sooner are taken to last so long: what is that quick is not slowed down by its neighbours in a way that matters.
const QUICK: Duration = Duration::from_millis(10);
/// So many times the best, the limit may still rise ..
const STEADY: f64 = 1.25;
/// .. and beyond that it falls. Between the two it stays.
const SLOW: f64 = 1.5;
/// A type's best is that of the last one to two such times.
const MEMORY: Duration = Duration::from_secs(300);

/// A run that is over.
pub(super) struct Ended<'a> {
    pub(super) name: &'a Cow<'static, str>,
    pub(super) began: Instant,
    pub(super) ended: Instant,
    /// It succeeded. A run that fails at once is no sign that there is room for more.
    pub(super) succeeded: bool,
}

/// Finds the limit between two bounds.
pub(super) struct Adaptive(Mutex<State>);

impl Adaptive {
    /// It starts at the lower bound.
    pub(super) fn new(bounds: RangeInclusive<usize>, now: Instant) -> Adaptive {
        Adaptive(Mutex::new(State {
            limit: *bounds.start(),
            bounds,
            running: 0,
            window: Window::opened(now, 0),
            best: HashMap::new(),
            remembered: now,
            pace: Pace::Doubling,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn began(&self, runs: usize) {
        let mut state = self.state();
        state.running += runs;
        state.window.peak = state.window.peak.max(state.running);
    }

    /// A run is over, one whose end counts for nothing if `ended` is `None`. Answers the new limit when it changes.
    pub(super) fn ended(&self, ended: Option<&Ended<'_>>, now: Instant) -> Option<usize> {
        self.state().ended(ended, now)
    }
}

struct State {
    bounds: RangeInclusive<usize>,
    limit: usize,
    running: usize,
    window: Window,
    /// The best mean of each type, in seconds.
    best: HashMap<Cow<'static, str>, Best>,
    /// When the older half of the memory was dropped.
    remembered: Instant,
    pace: Pace,
}

#[derive(Clone, Copy, PartialEq)]
enum Pace {
    /// Nothing was slow yet.
    Doubling,
    Steps,
    /// The limit is lowered for one window, and then this again.
    Probing {
        back_to: usize,
    },
}

struct Window {
    opened: Instant,
    runs: usize,
    /// How many ran at once at most.
    peak: usize,
    took: HashMap<Cow<'static, str>, Took>,
}

#[derive(Default)]
struct Took {
    runs: usize,
    seconds: f64,
}

struct Best {
    now: f64,
    before: f64,
}

impl Best {
    fn seconds(&self) -> f64 {
        self.now.min(self.before)
    }
}

impl Window {
    fn opened(opened: Instant, running: usize) -> Window {
        Window { opened, runs: 0, peak: running, took: HashMap::new() }
    }

    fn is_over(&self, limit: usize, now: Instant) -> bool {
        self.runs >= RUNS_LEAST.max(limit / 2) && now.saturating_duration_since(self.opened) >= WINDOW
    }
}

impl State {
    fn ended(&mut self, ended: Option<&Ended<'_>>, now: Instant) -> Option<usize> {
        self.running = self.running.saturating_sub(1);
        // What began before the limit was changed tells of the limit before.
        if let Some(ended) = ended.filter(|ended| ended.began >= self.window.opened) {
            self.count(ended);
        }
        if !self.window.is_over(self.limit, now) {
            return None;
        }
        let before = self.limit;
        self.limit = self.turn(now).clamp(*self.bounds.start(), *self.bounds.end());
        self.window = Window::opened(now, self.running);
        (self.limit != before).then_some(self.limit)
    }

    fn count(&mut self, ended: &Ended<'_>) {
        let took = ended.ended.saturating_duration_since(ended.began).max(QUICK).as_secs_f64();
        let slow_for_its_type = || self.best.get(ended.name.as_ref()).is_some_and(|best| took >= best.seconds());
        if ended.succeeded || slow_for_its_type() {
            let sum = self.window.took.entry(ended.name.clone()).or_default();
            sum.runs += 1;
            sum.seconds += took;
            self.window.runs += 1;
        }
    }

    /// What the limit is from now on, by the window that is over.
    fn turn(&mut self, now: Instant) -> usize {
        let stale = now.saturating_duration_since(self.remembered) >= MEMORY;
        if stale {
            self.remembered = now;
            for best in self.best.values_mut() {
                best.before = std::mem::replace(&mut best.now, f64::INFINITY);
            }
            self.best.retain(|_, best| best.before.is_finite());
        }
        let slowness = self.slowness();
        let is_full = self.window.peak * 10 >= self.limit * 9;
        if let Pace::Probing { back_to } = self.pace {
            self.pace = Pace::Steps;
            return back_to;
        }
        if slowness > SLOW {
            self.pace = Pace::Steps;
            return (self.limit as f64 * (STEADY / slowness).max(0.5)) as usize;
        }
        if stale && is_full {
            self.pace = Pace::Probing { back_to: self.limit };
            return self.limit / 2;
        }
        if slowness <= STEADY && is_full {
            let step = if self.pace == Pace::Doubling { self.limit } else { (self.limit / 10).max(1) };
            return self.limit + step;
        }
        self.limit
    }

    /// How many times the best of their types the runs of the window took; takes note of the best.
    fn slowness(&mut self) -> f64 {
        let mut sum = 0.0;
        for (name, took) in self.window.took.drain() {
            let mean = took.seconds / took.runs as f64;
            let best = self.best.entry(name).or_insert(Best { now: mean, before: f64::INFINITY });
            best.now = best.now.min(mean);
            sum += took.runs as f64 * mean / best.seconds();
        }
        sum / self.window.runs.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Cow<'static, str> = Cow::Borrowed("call_bank");

    /// A service that does `capacity` calls at once in `base` each; more share it.
    struct Served {
        adaptive: Adaptive,
        limit: usize,
        now: Instant,
        capacity: usize,
        base: Duration,
        succeeded: bool,
    }

    impl Served {
        fn new(bounds: RangeInclusive<usize>, capacity: usize, base: Duration) -> Served {
            let now = Instant::now();
            Served {
                limit: *bounds.start(),
                adaptive: Adaptive::new(bounds, now),
                now,
                capacity,
                base,
                succeeded: true,
            }
        }

        fn took(&self, running: usize) -> Duration {
            self.base.mul_f64((running as f64 / self.capacity as f64).max(1.0))
        }

        /// So many runs at once, all of which begin and end together.
        fn round(&mut self, running: usize) {
            let began = self.now;
            self.now += self.took(running);
            self.adaptive.began(running);
            for _ in 0..running {
                let ended = Ended { name: &NAME, began, ended: self.now, succeeded: self.succeeded };
                if let Some(limit) = self.adaptive.ended(Some(&ended), self.now) {
                    self.limit = limit;
                }
            }
        }

        /// As many as are allowed, for so long; answers the least and the most that were.
        fn full(&mut self, time: Duration) -> (usize, usize) {
            let until = self.now + time;
            let (mut least, mut most) = (usize::MAX, 0);
            while self.now < until {
                self.round(self.limit);
                least = least.min(self.limit);
                most = most.max(self.limit);
            }
            (least, most)
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn it_rises_to_what_the_service_can_do_and_stays_about_there() {
        let mut served = Served::new(4..=1000, 100, Duration::from_millis(200));
        served.full(MINUTE);
        let (least, most) = served.full(MINUTE * 3);
        assert!(least >= 90 && most <= 170, "{least} to {most} for a service of 100 at once");
    }

    #[test]
    fn it_is_at_the_upper_bound_within_seconds_where_nothing_slows_down() {
        let mut served = Served::new(4..=500, usize::MAX, Duration::from_millis(200));
        served.full(Duration::from_secs(20));
        assert_eq!(served.limit, 500);
    }

    #[test]
    fn it_falls_when_the_service_gets_less_and_rises_again_after() {
        let mut served = Served::new(4..=1000, 100, Duration::from_millis(200));
        served.full(MINUTE);
        served.capacity = 20;
        served.full(MINUTE);
        assert!(served.limit <= 40, "{} for a service of 20 at once", served.limit);
        served.capacity = 100;
        served.full(MINUTE * 2);
        assert!(served.limit >= 90, "{} for a service of 100 at once", served.limit);
    }

    #[test]
    fn a_crowd_does_not_pass_for_normal_in_time() {
        let mut served = Served::new(4..=1000, 50, Duration::from_millis(200));
        served.full(MINUTE);
        let (_, most) = served.full(MINUTE * 120);
        assert!(most <= 90, "{most} for a service of 50 at once");
    }

    #[test]
    fn a_service_that_is_slower_for_good_is_accepted() {
        let mut served = Served::new(4..=400, 1000, Duration::from_millis(100));
        served.full(MINUTE);
        served.base = Duration::from_millis(300);
        served.full(MINUTE * 12);
        assert_eq!(served.limit, 400);
    }

    #[test]
    fn places_that_nobody_uses_are_no_reason_for_more() {
        let mut served = Served::new(10..=1000, usize::MAX, Duration::from_millis(100));
        for _ in 0..1000 {
            served.round(5);
        }
        assert_eq!(served.limit, 10);
    }

    #[test]
    fn quick_runs_are_never_called_slow() {
        let mut served = Served::new(10..=300, 100, Duration::from_millis(3));
        served.full(Duration::from_secs(30));
        assert_eq!(served.limit, 300);
    }

    #[test]
    fn a_service_that_refuses_at_once_makes_no_room_for_more() {
        let mut served = Served::new(4..=1000, 100, Duration::from_millis(200));
        served.full(MINUTE);
        let before = served.limit;
        (served.succeeded, served.base) = (false, Duration::from_millis(20));
        for _ in 0..1000 {
            served.round(before);
        }
        assert_eq!(served.limit, before);
        (served.succeeded, served.base) = (true, Duration::from_millis(200));
        served.full(MINUTE);
        assert!(served.limit >= 90, "the refusals set no best: {}", served.limit);
    }

    #[test]
    fn runs_that_fail_late_are_slow_runs() {
        let mut served = Served::new(4..=1000, 100, Duration::from_millis(200));
        served.full(MINUTE);
        let before = served.limit;
        (served.succeeded, served.base) = (false, Duration::from_secs(5));
        served.full(MINUTE);
        assert!(served.limit < before / 2, "{} after {before}", served.limit);
    }

    #[test]
    fn what_began_before_a_change_tells_nothing_of_it() {
        let start = Instant::now();
        let adaptive = Adaptive::new(10..=100, start);
        adaptive.began(60);
        let now = start + Duration::from_secs(2);
        let young = Ended { name: &NAME, began: start, ended: now, succeeded: true };
        let changed = (0..20).find_map(|_| adaptive.ended(Some(&young), now));
        assert_eq!(changed, Some(20));
        // These began before the limit was 20, and took long in the crowd before.
        let later = now + Duration::from_secs(60);
        let old = Ended { name: &NAME, began: start, ended: later, succeeded: true };
        assert!((0..40).all(|_| adaptive.ended(Some(&old), later).is_none()));
    }

    #[test]
    fn each_type_is_compared_with_itself() {
        let start = Instant::now();
        let adaptive = Adaptive::new(40..=41, start);
        let (quick, long) = (Cow::Borrowed("quick"), Cow::Borrowed("long"));
        let window = |from: Instant, quicks: usize, longs: usize| {
            adaptive.began(quicks + longs);
            let now = from + Duration::from_secs(10);
            let after = |seconds: u64| from + Duration::from_secs(seconds);
            let quicks = (0..quicks).map(|_| Ended { name: &quick, began: from, ended: after(1), succeeded: true });
            let longs = (0..longs).map(|_| Ended { name: &long, began: from, ended: after(10), succeeded: true });
            quicks.chain(longs).filter_map(|ended| adaptive.ended(Some(&ended), now)).last()
        };
        assert_eq!(window(start, 36, 4), Some(41));
        // Nine tenths are long ones now: the mean over all is five times as long, and none is slow.
        assert_eq!(window(start + Duration::from_secs(20), 4, 36), None);
    }
}

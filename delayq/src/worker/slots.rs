//! The places for runs: how many there may be, and which are free.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// Places for runs. One is taken before a job is claimed for it, and freed when its run has been heard of.
pub(super) struct Slots {
    free: Semaphore,
    bound: Mutex<Bound>,
}

struct Bound {
    limit: usize,
    /// Taken places beyond the limit: they go instead of becoming free.
    surplus: usize,
}

impl Slots {
    pub(super) fn new(limit: usize) -> Slots {
        Slots { free: Semaphore::new(limit), bound: Mutex::new(Bound { limit, surplus: 0 }) }
    }

    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many runs there may be at once.
    pub(super) fn limit(&self) -> usize {
        self.bound().limit
    }

    /// Allows so many runs from now on. Runs beyond them go on; their places go when they end.
    pub(super) fn set_limit(&self, limit: usize) {
        let mut bound = self.bound();
        if let Some(more) = limit.checked_sub(bound.limit) {
            let kept = bound.surplus.min(more);
            bound.surplus -= kept;
            self.free.add_permits(more - kept);
        } else {
            let fewer = bound.limit - limit;
            bound.surplus += fewer - self.free.forget_permits(fewer);
        }
        bound.limit = limit;
    }

    pub(super) fn available(&self) -> usize {
        self.free.available_permits()
    }

    /// How many places are taken, for runs and for claims that are under way.
    pub(super) fn taken(&self) -> usize {
        let bound = self.bound();
        (bound.limit + bound.surplus).saturating_sub(self.available())
    }

    /// Neither does anything run, nor is a place taken for a claim that is under way.
    pub(super) fn are_all_free(&self) -> bool {
        let bound = self.bound();
        bound.surplus == 0 && self.available() == bound.limit
    }

    /// Takes so many places, or none if fewer are free.
    #[must_use]
    pub(super) fn take(&self, places: usize) -> bool {
        let Ok(permits) = u32::try_from(places).map(|places| self.free.try_acquire_many(places)) else { return false };
        permits.map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    /// Waits for a free place, and takes it.
    pub(super) async fn take_next(&self) {
        // The semaphore is never closed.
        if let Ok(permit) = self.free.acquire().await {
            permit.forget();
        }
    }

    pub(super) fn free(&self, places: usize) {
        if places == 0 {
            return;
        }
        let mut bound = self.bound();
        let gone = bound.surplus.min(places);
        bound.surplus -= gone;
        self.free.add_permits(places - gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_all_or_none() {
        let slots = Slots::new(3);
        assert!(!slots.take(4));
        assert!(slots.take(2) && slots.take(1) && !slots.take(1));
        slots.free(3);
        assert!(slots.are_all_free());
    }

    #[test]
    fn a_lower_limit_takes_free_places_at_once_and_taken_ones_when_they_are_freed() {
        let slots = Slots::new(10);
        assert!(slots.take(8));
        slots.set_limit(5);
        assert_eq!((slots.limit(), slots.available()), (5, 0));
        slots.free(3);
        assert_eq!(slots.available(), 0, "five still run");
        assert!(!slots.are_all_free());
        slots.free(5);
        assert_eq!(slots.available(), 5);
        assert!(slots.are_all_free());
    }

    #[test]
    fn a_higher_limit_first_keeps_the_places_that_were_to_go() {
        let slots = Slots::new(10);
        assert!(slots.take(10));
        slots.set_limit(4);
        slots.set_limit(7);
        assert_eq!(slots.available(), 0);
        slots.set_limit(12);
        assert_eq!(slots.available(), 2, "ten of twelve are taken");
        slots.free(10);
        assert_eq!(slots.available(), 12);
        assert!(slots.are_all_free());
    }

    #[test]
    fn nothing_is_all_free_while_a_place_beyond_the_limit_is_taken() {
        let slots = Slots::new(2);
        assert!(slots.take(2));
        slots.set_limit(1);
        slots.free(1);
        assert_eq!(slots.available(), 0);
        assert!(!slots.are_all_free());
        slots.free(1);
        assert!(slots.are_all_free());
    }
}

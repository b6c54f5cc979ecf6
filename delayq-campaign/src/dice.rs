//! Chance that a seed decides: the same seed, the same schedule.

/// A small generator (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A generator for a part of the run, so that what one part draws changes nothing for another.
    pub(crate) fn part(seed: u64, part: u64) -> Dice {
        let mut dice = Dice(seed ^ part.wrapping_mul(0xa076_1d64_78bd_642f));
        dice.roll();
        dice
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low + 1)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.roll() % 100 < chance
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[(self.roll() % from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_it_all() {
        let draw = |seed| {
            let mut dice = Dice::part(seed, 3);
            (0..50).map(|_| dice.between(5, 9)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|n| (5..=9).contains(n)));
    }
}

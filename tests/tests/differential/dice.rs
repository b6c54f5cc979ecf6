//! Chance that goes by a seed.

/// A generator of its own, so that a seed says the whole history.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(scattered(seed) | 1)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize].clone()
    }

    pub(crate) fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| self.roll(256) as u8).collect()
    }
}

/// Whatever looks random about `n`.
fn scattered(n: u64) -> u64 {
    let n = (n.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (n ^ (n >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// Any bytes, so that the order of equal scores is one of bytes; the last two are the jitter's.
pub(crate) fn id(n: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&scattered(n).to_be_bytes());
    id[8..].copy_from_slice(&scattered(!n).to_be_bytes());
    match n % 5 {
        0 => id[0] = 0,
        1 => id[0] = 0xff,
        _ => {}
    }
    id
}

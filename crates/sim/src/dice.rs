//! Random numbers from one seed. Each use has its own generator, so that more draws in one place change nothing in
//! another: a run without faults starts the same executions with the same answers as the run with them.

/// xoshiro256**, seeded by splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    state: [u64; 4],
}

impl Dice {
    /// The dice of one use under one seed.
    pub(crate) fn new(seed: u64, of: &str) -> Self {
        let mut mixed = seed ^ hash(of.as_bytes());
        Self { state: std::array::from_fn(|_| splitmix(&mut mixed)) }
    }

    /// 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// 128 bits.
    pub(crate) fn entropy(&mut self) -> u128 {
        u128::from(self.bits()) << 64 | u128::from(self.bits())
    }

    /// From 0 up to, but not including, `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// Between the two, both included.
    pub(crate) fn between(&mut self, range: std::ops::RangeInclusive<i64>) -> i64 {
        let width = (range.end() - range.start()).unsigned_abs() + 1;
        range.start() + self.below(width) as i64
    }

    /// True with a probability of `times` in a thousand.
    pub(crate) fn in_thousand(&mut self, times: u32) -> bool {
        times > 0 && self.below(1_000) < u64::from(times)
    }

    /// One of them.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// FNV-1a over words: the same on every machine and in every run.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let mixed = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        mixed ^ (mixed >> 29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_each_use_its_own() {
        let draw = |of: &str| {
            let mut dice = Dice::new(317, of);
            (0..4).map(|_| dice.bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw("faults"), draw("faults"));
        assert_ne!(draw("faults"), draw("answers"));
    }
}

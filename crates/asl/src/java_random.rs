//! Java's random numbers, which AWS uses for seeds.

/// `java.util.Random`, so that a seed gives here what it gives on AWS.
pub(crate) struct Random(u64);

impl Random {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;

    pub(crate) fn new(seed: i64) -> Self {
        Self((seed as u64 ^ Self::MULTIPLIER) & Self::MASK)
    }

    fn next(&mut self, bits: u32) -> i32 {
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER).wrapping_add(0xb) & Self::MASK;
        (self.0 >> (48 - bits)) as i32
    }

    /// `nextInt(bound)`: from 0 up to, but not, `bound`, which is above 0.
    fn below(&mut self, bound: i32) -> i32 {
        let mut bits = self.next(31);
        if bound & (bound - 1) == 0 {
            return ((i64::from(bound) * i64::from(bits)) >> 31) as i32;
        }
        loop {
            let rest = bits % bound;
            // In the last, incomplete round of the bound, low numbers would come too often.
            if bits.wrapping_sub(rest).wrapping_add(bound - 1) >= 0 {
                return rest;
            }
            bits = self.next(31);
        }
    }

    /// `nextDouble()`: from 0 up to, but not, 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        let high = i64::from(self.next(26)) << 27;
        (high + i64::from(self.next(27))) as f64 / (1_u64 << 53) as f64
    }

    /// From `start` up to, but not, `end`, which is above `start`.
    pub(crate) fn between(&mut self, start: i32, end: i32) -> i32 {
        match end.checked_sub(start) {
            Some(width) => start + self.below(width),
            None => loop {
                let drawn = self.next(32);
                if (start..end).contains(&drawn) {
                    return drawn;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_what_java_gives() {
        // First values of `new java.util.Random(seed).nextInt(bound)`.
        for (seed, bound, value) in
            [(42, 10, 0), (42, 99, 62), (42, 4, 2), (1, 999, 105), (2, 999, 805), (-10, 9, 0)]
        {
            assert_eq!(Random::new(seed).between(0, bound), value, "seed {seed}, bound {bound}");
        }
        // The first `nextDouble()`.
        for (seed, value) in
            [(42, 0.727_563_680_032_868_1), (0, 0.730_967_787_376_657), (7, 0.730_699_042_060_042_1)]
        {
            assert_eq!(Random::new(seed).fraction(), value, "seed {seed}");
        }
        let mut random = Random::new(7);
        assert!((0..1000).all(|_| (i32::MIN..i32::MAX).contains(&random.between(i32::MIN, i32::MAX))));
    }
}

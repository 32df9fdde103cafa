//! Random generators whose sequences are fixed by this project, not by a library's version.
//!
//! Invariant: the same seed gives the same numbers on every machine and in every release. So the seed printed
//! by a failed test reproduces it, and an experiment keeps its digest. (SplitMix64: Steele, Lea, Flood,
//! OOPSLA 2014; xoshiro256++: Blackman, Vigna, ACM TOMS 47(4), 2021.)

/// SplitMix64. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator for `seed`. Similar seeds give unrelated sequences.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, by multiplication (bias below 2^-32 for bounds below 2^32).
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a random number below 0 was asked for");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// xoshiro256++, the generator of TPC-C's streams. Not for secrets.
#[derive(Clone, Debug)]
pub struct Xoshiro {
    state: [u64; 4],
}

impl Xoshiro {
    /// A generator whose state is filled by [`Rng`], as its authors advise.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self { state: [(); 4].map(|()| rng.next_u64()) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ b << 17, d.rotate_left(45)];
        result
    }
}

#[cfg(test)]
mod tests {
    use super::{Rng, Xoshiro};

    #[test]
    fn xoshiro_is_frozen() {
        // Reference values of xoshiro256++ from its authors' C code.
        let mut xoshiro = Xoshiro { state: [1, 2, 3, 4] };
        let drawn = [(); 4].map(|()| xoshiro.next_u64());
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn sequence_is_frozen() {
        // Reference values of SplitMix64 for seed 1234567, from its authors' C code.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn below_covers_its_range_and_nothing_else() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
    }
}

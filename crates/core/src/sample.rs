//! Spatial sampling: some of the pages, drawn by a hash of their numbers (SHARDS: Waldspurger et al., FAST
//! 2015). All references of a drawn page are seen, or none.

use crate::PageId;

/// Pages whose hash is at most a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    seed: u64,
    threshold: u64,
}

impl Drawn {
    /// As many of 2^64 hashes as `threshold` says. Draws of different seeds are independent.
    pub const fn new(threshold: u64, seed: u64) -> Self {
        Self { seed: mixed(seed), threshold }
    }

    /// One page of 2^`shift`.
    pub const fn one_of(shift: u32, seed: u64) -> Self {
        Self::new(u64::MAX >> shift, seed)
    }

    /// Whether a page is drawn.
    #[inline]
    pub const fn holds(&self, page: PageId) -> bool {
        mixed(page.0 ^ self.seed) <= self.threshold
    }
}

/// splitmix64's finaliser (Steele, Lea, Flood, OOPSLA 2014) after its increment.
#[inline]
const fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

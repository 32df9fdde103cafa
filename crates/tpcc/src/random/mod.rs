//! Random numbers, names and text of the specification (clauses 2.1.6, 4.3.2).
//!
//! Invariant: every stream of numbers is a function of the seed, of its purpose, and of its part of a table
//! or its client. So a load does not depend on its order, and a client's input does not depend on scheduling.

mod constants;
mod text;

pub use constants::Constants;
pub(crate) use text::ORIGINAL;
pub use text::last_name;

use entresol_runtime::rng::{Rng, Xoshiro};

/// The seed of all random numbers of a load or a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed(pub u64);

/// The purpose of a stream; streams of different purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The constants of NURand.
    Constants = 1,
    /// Rows of ITEM.
    Items = 2,
    /// Rows of WAREHOUSE.
    Warehouses = 3,
    /// Rows of DISTRICT.
    Districts = 4,
    /// Names of customers.
    CustomerNames = 5,
    /// The other columns of CUSTOMER.
    Customers = 6,
    /// Rows of HISTORY.
    History = 7,
    /// Rows of STOCK.
    Stock = 8,
    /// Customers, carriers and line counts of orders.
    Orders = 9,
    /// Rows of ORDER-LINE.
    OrderLines = 10,
    /// A client's choices.
    Client = 11,
}

/// A stream of random numbers (xoshiro256++): fast, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Random {
    generator: Xoshiro,
}

impl Random {
    /// The stream for `purpose` and the part `major`, `minor` (a warehouse and district, a client, or zeros).
    pub fn stream(seed: Seed, purpose: Purpose, major: u32, minor: u32) -> Self {
        let part = u64::from(major) << 32 | u64::from(minor);
        let mixed = mix(mix(mix(seed.0).wrapping_add(purpose as u64)).wrapping_add(part));
        Self { generator: Xoshiro::new(mixed) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Uniform in `low ..= high`, with an error of less than one part in 2^32.
    pub fn uniform(&mut self, low: u32, high: u32) -> u32 {
        debug_assert!(low <= high, "an empty range {low} ..= {high}");
        let range = u64::from(high - low) + 1;
        low + ((u128::from(self.bits()) * u128::from(range)) >> 64) as u32
    }

    /// As [`Random::uniform`], for small numbers.
    pub fn uniform_u8(&mut self, low: u8, high: u8) -> u8 {
        self.uniform(u32::from(low), u32::from(high)) as u8
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.uniform(1, 100) <= percent
    }

    /// NURand(A, x, y) of clause 2.1.6 with constant `c`: `(((0..=A) | (x..=y)) + c) mod (y - x + 1) + x`.
    pub fn nurand(&mut self, a: u32, c: u32, low: u32, high: u32) -> u32 {
        let mixed = u64::from(self.uniform(0, a) | self.uniform(low, high)) + u64::from(c);
        (mixed % (u64::from(high - low) + 1)) as u32 + low
    }

    /// Shuffles the elements (Fisher and Yates).
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            elements.swap(last, self.uniform(0, last as u32) as usize);
        }
    }
}

/// Mixes the bits: every bit of `value` affects the result.
fn mix(value: u64) -> u64 {
    Rng::new(value).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let first = |seed, purpose, major, minor| Random::stream(Seed(seed), purpose, major, minor).bits();
        assert_eq!(first(1, Purpose::Stock, 2, 3), first(1, Purpose::Stock, 2, 3));
        let others = [
            first(1, Purpose::Stock, 2, 3),
            first(2, Purpose::Stock, 2, 3),
            first(1, Purpose::Items, 2, 3),
            first(1, Purpose::Stock, 3, 3),
            first(1, Purpose::Stock, 2, 4),
        ];
        for (at, one) in others.iter().enumerate() {
            assert!(!others[..at].contains(one), "streams {others:x?} coincide");
        }
    }

    #[test]
    fn the_stream_never_changes() {
        const PINNED: [u32; 6] = [303_942, 596_617, 495_319, 31_034, 856_330, 602_297];
        // A different generator would silently change every experiment.
        let mut random = Random::stream(Seed(42), Purpose::Client, 1, 0);
        let drawn: Vec<u32> = (0..6).map(|_| random.uniform(1, 1_000_000)).collect();
        assert_eq!(drawn, PINNED);
    }

    #[test]
    fn uniform_reaches_both_ends_evenly() {
        let mut random = Random::stream(Seed(7), Purpose::Client, 0, 0);
        let mut counts = [0u32; 11];
        for _ in 0..110_000 {
            counts[random.uniform(5, 15) as usize - 5] += 1;
        }
        for (value, count) in counts.iter().enumerate() {
            assert!((9_500..10_500).contains(count), "{} was drawn {count} times of 110,000", value + 5);
        }
    }

    /// The exact distribution of NURand, by enumeration, against a sample (chi-square-like bound on each
    /// decile).
    #[test]
    fn nurand_is_distributed_as_defined() {
        let (a, c, low, high) = (255, 123, 0, 999);
        let mut exact = vec![0f64; 1_000];
        for left in 0..=a {
            for right in low..=high {
                exact[(((left | right) + c) % 1_000) as usize] += 1.0 / (256.0 * 1_000.0);
            }
        }
        let mut random = Random::stream(Seed(9), Purpose::Client, 0, 0);
        let draws = 400_000;
        let mut seen = vec![0f64; 1_000];
        for _ in 0..draws {
            seen[random.nurand(a, c, low, high) as usize] += 1.0;
        }
        // Pearson's statistic over 1,000 cells: mean 999, deviation 45.
        let statistic: f64 = exact
            .iter()
            .zip(&seen)
            .map(|(share, count)| (count - share * f64::from(draws)).powi(2) / (share * f64::from(draws)))
            .sum();
        assert!((750.0..1_250.0).contains(&statistic), "chi-square {statistic}");
    }

    #[test]
    fn shuffle_is_a_permutation_that_moves() {
        let mut elements: Vec<u32> = (0..1_000).collect();
        Random::stream(Seed(3), Purpose::Orders, 1, 1).shuffle(&mut elements);
        let still = elements.iter().enumerate().filter(|(at, element)| *at as u32 == **element).count();
        assert!(still < 10, "{still} of 1,000 stayed where they were");
        elements.sort_unstable();
        assert!(elements.iter().enumerate().all(|(at, element)| at as u32 == *element));
    }
}

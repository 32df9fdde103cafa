//! How worn the blocks of a chip are, and how long they will last.

use std::time::Duration;

/// Seconds of a (Julian) year.
const YEAR_S: f64 = 365.25 * 86_400.0;

/// Erases of the blocks of a chip.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wear {
    /// Of the least worn block.
    pub min: u32,
    /// Mean of all blocks.
    pub mean: f64,
    /// Of the most worn block.
    pub max: u32,
    /// Blocks.
    pub blocks: u32,
}

impl Wear {
    /// The wear of blocks with these erase counts.
    pub fn of(erases: &[u32]) -> Self {
        let sum: u64 = erases.iter().map(|&count| u64::from(count)).sum();
        Self {
            min: erases.iter().copied().min().unwrap_or(0),
            mean: if erases.is_empty() { 0.0 } else { sum as f64 / erases.len() as f64 },
            max: erases.iter().copied().max().unwrap_or(0),
            blocks: erases.len() as u32,
        }
    }

    /// Years until the most worn block has been erased `endurance` times, if all continues as in the
    /// `elapsed` time since the chip was new (SLC: 100,000 erases, MLC: 10,000, TLC: 3,000; thesis §1).
    /// `None` if nothing was erased.
    pub fn lifetime_years(&self, endurance: u32, elapsed: Duration) -> Option<f64> {
        let each = f64::from(self.max) / elapsed.as_secs_f64();
        (self.max > 0 && elapsed > Duration::ZERO).then(|| f64::from(endurance) / each / YEAR_S)
    }

    /// How far the most worn block is ahead of the mean, 1 if wear is even.
    pub fn skew(&self) -> f64 {
        if self.mean == 0.0 { 1.0 } else { f64::from(self.max) / self.mean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_worn_block_sets_the_lifetime() {
        let wear = Wear::of(&[2, 4, 6]);
        assert_eq!((wear.min, wear.mean, wear.max, wear.blocks), (2, 4.0, 6, 3));
        assert_eq!(wear.skew(), 1.5);
        // Six erases in a day: 3,000 last 500 days.
        let years = wear.lifetime_years(3000, Duration::from_secs(86_400)).expect("blocks were erased");
        assert!((years - 500.0 / 365.25).abs() < 1e-9, "{years}");
        assert_eq!(Wear::of(&[0, 0]).lifetime_years(3000, Duration::from_secs(1)), None);
    }
}

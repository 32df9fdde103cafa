//! The flash translation layer's bookkeeping: a page map per die with greedy garbage collection. No times here.
//!
//! Logical page `l` lives on die `l mod dies`, always, so that sequential data is striped and dies can be told apart
//! by address. Within its die it may lie in any page of any block. Writes go to the die's open block; when free blocks run
//! out, the full block with the fewest valid pages is copied to another open one and erased (greedy).
//!
//! Invariants: every mapped logical page has exactly one valid physical page, and back; a block's count says how many of
//! its pages are valid; after every write at least one block of the die is free.

const NONE: u32 = u32::MAX;

/// What a write made the die do besides programming the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Collected {
    /// Valid pages copied.
    pub copied: u32,
    /// Blocks erased that first had to be copied.
    pub erased_after_copy: u32,
    /// Blocks erased that held nothing valid.
    pub erased_empty: u32,
}

/// A block that is being filled.
#[derive(Clone, Copy)]
struct Open {
    block: u32,
    used: u32,
}

/// One die. Logical pages are numbered within the die.
pub(super) struct Die {
    map: Vec<u32>,
    /// Logical page in each physical page; stale entries are recognised by `map`.
    owner: Vec<u32>,
    valid: Vec<u32>,
    free: Vec<u32>,
    is_free: Vec<bool>,
    block_pages: u32,
    /// Takes what the host writes.
    host: Open,
    /// Takes what is copied, so that old pages do not mix with new ones: one pass of sequential overwriting leaves
    /// nothing to copy.
    copies: Open,
}

impl Die {
    /// An erased die with room for `logical_pages` and a spare share of them on top. Of the two open blocks and the one
    /// that is kept free, half do not count as spare.
    pub fn new(logical_pages: u32, block_pages: u32, spare_share: f64) -> Self {
        let physical = f64::from(logical_pages) * (1.0 + spare_share);
        let blocks = (physical / f64::from(block_pages) + 1.5).round() as u32;
        let blocks = blocks.max(logical_pages.div_ceil(block_pages) + 3);
        let mut is_free = vec![true; blocks as usize];
        is_free[..2].fill(false);
        Self {
            map: vec![NONE; logical_pages as usize],
            owner: vec![NONE; (blocks * block_pages) as usize],
            valid: vec![0; blocks as usize],
            free: (2..blocks).rev().collect(),
            is_free,
            block_pages,
            host: Open { block: 0, used: 0 },
            copies: Open { block: 1, used: 0 },
        }
    }

    pub fn is_mapped(&self, logical: u32) -> bool {
        self.map[logical as usize] != NONE
    }

    /// Forgets a page.
    pub fn discard(&mut self, logical: u32) {
        let physical = std::mem::replace(&mut self.map[logical as usize], NONE);
        if physical != NONE {
            self.valid[(physical / self.block_pages) as usize] -= 1;
        }
    }

    /// Writes a page; collects garbage first when blocks run out.
    pub fn write(&mut self, logical: u32) -> Collected {
        self.discard(logical);
        let mut collected = Collected::default();
        if self.host.used == self.block_pages {
            while self.free.len() < 2 {
                self.collect(&mut collected);
            }
            self.host = self.take_free();
        }
        self.host = self.append(self.host, logical);
        collected
    }

    /// Leaves `pages` of the host's block unused: a program unit that had to be written half full.
    pub fn pad(&mut self, pages: u32) {
        self.host.used = (self.host.used + pages).min(self.block_pages);
    }

    fn append(&mut self, open: Open, logical: u32) -> Open {
        let physical = open.block * self.block_pages + open.used;
        self.map[logical as usize] = physical;
        self.owner[physical as usize] = logical;
        self.valid[open.block as usize] += 1;
        Open { used: open.used + 1, ..open }
    }

    fn take_free(&mut self) -> Open {
        let block = self.free.pop().expect("one block of each die is always free");
        self.is_free[block as usize] = false;
        Open { block, used: 0 }
    }

    /// Frees the block with the fewest valid pages.
    fn collect(&mut self, collected: &mut Collected) {
        let victim = self.victim();
        let copied = self.valid[victim as usize];
        if copied > 0 {
            self.copy_out(victim);
            collected.copied += copied;
            collected.erased_after_copy += 1;
        } else {
            collected.erased_empty += 1;
        }
        self.is_free[victim as usize] = true;
        self.free.push(victim);
    }

    /// The full block with the fewest valid pages; the lowest of them.
    fn victim(&self) -> u32 {
        let (mut best, mut fewest) = (NONE, u32::MAX);
        for (block, (&valid, &is_free)) in self.valid.iter().zip(&self.is_free).enumerate() {
            if valid < fewest && !is_free && block as u32 != self.copies.block {
                (best, fewest) = (block as u32, valid);
            }
        }
        assert!(fewest < self.block_pages, "a die has at least one invalid page outside its open blocks");
        best
    }

    fn copy_out(&mut self, victim: u32) {
        let first = victim * self.block_pages;
        for physical in first..first + self.block_pages {
            let logical = self.owner[physical as usize];
            if logical != NONE && self.map[logical as usize] == physical {
                if self.copies.used == self.block_pages {
                    self.copies = self.take_free();
                }
                self.copies = self.append(self.copies, logical);
            }
        }
        self.valid[victim as usize] = 0;
    }

    /// Checks the module's invariants.
    #[cfg(test)]
    fn check(&self) {
        let mut valid = vec![0; self.valid.len()];
        for (logical, &physical) in self.map.iter().enumerate() {
            if physical != NONE {
                assert_eq!(self.owner[physical as usize], logical as u32);
                valid[(physical / self.block_pages) as usize] += 1;
            }
        }
        assert_eq!(valid, self.valid);
        assert!(!self.free.is_empty());
        for &block in &self.free {
            assert!(self.is_free[block as usize]);
            assert_eq!(self.valid[block as usize], 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_runtime::rng::Rng;

    fn amplification(die: &mut Die, writes: u32, mut next: impl FnMut(u32) -> u32) -> f64 {
        let mut copied = 0;
        for write in 0..writes {
            copied += die.write(next(write)).copied;
        }
        die.check();
        1.0 + f64::from(copied) / f64::from(writes)
    }

    #[test]
    fn sequential_overwriting_copies_nothing() {
        let mut die = Die::new(1000, 16, 0.07);
        amplification(&mut die, 3000, |write| write % 1000);
        assert_eq!(amplification(&mut die, 10_000, |write| write % 1000), 1.0);
    }

    #[test]
    fn after_random_writes_one_sequential_pass_cleans_up() {
        let mut rng = Rng::new(3);
        let mut die = Die::new(1000, 16, 0.07);
        amplification(&mut die, 5000, |_| rng.below(1000) as u32);
        amplification(&mut die, 3000, |write| write % 1000);
        assert_eq!(amplification(&mut die, 5000, |write| write % 1000), 1.0);
    }

    #[test]
    fn random_writes_cost_more_the_less_spare_there_is() {
        let mut before = f64::INFINITY;
        for spare in [0.05, 0.1, 0.2, 0.4] {
            let mut rng = Rng::new(3);
            let mut die = Die::new(4000, 32, spare);
            amplification(&mut die, 20_000, |_| rng.below(4000) as u32);
            let now = amplification(&mut die, 40_000, |_| rng.below(4000) as u32);
            assert!(now < before && now > 1.0, "{spare}: {now} after {before}");
            before = now;
        }
    }

    #[test]
    fn discarded_pages_are_spare() {
        let mut rng = Rng::new(3);
        let mut die = Die::new(4000, 32, 0.05);
        let full = amplification(&mut die, 40_000, |_| rng.below(4000) as u32);
        (2000..4000).for_each(|logical| die.discard(logical));
        assert!(!die.is_mapped(3000));
        amplification(&mut die, 20_000, |_| rng.below(2000) as u32);
        let half = amplification(&mut die, 20_000, |_| rng.below(2000) as u32);
        assert!(half < 1.5 && full > 5.0, "{half} {full}");
    }
}

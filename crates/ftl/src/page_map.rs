//! A page map with greedy garbage collection: a logical page may be in any page of any block.
//!
//! Writes are to the host's open block. When free blocks run out, the full block with the fewest valid pages
//! (the lowest of them) is copied to another open block, so that old pages do not mix with new ones, and
//! erased.
//!
//! Invariants: every mapped logical page has exactly one valid physical page, and back; after every write at
//! least one block is free.

use crate::counters::Counters;
use crate::free::FreeOrder;
use crate::id::{BlockId, Lpn, NONE, Ppn};
use crate::layer::Ftl;
use crate::nand::{Nand, Open};

/// The map's work for a write, in addition to programming the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Valid pages copied.
    pub copied: u32,
    /// Blocks erased that first had to be copied.
    pub erased_after_copy: u32,
    /// Blocks erased that held nothing valid.
    pub erased_empty: u32,
}

/// A page map over a chip of its own (or one die of an SSD).
#[derive(Clone, Debug)]
pub struct PageMap {
    map: Vec<u32>,
    nand: Nand,
    /// Takes the host's writes.
    host: Open,
    /// Takes copies: after one pass of sequential overwriting there is nothing to copy.
    copies: Open,
    counters: Counters,
}

impl PageMap {
    /// An empty map with room for `logical_pages` and `over_provisioning` of them on top. Of the two open
    /// blocks and the one that is kept free, half do not count as spare.
    ///
    /// # Panics
    /// If the chip would have no page, or 2^32 − 2 and more.
    pub fn new(logical_pages: u32, block_pages: u32, over_provisioning: f64, order: FreeOrder) -> Self {
        let physical = f64::from(logical_pages) * (1.0 + over_provisioning);
        let blocks = (physical / f64::from(block_pages) + 1.5).round() as u32;
        let blocks = blocks.max(logical_pages.div_ceil(block_pages) + 3);
        let mut nand = Nand::new(blocks, block_pages, order);
        let (host, copies) = (nand.open(), nand.open());
        let counters = Counters::default();
        Self { map: vec![NONE; logical_pages as usize], nand, host, copies, counters }
    }

    /// Writes a page; collects garbage first when blocks run out.
    pub fn write(&mut self, page: Lpn) -> Collected {
        self.forget(page);
        let mut collected = Collected::default();
        if self.host.used == self.nand.block_pages() {
            while self.nand.free_blocks() < 2 {
                self.collect(&mut collected);
            }
            self.host = self.nand.open();
        }
        self.map[page.0 as usize] = self.nand.append(&mut self.host, page).0;
        self.counters.host_writes += 1;
        collected
    }

    /// Skips `pages` of the host's block: a program unit that had to be written half full.
    pub fn pad(&mut self, pages: u32) {
        self.host.used = (self.host.used + pages).min(self.nand.block_pages());
    }

    /// Unmaps a page; whether it was mapped.
    fn forget(&mut self, page: Lpn) -> bool {
        let physical = std::mem::replace(&mut self.map[page.0 as usize], NONE);
        if physical != NONE {
            self.nand.invalidate(Ppn(physical));
        }
        physical != NONE
    }

    /// Frees the block with the fewest valid pages.
    fn collect(&mut self, collected: &mut Collected) {
        let victim = self.victim();
        let copied = self.nand.valid(victim);
        if copied > 0 {
            self.copy_out(victim);
            collected.copied += copied;
            collected.erased_after_copy += 1;
        } else {
            collected.erased_empty += 1;
        }
        self.nand.erase(victim);
        self.counters.copies += u64::from(copied);
        self.counters.erases += 1;
        self.counters.collections += 1;
    }

    /// The full block with the fewest valid pages; the lowest of them.
    fn victim(&self) -> BlockId {
        let (mut best, mut fewest) = (BlockId(NONE), u32::MAX);
        for block in (0..self.nand.blocks()).map(BlockId) {
            let valid = self.nand.valid(block);
            if valid < fewest && !self.nand.is_free(block) && block != self.copies.block {
                (best, fewest) = (block, valid);
            }
        }
        let block_pages = self.nand.block_pages();
        assert!(fewest < block_pages, "a map has at least one invalid page outside its open blocks");
        best
    }

    fn copy_out(&mut self, victim: BlockId) {
        for offset in 0..self.nand.block_pages() {
            let Some(page) = self.nand.owner(self.nand.page(victim, offset)) else { continue };
            if self.copies.used == self.nand.block_pages() {
                self.copies = self.nand.open();
            }
            self.map[page.0 as usize] = self.nand.append(&mut self.copies, page).0;
        }
    }
}

impl Ftl for PageMap {
    fn logical_pages(&self) -> u32 {
        self.map.len() as u32
    }

    fn is_mapped(&self, page: Lpn) -> bool {
        self.map[page.0 as usize] != NONE
    }

    fn read(&mut self, page: Lpn) -> bool {
        let mapped = self.is_mapped(page);
        self.counters.host_reads += u64::from(mapped);
        mapped
    }

    fn write(&mut self, page: Lpn) -> &[Lpn] {
        PageMap::write(self, page);
        &[]
    }

    fn discard(&mut self, page: Lpn) {
        self.counters.discards += u64::from(self.forget(page));
    }

    fn nand(&self) -> &Nand {
        &self.nand
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn check(&self) {
        self.nand.check();
        let mut mapped = 0;
        for (page, &physical) in self.map.iter().enumerate() {
            if physical != NONE {
                mapped += 1;
                assert_eq!(self.nand.owner(Ppn(physical)), Some(Lpn(page as u32)));
            }
        }
        let valid: u32 = (0..self.nand.blocks()).map(|block| self.nand.valid(BlockId(block))).sum();
        assert_eq!(valid, mapped, "valid physical pages and mapped logical ones");
        assert!(self.nand.free_blocks() > 0, "no block is free");
    }
}

#[cfg(test)]
#[path = "page_map_tests.rs"]
mod tests;

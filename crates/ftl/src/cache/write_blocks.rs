//! Write-frequent data blocks (WFDB, thesis §3.2–3.3): database pages appended block by block, mapped page by page, without
//! a log. The block with the most stale pages is dropped with what is in it.
//!
//! Invariant: the chip's blocks in use here are the open one and those in `filled`.

use super::HostPage;
use crate::buckets::Buckets;
use crate::hybrid::Hybrid;
use crate::id::{BlockId, Lpn, Ppn};
use crate::layer::Ftl;
use crate::nand::Open;

#[derive(Clone, Debug)]
pub(super) struct WriteBlocks {
    unit_pages: u32,
    block_pages: u32,
    open: Option<Open>,
    /// Full blocks by valid pages.
    filled: Buckets,
    blocks: u32,
}

impl WriteBlocks {
    pub fn new(chip_blocks: u32, block_pages: u32, unit_pages: u32) -> Self {
        Self {
            unit_pages,
            block_pages,
            open: None,
            filled: Buckets::new(chip_blocks, block_pages),
            blocks: 0,
        }
    }

    /// Blocks in use.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Whether the next page needs a block first.
    pub fn is_full(&self) -> bool {
        self.open.is_none()
    }

    /// Whether there is a block to be evicted.
    pub fn has_victim(&self) -> bool {
        self.filled.fewest().is_some()
    }

    /// Takes a block into use.
    pub fn add_block(&mut self, chip: &mut Hybrid) {
        self.open = Some(chip.lend());
        self.blocks += 1;
    }

    /// Writes a page; answers with the first flash page of its place.
    pub fn write(&mut self, page: HostPage, chip: &mut Hybrid) -> Ppn {
        let mut open = self.open.expect("the cache adds a block first");
        let first = chip.append_lent(&mut open, Lpn(page.0));
        (1..self.unit_pages).for_each(|_| {
            chip.append_lent(&mut open, Lpn(page.0));
        });
        self.open = (open.used < self.block_pages).then_some(open);
        if self.open.is_none() {
            self.filled.set(open.block, chip.nand().valid(open.block));
        }
        first
    }

    /// The page at a place is not wanted any more.
    pub fn discard(&mut self, first: Ppn, chip: &mut Hybrid) {
        (0..self.unit_pages).for_each(|page| chip.invalidate_lent(Ppn(first.0 + page)));
        let block = chip.nand().block_of(first);
        if self.filled.count(block).is_some() {
            self.filled.set(block, chip.nand().valid(block));
        }
    }

    /// Drops the full block with the fewest valid pages; answers with the database pages in it.
    pub fn evict(&mut self, chip: &mut Hybrid) -> Vec<HostPage> {
        let block = self.filled.fewest().expect("the cache asks first");
        self.filled.remove(block);
        let mut pages: Vec<_> = chip.nand().valid_pages(block).map(|(_, page)| HostPage(page.0)).collect();
        pages.dedup();
        chip.take_back(block);
        self.blocks -= 1;
        pages
    }

    /// Asserts the invariants; `valid` flash pages are in the table of places.
    pub fn check(&self, valid: u32, chip: &Hybrid) {
        let filled =
            (0..chip.nand().blocks()).map(BlockId).filter(|&block| self.filled.count(block).is_some());
        let blocks: Vec<_> = filled.chain(self.open.map(|open| open.block)).collect();
        assert_eq!(blocks.len() as u32, self.blocks);
        assert_eq!(blocks.iter().map(|&block| chip.nand().valid(block)).sum::<u32>(), valid);
        for block in blocks {
            assert!(
                self.filled.count(block).is_none_or(|count| count == chip.nand().valid(block)),
                "{block:?}"
            );
        }
    }
}

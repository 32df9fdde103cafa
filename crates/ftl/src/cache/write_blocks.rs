//! Write-frequent data blocks (WFDB, thesis §3.2–3.3): database pages appended block by block, mapped page by
//! page, without a log. The block with the most stale pages is dropped with its pages.
//!
//! Invariant: a full block is filed by the valid pages that the chip has in it.

use super::HostPage;
use super::filling::Filling;
use crate::hybrid::Hybrid;
use crate::id::{BlockId, Lpn, Ppn};
use crate::layer::Ftl;
use crate::nand::Open;

#[derive(Clone, Debug)]
pub(super) struct WriteBlocks {
    unit_pages: u32,
    block_pages: u32,
    filling: Filling<Open>,
}

impl WriteBlocks {
    pub fn new(chip_blocks: u32, block_pages: u32, unit_pages: u32) -> Self {
        Self { unit_pages, block_pages, filling: Filling::new(chip_blocks, block_pages) }
    }

    /// The blocks in use.
    pub fn filling(&self) -> &Filling<Open> {
        &self.filling
    }

    /// Takes a block into use.
    pub fn add_block(&mut self, chip: &mut Hybrid) {
        self.filling.open(chip.lend());
    }

    /// Writes a page; answers with the first flash page of its place.
    pub fn write(&mut self, page: HostPage, chip: &mut Hybrid) -> Ppn {
        let mut open = self.filling.current();
        let first = chip.append_lent(&mut open, Lpn(page.0));
        (1..self.unit_pages).for_each(|_| {
            chip.append_lent(&mut open, Lpn(page.0));
        });
        if open.used < self.block_pages {
            self.filling.go_on(open);
        } else {
            self.filling.fill(open.block, chip.nand().valid(open.block));
        }
        first
    }

    /// The page at a place is not wanted any more.
    pub fn discard(&mut self, first: Ppn, chip: &mut Hybrid) {
        (0..self.unit_pages).for_each(|page| chip.invalidate_lent(Ppn(first.0 + page)));
        let block = chip.nand().block_of(first);
        self.filling.recount(block, || chip.nand().valid(block));
    }

    /// Drops the full block with the fewest valid pages; answers with the database pages in it.
    pub fn evict(&mut self, chip: &mut Hybrid) -> Vec<HostPage> {
        let block = self.filling.evict();
        let mut pages: Vec<_> = chip.nand().valid_pages(block).map(|(_, page)| HostPage(page.0)).collect();
        pages.dedup();
        chip.take_back(block);
        pages
    }

    /// Asserts the invariants; `valid` flash pages are in the table of places.
    pub fn check(&self, valid: u32, chip: &Hybrid) {
        let full =
            (0..chip.nand().blocks()).map(BlockId).filter(|&block| self.filling.wanted(block).is_some());
        let blocks: Vec<_> = full.chain(self.filling.opened().map(|open| open.block)).collect();
        assert_eq!(blocks.len() as u32, self.filling.blocks());
        assert_eq!(blocks.iter().map(|&block| chip.nand().valid(block)).sum::<u32>(), valid);
        for block in blocks {
            let filed = self.filling.wanted(block);
            assert!(filed.is_none_or(|count| count == chip.nand().valid(block)), "{block:?}");
        }
    }
}

//! Silent eviction, and which pages may never be dropped.
//!
//! Invariants: a dirty page is never dropped. The number of logical blocks with dirty pages is at most that
//! of the data blocks (`Hybrid::may_become_dirty`): so whenever a logical block with dirty pages needs a data
//! block and all are in use, one of them holds no dirty page, since this one holds none of them.

use super::Hybrid;
use crate::id::{BlockId, Lpn, NONE};
use crate::layer::Ftl;

/// Which pages are newer than the disk.
#[derive(Clone, Debug)]
pub(super) struct DirtyPages {
    bits: Vec<u64>,
    in_block: Vec<u32>,
    in_logical: Vec<u32>,
    logical_blocks: u32,
    block_pages: u32,
}

impl DirtyPages {
    pub fn new(logical_blocks: u32, block_pages: u32, blocks: u32) -> Self {
        Self {
            bits: vec![0; (logical_blocks * block_pages).div_ceil(64) as usize],
            in_block: vec![0; blocks as usize],
            in_logical: vec![0; logical_blocks as usize],
            logical_blocks: 0,
            block_pages,
        }
    }

    pub fn contains(&self, page: Lpn) -> bool {
        self.bits[page.0 as usize / 64] >> (page.0 % 64) & 1 == 1
    }

    /// The page's newest version is in `block` now.
    pub fn placed(&mut self, page: Lpn, block: BlockId) {
        self.in_block[block.0 as usize] += u32::from(self.contains(page));
    }

    /// The page's newest version is no longer in `block`.
    pub fn removed(&mut self, page: Lpn, block: BlockId) {
        self.in_block[block.0 as usize] -= u32::from(self.contains(page));
    }

    fn flip(&mut self, page: Lpn) {
        self.bits[page.0 as usize / 64] ^= 1 << (page.0 % 64);
    }

    /// The page is dirty from now on; `block` holds its newest version.
    pub fn set_dirty(&mut self, page: Lpn, block: Option<BlockId>) {
        if !self.contains(page) {
            self.flip(page);
            block.inspect(|block| self.in_block[block.0 as usize] += 1);
            let logical = &mut self.in_logical[(page.0 / self.block_pages) as usize];
            *logical += 1;
            self.logical_blocks += u32::from(*logical == 1);
        }
    }

    /// The page is clean from now on; `block` holds its newest version.
    pub fn set_clean(&mut self, page: Lpn, block: Option<BlockId>) {
        if self.contains(page) {
            self.flip(page);
            block.inspect(|block| self.in_block[block.0 as usize] -= 1);
            let logical = &mut self.in_logical[(page.0 / self.block_pages) as usize];
            *logical -= 1;
            self.logical_blocks -= u32::from(*logical == 0);
        }
    }
}

impl Hybrid {
    /// Whether the page is newer than the disk.
    pub(crate) fn is_dirty(&self, page: Lpn) -> bool {
        self.dirty.contains(page)
    }

    /// Whether there is room for all dirty pages and one more.
    pub(crate) fn may_become_dirty(&self, page: Lpn) -> bool {
        let (logical, _) = self.split(page);
        self.dirty.in_logical[logical as usize] > 0 || self.dirty.logical_blocks < self.config.data_blocks
    }

    /// The page is (or is about to be written) newer than the disk.
    pub(crate) fn mark_dirty(&mut self, page: Lpn) {
        let block = self.locate(page).map(|place| self.nand.block_of(place));
        self.dirty.set_dirty(page, block);
        block.inspect(|&block| self.refile(block));
    }

    /// The page is on disk.
    pub(crate) fn mark_clean(&mut self, page: Lpn) {
        let block = self.locate(page).map(|place| self.nand.block_of(place));
        self.dirty.set_clean(page, block);
        block.inspect(|&block| self.refile(block));
    }

    /// Lets the random log have one block more, taken from the data blocks, if there is one to be had
    /// (FlashTier's SE-Merge). Answers with the pages dropped for it.
    pub(crate) fn grow_log(&mut self) -> &[Lpn] {
        self.dropped.clear();
        let can = self.dirty.logical_blocks < self.config.data_blocks && self.config.data_blocks > 1;
        if can && (self.data_blocks < self.config.data_blocks || self.evict_fewest()) {
            self.config.data_blocks -= 1;
            self.config.log_blocks += 1;
            self.random.grow();
        }
        &self.dropped
    }

    /// Whether the next page of the random log needs a merge first.
    pub(crate) fn log_is_full(&self) -> bool {
        self.random.is_full(self.config.block_pages)
    }

    /// Pages dropped by the last write.
    pub(crate) fn dropped(&self) -> &[Lpn] {
        &self.dropped
    }

    /// Keeps the order of droppable blocks: `block` has changed.
    pub(super) fn refile(&mut self, block: BlockId) {
        if !self.config.silent || self.logical[block.0 as usize] == NONE {
            return;
        }
        if self.dirty.in_block[block.0 as usize] == 0 {
            self.droppable.set(block, self.nand.valid(block));
        } else {
            self.droppable.remove(block);
        }
    }

    /// Sees to it that there may be one more data block; false if none can be dropped.
    pub(super) fn make_room(&mut self) -> bool {
        if self.data_blocks + self.lent < self.config.data_blocks {
            return true;
        }
        assert!(self.config.silent, "a map with a data block for each logical block has room for it");
        self.evict_fewest()
    }

    /// Drops the clean data block with the fewest valid pages (silent eviction).
    fn evict_fewest(&mut self) -> bool {
        let Some(victim) = self.droppable.fewest() else { return false };
        let logical = self.logical[victim.0 as usize];
        for offset in 0..self.config.block_pages {
            if let Some(page) = self.nand.owner(self.nand.page(victim, offset)) {
                self.supersede(page);
                self.dropped.push(page);
                self.counters.dropped += 1;
            }
        }
        self.retire(logical);
        self.counters.silent_evictions += 1;
        true
    }

    pub(super) fn check_dirty(&self) {
        let pages: Vec<_> = (0..self.config.logical_pages).map(Lpn).collect();
        let dirty = || pages.iter().filter(|page| self.is_dirty(**page));
        assert!(dirty().all(|page| self.is_mapped(*page)), "a dirty page is gone");
        assert_eq!(dirty().count() as u32, self.dirty.in_block.iter().sum::<u32>(), "dirty pages by block");
        assert_eq!(dirty().count() as u32, self.dirty.in_logical.iter().sum::<u32>());
        assert!(self.dirty.logical_blocks <= self.config.data_blocks, "too many dirty logical blocks");
        for (block, &logical) in self.logical.iter().enumerate() {
            let block = BlockId(block as u32);
            let droppable =
                self.config.silent && logical != NONE && self.dirty.in_block[block.0 as usize] == 0;
            let filed = droppable.then(|| self.nand.valid(block));
            assert_eq!(self.droppable.count(block), filed, "{block:?} among the droppable");
        }
    }
}

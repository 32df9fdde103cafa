//! A hybrid map after FAST: data blocks mapped block by block, log blocks mapped page by page (Lee, Park,
//! Chung, Lee, Park, Song: *A log buffer-based flash translation layer using fully-associative sector
//! translation*, ACM TECS 6(3), 2007).
//!
//! ```text
//! write(page of logical block l at offset o):
//!     data block of l has o erased     → program it there
//!     o = 0                            → close the sequential log block, open a new one for l, append
//!     l owns the sequential log block  → o follows its last page: append; else close it, and append to the random log
//!     else                             → append to the random log; when it is full, merge its oldest block first
//! close the sequential log block:
//!     full, and it holds all of l      → it becomes the data block                         (switch merge)
//!     not full                         → the rest is copied behind it, it becomes the data block (partial merge)
//! merge the oldest random log block:
//!     for each logical block l with a valid page in it → gather l into a new data block    (full merge)
//! ```
//!
//! Choices, and differences from the paper: a write that does not follow the last page of its own sequential
//! log block is appended to the random log once that is closed (the paper's algorithm 2 merges it in; its
//! text does not say where the page itself is written). A page that the random log holds is not copied by a
//! partial merge, but stays there. Data blocks may be programmed in any order of offsets, as the paper's
//! small-block chips could.
//!
//! With [`HybridConfig::silent`] the logical space may be larger than the data blocks: when they run out, the
//! clean one with the fewest valid pages is dropped (`evict.rs`).
//!
//! Invariants: a logical page has at most one valid physical page, in its data block or in the log; never
//! more data blocks than configured, nor log blocks; between calls at least one block is free.

mod evict;
mod lend;
mod log;
mod merge;

use crate::buckets::Buckets;
use crate::counters::Counters;
use crate::free::FreeOrder;
use crate::id::{BlockId, Lpn, NONE, Ppn};
use crate::layer::Ftl;
use crate::nand::Nand;
use evict::DirtyPages;
use log::{RandomLog, SequentialLog};

/// Sizes of a hybrid map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HybridConfig {
    /// Logical address space, pages.
    pub logical_pages: u32,
    /// Pages of a block (the thesis: 64).
    pub block_pages: u32,
    /// Data blocks at most.
    pub data_blocks: u32,
    /// Log blocks at most: one sequential, the others random; at least 2.
    pub log_blocks: u32,
    /// Blocks on top; at least 1, for merges to copy into.
    pub spare_blocks: u32,
    /// Data blocks may be dropped when they run out: a cache. Else there are as many as the logical space
    /// needs.
    pub silent: bool,
}

/// The thesis' shares of a chip (§4.1.2): over-provisioned blocks.
pub const SPARE_SHARE: f64 = 0.10;
/// The thesis' shares of a chip (§4.1.2): log blocks.
pub const LOG_SHARE: f64 = 0.07;

impl HybridConfig {
    /// A chip of `blocks` of which [`SPARE_SHARE`] and [`LOG_SHARE`] are not for data, under a logical space
    /// that just fills the data blocks.
    ///
    /// # Panics
    /// If there are fewer than 8 blocks.
    pub fn of_chip(blocks: u32, block_pages: u32) -> Self {
        assert!(blocks >= 8, "a chip with data, log and spare blocks has at least 8 blocks, not {blocks}");
        let share = |share: f64, least| ((f64::from(blocks) * share).round() as u32).max(least);
        let (spare_blocks, log_blocks) = (share(SPARE_SHARE, 1), share(LOG_SHARE, 2));
        let data_blocks = blocks - spare_blocks - log_blocks;
        let logical_pages = data_blocks * block_pages;
        Self { logical_pages, block_pages, data_blocks, log_blocks, spare_blocks, silent: false }
    }

    /// The same chip under a logical space of another size, as a cache that drops pages without room.
    pub fn silent(self, logical_pages: u32) -> Self {
        Self { logical_pages, silent: true, ..self }
    }

    /// Blocks of the chip.
    pub fn blocks(&self) -> u32 {
        self.data_blocks + self.log_blocks + self.spare_blocks
    }
}

/// A hybrid map over a chip of its own.
#[derive(Clone, Debug)]
pub struct Hybrid {
    config: HybridConfig,
    nand: Nand,
    /// The data block of each logical block.
    data: Vec<u32>,
    /// The logical block of each data block.
    logical: Vec<u32>,
    /// Data blocks there are, at most `config.data_blocks`.
    data_blocks: u32,
    /// The physical page in the log of each logical page that is there.
    log: Vec<u32>,
    sequential: Option<SequentialLog>,
    random: RandomLog,
    /// Blocks lent to the owner of this map.
    lent: u32,
    dirty: DirtyPages,
    /// Clean data blocks, by valid pages; empty unless `config.silent`.
    droppable: Buckets,
    /// Pages dropped by the write under way.
    dropped: Vec<Lpn>,
    counters: Counters,
}

impl Hybrid {
    /// An empty map.
    ///
    /// # Panics
    /// If the sizes contradict each other: the programmer's mistake.
    pub fn new(config: HybridConfig) -> Self {
        let logical_blocks = config.logical_pages.div_ceil(config.block_pages);
        assert!(config.log_blocks >= 2 && config.spare_blocks >= 1 && config.data_blocks >= 1, "{config:?}");
        assert!(config.silent || config.data_blocks >= logical_blocks, "no room for all pages: {config:?}");
        let blocks = config.blocks();
        let pages = logical_blocks * config.block_pages;
        Self {
            config,
            nand: Nand::new(blocks, config.block_pages, FreeOrder::LeastWorn),
            data: vec![NONE; logical_blocks as usize],
            logical: vec![NONE; blocks as usize],
            data_blocks: 0,
            log: vec![NONE; pages as usize],
            sequential: None,
            random: RandomLog::new(config.log_blocks - 1),
            lent: 0,
            dirty: DirtyPages::new(logical_blocks, config.block_pages, blocks),
            droppable: Buckets::new(blocks, config.block_pages),
            dropped: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Sizes.
    pub fn config(&self) -> &HybridConfig {
        &self.config
    }

    /// Data blocks in use.
    pub fn data_blocks(&self) -> u32 {
        self.data_blocks
    }

    /// Writes a page; false if it was not taken, because no data block could be dropped for it.
    pub(crate) fn put(&mut self, page: Lpn) -> bool {
        self.dropped.clear();
        let taken = match self.data_page(page) {
            Some(place) if self.nand.is_erased(place) => {
                self.supersede(page);
                self.program(place, page);
                true
            }
            Some(_) => {
                self.write_log(page);
                true
            }
            None => self.enter(page),
        };
        self.counters.host_writes += u64::from(taken);
        if !self.dropped.is_empty() {
            // A page that was dropped meanwhile may just have been written.
            let mut dropped = std::mem::take(&mut self.dropped);
            dropped.retain(|&page| !self.is_mapped(page));
            self.dropped = dropped;
        }
        taken
    }

    /// Writes a page whose logical block has no data block.
    fn enter(&mut self, page: Lpn) -> bool {
        let has_room = self.make_room();
        self.supersede(page);
        if has_room {
            let block = self.nand.take();
            let (logical, offset) = self.split(page);
            self.adopt(block, logical);
            self.program(self.nand.page(block, offset), page);
        } else {
            self.dropped.push(page);
        }
        has_room
    }

    fn split(&self, page: Lpn) -> (u32, u32) {
        (page.0 / self.config.block_pages, page.0 % self.config.block_pages)
    }

    /// The place in its data block that belongs to a logical page.
    fn data_page(&self, page: Lpn) -> Option<Ppn> {
        let (logical, offset) = self.split(page);
        let block = self.data[logical as usize];
        (block != NONE).then(|| self.nand.page(BlockId(block), offset))
    }

    /// Where the newest version is.
    fn locate(&self, page: Lpn) -> Option<Ppn> {
        match self.log[page.0 as usize] {
            NONE => self.data_page(page).filter(|&place| self.nand.owner(place).is_some()),
            place => Some(Ppn(place)),
        }
    }

    fn program(&mut self, place: Ppn, page: Lpn) {
        self.nand.program(place, page);
        let block = self.nand.block_of(place);
        self.dirty.placed(page, block);
        self.refile(block);
    }

    /// The newest version of the page becomes stale. Whether there was one.
    fn supersede(&mut self, page: Lpn) -> bool {
        let Some(place) = self.locate(page) else { return false };
        self.log[page.0 as usize] = NONE;
        self.nand.invalidate(place);
        let block = self.nand.block_of(place);
        self.dirty.removed(page, block);
        self.refile(block);
        true
    }

    /// A block becomes the data block of a logical block that has none.
    fn adopt(&mut self, block: BlockId, logical: u32) {
        debug_assert_eq!(self.data[logical as usize], NONE);
        self.data[logical as usize] = block.0;
        self.logical[block.0 as usize] = logical;
        self.data_blocks += 1;
        self.refile(block);
    }

    /// Erases the data block of a logical block, if it has one; nothing in it is valid.
    fn retire(&mut self, logical: u32) {
        let block = std::mem::replace(&mut self.data[logical as usize], NONE);
        if block != NONE {
            debug_assert_eq!(self.nand.valid(BlockId(block)), 0);
            self.logical[block as usize] = NONE;
            self.data_blocks -= 1;
            self.erase(BlockId(block));
        }
    }

    fn erase(&mut self, block: BlockId) {
        self.droppable.remove(block);
        self.nand.erase(block);
        self.counters.erases += 1;
    }
}

impl Ftl for Hybrid {
    fn logical_pages(&self) -> u32 {
        self.config.logical_pages
    }

    fn is_mapped(&self, page: Lpn) -> bool {
        self.locate(page).is_some()
    }

    fn read(&mut self, page: Lpn) -> bool {
        let mapped = self.is_mapped(page);
        self.counters.host_reads += u64::from(mapped);
        mapped
    }

    fn write(&mut self, page: Lpn) -> &[Lpn] {
        self.mark_clean(page);
        self.put(page);
        &self.dropped
    }

    fn discard(&mut self, page: Lpn) {
        self.mark_clean(page);
        if self.supersede(page) {
            self.counters.discards += 1;
            let (logical, _) = self.split(page);
            let block = self.data[logical as usize];
            if block != NONE && self.nand.valid(BlockId(block)) == 0 {
                self.retire(logical);
            }
        }
    }

    fn nand(&self) -> &Nand {
        &self.nand
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn check(&self) {
        self.nand.check();
        let mapped = (0..self.config.logical_pages).filter_map(|page| Some((page, self.locate(Lpn(page))?)));
        let mut count = 0;
        for (page, place) in mapped {
            assert_eq!(self.nand.owner(place), Some(Lpn(page)), "content of {place:?}");
            count += 1;
        }
        let data: Vec<_> = self.data.iter().filter(|&&block| block != NONE).collect();
        assert_eq!(data.len() as u32, self.data_blocks);
        assert!(self.data_blocks + self.lent <= self.config.data_blocks, "too many data blocks");
        let log = self.random.blocks() + u32::from(self.sequential.is_some());
        assert!(log <= self.config.log_blocks, "{log} log blocks of {}", self.config.log_blocks);
        let used = self.data_blocks + self.lent + log;
        assert_eq!(used + self.nand.free_blocks(), self.nand.blocks(), "every block is something");
        assert!(self.nand.free_blocks() > 0, "no block is free");
        if self.lent == 0 {
            let valid: u32 = (0..self.nand.blocks()).map(|block| self.nand.valid(BlockId(block))).sum();
            assert_eq!(valid, count, "valid physical pages and mapped logical ones");
        }
        self.check_dirty();
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

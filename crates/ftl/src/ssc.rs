//! FlashTier's solid-state cache: a hybrid map whose address space is the disk's, and which drops clean pages
//! instead of copying them (Saxena, Swift, Zhang: *FlashTier*, EuroSys 2012; thesis §2.4).
//!
//! The interface is FlashTier's: `write-clean`, `write-dirty`, `read` (which may answer "not present"),
//! `evict`, `clean`, `exists`. Space for a new data block is gained by *silent eviction*: the data block
//! without a dirty page and with the fewest valid pages is erased, and its pages are dropped (SE-Util). With
//! [`SilentEviction::Merge`] such a block may also become a log block, until the log has its largest share:
//! fewer merges (SE-Merge).
//!
//! Deviations: the maps are arrays over the disk's pages instead of sparse hash maps, and nothing is logged
//! for consistency: this is a model of a device's work on its blocks. FlashTier frees log blocks by merges,
//! as here; where it would fail for want of clean blocks, [`Ssc::write_dirty`] refuses beforehand.
//!
//! Invariants: a dirty page is present until it is cleaned and dropped, or evicted by name; a page that the
//! answer to a write does not name is present if it was before.

use crate::counters::Counters;
use crate::hybrid::{Hybrid, HybridConfig};
use crate::id::Lpn;
use crate::layer::Ftl;
use crate::nand::Nand;
use thiserror::Error;

/// The use of blocks gained by silent eviction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SilentEviction {
    /// Data blocks only (SE-Util, device SSC).
    Util,
    /// Log blocks, too, until they are this share of the chip (SE-Merge, device SSC-R: 0.20).
    Merge {
        /// Log blocks at most, of all blocks.
        log_share_max: f64,
    },
}

/// Why a page was not written.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SscError {
    /// One more dirty logical block than there are data blocks.
    #[error(
        "page {} was not written: {dirty_max} logical blocks hold dirty pages, as many as there are data blocks; clean some first",
        .page.0
    )]
    TooDirty {
        /// The page that was to be written.
        page: Lpn,
        /// Logical blocks with dirty pages at most.
        dirty_max: u32,
    },
}

/// A solid-state cache.
#[derive(Clone, Debug)]
pub struct Ssc {
    map: Hybrid,
    log_blocks_max: u32,
    /// Dropped by the last write: by the map, and by the growth of the log.
    dropped: Vec<Lpn>,
}

impl Ssc {
    /// An empty cache of `blocks` blocks (log and spare blocks included) in front of a disk of `disk_pages`.
    ///
    /// # Panics
    /// If there are fewer than 8 blocks.
    pub fn new(disk_pages: u32, blocks: u32, block_pages: u32, eviction: SilentEviction) -> Self {
        Self::with_config(HybridConfig::of_chip(blocks, block_pages).silent(disk_pages), eviction)
    }

    /// An empty cache of these sizes.
    ///
    /// # Panics
    /// If `config` is not silent, or contradicts itself.
    pub fn with_config(config: HybridConfig, eviction: SilentEviction) -> Self {
        assert!(config.silent, "a solid-state cache drops pages: {config:?}");
        let log_blocks_max = match eviction {
            SilentEviction::Util => config.log_blocks,
            SilentEviction::Merge { log_share_max } => {
                ((f64::from(config.blocks()) * log_share_max) as u32).max(config.log_blocks)
            }
        };
        Self { map: Hybrid::new(config), log_blocks_max, dropped: Vec::new() }
    }

    /// Writes a page that the disk has, too. Answers with the pages that are gone; `page` is among them if it
    /// was not taken because every block holds dirty pages.
    pub fn write_clean(&mut self, page: Lpn) -> &[Lpn] {
        self.map.mark_clean(page);
        self.put(page)
    }

    /// Writes a page that is newer than the disk's. Answers with the pages that are gone, never with a dirty
    /// one.
    ///
    /// # Errors
    /// [`SscError::TooDirty`]: nothing was written.
    pub fn write_dirty(&mut self, page: Lpn) -> Result<&[Lpn], SscError> {
        if !self.map.may_become_dirty(page) {
            return Err(SscError::TooDirty { page, dirty_max: self.map.config().data_blocks });
        }
        self.map.mark_dirty(page);
        Ok(self.put(page))
    }

    /// The page is on disk now, and may be dropped.
    pub fn clean(&mut self, page: Lpn) {
        self.map.mark_clean(page);
    }

    /// Whether the page is here and newer than the disk's (FlashTier's `exists`).
    pub fn is_dirty(&self, page: Lpn) -> bool {
        self.map.is_dirty(page)
    }

    /// The map below, for its sizes.
    pub fn map(&self) -> &Hybrid {
        &self.map
    }

    fn put(&mut self, page: Lpn) -> &[Lpn] {
        self.dropped.clear();
        if self.map.log_is_full() && self.map.config().log_blocks < self.log_blocks_max {
            self.dropped.extend_from_slice(self.map.grow_log());
        }
        let taken = self.map.put(page);
        self.dropped.extend_from_slice(self.map.dropped());
        debug_assert!(taken || self.map.dropped().contains(&page));
        let map = &self.map;
        self.dropped.retain(|&page| !map.is_mapped(page));
        &self.dropped
    }
}

impl Ftl for Ssc {
    fn logical_pages(&self) -> u32 {
        self.map.logical_pages()
    }

    fn is_mapped(&self, page: Lpn) -> bool {
        self.map.is_mapped(page)
    }

    fn read(&mut self, page: Lpn) -> bool {
        self.map.read(page)
    }

    fn write(&mut self, page: Lpn) -> &[Lpn] {
        self.write_clean(page)
    }

    /// FlashTier's `evict`: the page is gone, dirty or not.
    fn discard(&mut self, page: Lpn) {
        self.map.discard(page);
    }

    fn nand(&self) -> &Nand {
        self.map.nand()
    }

    fn counters(&self) -> Counters {
        self.map.counters()
    }

    fn check(&self) {
        self.map.check();
    }
}

#[cfg(test)]
#[path = "ssc_tests.rs"]
mod tests;

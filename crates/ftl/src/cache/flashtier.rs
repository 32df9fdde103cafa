//! FlashTier as the thesis has it: block-level caching on a solid-state cache, with or without a write buffer
//! (thesis §2.4, 3.4, 4.2; Saxena, Swift, Zhang, EuroSys 2012).
//!
//! ```text
//! read of p:  in the write buffer or on flash → serve it
//!             else → read p's whole block from disk and write to flash what is not there           (block-level)
//! write of p: without a write buffer → write p to flash; with one → p enters it, or becomes its warmest (LRU)
//! write buffer too full: its coldest page is written to flash
//! no data block left: the clean one with the fewest valid pages is erased with what is in it      (silent eviction)
//! ```
//!
//! Deviations: [`Fill::Page`] fetches the page alone, to compare block-level with page-level caching (§3.4)
//! on one device. The thesis' FlashTier is write-through; the device below ([`crate::Ssc`]) could hold dirty
//! pages.
//!
//! Invariant: a page is on flash only if all its flash pages are, in one version.

use super::write_buffer::{Buffered, Order, WriteBuffer};
use super::{BlockCache, CacheCounters, CacheError, CacheSizes, Decisions, HostPage, Lookup};
use crate::id::Lpn;
use crate::layer::Ftl;
use crate::ssc::{SilentEviction, Ssc};
use std::ops::Range;

/// The pages that a read that misses brings in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// All pages of its block: block-level caching (figure 3.5).
    Block,
    /// The page alone (figure 3.6).
    Page,
}

/// Parameters of the policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashTierConfig {
    /// Sizes; a write buffer of 0 pages is none.
    pub sizes: CacheSizes,
    /// The pages that a read that misses brings in.
    pub fill: Fill,
    /// The use of blocks gained by silent eviction.
    pub eviction: SilentEviction,
}

impl FlashTierConfig {
    /// The thesis' baseline.
    pub fn new(sizes: CacheSizes) -> Self {
        Self { sizes, fill: Fill::Block, eviction: SilentEviction::Util }
    }
}

/// The cache.
#[derive(Clone, Debug)]
pub struct FlashTier {
    config: FlashTierConfig,
    buffer: Option<WriteBuffer>,
    ssc: Ssc,
    counters: CacheCounters,
    decisions: Decisions,
}

impl FlashTier {
    /// An empty cache.
    ///
    /// # Errors
    /// [`CacheError`] if such a cache is not possible.
    pub fn new(config: FlashTierConfig) -> Result<Self, CacheError> {
        let sizes = config.sizes;
        sizes.validate()?;
        let buffer = WriteBuffer::new(Order::LeastRecentlyUsed, sizes.buffer, sizes.disk_pages);
        Ok(Self {
            config,
            buffer: (sizes.buffer > 0).then_some(buffer),
            ssc: Ssc::new(
                sizes.disk_pages * sizes.unit_pages,
                sizes.blocks,
                sizes.block_pages,
                config.eviction,
            ),
            counters: CacheCounters::default(),
            decisions: Decisions::default(),
        })
    }

    /// Parameters.
    pub fn config(&self) -> &FlashTierConfig {
        &self.config
    }

    fn flash_pages(&self, page: HostPage) -> Range<u32> {
        let unit_pages = self.config.sizes.unit_pages;
        page.0 * unit_pages..(page.0 + 1) * unit_pages
    }

    fn is_on_flash(&self, page: HostPage) -> bool {
        self.flash_pages(page).all(|page| self.ssc.is_mapped(Lpn(page)))
    }

    /// Writes a page to flash; the rest of a page of which the device dropped a part is useless but harmless:
    /// it is the disk's version.
    fn write_flash(&mut self, page: HostPage) {
        for page in self.flash_pages(page) {
            for gone in self.ssc.write_clean(Lpn(page)) {
                self.decisions.note(1, gone.0);
            }
        }
        self.decisions.note(2, page.0);
    }
}

impl BlockCache for FlashTier {
    fn fetch(&mut self, page: HostPage) -> Lookup {
        self.counters.reads += 1;
        if self.buffer.as_mut().is_some_and(|buffer| buffer.read(page)) {
            self.counters.buffer_hits += 1;
            return Lookup::Buffered;
        }
        if !self.is_on_flash(page) {
            return Lookup::Absent;
        }
        self.counters.flash_hits += 1;
        for page in self.flash_pages(page) {
            self.ssc.read(Lpn(page));
        }
        Lookup::Flash
    }

    fn population(&self, page: HostPage) -> Range<u32> {
        match self.config.fill {
            Fill::Page => page.0..page.0 + 1,
            Fill::Block => {
                let units = self.config.sizes.block_units();
                let first = page.0 / units * units;
                first..(first + units).min(self.config.sizes.disk_pages)
            }
        }
    }

    fn arrived(&mut self, page: HostPage) {
        let population = self.population(page);
        self.counters.disk_reads += population.len() as u64;
        for page in population.map(HostPage) {
            if !self.is_on_flash(page) {
                self.counters.read_frequent += 1;
                self.write_flash(page);
            }
        }
    }

    fn evict(&mut self, page: HostPage) {
        self.counters.writes += 1;
        self.counters.write_hits += u64::from(self.contains(page));
        let Some(buffer) = &mut self.buffer else {
            self.counters.read_frequent += 1;
            self.write_flash(page);
            return;
        };
        if !buffer.write(page) {
            buffer.insert(Buffered { page, reads: 0, writes: 1, returned: false });
            let coldest = if buffer.is_over_full() { buffer.pop() } else { None };
            if let Some(coldest) = coldest {
                self.counters.read_frequent += 1;
                self.write_flash(coldest.page);
            }
        }
    }

    fn contains(&self, page: HostPage) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.contains(page)) || self.is_on_flash(page)
    }

    fn sizes(&self) -> &CacheSizes {
        &self.config.sizes
    }

    fn counters(&self) -> CacheCounters {
        self.counters
    }

    fn chip(&self) -> &dyn Ftl {
        &self.ssc
    }

    fn decision_hash(&self) -> u64 {
        self.decisions.hash()
    }

    fn check(&self) {
        self.ssc.check();
        assert!(self.buffer.as_ref().is_none_or(|buffer| !buffer.is_over_full()), "the buffer is too full");
    }
}

#[cfg(test)]
#[path = "flashtier_tests.rs"]
mod tests;

//! RFDB/WFDB: a write buffer that tells read-frequent from write-frequent pages, and blocks of a kind for
//! each (thesis §3).
//!
//! ```text
//! read of p:  in the write buffer → count it;  on flash → serve it;  else → read from disk, p enters the write buffer
//! write of p: in the write buffer → count it, p becomes its warmest;
//!             in an RFDB          → to the log of the RFDBs                       (update in place, FAST)
//!             in a WFDB           → stale there; p enters the write buffer
//!             else                → p enters the write buffer
//! write buffer too full: its coldest page leaves: unadmitted, to the RFDBs, or to the WFDBs     (figure 3.2)
//! no block left for it:
//!     WFDBs are more than a tenth of the blocks, or as many and one is needed
//!              → the WFDB with the most stale pages is erased, what is valid in it is dropped silently
//!     else     → of the RFDB with the most unwanted pages, the wanted ones return to the write buffer; it is erased
//! ```
//!
//! **Dirty data.** There is none: "the cache controller provides only a write-through policy" (§4.1.2). Every
//! page here is equal to the disk's, or is about to be, and can be dropped without a destage. In a write-back
//! cache the silent drop of a WFDB would lose writes; so this policy has no write-back mode.
//!
//! Deviations: what figure 3.2 does with pages that return ([`super::Admission`]). [`Returned::WithReads`]
//! and [`Update::Buffer`] are our variants, to be compared. "A write buffer gets allocated only if the
//! request triggers cache misses" (§3, step 1) and "if the write request corresponding with the LBA that
//! stored in WFDB … it would be written in the write buffer" (§3.3) are read as above. Pages returned to the
//! write buffer enter it at its warm end (not said).
//!
//! Invariants: RFDBs and WFDBs together are never more than the data blocks; a page has one place, or none.

use super::admission::{Admission, Thresholds};
use super::read_blocks::{ReadBlocks, Unit};
use super::write_blocks::WriteBlocks;
use super::write_buffer::{Buffered, Order, WriteBuffer};
use super::{BlockCache, CacheCounters, CacheError, CacheSizes, Decisions, HostPage, Lookup};
use crate::hybrid::{Hybrid, HybridConfig};
use crate::id::{NONE, Ppn};
use crate::layer::Ftl;
use std::ops::Range;

/// The counts of a page that returns from a read-frequent block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// Zero: only what happens in the write buffer counts (the thesis' list is of the pages there).
    Afresh,
    /// Its reads on flash since it was written there: as in a second chance.
    WithReads,
}

/// The place of a new version of a page in a read-frequent block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// To the log, at once (§3.3: "log blocks for out-of-place update").
    Log,
    /// The write buffer; the log when it is evicted from that as read-frequent.
    Buffer,
}

/// Parameters of the policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RwFdbConfig {
    /// Sizes; the write buffer must not be empty.
    pub sizes: CacheSizes,
    /// Thresholds of admission. The thesis gives none.
    pub thresholds: Thresholds,
    /// Write-frequent blocks, as a share of all blocks of the chip (thesis: 0.1).
    pub write_share: f64,
    /// Counts of pages that return.
    pub returned: Returned,
    /// Updates of pages in read-frequent blocks.
    pub update: Update,
}

impl RwFdbConfig {
    /// The thesis' policy. It gives no thresholds; with both 0, figure 3.2 needs no exception for pages that
    /// return, and the lab's sweep finds little difference.
    pub fn new(sizes: CacheSizes) -> Self {
        Self {
            sizes,
            thresholds: Thresholds { read: 0, write: 0 },
            write_share: 0.1,
            returned: Returned::Afresh,
            update: Update::Log,
        }
    }
}

/// Where a page is on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Read(Unit),
    /// First flash page.
    Write(Ppn),
}

const IN_WRITE_BLOCK: u32 = 1 << 31;

/// The cache.
#[derive(Clone, Debug)]
pub struct RwFdb {
    config: RwFdbConfig,
    buffer: WriteBuffer,
    chip: Hybrid,
    read_blocks: ReadBlocks,
    write_blocks: WriteBlocks,
    write_blocks_target: u32,
    /// Place of each page of the disk, in 32 bits.
    places: Vec<u32>,
    counters: CacheCounters,
    decisions: Decisions,
}

impl RwFdb {
    /// An empty cache.
    ///
    /// # Errors
    /// [`CacheError`] if such a cache is not possible.
    pub fn new(config: RwFdbConfig) -> Result<Self, CacheError> {
        let sizes = config.sizes;
        sizes.validate()?;
        if sizes.buffer == 0 {
            return Err(CacheError::Buffer);
        }
        if !(0.0..1.0).contains(&config.write_share) {
            return Err(CacheError::Share { per_mille: (config.write_share * 1000.0) as u32 });
        }
        let chip = HybridConfig::of_chip(sizes.blocks, sizes.block_pages);
        let target = ((f64::from(sizes.blocks) * config.write_share).round() as u32).max(1);
        Ok(Self {
            config,
            buffer: WriteBuffer::new(Order::LeastRecentlyWritten, sizes.buffer, sizes.disk_pages),
            read_blocks: ReadBlocks::new(chip.data_blocks, sizes.block_units(), sizes.unit_pages),
            write_blocks: WriteBlocks::new(chip.blocks(), sizes.block_pages, sizes.unit_pages),
            write_blocks_target: target.min(chip.data_blocks - 1),
            chip: Hybrid::new(chip),
            places: vec![NONE; sizes.disk_pages as usize],
            counters: CacheCounters::default(),
            decisions: Decisions::default(),
        })
    }

    /// Parameters.
    pub fn config(&self) -> &RwFdbConfig {
        &self.config
    }

    /// Read-frequent and write-frequent blocks in use.
    pub fn blocks(&self) -> (u32, u32) {
        (self.read_blocks.filling().blocks(), self.write_blocks.filling().blocks())
    }

    fn place(&self, page: HostPage) -> Place {
        match self.places[page.0 as usize] {
            NONE => Place::Nowhere,
            place if place & IN_WRITE_BLOCK != 0 => Place::Write(Ppn(place & !IN_WRITE_BLOCK)),
            place => Place::Read(Unit(place)),
        }
    }

    fn set_place(&mut self, page: HostPage, place: Place) {
        self.places[page.0 as usize] = match place {
            Place::Nowhere => NONE,
            Place::Read(unit) => unit.0,
            Place::Write(first) => first.0 | IN_WRITE_BLOCK,
        };
    }

    /// The page's copy on flash is not wanted any more.
    fn discard(&mut self, page: HostPage) {
        match self.place(page) {
            Place::Nowhere => return,
            Place::Read(unit) => self.read_blocks.discard(unit, &mut self.chip),
            Place::Write(first) => self.write_blocks.discard(first, &mut self.chip),
        }
        self.set_place(page, Place::Nowhere);
    }

    fn enter_buffer(&mut self, page: HostPage, reads: u16, writes: u16) {
        self.buffer.insert(Buffered { page, reads, writes, returned: false });
        while self.buffer.is_over_full() {
            let coldest = self.buffer.pop().expect("a buffer that is too full holds a page");
            self.leave_buffer(coldest);
        }
    }

    /// Figure 3.2.
    fn leave_buffer(&mut self, buffered: Buffered) {
        let Buffered { page, reads, writes, returned } = buffered;
        let admission = self.config.thresholds.judge(reads, writes, returned);
        self.decisions.note(admission as u32, page.0);
        match admission {
            Admission::Unadmitted => {
                self.counters.unadmitted += 1;
                self.discard(page);
            }
            Admission::ReadFrequent => {
                self.counters.read_frequent += 1;
                self.write_read_frequent(page);
            }
            Admission::WriteFrequent => {
                self.counters.write_frequent += 1;
                self.discard(page);
                if self.write_blocks.filling().needs_block() {
                    self.make_room(Admission::WriteFrequent);
                    self.write_blocks.add_block(&mut self.chip);
                }
                let first = self.write_blocks.write(page, &mut self.chip);
                self.set_place(page, Place::Write(first));
            }
        }
    }

    fn write_read_frequent(&mut self, page: HostPage) {
        if let Place::Read(unit) = self.place(page) {
            self.read_blocks.rewrite(unit, &mut self.chip);
            return;
        }
        self.discard(page);
        if self.read_blocks.filling().needs_block() {
            self.make_room(Admission::ReadFrequent);
            self.read_blocks.add_block();
        }
        let unit = self.read_blocks.write(page, &mut self.chip);
        self.set_place(page, Place::Read(unit));
    }

    /// Evicts blocks until there may be one more of a kind (§3.2).
    fn make_room(&mut self, kind: Admission) {
        let data_blocks = self.chip.config().data_blocks;
        let one_more = u32::from(kind == Admission::WriteFrequent);
        loop {
            let (read, write) = self.blocks();
            if read + write < data_blocks {
                return;
            }
            let too_many = write + one_more > self.write_blocks_target;
            let from_write = too_many && self.write_blocks.filling().has_victim();
            if from_write || !self.read_blocks.filling().has_victim() {
                for page in self.write_blocks.evict(&mut self.chip) {
                    self.decisions.note(3, page.0);
                    self.set_place(page, Place::Nowhere);
                }
            } else {
                self.evict_read_block();
            }
        }
    }

    /// The wanted pages return to the write buffer, unless a newer version is there already.
    fn evict_read_block(&mut self) {
        self.counters.evictions += 1;
        for (page, reads) in self.read_blocks.evict(&mut self.chip) {
            self.set_place(page, Place::Nowhere);
            if self.buffer.contains(page) {
                continue;
            }
            self.decisions.note(4, page.0);
            self.counters.returned += 1;
            self.chip.count_reads(self.config.sizes.unit_pages);
            let reads = if self.config.returned == Returned::WithReads { reads } else { 0 };
            self.buffer.insert(Buffered { page, reads, writes: 0, returned: true });
        }
    }
}

impl BlockCache for RwFdb {
    fn fetch(&mut self, page: HostPage) -> Lookup {
        self.counters.reads += 1;
        if self.buffer.read(page) {
            self.counters.buffer_hits += 1;
            return Lookup::Buffered;
        }
        match self.place(page) {
            Place::Nowhere => return Lookup::Absent,
            Place::Read(unit) => self.read_blocks.read(unit, &mut self.chip),
            Place::Write(_) => self.chip.count_reads(self.config.sizes.unit_pages),
        }
        self.counters.flash_hits += 1;
        Lookup::Flash
    }

    /// The page alone: page-level caching (§3.4).
    fn population(&self, page: HostPage) -> Range<u32> {
        page.0..page.0 + 1
    }

    fn arrived(&mut self, page: HostPage) {
        self.counters.disk_reads += 1;
        self.enter_buffer(page, 1, 0);
    }

    fn evict(&mut self, page: HostPage) {
        self.counters.writes += 1;
        let place = self.place(page);
        if self.buffer.write(page) {
            self.counters.write_hits += 1;
            return;
        }
        self.counters.write_hits += u64::from(place != Place::Nowhere);
        match place {
            Place::Read(unit) if self.config.update == Update::Log => {
                self.read_blocks.rewrite(unit, &mut self.chip);
                return;
            }
            // Found in the write buffer first until it is evicted from that.
            Place::Read(_) | Place::Nowhere => {}
            Place::Write(_) => self.discard(page),
        }
        self.enter_buffer(page, 0, 1);
    }

    fn contains(&self, page: HostPage) -> bool {
        self.buffer.contains(page) || self.place(page) != Place::Nowhere
    }

    fn sizes(&self) -> &CacheSizes {
        &self.config.sizes
    }

    fn counters(&self) -> CacheCounters {
        self.counters
    }

    fn chip(&self) -> &dyn Ftl {
        &self.chip
    }

    fn decision_hash(&self) -> u64 {
        self.decisions.hash()
    }

    fn check(&self) {
        self.chip.check();
        self.read_blocks.check(&self.chip);
        let (read, write) = self.blocks();
        assert!(read + write <= self.chip.config().data_blocks, "{read} RFDBs and {write} WFDBs");
        assert!(!self.buffer.is_over_full(), "the write buffer is too full");
        let mut valid = 0;
        for page in (0..self.config.sizes.disk_pages).map(HostPage) {
            match self.place(page) {
                Place::Nowhere => {}
                Place::Read(unit) => assert_eq!(self.read_blocks.owner(unit), Some(page)),
                Place::Write(first) => {
                    valid += self.config.sizes.unit_pages;
                    let owner = self.chip.nand().owner(first).map(|owner| owner.0);
                    assert_eq!(owner, Some(page.0), "{page:?} in a WFDB");
                }
            }
        }
        self.write_blocks.check(valid, &self.chip);
        let pages: Vec<_> = self.buffer.pages().collect();
        assert!(pages.iter().all(|page| !matches!(self.place(*page), Place::Write(_))), "in two places");
    }
}

#[cfg(test)]
#[path = "rwfdb_tests.rs"]
mod tests;

//! Read-frequent data blocks (RFDB, thesis §3.2–3.4): database pages of any address, allocated one after the other in
//! virtual blocks, which a FAST-like hybrid map keeps on the chip. A new version of a page goes to its old place, and that
//! means the log.
//!
//! The thesis: "each combination of physical block address and offset is independently mapped with combination of local
//! block address and offset. Accordingly, mapping method of RFDB can be hybrid mapping." The first mapping is `owner`
//! here (and the cache's table of places), the second is [`Hybrid`].
//!
//! Invariant: `filled` has the full blocks by the number of pages in them that are still wanted.

use super::HostPage;
use crate::buckets::Buckets;
use crate::hybrid::Hybrid;
use crate::id::{BlockId, Lpn, NONE};
use crate::layer::Ftl;

/// A place in a virtual block: block × units of a block + unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit(pub u32);

#[derive(Clone, Debug)]
pub(super) struct ReadBlocks {
    unit_pages: u32,
    block_units: u32,
    /// The database page in each unit, or `NONE`.
    owner: Vec<u32>,
    /// Reads of each unit since it was written.
    reads: Vec<u16>,
    filled: Buckets,
    free: Vec<u32>,
    /// Block being filled, and units used.
    open: Option<(u32, u32)>,
    blocks: u32,
}

impl ReadBlocks {
    pub fn new(blocks: u32, block_units: u32, unit_pages: u32) -> Self {
        let units = (blocks * block_units) as usize;
        Self {
            unit_pages,
            block_units,
            owner: vec![NONE; units],
            reads: vec![0; units],
            filled: Buckets::new(blocks, block_units),
            free: (0..blocks).rev().collect(),
            open: None,
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
    pub fn add_block(&mut self) {
        let block = self.free.pop().expect("the cache counts its blocks");
        self.open = Some((block, 0));
        self.blocks += 1;
    }

    /// Gives a page a place and writes it there.
    pub fn write(&mut self, page: HostPage, chip: &mut Hybrid) -> Unit {
        let (block, used) = self.open.expect("the cache adds a block first");
        let unit = Unit(block * self.block_units + used);
        self.owner[unit.0 as usize] = page.0;
        self.open = (used + 1 < self.block_units).then_some((block, used + 1));
        if self.open.is_none() {
            self.refile(block);
        }
        self.rewrite(unit, chip);
        unit
    }

    /// Writes a new version of the page in a unit.
    pub fn rewrite(&mut self, unit: Unit, chip: &mut Hybrid) {
        self.reads[unit.0 as usize] = 0;
        for page in self.pages(unit) {
            chip.write(page);
        }
    }

    /// Reads the page in a unit.
    pub fn read(&mut self, unit: Unit, chip: &mut Hybrid) {
        let reads = &mut self.reads[unit.0 as usize];
        *reads = reads.saturating_add(1);
        chip.count_reads(self.unit_pages);
    }

    /// The page in a unit is not wanted any more.
    pub fn discard(&mut self, unit: Unit, chip: &mut Hybrid) {
        self.owner[unit.0 as usize] = NONE;
        for page in self.pages(unit) {
            chip.discard(page);
        }
        let block = unit.0 / self.block_units;
        if self.filled.count(BlockId(block)).is_some() {
            self.refile(block);
        }
    }

    /// Empties the full block with the most pages that are not wanted; answers with the wanted ones, and how often each
    /// was read there.
    pub fn evict(&mut self, chip: &mut Hybrid) -> Vec<(HostPage, u16)> {
        let BlockId(block) = self.filled.fewest().expect("the cache asks first");
        self.filled.remove(BlockId(block));
        let mut pages = Vec::with_capacity(self.block_units as usize);
        let first = block * self.block_units;
        for unit in (first..first + self.block_units).map(Unit) {
            let owner = self.owner[unit.0 as usize];
            if owner != NONE {
                pages.push((HostPage(owner), self.reads[unit.0 as usize]));
                self.discard(unit, chip);
            }
        }
        self.free.push(block);
        self.blocks -= 1;
        pages
    }

    fn refile(&mut self, block: u32) {
        let units = block * self.block_units..(block + 1) * self.block_units;
        let wanted = units.filter(|&unit| self.owner[unit as usize] != NONE).count();
        self.filled.set(BlockId(block), wanted as u32);
    }

    fn pages(&self, unit: Unit) -> impl Iterator<Item = Lpn> + use<> {
        (unit.0 * self.unit_pages..(unit.0 + 1) * self.unit_pages).map(Lpn)
    }

    /// The page in a unit.
    pub fn owner(&self, unit: Unit) -> Option<HostPage> {
        let owner = self.owner[unit.0 as usize];
        (owner != NONE).then_some(HostPage(owner))
    }

    pub fn check(&self, chip: &Hybrid) {
        for unit in (0..self.owner.len() as u32).map(Unit) {
            let here = self.owner(unit).is_some();
            assert!(self.pages(unit).all(|page| chip.is_mapped(page) == here), "{unit:?}");
        }
        assert_eq!(self.blocks as usize + self.free.len(), self.owner.len() / self.block_units as usize);
    }
}

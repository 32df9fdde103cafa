//! Read-frequent data blocks (RFDB, thesis §3.2–3.4): database pages of any address, allocated one after the
//! other in virtual blocks, which a FAST-like hybrid map keeps on the chip. A new version of a page is
//! written to its old place, and that means the log.
//!
//! The thesis: "each combination of physical block address and offset is independently mapped with
//! combination of local block address and offset. Accordingly, mapping method of RFDB can be hybrid mapping."
//! The first mapping is `owner` here (and the cache's table of places), the second is [`Hybrid`].
//!
//! Invariant: a full block is filed by the number of pages in it that are still wanted.

use super::HostPage;
use super::filling::Filling;
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
    /// Of the one being filled: its number, and units used.
    filling: Filling<(u32, u32)>,
    free: Vec<u32>,
}

impl ReadBlocks {
    pub fn new(blocks: u32, block_units: u32, unit_pages: u32) -> Self {
        let units = (blocks * block_units) as usize;
        Self {
            unit_pages,
            block_units,
            owner: vec![NONE; units],
            reads: vec![0; units],
            filling: Filling::new(blocks, block_units),
            free: (0..blocks).rev().collect(),
        }
    }

    /// The blocks in use.
    pub fn filling(&self) -> &Filling<(u32, u32)> {
        &self.filling
    }

    /// Takes a block into use.
    pub fn add_block(&mut self) {
        let block = self.free.pop().expect("the cache counts its blocks");
        self.filling.open((block, 0));
    }

    /// Gives a page a place and writes it there.
    pub fn write(&mut self, page: HostPage, chip: &mut Hybrid) -> Unit {
        let (block, used) = self.filling.current();
        let unit = Unit(block * self.block_units + used);
        self.owner[unit.0 as usize] = page.0;
        match used + 1 {
            used if used < self.block_units => self.filling.go_on((block, used)),
            _ => self.filling.fill(BlockId(block), wanted_of(&self.owner, self.block_units, block)),
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
        self.filling.recount(BlockId(block), || wanted_of(&self.owner, self.block_units, block));
    }

    /// Empties the full block with the most pages that are not wanted; answers with the wanted ones, and how
    /// often each was read there.
    pub fn evict(&mut self, chip: &mut Hybrid) -> Vec<(HostPage, u16)> {
        let BlockId(block) = self.filling.evict();
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
        pages
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
        assert_eq!(
            self.filling.blocks() as usize + self.free.len(),
            self.owner.len() / self.block_units as usize
        );
    }
}

/// Pages of a block that are wanted.
fn wanted_of(owner: &[u32], block_units: u32, block: u32) -> u32 {
    let units = (block * block_units) as usize..((block + 1) * block_units) as usize;
    owner[units].iter().filter(|&&owner| owner != NONE).count() as u32
}

//! The chip: blocks of pages that are programmed once and erased together. What every translation layer here
//! works on.
//!
//! Invariants: a page is programmed only when erased; a block's count says how many of its pages are valid; a
//! free block holds nothing valid and is erased. Pages of a block may be programmed in any order (SLC; block
//! maps need it).

use crate::free::{FreeBlocks, FreeOrder};
use crate::id::{BlockId, Lpn, NONE, Ppn};
use crate::wear::Wear;

/// A page that was programmed and is not valid any more.
const STALE: u32 = NONE - 1;
/// A page that may be programmed.
const ERASED: u32 = NONE;

/// A block that is being filled from its first page on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub block: BlockId,
    pub used: u32,
}

/// A flash chip.
#[derive(Clone, Debug)]
pub struct Nand {
    block_pages: u32,
    /// The logical page in each valid physical page; else `STALE` or `ERASED`.
    owner: Vec<u32>,
    valid: Vec<u32>,
    erases: Vec<u32>,
    free: FreeBlocks,
}

impl Nand {
    /// An erased chip.
    ///
    /// # Panics
    /// If it has no page, or 2^32 − 2 and more.
    pub fn new(blocks: u32, block_pages: u32, order: FreeOrder) -> Self {
        let pages = u64::from(blocks) * u64::from(block_pages);
        assert!(
            pages > 0 && pages < u64::from(STALE),
            "a chip has 1 to 2^32 - 3 pages, not {blocks} × {block_pages}"
        );
        Self {
            block_pages,
            owner: vec![ERASED; pages as usize],
            valid: vec![0; blocks as usize],
            erases: vec![0; blocks as usize],
            free: FreeBlocks::new(blocks, order),
        }
    }

    /// Pages of a block.
    pub fn block_pages(&self) -> u32 {
        self.block_pages
    }

    /// Blocks of the chip.
    pub fn blocks(&self) -> u32 {
        self.valid.len() as u32
    }

    /// Blocks that hold nothing and may be taken.
    pub fn free_blocks(&self) -> u32 {
        self.free.len()
    }

    /// Whether `block` is free to be taken.
    pub fn is_free(&self, block: BlockId) -> bool {
        self.free.contains(block)
    }

    /// Valid pages of `block`.
    pub fn valid(&self, block: BlockId) -> u32 {
        self.valid[block.0 as usize]
    }

    /// The block that `page` is in.
    pub fn block_of(&self, page: Ppn) -> BlockId {
        BlockId(page.0 / self.block_pages)
    }

    /// The page at place `offset` of `block`.
    pub fn page(&self, block: BlockId, offset: u32) -> Ppn {
        Ppn(block.0 * self.block_pages + offset)
    }

    /// The logical page in `page`, if it is valid.
    pub fn owner(&self, page: Ppn) -> Option<Lpn> {
        let owner = self.owner[page.0 as usize];
        (owner < STALE).then_some(Lpn(owner))
    }

    /// Whether `page` may be programmed.
    pub fn is_erased(&self, page: Ppn) -> bool {
        self.owner[page.0 as usize] == ERASED
    }

    /// The valid pages of `block`, in order, with their logical pages.
    pub fn valid_pages(&self, block: BlockId) -> impl Iterator<Item = (Ppn, Lpn)> + '_ {
        let first = block.0 * self.block_pages;
        (first..first + self.block_pages).filter_map(|page| Some((Ppn(page), self.owner(Ppn(page))?)))
    }

    /// Wear of the blocks so far.
    pub fn wear(&self) -> Wear {
        Wear::of(&self.erases)
    }

    /// Takes a free block.
    ///
    /// # Panics
    /// If there is none: the layer above keeps enough.
    pub(crate) fn take(&mut self) -> BlockId {
        self.free.take().expect("a translation layer keeps a free block for what it does next")
    }

    /// Takes a free block to be filled from its first page on.
    pub(crate) fn open(&mut self) -> Open {
        Open { block: self.take(), used: 0 }
    }

    /// Programs an erased page with the newest version of `lpn`.
    pub(crate) fn program(&mut self, page: Ppn, lpn: Lpn) {
        let owner = &mut self.owner[page.0 as usize];
        assert_eq!(*owner, ERASED, "page {} is programmed twice without an erase", page.0);
        *owner = lpn.0;
        self.valid[(page.0 / self.block_pages) as usize] += 1;
    }

    /// Programs the next page of an open block.
    pub(crate) fn append(&mut self, open: &mut Open, lpn: Lpn) -> Ppn {
        let page = self.page(open.block, open.used);
        self.program(page, lpn);
        open.used += 1;
        page
    }

    /// The content of a valid page is not wanted any more.
    pub(crate) fn invalidate(&mut self, page: Ppn) {
        let owner = &mut self.owner[page.0 as usize];
        debug_assert!(*owner < STALE, "page {} is not valid", page.0);
        *owner = STALE;
        self.valid[(page.0 / self.block_pages) as usize] -= 1;
    }

    /// Erases a block in use, whatever is in it, and frees it.
    pub(crate) fn erase(&mut self, block: BlockId) {
        let first = (block.0 * self.block_pages) as usize;
        self.owner[first..first + self.block_pages as usize].fill(ERASED);
        self.valid[block.0 as usize] = 0;
        let erases = &mut self.erases[block.0 as usize];
        *erases += 1;
        self.free.put(block, *erases);
    }

    /// Asserts the module's invariants.
    ///
    /// # Panics
    /// If one is broken.
    pub fn check(&self) {
        for block in (0..self.blocks()).map(BlockId) {
            assert_eq!(self.valid_pages(block).count() as u32, self.valid(block), "valid pages of {block:?}");
            if self.is_free(block) {
                let first = block.0 * self.block_pages;
                let erased = (first..first + self.block_pages).all(|page| self.is_erased(Ppn(page)));
                assert!(erased, "{block:?} is free and not erased");
            }
        }
    }
}

//! Blocks of the chip lent to the owner of a hybrid map, which fills them from the first page on and keeps
//! its own map.
//!
//! Invariant: lent blocks count against the data blocks.

use super::Hybrid;
use crate::id::{BlockId, Lpn, Ppn};
use crate::nand::Open;

impl Hybrid {
    /// Counts reads of pages that the owner of the map knows to be there.
    pub(crate) fn count_reads(&mut self, pages: u32) {
        self.counters.host_reads += u64::from(pages);
    }

    /// Lends a block, to be appended to; the map must keep enough of its own.
    pub(crate) fn lend(&mut self) -> Open {
        debug_assert!(self.data_blocks + self.lent < self.config.data_blocks, "too many blocks are lent");
        self.lent += 1;
        self.nand.open()
    }

    /// Appends a page of the borrower's to a lent block.
    pub(crate) fn append_lent(&mut self, open: &mut Open, tag: Lpn) -> Ppn {
        self.counters.host_writes += 1;
        self.nand.append(open, tag)
    }

    /// A page in a lent block is not wanted any more.
    pub(crate) fn invalidate_lent(&mut self, place: Ppn) {
        self.nand.invalidate(place);
    }

    /// Takes a lent block back, dropping its valid pages.
    pub(crate) fn take_back(&mut self, block: BlockId) {
        self.counters.silent_evictions += 1;
        self.counters.dropped += u64::from(self.nand.valid(block));
        self.lent -= 1;
        self.erase(block);
    }
}

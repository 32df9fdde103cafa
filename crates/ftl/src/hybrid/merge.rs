//! FAST's merges: how log blocks become free again.
//!
//! Invariant: a merge keeps the newest version of every page, except that a cache may drop clean pages of a
//! logical block for which there is no data block to be had.

use super::Hybrid;
use crate::id::{BlockId, Lpn, NONE};

impl Hybrid {
    /// Frees the sequential log block, by the cheapest merge that will do.
    pub(super) fn close_sequential(&mut self) {
        let Some(log) = self.sequential else { return };
        self.counters.collections += 1;
        if self.nand.valid(log.open.block) == 0 {
            self.sequential = None;
            self.erase(log.open.block);
            return;
        }
        let supersedes_data = (0..log.open.used).all(|offset| {
            let page = Lpn(log.logical * self.config.block_pages + offset);
            self.data_page(page).is_none_or(|place| self.nand.owner(place).is_none())
        });
        let has_data = self.data[log.logical as usize] != NONE;
        if !supersedes_data || !(has_data || self.make_room()) {
            self.merge_full(log.logical);
            if self.sequential.is_some() {
                // Its pages were dropped instead.
                self.sequential = None;
                self.erase(log.open.block);
            }
            return;
        }
        self.sequential = None;
        let switch = log.open.used == self.config.block_pages;
        for offset in log.open.used..self.config.block_pages {
            self.copy_from_data(log.logical, offset, log.open.block);
        }
        for (_, page) in self.nand.valid_pages(log.open.block) {
            self.log[page.0 as usize] = NONE;
        }
        self.retire(log.logical);
        self.adopt(log.open.block, log.logical);
        let merges = &mut self.counters.merges;
        *(if switch { &mut merges.switch } else { &mut merges.partial }) += 1;
    }

    /// Copies a page of the data block to the same offset of `target`, if it is valid there.
    fn copy_from_data(&mut self, logical: u32, offset: u32, target: BlockId) {
        let page = Lpn(logical * self.config.block_pages + offset);
        if self.log[page.0 as usize] == NONE && self.supersede(page) {
            self.program(self.nand.page(target, offset), page);
            self.counters.copies += 1;
        }
    }

    /// Frees the oldest random log block: merges every logical block with a valid page in it.
    pub(super) fn merge_oldest(&mut self) {
        let victim = self.random.pop_oldest().expect("a log at its limit has a full block");
        self.counters.collections += 1;
        for offset in 0..self.config.block_pages {
            if let Some(page) = self.nand.owner(self.nand.page(victim, offset)) {
                self.merge_full(page.0 / self.config.block_pages);
            }
        }
        self.erase(victim);
    }

    /// Gathers all pages of a logical block in a new data block.
    fn merge_full(&mut self, logical: u32) {
        let has_data = self.data[logical as usize] != NONE;
        if !has_data && !self.make_room() {
            self.drop_logical(logical);
            return;
        }
        let target = self.nand.take();
        let first = logical * self.config.block_pages;
        for offset in 0..self.config.block_pages {
            let page = Lpn(first + offset);
            if self.supersede(page) {
                self.program(self.nand.page(target, offset), page);
                self.counters.copies += 1;
            }
        }
        self.retire(logical);
        self.adopt(target, logical);
        if let Some(log) = self.sequential.take_if(|log| log.logical == logical) {
            self.erase(log.open.block);
        }
        self.counters.merges.full += 1;
    }

    /// Drops the pages that a logical block without data block has in the log; all are clean.
    fn drop_logical(&mut self, logical: u32) {
        let first = logical * self.config.block_pages;
        for page in first..first + self.config.block_pages {
            if self.log[page as usize] != NONE {
                debug_assert!(!self.dirty.contains(Lpn(page)), "a dirty page is dropped");
                self.supersede(Lpn(page));
                self.dropped.push(Lpn(page));
                self.counters.dropped += 1;
            }
        }
    }
}

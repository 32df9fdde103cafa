//! FAST's log blocks: one that takes a logical block from its first page on, and several that take everything
//! else.
//!
//! Invariant: `Hybrid::log` names the log page of every logical page whose newest version is in the log.

use super::Hybrid;
use crate::id::{BlockId, Lpn, Ppn};
use crate::nand::Open;
use std::collections::VecDeque;

/// The sequential log block.
#[derive(Clone, Copy, Debug)]
pub(super) struct SequentialLog {
    pub open: Open,
    /// Whose pages it takes, from offset 0 on.
    pub logical: u32,
}

/// The random log blocks, oldest first; the last one is being filled.
#[derive(Clone, Debug)]
pub(super) struct RandomLog {
    full: VecDeque<BlockId>,
    open: Option<Open>,
    blocks_max: u32,
}

impl RandomLog {
    pub fn new(blocks_max: u32) -> Self {
        Self { full: VecDeque::new(), open: None, blocks_max }
    }

    pub fn blocks(&self) -> u32 {
        self.full.len() as u32 + u32::from(self.open.is_some())
    }

    /// No block may be added before one is merged.
    fn is_at_limit(&self) -> bool {
        self.blocks() >= self.blocks_max
    }

    /// The next page needs a merge first.
    pub fn is_full(&self, block_pages: u32) -> bool {
        self.is_at_limit() && self.open.is_none_or(|open| open.used == block_pages)
    }

    /// One more block from now on.
    pub fn grow(&mut self) {
        self.blocks_max += 1;
    }

    /// Removes the oldest block, which is full, from the log.
    pub fn pop_oldest(&mut self) -> Option<BlockId> {
        self.full.pop_front()
    }
}

impl Hybrid {
    /// Writes a page whose place in the data block is taken.
    pub(super) fn write_log(&mut self, page: Lpn) {
        let (logical, offset) = self.split(page);
        let owned = self.sequential.filter(|log| log.logical == logical);
        if offset == 0 {
            self.close_sequential();
            let open = self.nand.open();
            self.sequential = Some(SequentialLog { open, logical });
            self.append_sequential(page);
        } else if owned.is_some_and(|log| log.open.used == offset) {
            self.append_sequential(page);
        } else {
            if owned.is_some() {
                self.close_sequential();
            }
            self.append_random(page);
        }
    }

    fn append_sequential(&mut self, page: Lpn) {
        self.supersede(page);
        let log = self.sequential.as_mut().expect("the caller opened it or found it open");
        let place = self.nand.append(&mut log.open, page);
        self.in_log(page, place);
    }

    fn append_random(&mut self, page: Lpn) {
        let block_pages = self.config.block_pages;
        if let Some(open) = self.random.open.take_if(|open| open.used == block_pages) {
            self.random.full.push_back(open.block);
        }
        if self.random.open.is_none() {
            if self.random.is_at_limit() {
                self.merge_oldest();
            }
            self.random.open = Some(self.nand.open());
        }
        self.supersede(page);
        let open = self.random.open.as_mut().expect("opened above");
        let place = self.nand.append(open, page);
        self.in_log(page, place);
    }

    fn in_log(&mut self, page: Lpn, place: Ppn) {
        self.log[page.0 as usize] = place.0;
        let block = self.nand.block_of(place);
        self.dirty.placed(page, block);
    }
}

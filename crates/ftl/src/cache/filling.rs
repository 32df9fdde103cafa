//! Blocks of one kind that are filled one after the other: the open one, and the full ones by how much of
//! them is wanted.
//!
//! Invariants: `full` has the full blocks in use, and no other; `blocks` counts them and the open one.

use crate::buckets::Buckets;
use crate::id::BlockId;

/// The blocks of one kind. `O` is the state of the open one.
#[derive(Clone, Debug)]
pub(super) struct Filling<O> {
    open: Option<O>,
    full: Buckets,
    blocks: u32,
}

impl<O: Copy> Filling<O> {
    /// None yet, of `blocks` blocks that there are with at most `wanted_max` wanted pages each.
    pub fn new(blocks: u32, wanted_max: u32) -> Self {
        Self { open: None, full: Buckets::new(blocks, wanted_max), blocks: 0 }
    }

    /// Blocks in use.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Whether the next page needs a block first.
    pub fn needs_block(&self) -> bool {
        self.open.is_none()
    }

    /// Whether there is a block to be evicted.
    pub fn has_victim(&self) -> bool {
        self.full.fewest().is_some()
    }

    /// Takes a block into use.
    pub fn open(&mut self, block: O) {
        debug_assert!(self.needs_block(), "one block is filled at a time");
        self.open = Some(block);
        self.blocks += 1;
    }

    /// The block being filled, if there is one.
    pub fn opened(&self) -> Option<O> {
        self.open
    }

    /// The block being filled.
    pub fn current(&self) -> O {
        self.open.expect("the cache adds a block first")
    }

    /// There is more in the block being filled, but it is not full.
    pub fn go_on(&mut self, block: O) {
        self.open = Some(block);
    }

    /// The block being filled is full, with so many wanted pages.
    pub fn fill(&mut self, block: BlockId, wanted: u32) {
        self.open = None;
        self.full.set(block, wanted);
    }

    /// `wanted()` pages of the block are wanted now. Only full blocks are in order of that.
    pub fn recount(&mut self, block: BlockId, wanted: impl FnOnce() -> u32) {
        if self.full.count(block).is_some() {
            self.full.set(block, wanted());
        }
    }

    /// Takes the full block with the fewest wanted pages out of use.
    pub fn evict(&mut self) -> BlockId {
        let block = self.full.fewest().expect("the cache asks first");
        self.full.remove(block);
        self.blocks -= 1;
        block
    }

    /// Wanted pages of a full block; `None` if it is not one.
    pub fn wanted(&self, block: BlockId) -> Option<u32> {
        self.full.count(block)
    }
}

//! The free blocks of a chip, and which of them is taken next.

use crate::id::BlockId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which free block is taken next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeOrder {
    /// The one freed last: no care for wear. (The time model of SSDs, where only counts matter.)
    LastFreed,
    /// The one erased least often, the lowest of these: dynamic wear levelling.
    LeastWorn,
}

/// Free blocks. Invariant: a block is in at most once.
#[derive(Clone, Debug)]
pub(crate) struct FreeBlocks {
    order: FreeOrder,
    stack: Vec<BlockId>,
    heap: BinaryHeap<Reverse<(u32, BlockId)>>,
    is_free: Vec<bool>,
    count: u32,
}

impl FreeBlocks {
    /// All blocks free; the first is taken first.
    pub fn new(blocks: u32, order: FreeOrder) -> Self {
        let mut stack = Vec::new();
        let mut heap = BinaryHeap::new();
        match order {
            FreeOrder::LastFreed => stack.extend((0..blocks).rev().map(BlockId)),
            FreeOrder::LeastWorn => heap.extend((0..blocks).map(|block| Reverse((0, BlockId(block))))),
        }
        Self { order, stack, heap, is_free: vec![true; blocks as usize], count: blocks }
    }

    pub fn len(&self) -> u32 {
        self.count
    }

    pub fn contains(&self, block: BlockId) -> bool {
        self.is_free[block.0 as usize]
    }

    pub fn take(&mut self) -> Option<BlockId> {
        let block = match self.order {
            FreeOrder::LastFreed => self.stack.pop()?,
            FreeOrder::LeastWorn => self.heap.pop()?.0.1,
        };
        self.is_free[block.0 as usize] = false;
        self.count -= 1;
        Some(block)
    }

    /// Gives back a block that has been erased `erases` times.
    pub fn put(&mut self, block: BlockId, erases: u32) {
        assert!(!self.is_free[block.0 as usize], "{block:?} is freed twice");
        self.is_free[block.0 as usize] = true;
        self.count += 1;
        match self.order {
            FreeOrder::LastFreed => self.stack.push(block),
            FreeOrder::LeastWorn => self.heap.push(Reverse((erases, block))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_freed_or_the_least_worn_comes_first() {
        for (order, expected) in [(FreeOrder::LastFreed, [2, 0, 1, 3]), (FreeOrder::LeastWorn, [3, 0, 1, 2])]
        {
            let mut free = FreeBlocks::new(4, order);
            let taken: Vec<_> = (0..3).map(|_| free.take().expect("four are free")).collect();
            assert_eq!(taken, [BlockId(0), BlockId(1), BlockId(2)]);
            assert_eq!(free.len(), 1);
            free.put(BlockId(1), 1);
            free.put(BlockId(0), 1);
            free.put(BlockId(2), 2);
            let order: Vec<u32> = std::iter::from_fn(|| free.take()).map(|block| block.0).collect();
            // Block 3 was never erased: first by wear, last by time. 0 and 1 were erased once each: the
            // lowest first.
            assert_eq!(order, expected);
        }
    }
}

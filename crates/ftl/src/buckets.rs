//! Blocks ordered by a small count (their valid pages), so that the block with the fewest is found in a few
//! steps.
//!
//! Invariants: a block is in the list of its count and in no other; of equal blocks the one that has had its
//! count longest is first.

use crate::id::{BlockId, NONE};

/// Doubly linked lists, one a count, linked by block number.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    /// The count of each block; `NONE`: it is in no list.
    count: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    head: Vec<u32>,
    tail: Vec<u32>,
}

impl Buckets {
    /// No block in any list; counts are from 0 to `count_max`.
    pub fn new(blocks: u32, count_max: u32) -> Self {
        let links = || vec![NONE; blocks as usize];
        let ends = || vec![NONE; count_max as usize + 1];
        Self { count: links(), next: links(), previous: links(), head: ends(), tail: ends() }
    }

    /// Enters the block, or moves it, after all others with that count; a block that has it already stays.
    pub fn set(&mut self, block: BlockId, count: u32) {
        let index = block.0 as usize;
        if self.count[index] == count {
            return;
        }
        self.remove(block);
        let last = std::mem::replace(&mut self.tail[count as usize], block.0);
        match last {
            NONE => self.head[count as usize] = block.0,
            last => self.next[last as usize] = block.0,
        }
        self.count[index] = count;
        self.previous[index] = last;
        self.next[index] = NONE;
    }

    /// Takes the block out, if it is in.
    pub fn remove(&mut self, block: BlockId) {
        let index = block.0 as usize;
        let count = std::mem::replace(&mut self.count[index], NONE);
        if count == NONE {
            return;
        }
        let (previous, next) = (self.previous[index], self.next[index]);
        match previous {
            NONE => self.head[count as usize] = next,
            previous => self.next[previous as usize] = next,
        }
        match next {
            NONE => self.tail[count as usize] = previous,
            next => self.previous[next as usize] = previous,
        }
    }

    /// The block with the smallest count.
    pub fn fewest(&self) -> Option<BlockId> {
        self.head.iter().find(|&&block| block != NONE).map(|&block| BlockId(block))
    }

    /// The count that the block was entered with.
    pub fn count(&self, block: BlockId) -> Option<u32> {
        let count = self.count[block.0 as usize];
        (count != NONE).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entresol_runtime::rng::Rng;

    #[test]
    fn agrees_with_a_sorted_list() {
        let mut rng = Rng::new(1);
        let mut buckets = Buckets::new(20, 5);
        // (count, time of entry, block)
        let mut model: Vec<(u32, u32, u32)> = Vec::new();
        for time in 0..5000 {
            let block = rng.below(20) as u32;
            let known = model.iter().position(|entry| entry.2 == block);
            if rng.below(4) == 0 {
                buckets.remove(BlockId(block));
                known.map(|index| model.remove(index));
            } else {
                let count = rng.below(6) as u32;
                buckets.set(BlockId(block), count);
                if known.is_none_or(|index| model[index].0 != count) {
                    known.map(|index| model.remove(index));
                    model.push((count, time, block));
                }
            }
            assert_eq!(buckets.fewest(), model.iter().min().map(|entry| BlockId(entry.2)));
            let count = model.iter().find(|entry| entry.2 == block).map(|entry| entry.0);
            assert_eq!(buckets.count(BlockId(block)), count);
        }
    }
}

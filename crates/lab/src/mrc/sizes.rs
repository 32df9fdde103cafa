//! Many sizes of one policy in one pass: the trace is read in blocks that stay in the processor's cache while
//! each size replays them.

use crate::replay::Replacement;
use crate::replay::pool::{Clock, Fifo, Lru, Order, Pool};
use entresol_trace::Request;
use std::hint::black_box;

/// Records of a block: 512 KiB of them.
const BLOCK: usize = 1 << 16;
/// Records whose table entries are touched ahead.
const BATCH: usize = 16;

/// Levels of several sizes under one policy.
pub(super) enum Levels {
    /// Least recently used.
    Lru(Vec<Level<Lru>>),
    /// First in, first out.
    Fifo(Vec<Level<Fifo>>),
    /// Second chance.
    Clock(Vec<Level<Clock>>),
}

/// A level, and the references that missed it.
type Level<O> = (Pool<O>, u64);

impl Levels {
    /// Empty levels of `sizes` for pages `0 .. pages`.
    pub fn new(policy: Replacement, pages: usize, sizes: &[u32]) -> Self {
        match policy {
            Replacement::Lru => Levels::Lru(empty(pages, sizes)),
            Replacement::Fifo => Levels::Fifo(empty(pages, sizes)),
            Replacement::Clock => Levels::Clock(empty(pages, sizes)),
        }
    }

    /// The references among `requests` follow.
    pub fn add(&mut self, requests: &[Request]) {
        match self {
            Levels::Lru(levels) => replay(levels, requests),
            Levels::Fifo(levels) => replay(levels, requests),
            Levels::Clock(levels) => replay(levels, requests),
        }
    }

    /// References that missed each level, in the order of `sizes`.
    pub fn misses(&self) -> Vec<u64> {
        fn of<O: Order>(levels: &[Level<O>]) -> Vec<u64> {
            levels.iter().map(|(_, misses)| *misses).collect()
        }
        match self {
            Levels::Lru(levels) => of(levels),
            Levels::Fifo(levels) => of(levels),
            Levels::Clock(levels) => of(levels),
        }
    }
}

fn empty<O: Order>(pages: usize, sizes: &[u32]) -> Vec<Level<O>> {
    // More frames than pages are never used.
    let frames = |size: &u32| (*size).min(u32::try_from(pages).unwrap_or(u32::MAX).max(1));
    sizes.iter().map(|size| (Pool::new(pages, frames(size)), 0)).collect()
}

fn replay<O: Order>(levels: &mut [Level<O>], requests: &[Request]) {
    for block in requests.chunks(BLOCK) {
        for (pool, misses) in levels.iter_mut() {
            for batch in block.chunks(BATCH) {
                black_box(pool.warm(batch.iter().map(|request| request.page())));
                for request in batch.iter().filter(|request| request.is_reference()) {
                    *misses += u64::from(!pool.access(request.page()));
                }
            }
        }
    }
}

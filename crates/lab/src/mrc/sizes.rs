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

/// References that miss a level of each of `sizes` pages.
pub(super) fn misses(policy: Replacement, pages: usize, requests: &[Request], sizes: &[u32]) -> Vec<u64> {
    match policy {
        Replacement::Lru => of::<Lru>(pages, requests, sizes),
        Replacement::Fifo => of::<Fifo>(pages, requests, sizes),
        Replacement::Clock => of::<Clock>(pages, requests, sizes),
    }
}

fn of<O: Order>(pages: usize, requests: &[Request], sizes: &[u32]) -> Vec<u64> {
    // More frames than pages are never used.
    let frames = |size: &u32| (*size).min(u32::try_from(pages).unwrap_or(u32::MAX).max(1));
    let mut levels: Vec<(Pool<O>, u64)> =
        sizes.iter().map(|size| (Pool::new(pages, frames(size)), 0)).collect();
    for block in requests.chunks(BLOCK) {
        for (pool, misses) in &mut levels {
            for batch in block.chunks(BATCH) {
                black_box(pool.warm(batch.iter().map(|request| request.page())));
                for request in batch.iter().filter(|request| request.is_reference()) {
                    *misses += u64::from(!pool.access(request.page()));
                }
            }
        }
    }
    levels.into_iter().map(|(_, misses)| misses).collect()
}

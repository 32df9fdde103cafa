//! What is remembered of the writes to a device, by blocks.

use crate::keeper::sector_runs;
use std::collections::HashMap;
use std::ops::Range;

/// Bytes of a block that is remembered.
pub(super) const BLOCK_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;
/// Ranges of zeros that take the memory of a block.
const RANGES_A_BLOCK: usize = BLOCK_BYTES as usize / size_of::<Range<u64>>();

/// Sectors of a block, and their bytes.
pub(super) struct Block {
    /// Bit `n`: sector `n` is remembered.
    sectors: u8,
    pub bytes: Box<[u8; BLOCK_BYTES as usize]>,
}

#[derive(Default)]
pub(super) struct Blocks {
    /// Written since the sync under way began, or the last one, by number of the block.
    written: HashMap<u64, Block>,
    /// Written before that, and not durable yet.
    pub syncing: HashMap<u64, Block>,
    /// Ranges that were made zeros, before those of their blocks that are remembered were written.
    pub zeroed: Vec<Range<u64>>,
    pub zeroing: Vec<Range<u64>>,
    /// Memory for blocks.
    free: Vec<Box<[u8; BLOCK_BYTES as usize]>>,
}

/// A part of a request: within one block.
struct Part {
    block: u64,
    /// In the block.
    within: Range<usize>,
    /// In the request.
    place: Range<usize>,
}

/// The parts of a request of `length` bytes at `offset`.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = Part> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = offset + at as u64;
        let within = (from % BLOCK_BYTES) as usize;
        let count = (length - at).min(BLOCK_BYTES as usize - within);
        let part = Part { block: from / BLOCK_BYTES, within: within..within + count, place: at..at + count };
        at += count;
        (count > 0).then_some(part)
    })
}

/// The sectors of a block that these bytes of it cover. Requests are of whole sectors.
fn sectors(within: &Range<usize>) -> Range<usize> {
    within.start / SECTOR_BYTES as usize..within.end.div_ceil(SECTOR_BYTES as usize)
}

fn mask(within: &Range<usize>) -> u8 {
    sectors(within).fold(0, |mask, sector| mask | 1 << sector)
}

impl Block {
    /// Takes the sectors that `newer` has.
    fn take(&mut self, newer: &Self) {
        for sector in (0..8).filter(|sector| newer.sectors >> sector & 1 != 0) {
            let bytes = sector * SECTOR_BYTES as usize..(sector + 1) * SECTOR_BYTES as usize;
            self.bytes[bytes.clone()].copy_from_slice(&newer.bytes[bytes]);
        }
        self.sectors |= newer.sectors;
    }

    /// Puts what it has of `within` into a buffer for these bytes.
    fn put(&self, within: &Range<usize>, buffer: &mut [u8]) {
        let sector_bytes = SECTOR_BYTES as usize;
        for sector in sectors(within).filter(|sector| self.sectors >> sector & 1 != 0) {
            let from = (sector * sector_bytes).max(within.start);
            let to = ((sector + 1) * sector_bytes).min(within.end);
            buffer[from - within.start..to - within.start].copy_from_slice(&self.bytes[from..to]);
        }
    }

    /// Runs of sectors that it has: their bytes in the block.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        sector_runs(self.sectors)
    }
}

impl Blocks {
    /// What is remembered, in blocks of memory.
    pub fn len(&self) -> usize {
        let ranges = self.zeroed.len() + self.zeroing.len();
        self.written.len() + self.syncing.len() + ranges.div_ceil(RANGES_A_BLOCK)
    }

    /// Remembers the bytes of a write.
    pub fn remember(&mut self, offset: u64, data: &[u8]) {
        for part in parts(offset, data.len()) {
            let Self { written, free, .. } = self;
            let block = written.entry(part.block).or_insert_with(|| {
                let bytes = free.pop().unwrap_or_else(|| Box::new([0; BLOCK_BYTES as usize]));
                Block { sectors: 0, bytes }
            });
            block.bytes[part.within.clone()].copy_from_slice(&data[part.place]);
            block.sectors |= mask(&part.within);
        }
    }

    /// A sync begins: it is to make durable what was written.
    pub fn begin(&mut self) {
        self.zeroing.append(&mut self.zeroed);
        if self.syncing.is_empty() {
            std::mem::swap(&mut self.written, &mut self.syncing);
            return;
        }
        for (number, newer) in self.written.drain() {
            match self.syncing.entry(number) {
                std::collections::hash_map::Entry::Vacant(place) => _ = place.insert(newer),
                std::collections::hash_map::Entry::Occupied(mut block) => {
                    block.get_mut().take(&newer);
                    self.free.push(newer.bytes);
                }
            }
        }
    }

    /// What the sync was for is durable.
    pub fn end(&mut self) {
        self.zeroing.clear();
        self.free.extend(self.syncing.drain().map(|(_, block)| block.bytes));
    }

    /// Forgets whole sectors of these bytes.
    pub fn discard(&mut self, offset: u64, length: u64) {
        let (first, end) = (offset / BLOCK_BYTES, (offset + length).div_ceil(BLOCK_BYTES));
        for blocks in [&mut self.written, &mut self.syncing] {
            blocks.retain(|number, block| {
                if (first..end).contains(number) {
                    let start = number * BLOCK_BYTES;
                    let from = offset.max(start).next_multiple_of(SECTOR_BYTES) - start;
                    let to = (offset + length).min(start + BLOCK_BYTES) / SECTOR_BYTES * SECTOR_BYTES - start;
                    block.sectors &= if from < to { !mask(&(from as usize..to as usize)) } else { u8::MAX };
                }
                block.sectors != 0
            });
        }
    }
    /// Puts what is remembered of these bytes into the buffer.
    pub fn put(&self, offset: u64, buffer: &mut [u8]) {
        let end = offset + buffer.len() as u64;
        for zeros in self.zeroing.iter().chain(&self.zeroed) {
            let (from, to) = (zeros.start.max(offset), zeros.end.min(end));
            if from < to {
                buffer[(from - offset) as usize..(to - offset) as usize].fill(0);
            }
        }
        for part in parts(offset, buffer.len()) {
            for of in [&self.syncing, &self.written] {
                if let Some(block) = of.get(&part.block) {
                    block.put(&part.within, &mut buffer[part.place.clone()]);
                }
            }
        }
    }

    /// Puts what is remembered of a block into `bytes`, and says which sectors that is.
    pub fn copy(&self, number: u64, bytes: &mut [u8]) -> u8 {
        let of = [&self.syncing, &self.written].map(|of| of.get(&number));
        of.into_iter().flatten().fold(0, |sectors, block| {
            block.put(&(0..BLOCK_BYTES as usize), bytes);
            sectors | block.sectors
        })
    }
}

//! Flash cache checkpointing (FaCE §4.1): when all positions of a segment are durable, its entries are
//! written in the background, while new pages enter.
//!
//! Invariants: the superblock names a segment only when it is durable. A segment overwrites only one whose
//! positions the front has passed.

use super::shared::Shared;
use crate::TierError;
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use entresol_core::{Position, SlotView};
use entresol_format::segment::{self, ENTRY_BYTES, Head};
use entresol_format::{BLOCK_BYTES, checksum};

/// Entries copied under one hold of the latch.
const STEP: u64 = 512;
/// Bytes written at once: others get their turn between.
const CHUNK: usize = 64 << 10;

impl Shared {
    fn segment_entries(&self) -> u64 {
        self.options.segment_entries.into()
    }

    /// Whether the next segment can be written.
    pub(crate) fn segment_is_complete(&self, published: Position) -> bool {
        self.is_log() && published.0 >= (self.superblocks.segment_next() + 1) * self.segment_entries()
    }

    /// Writes segments until the tier stops.
    pub(crate) fn segment_task(&self) {
        let Some(log) = self.log() else { return };
        let mut scratch = AlignedBuffer::new(0);
        loop {
            let seen = log.segments.epoch();
            if self.state.is_stopped() {
                return;
            }
            if !self.segment_is_complete(self.with(|partition| partition.published())) {
                log.segments.wait(seen);
                continue;
            }
            if scratch.is_empty() {
                scratch = AlignedBuffer::new(self.flash.layout.segment_bytes() as usize);
            }
            if let Err(error) = self.write_segment(self.superblocks.segment_next(), &mut scratch) {
                self.fail(error);
                return;
            }
        }
    }

    fn write_segment(&self, number: u64, scratch: &mut [u8]) -> Result<(), TierError> {
        let entries = self.segment_entries();
        let (start, end) = (number * entries, (number + 1) * entries);
        let (block, payload) = scratch.split_at_mut(BLOCK_BYTES);
        let used = &mut payload[..entries as usize * ENTRY_BYTES];
        let mut at = start;
        for bytes in used.chunks_mut(STEP as usize * ENTRY_BYTES) {
            self.copy_entries(at, bytes);
            at += STEP;
        }
        let checksum = checksum::of(used);
        let head = Head { segment: number, cache: self.superblocks.cache, entries: entries as u32, checksum };
        head.encode(block);
        let offset = self.flash.layout.segment_offset(number);
        for (at, chunk) in scratch.chunks(CHUNK).enumerate() {
            self.flash.write(offset + (at * CHUNK) as u64, chunk).map_err(flash_error)?;
        }
        self.flash.sync_writes()?;
        debug_assert!(self.with(|partition| partition.published()).0 >= end);
        self.write_superblock(|superblock| {
            superblock.segment_next = number + 1;
            superblock.segment_first =
                (superblock.front.0 / entries).clamp(superblock.segment_first, number + 1);
        })
    }

    /// Copies the entries of the positions from `first` on.
    fn copy_entries(&self, first: u64, bytes: &mut [u8]) {
        self.with(|partition| {
            let (released, _) = partition.window();
            for (at, entry) in bytes.chunks_exact_mut(ENTRY_BYTES).enumerate() {
                let position = Position(first + at as u64);
                let view: Option<SlotView> = match position < released {
                    true => None,
                    false => partition.slot(self.flash.layout.slot(position)),
                };
                segment::encode_entry(entry, view);
            }
        });
    }
}

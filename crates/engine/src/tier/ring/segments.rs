//! Flash cache checkpointing (FaCE §4.1): when all positions of a segment are durable, its entries are
//! written in the background, while new pages enter.
//!
//! Invariants: the superblock names a segment only when it is durable. A segment overwrites only one whose
//! positions the front has passed.

use super::summary_records::SummaryRecords;
use super::unsure::Unsure;
use crate::TierError;
use crate::TierOptions;
use crate::access::{Directory, RunState};
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::tier::floor::Floor;
use crate::tier::floor::checkpointer::Checkpointer;
use crate::tier::floor::disk_trouble::DiskTrouble;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::flash::Flash;
use crate::tier::floor::superblocks::Superblocks;
use entresol_core::{DurableBatches, Position, SlotView};
use entresol_format::segment::{self, Head};
use entresol_format::stale::{RawStale, STALE_BYTES};
use entresol_format::{BLOCK_BYTES, checksum};
use entresol_shm::Gone;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Entries copied under one hold of the latch.
const STEP: u64 = 512;
/// Bytes written at once: others get their turn between.
const CHUNK: usize = 64 << 10;

/// See the module's header.
pub(crate) struct Segments {
    options: Arc<TierOptions>,
    directory: Arc<Directory>,
    state: Arc<RunState>,
    flash: Arc<Flash>,
    superblocks: Arc<Superblocks>,
    failures: Arc<Failures>,
    trouble: Arc<DiskTrouble>,
    checkpointer: Arc<Checkpointer>,
    unsure: Arc<Unsure>,
    records: Arc<SummaryRecords>,
}

impl Segments {
    pub(crate) fn new(
        floor: &Floor,
        checkpointer: &Arc<Checkpointer>,
        unsure: &Arc<Unsure>,
        records: &Arc<SummaryRecords>,
    ) -> Self {
        Self {
            options: floor.access.options.clone(),
            directory: floor.access.directory.clone(),
            state: floor.access.state.clone(),
            flash: floor.flash.clone(),
            superblocks: floor.superblocks.clone(),
            failures: floor.failures.clone(),
            trouble: floor.trouble.clone(),
            checkpointer: checkpointer.clone(),
            unsure: unsure.clone(),
            records: records.clone(),
        }
    }

    fn entries(&self) -> u64 {
        self.options.segment_entries.into()
    }

    /// Whether the next segment can be written.
    pub(crate) fn is_complete(&self, published: Position) -> bool {
        published.0 >= (self.superblocks.segment_next() + 1) * self.entries()
    }

    /// A segment, or a checkpoint, may be due.
    pub(crate) fn look(&self) {
        self.failures.segments.notify_one();
    }

    /// Writes segments until the tier stops.
    pub(crate) fn task(&self) {
        let mut scratch = AlignedBuffer::new(0);
        loop {
            let seen = self.failures.segments.epoch();
            if self.state.is_stopped() {
                return;
            }
            let looked = self
                .unsure
                .is_long()
                .and_then(|is_long| Ok((is_long, self.directory.with(|partition| partition.published())?)));
            let published = match looked {
                Ok((false, published)) => published,
                Ok((true, _)) => {
                    // A failure of it is the tier's, and ends this task above. If the disk is asked again, so
                    // is it.
                    let checkpoint = || self.checkpointer.checkpoint();
                    let _ = self.trouble.persist(checkpoint);
                    continue;
                }
                Err(gone) => {
                    self.failures.fail(gone.into());
                    return;
                }
            };
            if !self.is_complete(published) {
                self.failures.segments.wait(seen);
                continue;
            }
            if scratch.is_empty() {
                scratch = AlignedBuffer::new(self.flash.layout.segment_bytes() as usize);
            }
            if let Err(error) = self.write_segment(self.superblocks.segment_next(), &mut scratch) {
                self.failures.fail(error);
                return;
            }
        }
    }

    fn write_segment(&self, number: u64, scratch: &mut [u8]) -> Result<(), TierError> {
        let entries = self.entries();
        let (start, end) = (number * entries, (number + 1) * entries);
        let mut records = self.records.take_records(self.directory.group_number(Position(end)));
        let room = self.flash.layout.segment_stale_max();
        let stale_incomplete = records.len() > room;
        records.truncate(room);
        let (block, payload) = scratch.split_at_mut(BLOCK_BYTES);
        let entry_bytes = self.flash.layout.segment_entry_bytes();
        let (used, rest) = payload.split_at_mut(entries as usize * entry_bytes);
        let mut at = start;
        for bytes in used.chunks_mut(STEP as usize * entry_bytes) {
            self.copy_entries(at, bytes)?;
            at += STEP;
        }
        for (record, bytes) in records.iter().zip(rest.chunks_exact_mut(STALE_BYTES)) {
            bytes.copy_from_slice(RawStale::of(record).as_bytes());
        }
        let stale = records.len();
        let checksum = checksum::of(&payload[..entries as usize * entry_bytes + stale * STALE_BYTES]);
        let cache = self.superblocks.cache;
        let (entries, stale) = (entries as u32, stale as u32);
        let (since, durable) = (0, DurableBatches::default());
        let head =
            Head { segment: number, cache, entries, checksum, stale, stale_incomplete, since, durable };
        head.encode(block);
        let offset = self.flash.layout.segment_offset(number);
        for (at, chunk) in scratch.chunks(CHUNK).enumerate() {
            self.flash.write(offset + (at * CHUNK) as u64, chunk).map_err(flash_error)?;
        }
        self.flash.sync_writes()?;
        debug_assert!(self.directory.with(|partition| partition.published())?.0 >= end);
        self.superblocks.write(|superblock| {
            superblock.segment_next = number + 1;
            superblock.segment_first =
                (superblock.front.0 / u64::from(entries)).clamp(superblock.segment_first, number + 1);
        })
    }

    /// Copies the entries of the positions from `first` on.
    fn copy_entries(&self, first: u64, bytes: &mut [u8]) -> Result<(), Gone> {
        self.directory.with(|partition| {
            let (released, _) = partition.window();
            for (at, entry) in bytes.chunks_exact_mut(self.flash.layout.segment_entry_bytes()).enumerate() {
                let position = Position(first + at as u64);
                let view: Option<SlotView> = match position < released {
                    true => None,
                    false => partition.slot(self.flash.layout.slot(position)),
                };
                segment::encode_entry(entry, view);
                let base = view.and_then(|_| partition.log()?.base(self.flash.layout.slot(position)));
                if let Some(base) = base {
                    segment::add_base(entry, base);
                }
            }
        })
    }
}

//! Directory segments of slots that survive a crash: what is in a range of slots, so that the summaries of
//! older batches are not needed any more.
//!
//! Invariants:
//! - The summary of a batch is overwritten only when each segment was written after that batch was durable.
//! - A segment names the batches that were durable when its entries had been copied. Others show in none
//!   of them.
//! - A segment has two copies, and one is overwritten only while the other one is whole. While they differ,
//!   the older one counts for the first invariant.

use crate::TierError;
use crate::access::{Directory, RunState};
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::recover::KeptSlots;
use crate::signal::Signal;
use crate::tier::floor::Floor;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::flash::Flash;
use crate::tier::floor::superblocks::Superblocks;
use entresol_core::{DurableBatches, SlotId};
use entresol_format::segment::{self, COPIES_OF_SLOTS, Head};
use entresol_format::{BLOCK_BYTES, Layout, Uuid, checksum};
use entresol_shm::Gone;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Entries copied under one hold of the latch.
const STEP: usize = 512;
/// Bytes written at once: others get their turn between.
const CHUNK: usize = 64 << 10;
/// A batch that waits looks so often whether the tier stops.
const LOOK: Duration = Duration::from_millis(50);

/// See the module's header.
pub(crate) struct SlotSegments {
    directory: Arc<Directory>,
    state: Arc<RunState>,
    flash: Arc<Flash>,
    superblocks: Arc<Superblocks>,
    failures: Arc<Failures>,
    /// By segment: batches below this number are in it.
    since: Vec<AtomicU64>,
    /// By segment: the copy that is overwritten first.
    older_copy: Vec<AtomicU64>,
    /// What the open took for durable.
    counted: DurableBatches,
    /// A segment was written.
    written: Signal,
}

impl SlotSegments {
    /// `found`: by the open; nothing in a new cache.
    pub(crate) fn new(floor: &Floor, found: &KeptSlots) -> Self {
        let segments = floor.flash.layout.segments_of_slots() as usize;
        let segment = || (0..segments).map(|at| found.segments.get(at).copied().unwrap_or_default());
        let since = segment().map(|segment| AtomicU64::new(segment.since)).collect();
        let older_copy = segment().map(|segment| AtomicU64::new(1 - segment.copy)).collect();
        Self {
            older_copy,
            directory: floor.access.directory.clone(),
            state: floor.access.state.clone(),
            flash: floor.flash.clone(),
            superblocks: floor.superblocks.clone(),
            failures: floor.failures.clone(),
            since,
            counted: found.counted,
            written: Signal::default(),
        }
    }

    /// The segment that was written first of all, and the number below which batches are in it.
    fn oldest(&self) -> (usize, u64) {
        let since = self.since.iter().map(|since| since.load(SeqCst)).enumerate();
        since.min_by_key(|(_, since)| *since).unwrap_or((0, u64::MAX))
    }

    /// Batches for which summaries are kept before a segment is written.
    fn patience(&self) -> u64 {
        self.flash.layout.batch_places() / 2
    }

    /// Waits until the place of the summary of batch `number` may be overwritten.
    pub(crate) fn make_room(&self, number: u64) -> Result<(), TierError> {
        if number >= self.oldest().1.saturating_add(self.patience()) {
            self.failures.segments.notify_one();
        }
        loop {
            let seen = self.written.epoch();
            if number < self.oldest().1.saturating_add(self.flash.layout.batch_places()) {
                return Ok(());
            }
            if self.state.is_stopped() {
                return Err(TierError::Refused("the flash tier is closed".to_owned()));
            }
            self.written.wait_for(seen, LOOK);
        }
    }

    /// Writes segments, the oldest first, until the tier stops.
    pub(crate) fn task(&self) {
        let mut scratch = AlignedBuffer::new(0);
        loop {
            let seen = self.failures.segments.epoch();
            if self.state.is_stopped() {
                return;
            }
            let written = match self.due() {
                Ok(None) => {
                    self.failures.segments.wait(seen);
                    continue;
                }
                Ok(Some(segment)) => self.write(segment, None, &mut scratch),
                Err(gone) => Err(gone.into()),
            };
            if let Err(error) = written {
                return self.failures.fail(error);
            }
        }
    }

    /// The segment that is to be written next. `None`: it is not time, and the task writes no segment.
    fn due(&self) -> Result<Option<usize>, Gone> {
        let next =
            self.directory.with(|partition| partition.slots().map_or(0, |slots| slots.next_batch()))?;
        let (segment, since) = self.oldest();
        Ok((next >= since.saturating_add(self.patience())).then_some(segment))
    }

    /// Waits until no segment is being written, after the last batch: a superblock that calls the cache clean
    /// follows.
    pub(crate) fn settle(&self) -> Result<(), TierError> {
        loop {
            let seen = self.written.epoch();
            if self.state.is_stopped() || self.due()?.is_none() {
                return Ok(());
            }
            self.failures.segments.notify_one();
            self.written.wait_for(seen, LOOK);
        }
    }

    /// Writes all segments: after an open that has left out what a power failure cut off, so that the next
    /// one does not find it. Each says which batches this open has taken for durable: if this is cut off, the
    /// next open may find damage in one that shows in those that were written.
    pub(crate) fn write_all(&self) -> Result<(), TierError> {
        let mut scratch = AlignedBuffer::new(0);
        (0..self.since.len()).try_for_each(|segment| self.write(segment, Some(self.counted), &mut scratch))
    }

    /// `counted`: what is durable, if not what was written since the open.
    fn write(
        &self,
        number: usize,
        counted: Option<DurableBatches>,
        scratch: &mut AlignedBuffer,
    ) -> Result<(), TierError> {
        let since =
            self.directory.with(|partition| partition.slots().map_or(0, |slots| slots.oldest_batch()))?;
        let durable = || {
            let written = self.directory.with(|partition| partition.slots().map(|s| s.durable_batches()))?;
            Ok(counted.or(written).unwrap_or_default())
        };
        let cache = self.superblocks.cache;
        compose(&self.directory, &self.flash.layout, (number as u64, cache, since), scratch, durable)?;
        let first = self.older_copy[number].load(SeqCst);
        for copy in [first, COPIES_OF_SLOTS - 1 - first] {
            write_copy(&self.flash, (number as u64, copy), scratch)?;
            self.flash.sync_writes()?;
        }
        self.since[number].store(since, SeqCst);
        self.written.notify_all();
        Ok(())
    }
}

/// Fills `scratch`, which is empty at first, with the segment of this number, cache and `since`. `durable` is
/// asked when its entries are copied.
pub(super) fn compose(
    directory: &Directory,
    layout: &Layout,
    (segment, cache, since): (u64, Uuid, u64),
    scratch: &mut AlignedBuffer,
    durable: impl FnOnce() -> Result<DurableBatches, Gone>,
) -> Result<(), Gone> {
    if scratch.is_empty() {
        *scratch = AlignedBuffer::new(layout.segment_bytes() as usize);
    }
    let (entries, entry_bytes) = (layout.segment_entries(), layout.segment_entry_bytes());
    let (block, payload) = scratch.split_at_mut(BLOCK_BYTES);
    let used = &mut payload[..entries as usize * entry_bytes];
    let mut first = segment as u32 * entries;
    for bytes in used.chunks_mut(STEP * entry_bytes) {
        copy_entries(directory, entry_bytes, first, bytes)?;
        first += (bytes.len() / entry_bytes) as u32;
    }
    let checksum = checksum::of(used);
    let (stale, stale_incomplete, durable) = (0, false, durable()?);
    Head { segment, cache, entries, checksum, stale, stale_incomplete, since, durable }.encode(block);
    Ok(())
}

/// Writes a composed segment to one of its places.
pub(super) fn write_copy(
    flash: &Flash,
    (segment, copy): (u64, u64),
    composed: &[u8],
) -> Result<(), TierError> {
    let offset = flash.layout.slots_segment_offset(segment, copy);
    let mut chunks = composed.chunks(CHUNK).enumerate();
    chunks.try_for_each(|(at, chunk)| flash.write(offset + (at * CHUNK) as u64, chunk)).map_err(flash_error)
}

/// Copies the entries of the slots from `first` on.
fn copy_entries(directory: &Directory, entry_bytes: usize, first: u32, bytes: &mut [u8]) -> Result<(), Gone> {
    let slots = directory.config.slots;
    directory.with(|partition| {
        for (slot, entry) in (first..).map(SlotId).zip(bytes.chunks_exact_mut(entry_bytes)) {
            let view = if slot.0 < slots { partition.slot(slot) } else { None };
            let table = partition.slots().filter(|_| slot.0 < slots);
            let generation = table.map_or(0, |slots| slots.slot_generation(slot));
            segment::encode_slot(entry, view, generation);
        }
    })
}

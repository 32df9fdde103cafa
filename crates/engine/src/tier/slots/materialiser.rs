//! What slot placement writes to flash at checkpoints and shutdowns: TAC's temperatures (SBP §3), the
//! directory of LOC and GLB for a warm start (3LA §3.3: "materialize H … instead of flushing"), and that of
//! raw pages ([`super::at_shutdown`]).
//!
//! A shutdown may destage all dirty pages first ([`Layer::close`](crate::Layer::close)), or leave them on
//! flash ([`Layer::materialise`](crate::Layer::materialise)). Then the directory names dirty pages. It is not
//! kept up in the next life: it counts for one open, and is void durably before that open serves a page or
//! writes a slot (`directory: false` in all copies of the superblock). A crash after that is the crash of any
//! other life of this cache: what is on flash is lost, and the owner's log repeats it from its last
//! checkpoint, which destaged everything. So
//! 1. a shutdown that leaves dirty pages is no checkpoint: the owner writes no record, and its log reaches
//!    back to the checkpoint before;
//! 2. the next checkpoint destages what the directory brought back, as every dirty page.
//!
//! The superblock has the end of the owner's log as of that shutdown, if the directory names every dirty
//! page. Then, if all of it is found by the next open, redo begins there. Else an entry that is missing costs
//! time, not data: the log repeats the page from the last checkpoint. An entry that is not dirty must be
//! right: the page will be dropped without a write. So the disk is synced after the entries were read, and
//! before the directory counts.

use super::at_shutdown::write_segments;
use crate::TierError;
use crate::access::Access;
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::tier::floor::Floor;
use crate::tier::floor::flash::Flash;
use entresol_core::{Directory, DurableBatches, Position, SlotId};
use entresol_format::segment::Head;
use entresol_format::slots::{self, BLOCK_ENTRIES, SlotEntry};
use entresol_format::{BLOCK_BYTES, Uuid, checksum, temperatures};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes written at once: others get their turn between.
const CHUNK: usize = 64 << 10;

/// See the module's header.
pub(crate) struct Materialiser {
    access: Arc<Access>,
    flash: Arc<Flash>,
    cache: Uuid,
    epoch: u64,
    /// Copies of the temperatures written, ever.
    temperatures_written: AtomicU64,
}

impl Materialiser {
    pub(crate) fn new(floor: &Floor, temperatures_written: u64) -> Self {
        Self {
            access: floor.access.clone(),
            flash: floor.flash.clone(),
            cache: floor.superblocks.cache,
            epoch: floor.superblocks.epoch,
            temperatures_written: AtomicU64::new(temperatures_written),
        }
    }

    /// Writes the temperatures to the older of their two places, durably, if the policy has any.
    pub(crate) fn write_temperatures(&self) -> Result<(), TierError> {
        let length = self.flash.layout.temperatures_bytes() as usize;

        if length == 0 {
            return Ok(());
        }
        let mut buffer = AlignedBuffer::new(length);
        let (head, payload) = buffer.split_at_mut(BLOCK_BYTES);
        let places = self.access.directory.with(|partition| {
            let Some(slots) = partition.slots() else { return 0 };
            let temperatures = slots.temperatures();
            let places = temperatures.len();
            for (bytes, temperature) in payload.chunks_exact_mut(4).zip(temperatures) {
                bytes.copy_from_slice(&temperature.to_le_bytes());
            }
            places
        })?;
        let nth = self.temperatures_written.fetch_add(1, SeqCst);
        let checksum = checksum::of(&payload[..4 * places]);
        let cache = self.cache;
        let entries = places as u32;
        let (stale, stale_incomplete, since) = (0, false, 0);
        let durable = DurableBatches::default();
        let what = Head { segment: nth, cache, entries, checksum, stale, stale_incomplete, since, durable };
        temperatures::encode_head(&what, head);
        let offset = self.flash.layout.temperatures_offset(nth);
        for (at, chunk) in buffer.chunks(CHUNK).enumerate() {
            self.flash.write(offset + (at * CHUNK) as u64, chunk).map_err(flash_error)?;
        }
        self.flash.sync_writes()
    }

    /// At a shutdown: writes the directory of a policy that keeps it for the next open. `None`: it keeps
    /// none; else, whether it names every dirty page.
    pub(crate) fn write_directory(&self) -> Result<Option<bool>, TierError> {
        match self.access.options.directory() {
            Directory::AtShutdown => self.write_in_order().map(Some),
            Directory::SegmentsAtShutdown => {
                self.write_temperatures()?;
                let of = (self.cache, self.epoch);
                write_segments(&self.access.directory, &self.flash, of).map(|()| Some(true))
            }
            _ => Ok(None),
        }
    }

    /// The directory with the order of the pages.
    fn write_in_order(&self) -> Result<bool, TierError> {
        self.flash.sync_writes()?;
        // Of each slot what was last written there, and what counts.
        let mut entries: Vec<(Position, Option<SlotEntry>)> =
            vec![(Position(0), None); self.access.directory.config.slots as usize];
        let dirty = self.access.directory.with(|partition| {
            let Some(slots) = partition.slots() else { return 0 };
            for (slot, (last, _)) in (0..).map(SlotId).zip(&mut entries) {
                *last = Position(slots.slot_generation(slot).into());
            }
            for (rank, (slot, page)) in slots.slots_in_order().enumerate() {
                let view = partition.slot(slot);
                let (position, entry) = &mut entries[slot.0 as usize];
                let (position, rank) = (*position, rank as u64);
                *entry = view.map(|view| SlotEntry { page, position, rank, dirty: view.dirty });
            }
            partition.unsaved().pages
        })?;
        let named = entries.iter().filter(|(_, entry)| entry.is_some_and(|entry| entry.dirty)).count();
        let cache = self.cache;
        let mut block = AlignedBuffer::new(BLOCK_BYTES);
        for number in 0..self.flash.layout.directory_blocks() {
            slots::clear(&mut block, number);
            let first = number as u32 * BLOCK_ENTRIES;
            let last = (first + BLOCK_ENTRIES).min(self.access.directory.config.slots);
            for slot in (first..last).map(SlotId) {
                let at = slot.0 - first;
                match entries[slot.0 as usize] {
                    (_, Some(entry)) => slots::set(&mut block, number, at, cache, Some(entry)),
                    (last, None) => slots::set_empty(&mut block, number, at, cache, last),
                }
            }
            self.flash.write(self.flash.layout.directory_offset(number), &block).map_err(flash_error)?;
        }
        self.flash.sync_writes()?;
        Ok(named == dirty as usize)
    }
}

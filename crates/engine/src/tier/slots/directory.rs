//! The slot directory on flash: its blocks in memory, and which pages are in motion.
//!
//! The protocol that keeps it true is that of [`super::upkeep`].

use crate::access::Listed;
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::tier::floor::flash::Flash;
use crate::{TierError, points};
use entresol_core::{PageId, SlotId, WritePage};
use entresol_device::DeviceError;
use entresol_format::slots::{self, BLOCK_ENTRIES, SlotEntry};
use entresol_format::{BLOCK_BYTES, Layout, Uuid};
use entresol_runtime::sync::{Mutex, Rank, TinyMutex, TinyMutexGuard};
use std::sync::Arc;

/// The directory on flash.
pub(crate) struct SlotDirectory {
    blocks: Vec<Mutex<AlignedBuffer>>,
    cache: Uuid,
    /// What is readable of the entries without their blocks' latches.
    listed: Arc<Listed>,
    /// Pages in motion, with the slot that is being written. Only the core's step is taken under it.
    moving: TinyMutex<Vec<(SlotId, PageId)>>,
}

impl SlotDirectory {
    /// A directory of `slots` entries, without any.
    pub(crate) fn empty(layout: &Layout, slots: u32, cache: Uuid) -> Self {
        let blocks = (0..layout.directory_blocks()).map(|number| {
            let mut block = AlignedBuffer::new(BLOCK_BYTES);
            slots::clear(&mut block, number);
            block
        });
        Self::of_blocks(blocks, slots, cache)
    }

    /// The directory in `blocks`, whose sectors were proved.
    pub(crate) fn of_blocks(blocks: impl Iterator<Item = AlignedBuffer>, slots: u32, cache: Uuid) -> Self {
        let blocks: Vec<AlignedBuffer> = blocks.collect();
        let page = |slot: u32| {
            let entry = slots::get(&blocks[(slot / BLOCK_ENTRIES) as usize], slot % BLOCK_ENTRIES, cache);
            entry.map(|entry| (entry.page, entry.position))
        };
        let listed = Arc::new(Listed::new((0..slots).map(page)));
        let moving = TinyMutex::new(Rank::Motion, Vec::new());
        Self {
            blocks: blocks.into_iter().map(|block| Mutex::new(Rank::SlotDirectory, block)).collect(),
            cache,
            listed,
            moving,
        }
    }

    /// Changes the entry of `slot` as `change` says, durably. `None`: it stays.
    pub(super) fn update(
        &self,
        flash: &Flash,
        slot: SlotId,
        change: impl FnOnce(Option<SlotEntry>) -> Option<Option<SlotEntry>>,
    ) -> Result<bool, TierError> {
        let (number, at) = (slot.0 / BLOCK_ENTRIES, slot.0 % BLOCK_ENTRIES);
        let mut block = self.blocks[number as usize].lock();
        let Some(entry) = change(slots::get(&block, at, self.cache)) else { return Ok(false) };
        if let Some(entry) = entry {
            self.listed.set(slot, entry.page, entry.position);
        }
        slots::set(&mut block, number.into(), at, self.cache, entry);
        flash.write(flash.layout.directory_offset(number.into()), &block).map_err(flash_error)?;
        flash.sync_writes()?;
        if entry.is_none() {
            self.listed.clear(slot);
        }
        Ok(true)
    }

    /// Proves that the block of `slot` on flash equals that in memory.
    pub(super) fn prove_written(&self, flash: &Flash, slot: SlotId) -> Result<(), TierError> {
        let number = slot.0 / BLOCK_ENTRIES;
        let offset = flash.layout.directory_offset(number.into());
        let mut found = AlignedBuffer::new(BLOCK_BYTES);
        let block = self.blocks[number as usize].lock();
        flash.read(offset, &mut found).map_err(flash_error)?;
        if *found == **block {
            return Ok(());
        }
        points::DIRECTORY_LOST.reach();
        Err(flash_error(DeviceError::Io {
            device: "slot directory".to_owned(),
            operation: "write",
            offset,
            length: BLOCK_BYTES as u64,
            reason: "it was acknowledged, and something else lies there; replace the device".to_owned(),
        }))
    }

    /// For fetches.
    pub(crate) fn listed(&self) -> Arc<Listed> {
        self.listed.clone()
    }

    /// The pages in motion. The caller holds them over the step of the core that decides on writes.
    pub(crate) fn motion(&self) -> Motion<'_> {
        Motion { listed: &self.listed, moving: self.moving.lock() }
    }

    /// Writes to the slots of `pages` have ended.
    pub(crate) fn end(&self, pages: &[WritePage]) {
        self.moving.lock().retain(|(slot, _)| pages.iter().all(|page| page.slot != *slot));
    }

    /// The slots that writes under way bring `page` to, or take it from.
    pub(super) fn moving(&self, page: PageId) -> Vec<SlotId> {
        self.moving.lock().iter().filter(|(_, moves)| *moves == page).map(|(slot, _)| *slot).collect()
    }
}

/// The pages in motion, latched. Invariant: a task that has seen the core after a step that decided on
/// writes, and then asks which pages are in motion, finds the pages of those writes.
pub(crate) struct Motion<'a> {
    listed: &'a Listed,
    moving: TinyMutexGuard<'a, Vec<(SlotId, PageId)>>,
}

impl Motion<'_> {
    /// Writes of `pages` begin.
    pub(crate) fn begin(mut self, pages: &[WritePage]) {
        for page in pages {
            self.moving.extend(page.page.map(|id| (page.slot, id)));
            // What the slot held.
            self.moving.extend(self.listed.page(page.slot).map(|listed| (page.slot, listed)));
        }
    }
}

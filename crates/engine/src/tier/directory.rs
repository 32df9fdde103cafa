//! The slot directory on flash of a policy that keeps it there all the time (TAC; SBP §3, 4): *invalidate on
//! flash → write the page to flash and disk → validate on flash*.
//!
//! Invariant: while an entry on flash is valid, the page in its slot is whole and is the version that is
//! durable on disk. So a restart may serve it, and drop it, without asking the disk. For that
//! - an entry is invalid, durably, before its slot is written and before its page is written to disk;
//! - it is validated when flash and disk are synced, and only if no newer version has been evicted;
//! - a page that is in *motion* (being written to its slot, or driven out of it by the write of another) is
//!   not written to disk: whoever wants to, waits for the end of that write. An evictor is given its frame
//!   first, so that no write of an older version is begun behind his back that would be validated.
//!
//! Each update is a write of the entry's block, and a sync: the paper's cost, on purpose. An invalidation
//! that lets a newer version go to disk is read back, too: were its write lost, nothing on flash would tell
//! after a crash. (Before a slot is written again that is not needed: the entry names the exact position of
//! its version, which then is not in the slot.)

use super::shared::Shared;
use crate::api::{Evicted, Victim};
use crate::buffer::AlignedBuffer;
use crate::error::flash_error;
use crate::{TierError, points};
use entresol_core::{Admission, Lookup, PageId, Position, SlotId, WritePage, mutant};
use entresol_device::DeviceError;
use entresol_format::slots::{self, BLOCK_ENTRIES, SlotEntry};
use entresol_format::{BLOCK_BYTES, Layout, Uuid};
use entresol_runtime::sync::{Mutex, Rank, TinyMutex, TinyMutexGuard};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// No page.
const NOBODY: u64 = u64::MAX;

/// The directory as it lies on flash.
pub(crate) struct SlotDirectory {
    blocks: Vec<Mutex<AlignedBuffer>>,
    cache: Uuid,
    /// What is readable of the entries without their blocks' latches, by slot.
    listed: Vec<Listed>,
    /// Pages in motion, with the slot that is being written. Only the core's step is taken under it.
    moving: TinyMutex<Vec<(SlotId, PageId)>>,
}

struct Listed {
    /// The page whose entry may be valid on flash.
    page: AtomicU64,
    /// The position of the version that it is, or was, valid for.
    position: AtomicU64,
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
            let (page, position) = entry.map_or((NOBODY, 0), |entry| (entry.page.0, entry.position.0));
            Listed { page: AtomicU64::new(page), position: AtomicU64::new(position) }
        };
        let listed = (0..slots).map(page).collect();
        let moving = TinyMutex::new(Rank::Motion, Vec::new());
        Self {
            blocks: blocks.into_iter().map(|block| Mutex::new(Rank::SlotDirectory, block)).collect(),
            cache,
            listed,
            moving,
        }
    }

    /// Changes the entry of `slot` as `change` says, durably. `None`: it stays.
    fn update(
        &self,
        tier: &Shared,
        slot: SlotId,
        change: impl FnOnce(Option<SlotEntry>) -> Option<Option<SlotEntry>>,
    ) -> Result<bool, TierError> {
        let (number, at) = (slot.0 / BLOCK_ENTRIES, slot.0 % BLOCK_ENTRIES);
        let mut block = self.blocks[number as usize].lock();
        let Some(entry) = change(slots::get(&block, at, self.cache)) else { return Ok(false) };
        let listed = &self.listed[slot.0 as usize];
        if let Some(entry) = entry {
            listed.position.store(entry.position.0, SeqCst);
            listed.page.store(entry.page.0, SeqCst);
        }
        slots::set(&mut block, number.into(), at, self.cache, entry);
        tier.flash.write(tier.layout.directory_offset(number.into()), &block).map_err(flash_error)?;
        tier.sync_flash()?;
        if entry.is_none() {
            listed.page.store(NOBODY, SeqCst);
        }
        Ok(true)
    }

    /// Proves that the block of `slot` lies on flash as it is in memory.
    fn prove_written(&self, tier: &Shared, slot: SlotId) -> Result<(), TierError> {
        let number = slot.0 / BLOCK_ENTRIES;
        let offset = tier.layout.directory_offset(number.into());
        let mut found = AlignedBuffer::new(BLOCK_BYTES);
        let block = self.blocks[number as usize].lock();
        tier.flash.read(offset, &mut found).map_err(flash_error)?;
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

    /// Whether the version of `page` stamped with `position` may be what lies in `slot`.
    pub(crate) fn admits(&self, slot: SlotId, page: PageId, position: Position) -> bool {
        let listed = &self.listed[slot.0 as usize];
        listed.page.load(SeqCst) != page.0 || listed.position.load(SeqCst) == position.0
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
    fn moving(&self, page: PageId) -> Vec<SlotId> {
        self.moving.lock().iter().filter(|(_, moves)| *moves == page).map(|(slot, _)| *slot).collect()
    }
}

/// The pages in motion, latched. Invariant: whoever has seen the core after a step that decided on writes, and
/// then asks which pages are in motion, finds the pages of those writes.
pub(crate) struct Motion<'a> {
    listed: &'a [Listed],
    moving: TinyMutexGuard<'a, Vec<(SlotId, PageId)>>,
}

impl Motion<'_> {
    /// Writes of `pages` begin.
    pub(crate) fn begin(mut self, pages: &[WritePage]) {
        for page in pages {
            self.moving.extend(page.page.map(|id| (page.slot, id)));
            // What the slot held.
            let listed = self.listed[page.slot.0 as usize].page.load(SeqCst);
            self.moving.extend((listed != NOBODY).then_some((page.slot, PageId(listed))));
        }
    }
}

impl Shared {
    /// Whether the directory on flash is kept up with every page.
    pub(crate) fn keeps_directory(&self) -> bool {
        self.directory().is_some()
    }

    /// Takes a dirty page: a frame first, then the entry becomes invalid, the page goes to disk, and the
    /// frame is filled.
    pub(crate) fn take_through_directory(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        let written_through = Victim { dirty: false, ..victim };
        let admission = self.in_turn(|tier| {
            if !tier.check_running()? {
                return Ok(Some(Admission::Bypass { stale: false }));
            }
            Ok(Some(tier.admission(&written_through)).filter(|admission| *admission != Admission::Full))
        })?;
        let written = self.write_unmoved(victim, data);
        if let (Err(error), Admission::Stage { .. }) = (&written, admission) {
            // The frame will never be filled.
            self.fail(error.clone());
        }
        written?;
        match admission {
            Admission::Stage { frame, position } => self.fill(frame, position, victim.page, false, data),
            Admission::AlreadyThere => self.tallies.already_on_flash.add(1),
            Admission::Bypass { .. } | Admission::Full => self.tallies.bypassed.add(1),
        }
        Ok(Evicted { dirty: false })
    }

    /// Writes a page to disk when nothing on flash can be taken for it any more.
    fn write_unmoved(&self, victim: Victim, data: &[u8]) -> Result<(), TierError> {
        if self.check_running()? {
            let slot = self.with(|partition| partition.slot_holding(victim.page));
            self.directory_forgets(victim.page, slot)?;
        }
        self.write_to_disk(victim, data)
    }

    /// Waits until `page` is not in motion, and makes every entry of it invalid: in `slot`, and where it was
    /// moving meanwhile.
    pub(crate) fn directory_forgets(&self, page: PageId, slot: Option<SlotId>) -> Result<(), TierError> {
        let Some(directory) = self.directory() else { return Ok(()) };
        let mut slots = Vec::from_iter(slot);
        loop {
            let seen = self.progress.epoch();
            if !self.check_running()? {
                return Ok(());
            }
            let moving = directory.moving(page);
            if moving.is_empty() {
                break;
            }
            slots.extend(moving);
            self.progress.wait(seen);
        }
        let invalidated = slots.into_iter().try_for_each(|slot| {
            match self.invalidate(directory, slot, |entry| entry.page == page)? {
                true => directory.prove_written(self, slot),
                false => Ok(()),
            }
        });
        let is_final = invalidated.is_err() && !mutant!("failed-invalidation-tried-again");
        match invalidated {
            Err(error) if is_final => {
                // Memory says something else than flash: were it asked again, it would be believed. The disk
                // alone serves now.
                self.fail(error);
                self.check_running().map(drop)
            }
            result => result,
        }
    }

    /// Makes the entry of `slot` invalid, if it is `wanted`; whether it was.
    fn invalidate(
        &self,
        directory: &SlotDirectory,
        slot: SlotId,
        wanted: impl FnOnce(SlotEntry) -> bool,
    ) -> Result<bool, TierError> {
        let change = |entry: Option<SlotEntry>| entry.filter(|entry| wanted(*entry)).map(|_| None);
        let changed = directory.update(self, slot, change)?;
        self.tallies.directory_writes.add(changed.into());
        Ok(changed)
    }

    /// Before slots are written: their entries become invalid.
    pub(crate) fn invalidate_slots(&self, pages: &[WritePage]) -> Result<(), TierError> {
        let Some(directory) = self.directory() else { return Ok(()) };
        pages.iter().try_for_each(|page| self.invalidate(directory, page.slot, |_| true).map(drop))
    }

    /// After slots were written: makes pages and their disk copies durable, and their entries valid.
    pub(crate) fn validate_slots(&self, pages: &[WritePage]) -> Result<(), TierError> {
        let Some(directory) = self.directory() else { return Ok(()) };
        self.sync_flash()?;
        self.sync_disk_if_written()?;
        for page in pages {
            let id = page.page.expect("slot placement writes pages only");
            let newest = Lookup::Staged { frame: page.frame, position: page.position, dirty: page.dirty };
            // A newer version may be on its way to disk: then this one stays invalid.
            if self.with(|partition| partition.peek(id)) == newest {
                let entry = SlotEntry { page: id, position: page.stamp, rank: 0, dirty: page.dirty };
                directory.update(self, page.slot, |_| Some(Some(entry)))?;
                self.tallies.directory_writes.add(1);
            }
        }
        Ok(())
    }

    /// Syncs the disk, unless all that was written there is durable.
    fn sync_disk_if_written(&self) -> Result<(), TierError> {
        let written = self.tallies.disk_writes.get();
        if self.disk_synced.load(SeqCst) < written {
            self.disk.sync()?;
            self.disk_synced.fetch_max(written, SeqCst);
        }
        Ok(())
    }
}

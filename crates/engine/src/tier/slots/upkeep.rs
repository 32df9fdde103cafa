//! The slot directory on flash of a policy that keeps it there all the time (TAC; SBP §3, 4): *invalidate on
//! flash → write the page to flash and disk → validate on flash*.
//!
//! Invariant: while an entry on flash is valid, the page in its slot is whole and is the version that is
//! durable on disk. So a restart may serve it, and drop it, without asking the disk. For that
//! - an entry is invalid, durably, before its slot is written and before its page is written to disk;
//! - it is validated when flash and disk are synced, and only if no newer version has been evicted;
//! - a page that is in *motion* (being written to its slot, or driven out of it by the write of another) is
//!   not written to disk before that write has ended. An evictor gets its frame first: so no write of an
//!   older version begins meanwhile and is validated.
//!
//! Each update is a write of the entry's block, and a sync: the paper's cost, on purpose. An invalidation
//! that lets a newer version go to disk is read back, too: were its write lost, nothing on flash would tell
//! after a crash. (Before a slot is written again that is not needed: the entry names the exact position of
//! its version, which then is not in the slot.)

use super::directory::{Motion, SlotDirectory};
use crate::TierError;
use crate::access::Access;
use crate::api::{Evicted, Victim};
use crate::tier::floor::Floor;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::failures::Failures;
use crate::tier::floor::flash::Flash;
use entresol_core::{Admission, Lookup, PageId, SlotId, WritePage};
use entresol_format::slots::SlotEntry;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct Upkeep {
    access: Arc<Access>,
    flash: Arc<Flash>,
    disk_writes: Arc<DiskWrites>,
    failures: Arc<Failures>,
    directory: SlotDirectory,
}

impl Upkeep {
    pub(crate) fn new(floor: &Floor, directory: SlotDirectory) -> Self {
        Self {
            access: floor.access.clone(),
            flash: floor.flash.clone(),
            disk_writes: floor.disk_writes.clone(),
            failures: floor.failures.clone(),
            directory,
        }
    }

    /// Takes a dirty page: a frame first, then the entry becomes invalid, the page is written to disk, and
    /// the frame is filled.
    pub(crate) fn take(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        let written_through = Victim { dirty: false, ..victim };
        let admission = self.access.signals.in_turn(|| {
            if !self.access.signals.check_running()? {
                return Ok(Some(Admission::Bypass { stale: false }));
            }
            Ok(Some(self.access.offers.admission(&written_through, None)?)
                .filter(|admission| *admission != Admission::Full))
        })?;
        let written = self.write_unmoved(victim, data);
        if let (Err(error), Admission::Stage { .. }) = (&written, admission) {
            // The frame will never be filled.
            self.failures.fail(error.clone());
        }
        written?;
        match admission {
            Admission::Stage { frame, position } => {
                self.access.offers.fill(frame, position, victim.page, false, data)?;
            }
            Admission::AlreadyThere => self.access.board.tallies.already_on_flash.add(1),
            Admission::Bypass { .. } | Admission::Full => self.access.board.tallies.bypassed.add(1),
        }
        Ok(Evicted { dirty: false })
    }

    /// Writes a page to disk when nothing on flash can be taken for it any more.
    fn write_unmoved(&self, victim: Victim, data: &[u8]) -> Result<(), TierError> {
        if self.access.signals.check_running()? {
            let slot =
                self.access.directory.with(|partition| partition.slots()?.slot_holding(victim.page))?;
            self.forgets(victim.page, slot)?;
        }
        self.disk_writes.write(victim.page, data)
    }

    /// Waits until `page` is not in motion, and makes every entry of it invalid: in `slot`, and where it was
    /// moving meanwhile.
    pub(crate) fn forgets(&self, page: PageId, slot: Option<SlotId>) -> Result<(), TierError> {
        let mut slots = Vec::from_iter(slot);
        loop {
            let seen = self.access.signals.progress.epoch();
            if !self.access.signals.check_running()? {
                return Ok(());
            }
            let moving = self.directory.moving(page);
            if moving.is_empty() {
                break;
            }
            slots.extend(moving);
            self.access.signals.await_progress(seen)?;
        }
        let invalidated = slots.into_iter().try_for_each(|slot| {
            match self.invalidate(slot, |entry| entry.page == page)? {
                true => self.directory.prove_written(&self.flash, slot),
                false => Ok(()),
            }
        });
        match invalidated {
            Err(error) => {
                // Memory says something else than flash: were it asked again, it would be believed. The disk
                // alone serves now.
                self.failures.fail(error);
                self.access.signals.check_running().map(drop)
            }
            result => result,
        }
    }

    /// Makes the entry of `slot` invalid, if it is `wanted`; whether it was.
    fn invalidate(&self, slot: SlotId, wanted: impl FnOnce(SlotEntry) -> bool) -> Result<bool, TierError> {
        let change = |entry: Option<SlotEntry>| entry.filter(|entry| wanted(*entry)).map(|_| None);
        let changed = self.directory.update(&self.flash, slot, change)?;
        self.access.board.tallies.directory_writes.add(changed.into());
        Ok(changed)
    }

    /// Before slots are written: their entries become invalid.
    pub(crate) fn invalidate_slots(&self, pages: &[WritePage]) -> Result<(), TierError> {
        pages.iter().try_for_each(|page| self.invalidate(page.slot, |_| true).map(drop))
    }

    /// After slots were written: makes pages and their disk copies durable, and their entries valid.
    pub(crate) fn validate_slots(&self, pages: &[WritePage]) -> Result<(), TierError> {
        self.flash.sync_writes()?;
        self.disk_writes.sync_if_written()?;
        for page in pages {
            let id = page.page.expect("slot placement writes pages only");
            let newest = Lookup::Staged { frame: page.frame, position: page.position, dirty: page.dirty };
            // A newer version may be on its way to disk: then this one stays invalid.
            if self.access.directory.with(|partition| partition.peek(id))? == newest {
                let entry = SlotEntry { page: id, position: page.stamp, rank: 0, dirty: page.dirty };
                self.directory.update(&self.flash, page.slot, |_| Some(Some(entry)))?;
                self.access.board.tallies.directory_writes.add(1);
            }
        }
        Ok(())
    }

    /// The pages in motion, for a step that decides on writes.
    pub(crate) fn motion(&self) -> Motion<'_> {
        self.directory.motion()
    }

    /// Writes to the slots of `pages` have ended.
    pub(crate) fn writes_end(&self, pages: &[WritePage]) {
        self.directory.end(pages);
    }
}

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

use super::back::Back;
use super::slot_directory::SlotDirectory;
use crate::TierError;
use crate::api::{Evicted, Victim};
use entresol_core::{Admission, Lookup, PageId, SlotId, WritePage, mutant};
use entresol_format::slots::SlotEntry;
use std::sync::atomic::Ordering::SeqCst;

impl Back {
    /// Whether the directory on flash is kept up with every page.
    pub(crate) fn keeps_directory(&self) -> bool {
        self.directory().is_some()
    }

    /// Takes a dirty page: a frame first, then the entry becomes invalid, the page goes to disk, and the
    /// frame is filled.
    pub(crate) fn take_through_directory(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        let written_through = Victim { dirty: false, ..victim };
        let admission = self.front.in_turn(|| {
            if !self.front.check_running()? {
                return Ok(Some(Admission::Bypass { stale: false }));
            }
            Ok(Some(self.front.admission(&written_through, None)?)
                .filter(|admission| *admission != Admission::Full))
        })?;
        let written = self.write_unmoved(victim, data);
        if let (Err(error), Admission::Stage { .. }) = (&written, admission) {
            // The frame will never be filled.
            self.fail(error.clone());
        }
        written?;
        match admission {
            Admission::Stage { frame, position } => {
                self.front.fill(frame, position, victim.page, false, data)?;
            }
            Admission::AlreadyThere => self.front.tallies().already_on_flash.add(1),
            Admission::Bypass { .. } | Admission::Full => self.front.tallies().bypassed.add(1),
        }
        Ok(Evicted { dirty: false })
    }

    /// Writes a page to disk when nothing on flash can be taken for it any more.
    fn write_unmoved(&self, victim: Victim, data: &[u8]) -> Result<(), TierError> {
        if self.front.check_running()? {
            let slot = self.front.with(|partition| partition.slot_holding(victim.page))?;
            self.directory_forgets(victim.page, slot)?;
        }
        self.write_to_disk(victim.page, data)
    }

    /// Waits until `page` is not in motion, and makes every entry of it invalid: in `slot`, and where it was
    /// moving meanwhile.
    pub(crate) fn directory_forgets(&self, page: PageId, slot: Option<SlotId>) -> Result<(), TierError> {
        let Some(directory) = self.directory() else { return Ok(()) };
        let mut slots = Vec::from_iter(slot);
        loop {
            let seen = self.front.progress.epoch();
            if !self.front.check_running()? {
                return Ok(());
            }
            let moving = directory.moving(page);
            if moving.is_empty() {
                break;
            }
            slots.extend(moving);
            self.front.await_progress(seen)?;
        }
        let invalidated = slots.into_iter().try_for_each(|slot| {
            match self.invalidate(directory, slot, |entry| entry.page == page)? {
                true => directory.prove_written(&self.flash, slot),
                false => Ok(()),
            }
        });
        let is_final = invalidated.is_err() && !mutant!("failed-invalidation-tried-again");
        match invalidated {
            Err(error) if is_final => {
                // Memory says something else than flash: were it asked again, it would be believed. The disk
                // alone serves now.
                self.fail(error);
                self.front.check_running().map(drop)
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
        let changed = directory.update(&self.flash, slot, change)?;
        self.front.tallies().directory_writes.add(changed.into());
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
        self.flash.sync_writes()?;
        self.sync_disk_if_written()?;
        for page in pages {
            let id = page.page.expect("slot placement writes pages only");
            let newest = Lookup::Staged { frame: page.frame, position: page.position, dirty: page.dirty };
            // A newer version may be on its way to disk: then this one stays invalid.
            if self.front.with(|partition| partition.peek(id))? == newest {
                let entry = SlotEntry { page: id, position: page.stamp, rank: 0, dirty: page.dirty };
                directory.update(&self.flash, page.slot, |_| Some(Some(entry)))?;
                self.front.tallies().directory_writes.add(1);
            }
        }
        Ok(())
    }

    /// Syncs the disk, unless all that was written there is durable.
    pub(crate) fn sync_disk_if_written(&self) -> Result<(), TierError> {
        let written = self.front.tallies().disk_writes.get();
        if self.front.board.disk_synced.load(SeqCst) < written {
            self.disk.sync()?;
            self.front.board.disk_synced.fetch_max(written, SeqCst);
        }
        Ok(())
    }
}

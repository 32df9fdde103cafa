//! How far back the owner's log is needed if the flash is lost (`crate::bases`).

use super::Log;
use crate::policy::Offer;
use crate::slot::{DIRTY, VALID};
use crate::{PageId, Position, SlotId};
use std::ops::Range;

impl Log<'_> {
    /// Whether bases are kept ([`Config::keeps_bases`](crate::Config::keeps_bases)).
    pub fn keeps_bases(&self) -> bool {
        self.contents.pages.directory.bases.are_kept()
    }

    /// The number of the owner's last complete checkpoint; 0: none, or no bases are kept.
    pub fn last_checkpoint(&self) -> u64 {
        let bases = &self.contents.pages.directory.bases;
        if bases.are_kept() { bases.now() } else { 0 }
    }

    /// The owner's checkpoint `number`, the next one, is complete: its record is durable, and a restart
    /// begins with it. What was handed down before it began is in the cache or on disk. False, and nothing
    /// changed: a dirty page would be more than [`BASES_MAX`](crate::BASES_MAX) checkpoints old; it is to be
    /// copied to disk before.
    ///
    /// # Panics
    /// If no bases are kept.
    #[must_use]
    pub fn checkpoint_complete(&mut self, number: u64) -> bool {
        self.contents.pages.directory.bases.advance(number)
    }

    /// The owner's log from the redo point of this checkpoint on, and the disk, are all that is needed if the
    /// flash is lost now: the oldest base of a dirty page, at most the last complete checkpoint. It never
    /// decreases. 0: all of the log, from before the first checkpoint, or what a page needs is not known.
    ///
    /// # Panics
    /// If no bases are kept.
    pub fn horizon(&self) -> u64 {
        self.contents.pages.directory.bases.horizon()
    }

    /// Dirty pages with a base before `number`: those that keep the horizon from it.
    ///
    /// # Panics
    /// If no bases are kept.
    pub fn behind(&self, number: u64) -> u32 {
        self.contents.pages.directory.bases.before(number)
    }

    /// The base of the dirty page in `slot`. `None`: the page is clean or superseded, or no bases are kept.
    pub fn base(&self, slot: SlotId) -> Option<u64> {
        let directory = &self.contents.pages.directory;
        let entry = directory.entry(slot.0);
        let has_base = directory.bases.are_kept() && entry.has(VALID) && entry.has(DIRTY);
        has_base.then(|| directory.bases.of(slot.0))
    }

    /// Whether the disk has an offered page that DRAM calls newer than disk: it has left the flash since, as
    /// it is. If it entered as a dirty page, it would be written to disk again without an image in the log
    /// that is kept, and power may fail in that write.
    pub(super) fn disk_has(&self, offer: &Offer) -> bool {
        let directory = &self.contents.pages.directory;
        directory.bases.are_kept()
            && !offer.fdirty
            && !directory.versions(offer.page).any(|at| directory.entry(at).has(DIRTY))
    }

    /// The base of the page that is staged at `position`, for the summary of its group. `None`: it is clean,
    /// or no bases are kept.
    pub fn staged_base(&self, position: Position) -> Option<u64> {
        let (staging, directory) = (&self.contents.staging, &self.contents.pages.directory);
        let entry = directory.staged_entry(staging.frame_of(position.0));
        let has_base = directory.bases.are_kept() && directory.entry(entry).has(DIRTY);
        has_base.then(|| directory.bases.of(entry))
    }

    /// The dirty pages in these slots with a base before `number`.
    pub fn dirty_based_before(&self, slots: Range<u32>, number: u64) -> impl Iterator<Item = PageId> + '_ {
        let count = self.contents.pages.directory.slots;
        let slots = (slots.start.min(count)..slots.end.min(count)).map(SlotId);
        let old = slots.filter(move |slot| self.base(*slot).is_some_and(|base| base < number));
        old.map(|slot| self.contents.pages.directory.entry(slot.0).page())
    }

    /// As [`Log::restore_begin`] ends: the owner's last complete checkpoint was `number`, or a later one.
    pub fn restore_checkpoint(&mut self, number: u64) {
        if self.keeps_bases() {
            self.contents.pages.directory.bases.set_now(number);
        }
    }

    /// The dirty page that was [restored](Log::restore_entry) at `position`, the newest version of its page
    /// so far, has this base. Without this, it has the owner's last complete checkpoint.
    pub fn restore_base(&mut self, position: Position, base: u64) {
        let slot = self.ring.slot_of(position.0);
        let directory = &mut self.contents.pages.directory;
        if directory.bases.are_kept() && directory.entry(slot).has(DIRTY) {
            directory.bases.leave(slot);
            directory.bases.enter(slot, base);
        }
    }

    /// As [`Log::restore_base`], of a page whose base is not known: it counts as older than any that are.
    pub fn restore_unknown_base(&mut self, position: Position) {
        let slot = self.ring.slot_of(position.0);
        let directory = &mut self.contents.pages.directory;
        if directory.bases.are_kept() && directory.entry(slot).has(DIRTY) {
            directory.bases.leave(slot);
            directory.bases.enter_unknown(slot);
        }
    }

    /// The owner's last complete checkpoint was `number`, and nothing is known of the bases of pages. Some
    /// may have been staged since the restart, as second chances.
    pub fn restore_without_bases(&mut self, number: u64) {
        let contents = &mut self.contents;
        let directory = &mut contents.pages.directory;
        directory.bases.clear();
        directory.bases.set_now(number);
        for entry in 0..directory.entries() {
            if directory.has_base(&contents.staging, entry) {
                directory.bases.enter_unknown(entry);
            }
        }
    }
}

//! The directory: an entry for each slot and each staging frame, and a chained hash table from page ids to
//! entries. The links of the chains are part of the entries.
//!
//! Invariants:
//! - The valid slots and the staging frames that hold a page are in the index, each in the chain of its
//!   page's bucket. No other entry is in the index.
//! - The entries of one page are in their chain newest first, so the first match is the version to serve. All
//!   but one are in staging. The one on flash is the last of them, unless groups were written out of order.
//! - A chain may be read without the latch at any time: see [`crate::index`] for what that asks of a change.
//! - `valid` and `dirty` count the slots with these flags.

use crate::PageId;
use crate::bases::Bases;
use crate::index::Index;
use crate::sections::Carver;
use crate::slot::{BUSY, DIRTY, Entries, NIL, Slot, VALID};
use crate::staging::Staging;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Slots by state.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Counts {
    /// Slots with the newest durable version of a page.
    pub valid: u32,
    /// Dirty slots among the valid ones.
    pub dirty: u32,
}

/// Where each page is, staged or on flash.
pub(crate) struct PageDirectory<'r> {
    /// Slots on flash. The entries from here on are those of the staging frames.
    pub slots: u32,
    pub counts: &'r mut Counts,
    /// The entries, the chains, and what else is read without the latch.
    pub index: Index<'r>,
    /// By entry: the base of its dirty page, if they are kept.
    pub bases: Bases<'r>,
}

impl<'r> PageDirectory<'r> {
    /// Attaches to its sections. `None`: the region is too short.
    #[inline(always)]
    pub(crate) fn attach(counts: &'r mut Counts, carver: &mut Carver<'r, '_>) -> Option<Self> {
        let slots = carver.sizes().slots;
        Some(Self { slots, counts, index: carver.index(), bases: Bases::attach(carver)? })
    }

    /// The checksum of the page of entry `at`; 0 if none are kept.
    pub(crate) fn proof(&self, at: u32) -> u32 {
        self.index.proof(at)
    }

    /// Notes the checksum of the page of entry `at`, if any are kept.
    pub(crate) fn set_proof(&mut self, at: u32, proof: u32) {
        self.index.set_proof(at, proof);
    }

    /// The page of the staged entry `at` is in `slot` now, or was published there.
    pub(crate) fn carry_proof(&mut self, at: u32, slot: u32) {
        self.set_proof(slot, self.proof(at));
    }

    /// Makes the directory empty.
    pub(crate) fn format(&mut self) {
        self.index.format();
        self.bases.format();
    }

    /// A dirty version of `page` enters as `entry`. It has the oldest base of the versions before it.
    #[cold]
    pub(crate) fn take_base(&mut self, entry: u32, page: PageId) {
        let before = self.versions(page).filter(|older| self.entry(*older).has(DIRTY));
        let oldest = before.map(|older| self.bases.of(older)).min();
        self.bases.enter(entry, self.bases.now().min(oldest.unwrap_or(u64::MAX)));
    }

    /// The entries of all versions of `page`, the newest first.
    pub(crate) fn versions(&self, page: PageId) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.find(page), |newer| self.find_older(*newer))
    }

    /// Whether a dirty page is in this entry, so that its base counts.
    pub(crate) fn has_base(&self, staging: &Staging<'_>, entry: u32) -> bool {
        let holds_page = match self.frame_of(entry) {
            Some(frame) => staging.frame(frame).holds_page(),
            None => self.entry(entry).has(VALID),
        };
        holds_page && self.entry(entry).has(DIRTY)
    }

    /// The dirty page of an entry is not dirty any more, or another version has its base.
    #[inline]
    fn base_leaves(&mut self, at: u32) {
        if self.bases.are_kept() && self.entry(at).has(DIRTY) {
            self.bases.leave(at);
        }
    }

    /// The page in `slot`, which is valid, is on disk as well.
    pub(crate) fn is_clean_now(&mut self, slot: u32) {
        self.base_leaves(slot);
        self.entry(slot).lower(DIRTY);
        self.counts.dirty -= 1;
    }

    /// No page in a slot is dirty. None is staged.
    pub(crate) fn are_clean_now(&mut self) {
        self.index.first(self.index.len()).iter().for_each(|slot| slot.lower(DIRTY));
        self.counts.dirty = 0;
        self.bases.clear();
    }

    #[inline]
    pub(crate) fn entry(&self, at: u32) -> Slot<'r> {
        self.index.entry(at)
    }

    /// Entries, those of slots and of staging frames.
    pub(crate) fn entries(&self) -> u32 {
        self.index.len()
    }

    /// The entries of the slots, without those of the frames.
    pub(crate) fn of_slots(&self) -> Entries<'r> {
        self.index.first(self.slots)
    }

    /// The entry of a staging frame.
    pub(crate) fn staged_entry(&self, frame: u32) -> u32 {
        self.slots + frame
    }

    /// The staging frame of an entry. `None`: the entry is that of a slot.
    pub(crate) fn frame_of(&self, entry: u32) -> Option<u32> {
        entry.checked_sub(self.slots)
    }

    /// No operation on the page in `slot` is under way (slot placement).
    pub(crate) fn is_idle(&self, slot: u32) -> bool {
        !self.entry(slot).has(BUSY)
    }

    /// The newest entry of `page`, staged or on flash.
    #[inline]
    pub(crate) fn find(&self, page: PageId) -> Option<u32> {
        self.find_in_chain(self.index.first_of(self.index.bucket_of(page)), page)
    }

    /// The next older entry of the page of entry `at`.
    pub(crate) fn find_older(&self, at: u32) -> Option<u32> {
        let entry = self.entry(at);
        self.find_in_chain(entry.next(), entry.page())
    }

    /// The first entry of `page` in the chain from `at` on.
    #[inline(always)]
    fn find_in_chain(&self, mut at: u32, page: PageId) -> Option<u32> {
        while at != NIL {
            let slot = self.entry(at);
            if slot.is_of(page) {
                return Some(at);
            }
            at = slot.next();
        }
        None
    }

    /// The slot that holds the valid version of `page`, whether or not a version is in staging.
    pub(crate) fn find_on_flash(&self, page: PageId) -> Option<u32> {
        let mut at = self.find(page);
        while let Some(entry) = at.filter(|entry| *entry >= self.slots) {
            at = self.find_older(entry);
        }
        at
    }

    /// `page` is in entry `at` now, with `flags`: its newest version.
    #[inline(always)]
    fn enter(&mut self, at: u32, page: PageId, flags: u32) {
        let bucket = self.index.bucket_of(page);
        self.index.change(bucket, || {
            self.entry(at).set_linked(page, flags, self.index.first_of(bucket));
            self.index.set_first(bucket, at);
        });
    }

    /// `successor` follows in the chain of `bucket` where `at` is.
    fn set_successor(&self, bucket: u32, at: u32, successor: u32) {
        let mut previous = self.index.first_of(bucket);
        if previous == at {
            return self.index.set_first(bucket, successor);
        }
        loop {
            assert!(previous != NIL, "entry {at} of page {} is in the index", self.entry(at).page());
            let entry = self.entry(previous);
            let next = entry.next();
            if next == at {
                return entry.set_next(successor);
            }
            previous = next;
        }
    }

    /// Removes `at` from the index.
    pub(crate) fn unlink(&mut self, at: u32) {
        let slot = self.entry(at);
        let bucket = self.index.bucket_of(slot.page());
        self.index.change(bucket, || self.set_successor(bucket, at, slot.next()));
        slot.set_next(NIL);
    }

    /// As [`Self::unlink`], of the staged version of entry `at`.
    pub(crate) fn unlink_staged(&mut self, at: u32) {
        self.base_leaves(at);
        self.unlink(at);
        self.index.take_reference(at);
    }

    /// Replaces entry `old` in the index by entry `new` of the same page.
    fn replace(&mut self, old: u32, new: u32) {
        let slot = self.entry(old);
        let bucket = self.index.bucket_of(slot.page());
        self.entry(new).set_next(slot.next());
        self.index.change(bucket, || self.set_successor(bucket, old, new));
        slot.set_next(NIL);
    }

    /// `page` is staged as entry `at`: its newest version.
    #[inline]
    pub(crate) fn stage(&mut self, at: u32, page: PageId, dirty: bool) {
        self.enter(at, page, if dirty { DIRTY } else { 0 });
    }

    /// The staged version of entry `at` is no longer needed.
    pub(crate) fn unstage(&mut self, at: u32) {
        self.unlink_staged(at);
        self.entry(at).clear();
    }

    /// The staged version of entry `at` becomes the valid one of its page, in `slot`, with `flags` in
    /// addition to [`VALID`]. It counts as referenced if it did.
    pub(crate) fn settle(&mut self, at: u32, slot: u32, flags: u32) {
        let staged = self.entry(at);
        let (page, next) = (staged.page(), staged.next());
        self.entry(slot).set_linked(page, VALID | flags, next);
        if self.bases.are_kept() && flags & DIRTY != 0 {
            self.bases.carry(at, slot);
        }
        self.index.move_reference(at, slot);
        let bucket = self.index.bucket_of(page);
        self.index.change(bucket, || self.set_successor(bucket, at, slot));
        staged.clear();
        self.count_valid(flags);
    }

    /// A newer version was written over the one in `slot`, which is valid and idle again.
    pub(crate) fn overwrite(&mut self, slot: u32, dirty: bool) {
        let was_dirty = self.entry(slot).has(DIRTY);
        self.entry(slot).lower(BUSY | DIRTY);
        self.entry(slot).raise(if dirty { DIRTY } else { 0 });
        self.counts.dirty = self.counts.dirty - u32::from(was_dirty) + u32::from(dirty);
    }

    /// The version of its page in `to`, a slot that is not in the index, has taken the place of the one in
    /// `from`, with `flags` in addition to [`VALID`]. It counts as referenced if that did.
    pub(crate) fn relocate(&mut self, from: u32, to: u32, flags: u32) {
        let old = self.entry(from).content();
        self.entry(to).set(old.page(), VALID | flags);
        self.index.move_reference(from, to);
        self.replace(from, to);
        self.counts.dirty -= u32::from(old.has(DIRTY));
        self.counts.dirty += u32::from(flags & DIRTY != 0);
    }

    /// A restart finds the valid version of `page` in `slot`, with `flags` in addition to [`VALID`].
    pub(crate) fn restore(&mut self, slot: u32, page: PageId, flags: u32) {
        if self.bases.are_kept() && flags & DIRTY != 0 {
            self.bases.enter(slot, self.bases.now());
        }
        self.index.take_reference(slot);
        self.enter(slot, page, VALID | flags);
        self.count_valid(flags);
    }

    fn count_valid(&mut self, flags: u32) {
        self.counts.valid += 1;
        self.counts.dirty += u32::from(flags & DIRTY != 0);
    }

    /// The version in `slot` is no longer the valid one. Its flags stay.
    pub(crate) fn retract(&mut self, slot: u32) {
        self.base_leaves(slot);
        self.unlink(slot);
        self.counts.valid -= 1;
        self.counts.dirty -= u32::from(self.entry(slot).has(DIRTY));
    }
}

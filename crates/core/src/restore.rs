//! Rebuilding a log-placed partition from the entries found on flash (FaCE §4.2): entries are restored in
//! ascending position, and the newest version of a page wins.
//!
//! # Which front
//!
//! The ring on flash ends at the rear, after the newest complete group, and holds at most `slots` positions
//! before it. While all of these slots are intact, recovery need not know which were dequeued. A dequeued
//! page with a newer version is superseded by it here too, and one that was destaged or dropped clean is the
//! same as on disk.
//!
//! A front that is too old is a fault, because of writes under way in the crash:
//!
//! 1. Writes may have destroyed slots just after the rear (in the ring: the oldest positions), in any order.
//! 2. Such a slot held the newest version on flash of a page, which had been destaged.
//! 3. An older version of the page, at a position before it, would be restored and hide the newer copy on
//!    disk.
//!
//! So recovery must begin after the last slot that may have been destroyed. Either of two methods finds it:
//!
//! - Before a slot is overwritten, a front beyond its old position is recorded durably (the engine does so).
//! - Recovery reads the pages at the oldest `staging_pages` positions (no write reaches farther) and begins
//!   after the last one that differs from the directory.
//!
//! Where pages are forgotten, only the first method will do. A forgotten page may have a copy in a slot that
//! is released and intact, and its record is needed only until the recorded front is beyond that slot
//! ([`Partition::front_is_durable`]). The same holds where a policy keeps changed pages out: only the disk
//! has them, and an older copy may be in such a slot.
//!
//! Neither loses data. A position is given out only when its slot is released, and slots are released in
//! order, so all pages up to an overwritten slot had been durably destaged or superseded.

use crate::config::Config;
use crate::contents::{Contents, Decisions};
use crate::job::Forgotten;
use crate::pages::Pages;
use crate::partition::{Partition, Place};
use crate::placement::{Ring, SlotTable};
use crate::policy::ONLY_LIST;
use crate::slot::{DIRTY, HELD, VALID};
use crate::{PageId, Position, SlotId};

/// Drivers begin the positions of an open at a multiple of this power of two.
const POSITIONS_OF_AN_OPEN_BITS: u32 = 36;

impl<'r> Partition<'r> {
    fn ring(&mut self) -> (&mut Ring<'r>, &mut Contents<'r>) {
        let Place::Ring(ring) = &mut self.place else { panic!("only a log is restored by position") };
        (ring, &mut self.contents)
    }

    fn slot_table(&mut self) -> (&mut SlotTable<'r>, &mut Contents<'r>) {
        let Place::Slots(slots) = &mut self.place else { panic!("a log is restored by position") };
        (slots, &mut self.contents)
    }

    /// Begins at `front`, the oldest position that may still be on flash: a multiple of the group size, at
    /// most [`Position::MAX`]. The partition has just been formatted.
    ///
    /// # Panics
    /// If one of these does not hold, or the policy has no log placement.
    pub fn restore_begin(&mut self, front: Position) {
        let (ring, contents) = self.ring();
        assert!(front.0.is_multiple_of(ring.group_pages as u64), "front {} is inside a group", front.0);
        assert!(front <= Position::MAX, "front {} is out of range", front.0);
        assert_eq!(contents.staging.window.rear, 0, "the partition that is restored into was used");
        ring.begin_at(front);
        contents.staging.begin_at(front);
    }

    /// Restores the page at `position`, which is above all before it and less than `slots` above the front.
    ///
    /// # Panics
    /// If it is outside the ring or was restored before.
    pub fn restore_entry(&mut self, position: Position, page: PageId, dirty: bool) {
        let (ring, contents) = self.ring();
        assert_in_ring(ring, position, ring.slots as u64 - 1);
        if !crate::mutant!("older-version-restored-too") {
            ring.restore_invalidate(contents, page);
        }
        let directory = &mut contents.pages.directory;
        let slot = ring.slot_of(position.0);
        assert!(!directory.entry(slot).has(HELD), "position {} was restored before", position.0);
        let dirty = dirty && !crate::mutant!("dirty-forgotten-in-restore");
        directory.restore(slot, page, HELD | if dirty { DIRTY } else { 0 });
    }

    /// The checksum of the page that was [restored](Partition::restore_entry) at `position` is `proof`. It is
    /// kept if the configuration says so.
    ///
    /// # Panics
    /// If the position is outside the ring.
    pub fn restore_proof(&mut self, position: Position, proof: u32) {
        let (ring, contents) = self.ring();
        assert_in_ring(ring, position, ring.slots as u64 - 1);
        contents.pages.directory.set_proof(ring.slot_of(position.0), proof);
    }

    /// Pages were forgotten: their copies among the entries so far that are below the record's position are
    /// stale.
    pub fn restore_forget(&mut self, record: &Forgotten) {
        let (ring, contents) = self.ring();
        ring.restore_forget(contents, record);
    }

    /// All restored pages have been copied to disk.
    pub fn restore_all_clean(&mut self) {
        let directory = &mut self.contents.pages.directory;
        directory.entries.iter_mut().for_each(|slot| slot.lower(DIRTY));
        directory.counts.dirty = 0;
    }

    /// Ends at `rear`, the next position to give out: a multiple of the group size, above all entries and at
    /// most `slots` above the front.
    ///
    /// # Panics
    /// If it is outside the ring or inside a group.
    pub fn restore_end(&mut self, rear: Position) {
        let (ring, contents) = self.ring();
        assert!(rear.0.is_multiple_of(ring.group_pages as u64), "rear {} is inside a group", rear.0);
        assert_in_ring(ring, rear, ring.slots as u64);
        contents.staging.begin_at(rear);
    }

    /// Slot placement: begins to restore a partition that has just been formatted. `rear` is the next
    /// position to give out: a multiple of the group size, above those of all entries.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn restore_slots_begin(&mut self, rear: Position) {
        let (_, Contents { staging, pages, .. }) = self.slot_table();
        assert!(rear.0.is_multiple_of(staging.group_pages as u64), "rear {} is inside a group", rear.0);
        assert!(rear <= Position::MAX, "rear {} is out of range", rear.0);
        let used = (staging.window.rear, pages.directory.counts.valid);
        assert_eq!(used, (0, 0), "the partition that is restored into was used");
        staging.begin_at(rear);
        // Until the stamp of an earlier open in a slot is known, the slot's counter does not start where it
        // may have stood then.
        let first = (rear.0 >> POSITIONS_OF_AN_OPEN_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        (0..pages.directory.slots).for_each(|slot| pages.lists.set_generation_byte(slot, first as u8));
    }

    /// The version last written to `slot`, which is empty, was stamped with `position`. The slot's writes are
    /// counted from there.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn restore_empty_slot(&mut self, slot: SlotId, position: Position) {
        self.assert_slot(slot);
        self.contents.pages.lists.set_generation_byte(slot.0, position.0 as u8);
    }

    /// Restores `page` in `slot`, in the version whose stamp is `position`. Entries are given in the policy's
    /// eviction order. Returns false and does nothing if the slot does not exist or is occupied, if the page
    /// was restored before, or if it may not be in this slot. Then the directory that says so must not be
    /// trusted.
    pub fn restore_slot(&mut self, slot: SlotId, page: PageId, dirty: bool, position: Position) -> bool {
        let (slots, contents) = self.slot_table();
        let (directory, sets) = (&contents.pages.directory, contents.pages.sets);
        let possible = slot.0 < directory.slots
            && !directory.entry(slot.0).has(VALID)
            && directory.find(page).is_none()
            && (!slots.in_sets || sets.of_page(page) == sets.of_slot(slot.0));
        if possible {
            slots.occupy(contents, slot.0, page, dirty);
            contents.pages.lists.set_generation_byte(slot.0, position.0 as u8);
        }
        possible
    }

    /// Ends the restore: all slots that were not named are free.
    pub fn restore_slots_end(&mut self) {
        let (slots, contents) = self.slot_table();
        slots.rebuild_free(&mut contents.pages);
    }

    /// Slot placement, for policies with one list: the occupied slots with their pages, in eviction order, as
    /// [`Partition::restore_slot`] needs them.
    ///
    /// # Panics
    /// If the policy does not keep its pages in one list.
    pub fn slots_in_order(&self) -> impl Iterator<Item = (SlotId, PageId)> + '_ {
        assert_eq!(self.config().lists(), 1, "the policy has no order of all its pages");
        let Pages { directory, lists, .. } = &self.contents.pages;
        let mut at = lists.next_of(lists.head(ONLY_LIST));
        std::iter::from_fn(move || {
            let slot = lists.slot(at)?;
            at = lists.next_of(slot);
            Some((SlotId(slot), directory.entry(slot).page()))
        })
    }

    /// Slot placement: the low byte of the number of the last write to `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn slot_generation(&self, slot: SlotId) -> u8 {
        self.assert_slot(slot);
        self.contents.pages.lists.generation_byte(slot.0)
    }

    /// Goes on where `old` ends, under this partition's policy, with its pages where they are: as a close and
    /// an open would. What `old` has learned of its pages, and their order in slots, is lost. This partition
    /// has just been formatted, in the same placement and with slots and groups of the same size.
    ///
    /// # Panics
    /// If it was not, or if pages of `old` are staged or under way.
    pub fn take_over(&mut self, old: &Partition<'_>) {
        let (ours, theirs) = (self.config(), old.config());
        let sizes = |config: &Config| (config.policy.placement(), config.slots, config.group_pages);
        assert_eq!(sizes(&ours), sizes(&theirs), "placement, slots and group of the old partition");
        assert!(old.staging_is_empty(), "the old partition has {} staged pages", old.occupancy().staged);
        *self.contents.decisions = Decisions(old.contents.decisions.0);
        let (front, rear) = old.window();
        if let Place::Ring(_) = self.place {
            self.restore_begin(front);
            for position in (front.0..rear.0).map(Position) {
                let slot = SlotId((position.0 % u64::from(ours.slots)) as u32);
                if let Some(view) = old.slot(slot).filter(|view| view.valid) {
                    self.restore_entry(position, view.page, view.dirty);
                    self.restore_proof(position, view.proof);
                }
            }
            return self.restore_end(rear);
        }
        self.restore_slots_begin(Position(rear.0.next_multiple_of(ours.group_pages.into())));
        for slot in (0..ours.slots).map(SlotId) {
            // The slot keeps the low byte of its last stamp alone.
            let stamp = Position(old.slot_generation(slot).into());
            match old.slot(slot) {
                None => self.restore_empty_slot(slot, stamp),
                Some(view) => {
                    assert!(
                        self.restore_slot(slot, view.page, view.dirty, stamp),
                        "{view:?} has no place here"
                    );
                    self.contents.pages.directory.set_proof(slot.0, view.proof);
                }
            }
        }
        self.restore_slots_end();
    }

    fn assert_slot(&self, slot: SlotId) {
        let slots = self.contents.pages.directory.slots;
        assert!(slot.0 < slots, "the cache has {slots} slots, and no {}", slot.0);
    }

    /// Dirty pages with their slots, in slot order.
    pub fn dirty_slots(&self) -> impl Iterator<Item = (SlotId, PageId)> + '_ {
        let slots = self.contents.pages.directory.of_slots().iter().zip(0..);
        let dirty = slots.filter(|(entry, _)| entry.has(VALID) && entry.has(DIRTY));
        dirty.map(|(entry, slot)| (SlotId(slot), entry.page()))
    }

    /// Log placement: whether the disk durably has the page in this slot, one of
    /// [`Partition::dirty_slots`]: it was destaged, and its slot is not released yet.
    pub fn is_destaged(&self, slot: SlotId) -> bool {
        match &self.place {
            Place::Ring(ring) => ring.is_destaged(&self.contents, slot.0),
            Place::Slots(_) => false,
        }
    }
}

fn assert_in_ring(ring: &Ring<'_>, position: Position, last: u64) {
    let front = ring.head.released;
    let inside = position.0 >= front && position.0 - front <= last;
    assert!(inside, "position {} is not in the ring of {} that begins at {front}", position.0, ring.slots);
}

#[cfg(test)]
mod tests {
    use crate::shadow::{Counts, settle, write_all};
    use crate::{Admission, Config, Lookup, Lsn, PageId, Partition, PolicyKind, region_bytes};
    use PolicyKind::{Face, FaceGsc, Lc, Lru, Reuse, ReuseSlots, S3Fifo};
    use zerocopy::IntoBytes;

    const PAGES: u64 = 6000;

    /// Evicts pages, each fetched before, of which every third is dirty.
    fn work(partition: &mut Partition<'_>, state: &mut u64, evictions: u32) {
        for _ in 0..evictions {
            *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (one, two) = (*state >> 33, *state >> 20 & 0xfff);
            let page = PageId(one % PAGES * two / 0x1000);
            let is_there = partition.fetch(page) != Lookup::Absent;
            if !is_there && partition.config().policy.learns_from_misses() {
                partition.missed(page);
            }
            let fdirty = two.is_multiple_of(3);
            loop {
                let dirty = fdirty || matches!(partition.peek(page), Lookup::Flash { dirty: true, .. });
                match partition.evict(page, Lsn(1), dirty, fdirty) {
                    Admission::Full => settle(partition, &mut Counts::default()),
                    Admission::Stage { frame, .. } => break partition.staged(frame),
                    Admission::AlreadyThere | Admission::Bypass { .. } => break,
                }
            }
        }
    }

    #[test]
    fn a_partition_takes_over_the_pages_of_another_policy() {
        let pairs = [(FaceGsc, Reuse), (Reuse, FaceGsc), (Face, FaceGsc), (Lc, S3Fifo), (S3Fifo, ReuseSlots)];
        for (from, to) in pairs.into_iter().chain([(ReuseSlots, Lc), (Lc, Lru)]) {
            let config = |policy| Config::with_group(policy, 2048, 16);
            let region = |policy| vec![0u64; region_bytes(&config(policy)) / 8];
            let (mut before, mut after) = (region(from), region(to));
            let mut old = Partition::format(before.as_mut_bytes(), &config(from)).expect("valid");
            let mut state = 1;
            for turn in 0..5 {
                work(&mut old, &mut state, 1777 * (turn + 1));
                settle(&mut old, &mut Counts::default());
                old.close_group();
                write_all(&mut old, &mut Counts::default());
                let mut new = Partition::format(after.as_mut_bytes(), &config(to)).expect("valid");
                new.take_over(&old);
                new.check().unwrap_or_else(|violation| panic!("{from:?} to {to:?}: {violation}"));
                assert_eq!(new.decision_hash(), old.decision_hash());
                assert!(old.occupancy().dirty > 0, "{from:?} has dirty pages");
                for page in (0..PAGES).map(PageId) {
                    assert_eq!(new.peek(page), old.peek(page), "{from:?} to {to:?}: {page:?}");
                }
                work(&mut new, &mut state, 5000);
                new.check().unwrap_or_else(|violation| panic!("{from:?} to {to:?}, later: {violation}"));
            }
        }
    }
}

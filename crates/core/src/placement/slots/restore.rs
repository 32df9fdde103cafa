//! Rebuilding slots from a directory that has survived: in slots of their own, or in the order of a shutdown.

use super::Slots;
use crate::config::Config;
use crate::contents::Contents;
use crate::pages::Pages;
use crate::policy::{ONLY_LIST, PolicyState};
use crate::slot::VALID;
use crate::{PageId, Position, SlotId};

/// Drivers begin the positions of an open at a multiple of this power of two.
const POSITIONS_OF_AN_OPEN_BITS: u32 = 36;

impl Slots<'_> {
    /// Begins to restore a partition that has just been formatted. `rear` is the next position to give out: a
    /// multiple of the group size, above those of all entries.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn restore_slots_begin(&mut self, rear: Position) {
        let Contents { staging, pages, .. } = &mut self.contents;
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
        let Self { contents, table } = self;
        let (directory, sets) = (&contents.pages.directory, contents.pages.sets);
        let possible = slot.0 < directory.slots
            && !directory.entry(slot.0).has(VALID)
            && directory.find(page).is_none()
            && (!table.in_sets || sets.of_page(page) == sets.of_slot(slot.0));
        if possible {
            table.occupy(contents, slot.0, page, dirty);
            contents.pages.lists.set_generation_byte(slot.0, position.0 as u8);
        }
        possible
    }

    /// Of what was restored in `slot`: the checksum of its page, if checksums are kept.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn restore_slot_proof(&mut self, slot: SlotId, proof: u32) {
        self.assert_slot(slot);
        self.contents.pages.directory.set_proof(slot.0, proof);
    }

    /// The disk has everything: pages that were restored as dirty were copied there since.
    pub fn restored_clean(&mut self) {
        self.contents.pages.directory.are_clean_now();
    }

    /// Ends the restore: all slots that were not named are free.
    pub fn restore_slots_end(&mut self) {
        let Self { contents, table } = self;
        table.rebuild_free(&mut contents.pages);
    }

    /// For policies with one list: the occupied slots with their pages, in eviction order, as
    /// [`Slots::restore_slot`] needs them.
    ///
    /// # Panics
    /// If the policy does not keep its pages in one list.
    pub fn slots_in_order(&self) -> impl Iterator<Item = (SlotId, PageId)> + '_ {
        assert_eq!(self.contents.config.lists(), 1, "the policy has no order of all its pages");
        let Pages { directory, lists, .. } = &self.contents.pages;
        let mut at = lists.next_of(lists.head(ONLY_LIST));
        std::iter::from_fn(move || {
            let slot = lists.slot(at)?;
            at = lists.next_of(slot);
            Some((SlotId(slot), directory.entry(slot).page()))
        })
    }

    /// The low byte of the number of the last write to `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn slot_generation(&self, slot: SlotId) -> u8 {
        self.assert_slot(slot);
        self.contents.pages.lists.generation_byte(slot.0)
    }

    /// As [`Partition::take_over`](crate::Partition::take_over).
    pub(crate) fn take_over(&mut self, old: &Slots<'_>) {
        let Config { slots, group_pages, .. } = self.contents.config;
        let rear = old.contents.staging.window.rear;
        self.restore_slots_begin(Position(rear.next_multiple_of(group_pages.into())));
        for slot in (0..slots).map(SlotId) {
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

    /// TAC: the temperatures of regions of pages, in the order of the table, to be kept on flash. Empty with
    /// other policies.
    pub fn temperatures(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        let memory = if let PolicyState::Tac(memory) = &self.contents.policy { Some(memory) } else { None };
        (0..memory.map_or(0, |memory| memory.places()))
            .map(move |place| memory.map_or(0, |memory| memory.at(place)))
    }

    /// TAC: restores the temperatures. To be called before any slot is restored.
    pub fn restore_temperatures(&mut self, temperatures: impl IntoIterator<Item = u32>) {
        let PolicyState::Tac(memory) = &mut self.contents.policy else { return };
        memory.restore(temperatures);
    }

    fn assert_slot(&self, slot: SlotId) {
        let slots = self.contents.pages.directory.slots;
        assert!(slot.0 < slots, "the cache has {slots} slots, and no {}", slot.0);
    }
}

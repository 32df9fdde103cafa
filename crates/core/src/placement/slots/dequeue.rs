//! Dequeues of slot placement: slots are emptied, and dirty pages copied to disk.

use super::batches::Batches;
use super::{SlotTable, Slots};
use crate::contents::Contents;
use crate::job::{BackgroundJob, CleanPage, DequeuePage, DequeuePages, Fate, Generation, Ticket};
use crate::pages::Pages;
use crate::policy::{Policy, SlotPolicy, ask, ask_slots};
use crate::slot::{BUSY, DIRTY, VALID};
use crate::{PageId, SlotId};

impl Slots<'_> {
    /// Begins to copy the dirty page in `slot` to disk. `None`: it is busy.
    pub(crate) fn clean(&mut self, slot: u32) -> Option<CleanPage> {
        let pages = &mut self.contents.pages;
        pages.directory.is_idle(slot).then(|| start_copy(pages, slot))
    }

    /// The page in `slot` is on disk.
    pub(crate) fn cleaned(&mut self, slot: u32) {
        let directory = &mut self.contents.pages.directory;
        directory.entry(slot).lower(BUSY | DIRTY);
        directory.counts.dirty -= 1;
    }

    /// The page in `slot` could not be copied to disk.
    pub(crate) fn clean_failed(&mut self, slot: u32) {
        self.contents.pages.directory.entry(slot).lower(BUSY);
    }

    /// The page of the dequeue `ticket` stays, dirty: the disk does not take it. The policy sees it leave and
    /// enter again, so that it is not the next victim.
    pub fn stays(&mut self, ticket: Ticket) {
        let Self { contents: Contents { pages, policy, .. }, table } = self;
        let slot = ticket.0;
        table.head.dequeuing -= 1;
        pages.directory.entry(slot).lower(BUSY);
        ask!(policy, P, memory => P::on_leave(pages, memory, slot));
        ask_slots!(policy, P, memory => P::on_enter(pages, memory, slot));
        table.dequeue_ends(slot);
    }

    /// The dirty pages in these slots, with the number of the last write to each slot, as far as that is
    /// known: a slot that is written again has another one.
    pub fn dirty_with_generation(
        &self,
        slots: std::ops::Range<u32>,
    ) -> impl Iterator<Item = (SlotId, PageId, u8)> + '_ {
        let Pages { directory, lists, .. } = &self.contents.pages;
        let slots = slots.start.min(directory.slots)..slots.end.min(directory.slots);
        let is_dirty = |slot: &u32| directory.entry(*slot).has(VALID) && directory.entry(*slot).has(DIRTY);
        slots
            .filter(is_dirty)
            .map(|slot| (SlotId(slot), directory.entry(slot).page(), lists.generation_byte(slot)))
    }

    /// The next dirty slot at or after `from`, to be cleaned. `Err` names a dirty slot with work under way:
    /// ask for it again when that is done. `None`: no dirty slot is left. For the checkpoint of a policy
    /// whose directory does not survive a crash.
    pub fn sweep(&mut self, from: SlotId) -> Option<Result<CleanPage, SlotId>> {
        let directory = &self.contents.pages.directory;
        let slot = (from.0..directory.slots).find(|slot| directory.entry(*slot).has(DIRTY))?;
        Some(self.clean(slot).ok_or(SlotId(slot)))
    }
}

impl SlotTable<'_> {
    /// Starts a dequeue or, if none is due, a cleaning.
    pub(crate) fn next_background(
        &mut self,
        contents: &mut Contents<'_>,
        pages: &mut DequeuePages,
    ) -> Option<BackgroundJob> {
        let dequeue = self
            .dequeue_ahead(contents)
            .or_else(|| if self.in_sets { self.dequeue_for_waiting(contents) } else { None });
        if let Some((slot, fate)) = dequeue {
            self.head.dequeuing += 1;
            let CleanPage { page, slot, generation } = start_copy(&mut contents.pages, slot);
            pages.push(DequeuePage { page: Some(page), slot, dirty: true, fate, generation });
            return Some(BackgroundJob::Dequeue { ticket: Ticket(slot.0), one_io: false });
        }
        let slot = ask_slots!(&mut contents.policy, P, memory => P::clean(&mut contents.pages, memory))?;
        Some(BackgroundJob::Clean(start_copy(&mut contents.pages, slot)))
    }

    /// The policy's victim when free slots are scarce. Clean victims are emptied at once, without I/O.
    fn dequeue_ahead(&mut self, contents: &mut Contents<'_>) -> Option<(u32, Fate)> {
        loop {
            let leaving = self.batches.as_deref().map_or(0, Batches::leaving);
            let Contents { pages, policy, decisions, .. } = contents;
            let slot = ask_slots!(policy, P, memory => {
                if self.head.free + self.head.dequeuing + leaving >= P::free_ahead(pages) {
                    return None;
                }
                P::victim(pages, memory)?
            });
            let fate = pages.fate_without_chance(slot);
            decisions.note((slot as u64) << 2 | fate as u64);
            if fate != Fate::Drop {
                return Some((slot, fate));
            }
            self.empty(contents, slot);
        }
    }

    /// The page in the slot of `ticket` is durable on disk.
    pub(crate) fn dequeued(&mut self, contents: &mut Contents<'_>, ticket: Ticket) {
        self.head.dequeuing -= 1;
        self.empty(contents, ticket.0);
        if self.batches.is_none() {
            self.dequeue_ends(ticket.0);
        }
    }
}

/// Describes the copy of `slot` to disk and marks the slot busy.
fn start_copy(pages: &mut Pages<'_>, slot: u32) -> CleanPage {
    let entry = pages.directory.entry(slot);
    entry.raise(BUSY);
    let page = entry.page();
    let generation = Generation::LowByte(pages.lists.generation_byte(slot));
    CleanPage { page, slot: SlotId(slot), generation }
}

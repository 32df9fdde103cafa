//! Slot placement in sets: a page may only be in a slot of the set that its number gives. So a page can wait
//! for a slot while others are free.
//!
//! Slots that survive a crash are free only when a durable summary calls them empty. So a set has some
//! ([`FREE_AHEAD`]) free ahead of demand: for each page that enters, one of the set leaves, in the same batch
//! if it is clean. A page finds its set without a free slot only if the pages that entered the set first are
//! dirty, or if more pages of one set come at once.

use super::SlotTable;
use super::write::{Place, is_overtaken, place_of};
use crate::PageId;
use crate::contents::Contents;
use crate::job::Fate;
use crate::pages::Pages;
use crate::policy::{SlotPolicy, ask_slots};
use crate::staging::FrameState;

/// Free slots that a full set keeps, if slots survive a crash: a thirty-second of a set of 512. A run of
/// sixteen consecutive pages, which are of one set, finds its slots in one batch.
const FREE_AHEAD: usize = 16;

impl SlotTable<'_> {
    /// Whether a slot is free in which the page at `position` may be.
    pub(super) fn has_free_for(&self, contents: &Contents<'_>, position: u64) -> bool {
        if !self.in_sets {
            return self.head.free > 0;
        }
        let frame = contents.staging.frame_of(position);
        let entry = contents.pages.directory.staged_entry(frame);
        has_free(&contents.pages, contents.pages.directory.entry(entry).page())
    }

    /// A page that was not on flash has taken a free slot of its set: the set's next victim leaves, if it is
    /// clean and few are free.
    pub(super) fn replace_in_set(&mut self, contents: &mut Contents<'_>, page: PageId) {
        let Contents { pages, policy, decisions, .. } = contents;
        let free = pages.sets.free_list(pages.sets.of_page(page));
        if pages.lists.slots_of(free).nth(FREE_AHEAD - 1).is_some() {
            return;
        }
        let Some(slot) = ask_slots!(policy, P, memory => P::victim_for(pages, memory, page)) else { return };
        if pages.fate_without_chance(slot) == Fate::Drop {
            decisions.note((slot as u64) << 2 | Fate::Drop as u64);
            self.empty(contents, slot);
        }
    }

    /// A page that blocks a staged one, and has no dequeue under way yet.
    pub(super) fn dequeue_for_waiting(&mut self, contents: &mut Contents<'_>) -> Option<(u32, Fate)> {
        contents.staging.positions().find_map(|position| self.dequeue_for(contents, position))
    }

    /// A dirty page that blocks the one at `position`. A clean one is emptied at once if it must leave before
    /// its slot is free; otherwise when the page is written.
    fn dequeue_for(&mut self, contents: &mut Contents<'_>, position: u64) -> Option<(u32, Fate)> {
        let frame = contents.staging.frame_of(position);
        if !self.waits_for_dequeue(contents, frame) {
            return None;
        }
        let Contents { pages, policy, decisions, .. } = contents;
        let page = pages.directory.entry(pages.directory.staged_entry(frame)).page();
        let slot = ask_slots!(policy, P, memory => P::victim_for(pages, memory, page))?;
        let fate = pages.fate_without_chance(slot);
        let drops = fate == Fate::Drop;
        if drops && self.batches.is_none() {
            return None;
        }
        decisions.note((slot as u64) << 2 | fate as u64);
        self.emptied_for[frame as usize] = slot + 1;
        if drops {
            self.empty(contents, slot);
            return None;
        }
        Some((slot, fate))
    }

    /// Whether the page in `frame` has no slot, its set has none, and none is being emptied for it.
    fn waits_for_dequeue(&self, contents: &Contents<'_>, frame: u32) -> bool {
        let directory = &contents.pages.directory;
        if !contents.staging.frame(frame).is(FrameState::Ready) || self.emptied_for[frame as usize] != 0 {
            return false;
        }
        let entry = directory.staged_entry(frame);
        if is_overtaken(directory, entry) || has_free(&contents.pages, directory.entry(entry).page()) {
            return false;
        }
        match place_of(directory, &contents.staging, entry) {
            Place::New => true,
            Place::Over(_) => self.batches.is_some(),
            Place::Busy => false,
        }
    }

    /// Whether a staged page may be waiting for a slot for which no dequeue has been started.
    pub(crate) fn waits_for_background(&self, contents: &Contents<'_>) -> bool {
        let mut frames = contents.staging.positions().map(|at| contents.staging.frame_of(at));
        match (self.in_sets, self.batches.is_some()) {
            (false, _) => self.batch_waits_for_background(contents),
            (true, true) => frames.any(|frame| self.waits_for_dequeue(contents, frame)),
            (true, false) => frames.any(|frame| {
                contents.staging.frame(frame).is(FrameState::Ready) && self.emptied_for[frame as usize] == 0
            }),
        }
    }

    /// No staged page waits for the dequeue of `slot` any more.
    pub(super) fn dequeue_ends(&mut self, slot: u32) {
        if self.in_sets {
            let waits = self.emptied_for.iter_mut().find(|emptied| **emptied == slot + 1);
            waits.into_iter().for_each(|emptied| *emptied = 0);
        }
    }
}

/// Whether the set of `page` has a free slot.
fn has_free(pages: &Pages<'_>, page: PageId) -> bool {
    pages.lists.first_of(pages.sets.free_list(pages.sets.of_page(page))).is_some()
}

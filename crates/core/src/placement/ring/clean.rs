//! Copies of dirty pages to disk out of turn, long before the front of the ring reaches them.
//!
//! No dequeue of a group begins while a page of it is copied, and no page is copied of which a dequeue under
//! way has a version. Groups are dequeued in order, and of the versions of a page only the newest on flash is
//! destaged. So two versions of a page are never on their way to disk at the same time, and a slot is not
//! released while it is read.

use super::Ring;
use crate::Position;
use crate::SlotId;
use crate::contents::Contents;
use crate::job::{CleanPage, Generation};
use crate::slot::{DIRTY, VALID};
use std::ops::Range;

/// Most cleanings under way at once in log placement.
pub const CLEANINGS_MAX: usize = 256;

impl Ring<'_> {
    /// Begins to copy the valid page in `slot`. `None`: not now.
    pub(crate) fn clean(&mut self, contents: &Contents<'_>, slot: u32) -> Option<CleanPage> {
        let (position, page) = (self.position_of(slot), contents.pages.directory.entry(slot).page());
        // The next group has its turn first, if that is due: copies of its pages could delay it for ever.
        let end = self.head.scan + if self.dequeue_is_due(contents) { self.group() } else { 0 };
        let is_leaving = position < end;
        // An older version is on its way to disk: it might follow this one there.
        let is_followed = self.is_being_dequeued(contents, (page, page), self.dequeues_begun());
        // Of this version, or of an older one.
        let is_begun = self.is_being_cleaned(contents, page, page);
        if is_leaving || is_followed || is_begun || self.head.cleaning as usize == CLEANINGS_MAX {
            return None;
        }
        self.head.cleanings[self.head.cleaning as usize] = position;
        self.head.cleaning += 1;
        Some(CleanPage { page, slot: SlotId(slot), generation: Generation::Exact(Position(position)) })
    }

    /// The copy is durable on disk.
    pub(crate) fn cleaned(&mut self, contents: &mut Contents<'_>, page: &CleanPage) {
        self.clean_ends(page);
        contents.decisions.note(!(page.page.0 << 2 | 3));
        let directory = &mut contents.pages.directory;
        let entry = directory.entry(page.slot.0).content();
        // Overtaken or forgotten meanwhile, it counts as dirty no longer.
        if entry.has(VALID) && entry.has(DIRTY) {
            directory.is_clean_now(page.slot.0);
        }
    }

    /// The copy ends, whether it is on disk or not.
    pub(crate) fn clean_ends(&mut self, page: &CleanPage) {
        let at = self.cleanings().iter().position(|position| page.generation.matches(Position(*position)));
        let at = at.expect("a cleaning that is reported is under way");
        self.head.cleaning -= 1;
        self.head.cleanings[at] = self.head.cleanings[self.head.cleaning as usize];
    }

    /// The positions of the pages that are being copied.
    pub(crate) fn cleanings(&self) -> &[u64] {
        &self.head.cleanings[..self.head.cleaning as usize]
    }

    /// Whether a page at one of these positions is being copied.
    pub(crate) fn is_any_cleaned(&self, positions: &Range<u64>) -> bool {
        self.cleanings().iter().any(|position| positions.contains(position))
    }
}

//! Forgetting in log placement: pages that are dead are not served any more, and are not found again after a
//! crash.
//!
//! A copy in the log cannot be removed. So a forgotten page leaves the index at once, and a *record* of it,
//! a range of pages and a position, waits here until the driver has written it to flash, with the summary of
//! a group. It says: copies of these pages at positions below are stale.
//!
//! A record names positions below the end of the group whose summary it is in. Were they beyond it, a crash
//! could take back the groups after that one, and their positions be given out again, to pages that live.
//!
//! What makes a dirty page dead (a write to disk, say) has a number of the driver's, `after`. Invariants:
//! - The driver writes a record only when everything up to its `after` is durable.
//! - A record is written with the last group that may hold a copy which it makes stale, or with a later one.
//!   So it is overwritten after these copies.
//! - A page that was dequeued may be found again by a restart that begins before its slot. So it is recorded,
//!   too, until the front is durable beyond that slot.
//! - No slot is released while a dirty page was forgotten whose `after` is not durable. Otherwise a crash
//!   could show neither the page nor what made it dead.

use super::{Log, Ring};
use crate::contents::Contents;
use crate::job::{FORGET_PAGES_MAX, Forget};
use crate::slot::{DIRTY, HELD, VALID};
use crate::{PageId, Position};
use std::ops::Range;

impl Log<'_> {
    /// For ranges longer than [`Partition::forget`](crate::Partition::forget) takes: makes the record of it.
    /// Gives the position below which copies are to be forgotten, by [`Log::forget_entries`] or
    /// [`Log::forget_below`]. `None`: too many records wait.
    ///
    /// `after` is not durable before they are forgotten: a page that got a second chance between two steps,
    /// when its record was on flash already, would live on.
    pub fn forget_begin(&mut self, first: PageId, last: PageId, after: u64) -> Option<Position> {
        self.contents.decisions.note(!(first.0 << 2 | 2));
        self.contents.decisions.note(last.0);
        let below = Position(self.contents.staging.window.rear);
        self.ring.head.deletions.make((first, last), below, after)
    }

    /// Forgets the copies below `below` of the pages from `first` to `last`, looking for each page of a part
    /// of the range, of at most [`FORGET_PAGES_MAX`] pages. The parts may come in any order.
    pub fn forget_below(&mut self, (first, last): (PageId, PageId), below: Position, after: u64) -> Forget {
        debug_assert!(last.0 - first.0 < FORGET_PAGES_MAX);
        let Self { contents, ring } = self;
        let (found, dirty) = ring.forget_each(contents, (first, last), below.0, after);
        let in_dequeue = ring.is_on_its_way(contents, (first, last), ring.dequeues_begun());
        Forget::Done { found, dirty, in_dequeue }
    }

    /// Forgets the copies below `below` of the pages from `first` to `last` that are in these entries of the
    /// directory, of which there are [`Partition::entries`](crate::Partition::entries). Between two calls the
    /// partition may be used, so the calls must go through the entries in ascending order.
    ///
    /// The frames come first, then the slots: a page that is published between two steps moves from its frame
    /// to a slot, so it is found in one or the other.
    ///
    /// # Panics
    /// If there are no such entries.
    pub fn forget_entries(
        &mut self,
        (first, last): (PageId, PageId),
        below: Position,
        after: u64,
        entries: Range<u32>,
    ) -> Forget {
        let Self { contents, ring } = self;
        let (mut found, mut dirty) = (0, 0);
        let directory = &contents.pages.directory;
        let (slots, frames) = (directory.slots, directory.entries() - directory.slots);
        for nth in entries {
            let at = if nth < frames { slots + nth } else { nth - frames };
            let entry = contents.pages.directory.entry(at).content();
            let is_staged = contents
                .pages
                .directory
                .frame_of(at)
                .is_some_and(|frame| contents.staging.frame(frame).holds_page());
            let is_wanted = (entry.has(VALID) || is_staged) && (first..=last).contains(&entry.page());
            if is_wanted && ring.is_below(contents, at, below.0) {
                found += 1;
                dirty += u32::from(entry.has(DIRTY));
                ring.forget_entry(contents, at);
            }
        }
        if dirty > 0 {
            ring.head.deletions.dirty_page(after);
        }
        let in_dequeue = ring.is_on_its_way(contents, (first, last), ring.dequeues_begun());
        Forget::Done { found, dirty, in_dequeue }
    }

    /// Drops the copies in these entries of the directory that `is_dead` names. The driver has a table of
    /// what is dead, which is durable by itself, and sees to it that a crash does not bring them back
    /// ([`Log::next_dequeue`]): no record is made. Returns how many were dropped.
    pub fn drop_dead(
        &mut self,
        entries: Range<u32>,
        mut is_dead: impl FnMut(PageId, Position) -> bool,
    ) -> u32 {
        let Self { contents, ring } = self;
        let mut dropped = 0;
        for at in entries {
            let directory = &contents.pages.directory;
            let entry = directory.entry(at).content();
            let is_staged =
                directory.frame_of(at).is_some_and(|frame| contents.staging.frame(frame).holds_page());
            if (entry.has(VALID) || is_staged) && is_dead(entry.page(), ring.position_at(contents, at)) {
                ring.forget_entry(contents, at);
                dropped += 1;
            }
        }
        dropped
    }

    /// As [`Log::drop_dead`], of the copies of one page: to be asked before the page enters again.
    pub fn drop_dead_copies(
        &mut self,
        page: PageId,
        mut is_dead: impl FnMut(PageId, Position) -> bool,
    ) -> u32 {
        self.ring.forget_versions(&mut self.contents, page, |ring, contents, entry| {
            is_dead(page, ring.position_at(contents, entry))
        })
    }

    /// Whether these pages may be written to disk past the flash now: there is no copy of them, none is on
    /// its way to disk, and no crash finds one. Otherwise they are forgotten first.
    pub fn may_go_past(&self, first: PageId, last: PageId) -> bool {
        let Self { contents, ring } = self;
        let is_absent = |page| contents.pages.directory.find(page).is_none();
        (first.0..=last.0).map(PageId).all(is_absent)
            && !ring.is_on_its_way(contents, (first, last), ring.dequeues_begun())
            && !self.may_come_back(first, last)
            && !ring.may_return(contents, first, last)
    }

    /// Whether an older version of one of these pages may be on its way to disk, but for dequeues that have
    /// begun since [`Log::dequeues_begun`] was `begun`.
    pub fn is_in_dequeue(&self, first: PageId, last: PageId, begun: Position) -> bool {
        self.ring.is_on_its_way(&self.contents, (first, last), begun)
    }
}

impl Ring<'_> {
    /// Forgets the pages from `first` to `last`, one by one.
    pub(crate) fn forget_pages(
        &mut self,
        contents: &mut Contents<'_>,
        (first, last): (PageId, PageId),
        after: u64,
    ) -> Forget {
        if self.head.deletions.are_full() {
            return Forget::Full;
        }
        let (found, dirty) = self.forget_each(contents, (first, last), contents.staging.window.rear, after);
        if found > 0 || self.may_return(contents, first, last) {
            contents.decisions.note(!(first.0 << 2 | 3));
            contents.decisions.note(last.0);
            let below = Position(contents.staging.window.rear);
            self.head.deletions.make((first, last), below, after).expect("there is room for a record");
        }
        let in_dequeue = self.is_on_its_way(contents, (first, last), self.dequeues_begun());
        Forget::Done { found, dirty, in_dequeue }
    }

    /// Of how many of these pages there was a copy, and a dirty one.
    fn forget_each(
        &mut self,
        contents: &mut Contents<'_>,
        (first, last): (PageId, PageId),
        below: u64,
        after: u64,
    ) -> (u32, u32) {
        let (mut found, mut dirty) = (0, 0);
        for page in (first.0..=last.0).map(PageId) {
            let (copies, is_dirty) = self.forget_page(contents, page, below);
            found += u32::from(copies);
            dirty += u32::from(is_dirty);
        }
        if dirty > 0 {
            self.head.deletions.dirty_page(after);
        }
        (found, dirty)
    }

    /// Whether a crash may find a copy of one of the pages in a slot that is released: nothing else was
    /// written there, and the restart may begin before it.
    pub(super) fn may_return(&self, contents: &Contents<'_>, first: PageId, last: PageId) -> bool {
        let slots = u64::from(self.slots);
        let oldest = self.head.front_durable.max(self.head.released.saturating_sub(slots));
        (oldest..self.head.released).any(|position| {
            let page = contents.pages.directory.entry((position % slots) as u32).page();
            (first..=last).contains(&page)
        })
    }

    /// Whether there was a copy of `page`, and whether one was dirty.
    pub(super) fn forget_page(
        &mut self,
        contents: &mut Contents<'_>,
        page: PageId,
        below: u64,
    ) -> (bool, bool) {
        let mut dirty = false;
        let found = self.forget_versions(contents, page, |ring, contents, entry| {
            let is_below = ring.is_below(contents, entry, below);
            dirty |= is_below && contents.pages.directory.entry(entry).has(DIRTY);
            is_below
        });
        (found > 0, dirty)
    }

    /// Forgets the versions of `page` that `is_wanted` names, the newest first. A reader without the latch
    /// sees none of them leave before the others. Returns their number.
    fn forget_versions(
        &mut self,
        contents: &mut Contents<'_>,
        page: PageId,
        mut is_wanted: impl FnMut(&Self, &Contents<'_>, u32) -> bool,
    ) -> u32 {
        let Some(newest) = contents.pages.directory.find(page) else { return 0 };
        let index = contents.pages.directory.index;
        let bucket = index.bucket_of(page);
        let (mut at, mut forgotten) = (Some(newest), 0);
        index.change(bucket, || {
            while let Some(entry) = at {
                at = contents.pages.directory.find_older(entry);
                if is_wanted(self, contents, entry) {
                    self.forget_entry(contents, entry);
                    forgotten += 1;
                }
            }
        });
        forgotten
    }

    /// A page that gets a second chance would move beyond the position below which it is to be forgotten. If
    /// the steps that forget it have not come to `slot` yet, it is forgotten now. False: it is not forgotten.
    pub(super) fn forget_before_its_turn(&mut self, contents: &mut Contents<'_>, slot: u32) -> bool {
        let (entry, position) = (contents.pages.directory.entry(slot).content(), self.position_of(slot));
        let Some(after) = self.head.deletions.cause_of(entry.page(), position) else { return false };
        if entry.has(DIRTY) {
            self.head.deletions.dirty_page(after);
        }
        self.forget_entry(contents, slot);
        true
    }

    fn position_at(&self, contents: &Contents<'_>, at: u32) -> Position {
        match contents.pages.directory.frame_of(at) {
            Some(frame) => contents.staging.frame(frame).position,
            None => Position(self.position_of(at)),
        }
    }

    pub(super) fn is_below(&self, contents: &Contents<'_>, at: u32, below: u64) -> bool {
        self.position_at(contents, at).0 < below
    }

    /// A staged page is struck out; its frame only fills up its group. A page in a slot is superseded.
    pub(super) fn forget_entry(&mut self, contents: &mut Contents<'_>, at: u32) {
        let directory = &mut contents.pages.directory;
        if directory.bases.are_kept() && directory.entry(at).has(DIRTY) {
            directory.bases.forget(at);
        }
        match contents.pages.directory.frame_of(at) {
            Some(frame) => {
                let group = self.groups[(frame / self.group_pages) as usize];
                let flushed = frame % self.group_pages < group.flushed.max(group.flushing);
                contents.staging.frame_mut(frame).strike_out(flushed);
                match flushed {
                    // A crash finds it until its record is durable: it is named until then.
                    true => contents.pages.directory.unlink_staged(at),
                    false => contents.pages.directory.unstage(at),
                }
            }
            None => self.supersede(contents, at),
        }
    }

    /// Whether an older version of one of the pages may be on its way to disk: by a cleaning, or by the
    /// dequeue of a group before `end`.
    fn is_on_its_way(&self, contents: &Contents<'_>, (first, last): (PageId, PageId), end: Position) -> bool {
        self.is_being_cleaned(contents, first, last) || self.is_being_dequeued(contents, (first, last), end)
    }

    /// Whether a dequeue under way, of a group before `end`, has a version of one of the pages.
    pub(super) fn is_being_dequeued(
        &self,
        contents: &Contents<'_>,
        (first, last): (PageId, PageId),
        end: Position,
    ) -> bool {
        let dequeues = self.head.dequeues.iter();
        let under_way = dequeues.filter(|dequeue| dequeue.is_under_way() && dequeue.first < end.0);
        under_way.flat_map(|dequeue| dequeue.first..dequeue.first + self.group()).any(|position| {
            let entry = contents.pages.directory.entry(self.slot_of(position));
            entry.has(HELD) && (first..=last).contains(&entry.page())
        })
    }

    /// Whether a version of one of the pages is being copied to disk out of turn.
    pub(super) fn is_being_cleaned(&self, contents: &Contents<'_>, first: PageId, last: PageId) -> bool {
        self.cleanings().iter().any(|position| {
            let entry = contents.pages.directory.entry(self.slot_of(*position));
            (first..=last).contains(&entry.page())
        })
    }
}

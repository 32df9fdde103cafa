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

use super::Ring;
use crate::contents::Contents;
use crate::job::{Forget, Forgotten, Ticket};
use crate::slot::{DIRTY, HELD, VALID};
use crate::{PageId, Position};
use std::ops::Range;

/// Records that may wait.
pub(crate) const FORGOTTEN_MAX: u32 = 64;

impl Ring<'_> {
    fn waiting(&self) -> u64 {
        self.head.forgotten_next - self.head.forgotten_first
    }

    /// Whether there is no room for another record.
    pub(crate) fn records_are_full(&self) -> bool {
        self.waiting() == FORGOTTEN_MAX as u64
    }

    /// Notes that copies of `pages` below the present rear are stale. `None`: too many records wait.
    pub(crate) fn record(
        &mut self,
        contents: &Contents<'_>,
        pages: (PageId, PageId),
        after: u64,
    ) -> Option<Position> {
        let below = Position(contents.staging.window.rear);
        let (first, last) = pages;
        // The next range after the newest record, with no page in between: one record.
        let newest = (self.head.forgotten_next % FORGOTTEN_MAX as u64 + FORGOTTEN_MAX as u64 - 1) as usize
            % FORGOTTEN_MAX as usize;
        let record = &mut self.head.forgotten[newest];
        let follows = record.last.0.checked_add(1) == Some(first.0) && record.first.object() == last.object();
        if self.head.forgotten_next > self.head.forgotten_sealed
            && follows
            && record.below == below
            && record.after == after
        {
            record.last = last;
            return Some(below);
        }
        if self.records_are_full() {
            return None;
        }
        let at = (self.head.forgotten_next % FORGOTTEN_MAX as u64) as usize;
        self.head.forgotten[at] = Forgotten { first, last, below, after };
        self.head.forgotten_next += 1;
        Some(below)
    }

    /// Forgets the pages from `first` to `last`, one by one.
    pub(crate) fn forget_pages(
        &mut self,
        contents: &mut Contents<'_>,
        (first, last): (PageId, PageId),
        after: u64,
    ) -> Forget {
        if self.records_are_full() {
            return Forget::Full;
        }
        let (found, dirty) = self.forget_each(contents, (first, last), contents.staging.window.rear, after);
        if found > 0
            || self.may_return(contents, first, last) && !crate::mutant!("dequeued-page-not-recorded")
        {
            contents.decisions.note(!(first.0 << 2 | 3));
            contents.decisions.note(last.0);
            self.record(contents, (first, last), after).expect("there is room for a record");
        }
        let in_dequeue = self.is_on_its_way(contents, (first, last), self.dequeues_begun());
        Forget::Done { found, dirty, in_dequeue }
    }

    /// Forgets the copies below `below` of the pages from `first` to `last`, one by one. The record was made
    /// before.
    pub(crate) fn forget_below(
        &mut self,
        contents: &mut Contents<'_>,
        (first, last): (PageId, PageId),
        below: Position,
        after: u64,
    ) -> Forget {
        let (found, dirty) = self.forget_each(contents, (first, last), below.0, after);
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
            self.head.dead_after = self.head.dead_after.max(after);
        }
        (found, dirty)
    }

    /// Forgets the copies below `below` of the pages from `first` to `last` that are in `entries`. The record
    /// was made before.
    ///
    /// The frames come first, then the slots: a page that is published between two steps moves from its frame
    /// to a slot, so it is found in one or the other.
    pub(crate) fn forget_entries(
        &mut self,
        contents: &mut Contents<'_>,
        (first, last): (PageId, PageId),
        below: Position,
        after: u64,
        entries: Range<u32>,
    ) -> Forget {
        let (mut found, mut dirty) = (0, 0);
        let directory = &contents.pages.directory;
        let (slots, frames) = (directory.slots, directory.entries.len() as u32 - directory.slots);
        for nth in entries {
            let at = if crate::mutant!("slots-forgotten-before-frames") {
                nth
            } else if nth < frames {
                slots + nth
            } else {
                nth - frames
            };
            let entry = *contents.pages.directory.entry(at);
            let is_staged = contents
                .pages
                .directory
                .frame_of(at)
                .is_some_and(|frame| contents.staging.frame(frame).holds_page());
            let is_wanted = (entry.has(VALID) || is_staged) && (first..=last).contains(&entry.page());
            if is_wanted && self.is_below(contents, at, below.0) {
                found += 1;
                dirty += u32::from(entry.has(DIRTY));
                self.forget_entry(contents, at);
            }
        }
        if dirty > 0 {
            self.head.dead_after = self.head.dead_after.max(after);
        }
        let in_dequeue = self.is_on_its_way(contents, (first, last), self.dequeues_begun());
        Forget::Done { found, dirty, in_dequeue }
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

    /// All positions below `front` are released, and that is durable. (When a cache is given up, more are
    /// durably gone than were released.)
    pub(crate) fn front_is_durable(&mut self, front: Position) {
        self.head.front_durable = self.head.front_durable.max(front.0.min(self.head.released));
    }

    /// Whether there was a copy of `page`, and whether one was dirty.
    fn forget_page(&mut self, contents: &mut Contents<'_>, page: PageId, below: u64) -> (bool, bool) {
        let (mut found, mut dirty) = (false, false);
        let mut at = contents.pages.directory.find(page);
        while let Some(entry) = at {
            at = contents.pages.directory.find_older(entry);
            let is_staged = contents.pages.directory.frame_of(entry).is_some();
            let is_left = found && is_staged && crate::mutant!("forget-leaves-older-staged-copy");
            if self.is_below(contents, entry, below) && !is_left {
                found = true;
                dirty |= contents.pages.directory.entry(entry).has(DIRTY);
                self.forget_entry(contents, entry);
            }
        }
        (found, dirty)
    }

    /// A page that gets a second chance would move beyond the position below which it is to be forgotten. If
    /// the steps that forget it have not come to `slot` yet, it is forgotten now. False: it is not forgotten.
    pub(super) fn forget_before_its_turn(&mut self, contents: &mut Contents<'_>, slot: u32) -> bool {
        let (entry, position) = (*contents.pages.directory.entry(slot), self.position_of(slot));
        let numbers = self.head.forgotten_first..self.head.forgotten_next;
        let waiting = numbers.map(|number| &self.head.forgotten[(number % FORGOTTEN_MAX as u64) as usize]);
        let of_page = waiting.filter(|record| (record.first..=record.last).contains(&entry.page()));
        let of_copy =
            of_page.filter(|r| position < r.below.0 && !crate::mutant!("second-chance-outruns-record"));
        let Some(after) = of_copy.map(|record| record.after).max() else {
            return false;
        };
        if entry.has(DIRTY) {
            self.head.dead_after = self.head.dead_after.max(after);
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

    /// Whether a record that is not durable names `page`.
    pub(super) fn is_being_forgotten(&self, page: PageId) -> bool {
        let mut numbers = self.head.forgotten_first..self.head.forgotten_next;
        numbers.any(|number| {
            let record = &self.head.forgotten[(number % FORGOTTEN_MAX as u64) as usize];
            (record.first..=record.last).contains(&page)
        })
    }

    fn is_below(&self, contents: &Contents<'_>, at: u32, below: u64) -> bool {
        self.position_at(contents, at).0 < below
    }

    /// Drops the copies in `entries` that the driver's own table calls dead. Returns how many. No record is
    /// made: that table is durable by itself.
    pub(crate) fn drop_dead(
        &mut self,
        contents: &mut Contents<'_>,
        entries: Range<u32>,
        mut is_dead: impl FnMut(PageId, Position) -> bool,
    ) -> u32 {
        let mut dropped = 0;
        for at in entries {
            let directory = &contents.pages.directory;
            let entry = *directory.entry(at);
            let is_staged =
                directory.frame_of(at).is_some_and(|frame| contents.staging.frame(frame).holds_page());
            if (entry.has(VALID) || is_staged) && is_dead(entry.page(), self.position_at(contents, at)) {
                self.forget_entry(contents, at);
                dropped += 1;
            }
        }
        dropped
    }

    /// As [`Ring::drop_dead`], of the copies of one page.
    pub(crate) fn drop_dead_copies(
        &mut self,
        contents: &mut Contents<'_>,
        page: PageId,
        mut is_dead: impl FnMut(PageId, Position) -> bool,
    ) -> u32 {
        let mut dropped = 0;
        let mut at = contents.pages.directory.find(page);
        while let Some(entry) = at {
            at = contents.pages.directory.find_older(entry);
            if is_dead(page, self.position_at(contents, entry)) {
                self.forget_entry(contents, entry);
                dropped += 1;
            }
        }
        dropped
    }

    /// The slots of the group that is dequeued next.
    pub(crate) fn next_dequeue(&self) -> Range<u32> {
        let first = self.slot_of(self.head.scan);
        first..first + self.group_pages
    }

    /// A staged page is struck out; its frame only fills up its group. A page in a slot is superseded.
    fn forget_entry(&mut self, contents: &mut Contents<'_>, at: u32) {
        match contents.pages.directory.frame_of(at) {
            Some(frame) => {
                let group = self.groups[(frame / self.group_pages) as usize];
                let flushed = frame % self.group_pages < group.flushed.max(group.flushing);
                contents.staging.frame_mut(frame).strike_out(flushed);
                match flushed && !crate::mutant!("flushed-page-not-in-segment") {
                    // A crash finds it until its record is durable: it is named until then.
                    true => contents.pages.directory.unlink(at),
                    false => contents.pages.directory.unstage(at),
                }
            }
            None => self.supersede(contents, at),
        }
    }

    /// Whether an older version of one of the pages may be on its way to disk: by a cleaning, or by the
    /// dequeue of a group before `end`.
    pub(crate) fn is_on_its_way(
        &self,
        contents: &Contents<'_>,
        (first, last): (PageId, PageId),
        end: Position,
    ) -> bool {
        let is_being_cleaned =
            self.is_being_cleaned(contents, first, last) && !crate::mutant!("forget-ignores-cleanings");
        is_being_cleaned || self.is_being_dequeued(contents, (first, last), end)
    }

    /// The dequeues that have begun are of groups before this position.
    pub(crate) fn dequeues_begun(&self) -> Position {
        Position(self.head.scan)
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
        let under_way = &self.head.cleanings[..self.head.cleaning as usize];
        under_way.iter().any(|position| {
            let entry = contents.pages.directory.entry(self.slot_of(*position));
            (first..=last).contains(&entry.page())
        })
    }

    /// The records that wait, oldest first, for the summary of the group of the write `ticket`; with the
    /// number after the last of them. They are not extended any more.
    ///
    /// They end before the first one whose `after` is beyond `durable`, or whose copies may be in a later
    /// group than this one: such a copy would stay on flash when the summary is overwritten.
    pub(crate) fn records(
        &mut self,
        contents: &Contents<'_>,
        ticket: Ticket,
        durable: u64,
    ) -> (impl Iterator<Item = Forgotten> + '_, u64) {
        let group_end = contents.staging.frame(ticket.0 * self.group_pages).position.0 + self.group();
        let (first, next) = (self.head.forgotten_first, self.head.forgotten_next);
        let at = |number: u64| (number % FORGOTTEN_MAX as u64) as usize;
        let waits_longer = |number: &u64| {
            let record = &self.head.forgotten[at(*number)];
            let is_late = record.below.0 > group_end && !crate::mutant!("record-before-its-copies");
            record.after > durable || is_late
        };
        let end = (first..next).find(waits_longer).unwrap_or(next);
        self.head.forgotten_sealed = self.head.forgotten_sealed.max(end);
        let forgotten = &self.head.forgotten;
        let rear = Position(contents.staging.window.rear);
        let record = move |number: u64| match forgotten[at(number)] {
            record if crate::mutant!("record-below-is-the-rear-now") => Forgotten { below: rear, ..record },
            record => record,
        };
        ((first..end).map(record), end)
    }

    /// The oldest record that is not durable.
    pub(crate) fn oldest_record(&self) -> Option<&Forgotten> {
        let first = (self.head.forgotten_first % FORGOTTEN_MAX as u64) as usize;
        (self.waiting() > 0).then(|| &self.head.forgotten[first])
    }

    /// All records before number `end` are durable on flash.
    pub(crate) fn recorded(&mut self, end: u64) {
        self.head.forgotten_first = self.head.forgotten_first.max(end);
    }

    /// Everything up to `after` is durable.
    pub(crate) fn dead_is_durable(&mut self, contents: &mut Contents<'_>, after: u64) {
        self.head.dead_durable = self.head.dead_durable.max(after);
        self.release(contents);
    }

    /// Whether forgotten dirty pages keep slots from being released.
    pub(crate) fn awaits_dead(&self) -> bool {
        self.head.dead_after > self.head.dead_durable
    }

    /// A restart finds a record: copies that were restored so far and are below its position are stale.
    pub(crate) fn restore_forget(&mut self, contents: &mut Contents<'_>, record: &Forgotten) {
        let Forgotten { first, last, below, .. } = *record;
        let slots = contents.pages.directory.slots;
        if last.0 - first.0 < slots as u64 {
            for page in (first.0..=last.0).map(PageId) {
                self.forget_page(contents, page, below.0);
            }
            return;
        }
        for slot in 0..slots {
            let entry = contents.pages.directory.entry(slot);
            let is_wanted = entry.has(VALID) && (first..=last).contains(&entry.page());
            if is_wanted && self.is_below(contents, slot, below.0) {
                self.forget_entry(contents, slot);
            }
        }
    }
}

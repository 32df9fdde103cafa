//! Writes of log placement: staged groups are written to flash, and their pages become the valid versions.

use super::{Group, Log, Ring};
use crate::contents::Contents;
use crate::job::{Flush, FrameId, Ticket, WriteJob, WritePage, WritePages};
use crate::policy::{Policy, ask};
use crate::slot::{DIRTY, HELD};
use crate::staging::{FrameState, Staging};
use crate::{Position, SlotId};
use std::ops::Range;

impl Log<'_> {
    /// What the write `ticket`, which is under way, flushes; `None`: nothing.
    pub fn flush_of(&self, ticket: Ticket) -> Option<Flush> {
        let group = self.ring.groups[ticket.0 as usize];
        let frame = ticket.0 * self.ring.group_pages;
        let first = self.contents.staging.frame(frame).position;
        let Group { flushed, flushing, .. } = group;
        (flushing != 0).then_some(Flush { first, frame: FrameId(frame), upto: flushing, flushed })
    }

    /// Places of the group of the write `ticket` that were flushed before.
    pub fn flushed_places(&self, ticket: Ticket) -> u32 {
        self.ring.groups[ticket.0 as usize].flushed
    }

    /// Which pages a summary of the group that starts at `first`, and is in staging, names: bit `i` is that
    /// at position `first + i`. These are the pages that are neither missing nor forgotten, and those that
    /// were flushed before they were forgotten: until their record is durable, they may be all that a crash
    /// leaves.
    pub fn staged_pages(&self, first: Position) -> u128 {
        let staging = &self.contents.staging;
        let end = (first.0 + u64::from(staging.group_pages)).min(staging.window.rear);
        let is_named = |position: &u64| staging.at(*position).is_named();
        (first.0..end).filter(is_named).fold(0, |set, at| set | 1 << (at - first.0))
    }
}

impl Ring<'_> {
    /// Whether the group of `frame` is full, or may be written page by page, or a flush waits for this frame:
    /// it may have begun before the frame was filled, when there was nothing to write.
    pub(crate) fn write_due(&self, staging: &Staging<'_>, frame: u32) -> bool {
        let group = self.groups[(frame / self.group_pages) as usize];
        !self.by_group
            || group.ready == self.group_pages
            || self.head.flush_to > staging.frame(frame).position.0
    }

    /// Whether the group of `frame` is full, or may be written page by page, or a flush waits for more of it.
    pub(crate) fn another_write_due(&self, staging: &Staging<'_>, frame: u32) -> bool {
        let group = self.groups[(frame / self.group_pages) as usize];
        let first = staging.frame(frame / self.group_pages * self.group_pages).position.0;
        let is_full = group.ready == self.group_pages;
        !self.by_group || is_full || self.head.flush_to > first + u64::from(group.flushed)
    }

    /// Starts the write of the oldest full group, or page by page the write of the ready pages of a group, or
    /// a flush.
    pub(crate) fn write_job(
        &mut self,
        contents: &mut Contents<'_>,
        pages: &mut WritePages,
    ) -> Option<WriteJob> {
        let staging = &contents.staging;
        let mut first = staging.window.front;
        while first < staging.window.rear {
            let at = (staging.frame_of(first) / self.group_pages) as usize;
            let group = self.groups[at];
            let from = first + group.issued as u64;
            let after = first + self.group();
            let full = group.ready == self.group_pages;
            let ready = |p: u64| p < staging.window.rear && staging.at(p).is(FrameState::Ready);
            if group.writing == 0 && group.flushing == 0 && group.issued < self.group_pages {
                let end = (from..after).find(|p| !ready(*p)).unwrap_or(after);
                let flushes = !(full && end == after) && self.flush_is_due(&group, first, end);
                if (full || !self.by_group) && end > from || flushes {
                    return Some(self.write_run(contents, at, (first, from..end), flushes, pages));
                }
            }
            first = after;
        }
        self.confirmation(contents, pages)
    }

    /// Whether the group that starts at `first`, of which everything before `end` is or can be written, is to
    /// be flushed.
    fn flush_is_due(&self, group: &Group, first: u64, end: u64) -> bool {
        let wanted = self.head.flush_to.min(first + self.group());
        wanted > first + group.flushed as u64 && end >= wanted
    }

    /// From now on everything staged so far is written, and is [flushed](Self::flushed) in the end. Gives the
    /// position up to which that is, `None` if records of forgotten pages wait and there is no room for the
    /// group that takes them.
    pub(crate) fn flush(&mut self, contents: &mut Contents<'_>) -> Option<Position> {
        let is_nothing = self.flushed(contents) == contents.staging.window.rear;
        if is_nothing && self.head.deletions.wait() > 0 {
            // A summary takes the records, and a summary has a group. Positions that are held back for second
            // chances stay so.
            if !self.takes_one(&contents.staging) {
                return None;
            }
            let frame = contents.staging.pad();
            self.staged(frame.0);
        }
        self.head.flush_to = contents.staging.window.rear;
        Some(Position(self.head.flush_to))
    }

    /// Everything below this position is durable.
    pub(crate) fn flushed(&self, contents: &Contents<'_>) -> u64 {
        let staging = &contents.staging;
        let mut first = staging.window.front;
        while first < staging.window.rear {
            let frame = staging.frame_of(first);
            if !staging.frame(frame).is(FrameState::Done) {
                let group = self.groups[(frame / self.group_pages) as usize];
                return first + group.flushed as u64;
            }
            first += self.group();
        }
        staging.window.rear
    }

    fn write_run(
        &mut self,
        contents: &mut Contents<'_>,
        at: usize,
        (first, run): (u64, Range<u64>),
        flushes: bool,
        pages: &mut WritePages,
    ) -> WriteJob {
        let upto = (run.end - first) as u32;
        let directory = &contents.pages.directory;
        for position in run {
            let frame = contents.staging.frame_of(position);
            let staged = contents.staging.frame_mut(frame);
            staged.set(FrameState::Writing);
            let entry = directory.entry(directory.staged_entry(frame));
            pages.push(WritePage {
                page: (!staged.is_padding()).then(|| entry.page()),
                slot: SlotId(self.slot_of(position)),
                position: Position(position),
                stamp: Position(position),
                frame: FrameId(frame),
                dirty: entry.has(DIRTY),
                lsn: staged.lsn,
            });
        }
        let group = &mut self.groups[at];
        group.issued += pages.len() as u32;
        group.writing = u32::from(!pages.is_empty());
        let completes_group = group.issued == self.group_pages && !pages.is_empty();
        if flushes && !completes_group {
            group.flushing = upto;
        }
        WriteJob { ticket: Ticket(at as u32), one_io: self.by_group, completes_group }
    }

    pub(crate) fn written(&mut self, contents: &mut Contents<'_>, ticket: Ticket, pages: &[WritePage]) {
        for page in pages {
            contents.staging.frame_mut(page.frame.0).set(FrameState::Written);
        }
        let group = &mut self.groups[ticket.0 as usize];
        group.written += pages.len() as u32;
        group.writing = 0;
        if group.flushing != 0 {
            // Its summary says how far the group was flushed before.
            group.confirmed = group.flushed;
            group.flushed = std::mem::take(&mut group.flushing);
        }
        if group.written < self.group_pages {
            return; // written, but not durable before the group is complete
        }
        *group = Group::default();
        let first = pages[0].position.0 / self.group() * self.group();
        for position in first..first + self.group() {
            self.publish(contents, position);
        }
        self.retire_groups(contents);
        self.release(contents);
    }

    /// Frees the frames of groups that are durable together with all groups before them. Dequeues no longer
    /// wait for the pages of these groups.
    fn retire_groups(&mut self, contents: &mut Contents<'_>) {
        let staging = &mut contents.staging;
        let front = staging.window.front;
        let first = staging.frame_of(front) as usize;
        staging.retire(self.group());
        for nth in 0..(staging.window.front - front) as usize {
            let frame = (first + nth) % self.awaited_by.len();
            let awaiting = std::mem::take(&mut self.awaited_by[frame]);
            if awaiting != 0 {
                self.head.dequeues[awaiting as usize - 1].pending -= 1;
            }
        }
    }

    /// Makes a page that is now durable on flash the version that is served from there.
    fn publish(&mut self, contents: &mut Contents<'_>, position: u64) {
        let frame = contents.staging.frame_of(position);
        let staged = contents.staging.frame_mut(frame);
        staged.set(FrameState::Done);
        let directory = &mut contents.pages.directory;
        let (at, slot) = (directory.staged_entry(frame), self.slot_of(position));
        if staged.is_padding() {
            let entry = directory.entry(at).content();
            match staged.was_flushed() {
                // Forgotten, but found by a crash until the record of that is durable: superseded.
                true => {
                    directory.carry_proof(at, slot);
                    directory.entry(slot).set(entry.page(), HELD | entry.flags(DIRTY));
                    directory.entry(at).clear();
                    self.head.superseded += 1;
                }
                false => directory.entry(slot).clear(),
            }
            return;
        }
        let entry = directory.entry(at).content();
        directory.carry_proof(at, slot);
        let on_flash = directory.find_on_flash(entry.page());
        if on_flash.is_some_and(|on_flash| self.position_of(on_flash) > position) {
            // A newer version was written by a job that ended earlier, so this version is superseded at once.
            directory.unstage(at);
            directory.entry(slot).set(entry.page(), HELD | entry.flags(DIRTY));
            self.head.superseded += 1;
            return;
        }
        if let Some(older) = on_flash {
            self.supersede(contents, older);
        }
        contents.pages.directory.settle(at, slot, HELD | entry.flags(DIRTY));
        ask!(&mut contents.policy, P, memory => P::on_carry(memory, at, slot));
    }
}

//! Staged groups go to flash, and their pages become the valid versions.

use super::{Group, Ring};
use crate::contents::Contents;
use crate::job::{FrameId, Ticket, Write, WritePage, WritePages};
use crate::slot::{DIRTY, HELD, REFERENCED};
use crate::staging::FrameState;
use crate::{Position, SlotId};
use std::ops::Range;

impl Ring<'_> {
    /// Whether the group of `frame` is full, or may be written page by page.
    pub(crate) fn write_due(&self, frame: u32) -> bool {
        let group = self.groups[(frame / self.group_pages) as usize];
        !self.by_group || group.ready == self.group_pages
    }

    /// Starts the write of the oldest group that is full, or page by page of what is ready of one.
    pub(crate) fn write_job(&mut self, contents: &mut Contents<'_>, pages: &mut WritePages) -> Option<Write> {
        let staging = &contents.staging;
        let mut first = staging.window.front;
        while first < staging.window.rear {
            let at = (staging.frame_of(first) / self.group_pages) as usize;
            let group = self.groups[at];
            let from = first + group.issued as u64;
            let after = first + self.group();
            let full = group.ready == self.group_pages;
            let ready = |p: u64| p < staging.window.rear && staging.at(p).is(FrameState::Ready);
            if group.writing == 0
                && group.issued < self.group_pages
                && (full || !self.by_group)
                && ready(from)
            {
                let end = (from..after).find(|p| !ready(*p)).unwrap_or(after);
                return Some(self.write_run(contents, at, from..end, pages));
            }
            first = after;
        }
        None
    }

    fn write_run(
        &mut self,
        contents: &mut Contents<'_>,
        at: usize,
        run: Range<u64>,
        pages: &mut WritePages,
    ) -> Write {
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
        group.writing = 1;
        let completes_group = group.issued == self.group_pages;
        Write { ticket: Ticket(at as u32), one_io: self.by_group, completes_group }
    }

    pub(crate) fn written(&mut self, contents: &mut Contents<'_>, ticket: Ticket, pages: &[WritePage]) {
        for page in pages {
            contents.staging.frame_mut(page.frame.0).set(FrameState::Written);
        }
        let group = &mut self.groups[ticket.0 as usize];
        group.written += pages.len() as u32;
        group.writing = 0;
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

    /// Frees the frames of groups that are durable with all before them. The dequeues that waited for their
    /// pages do so no more.
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

    /// Makes a page that is now durable on flash the one that is served from there.
    fn publish(&mut self, contents: &mut Contents<'_>, position: u64) {
        let frame = contents.staging.frame_of(position);
        let staged = contents.staging.frame_mut(frame);
        staged.set(FrameState::Done);
        if staged.is_padding() {
            return;
        }
        let directory = &mut contents.pages.directory;
        let (at, slot) = (directory.staged_entry(frame), self.slot_of(position));
        let entry = *directory.entry(at);
        let on_flash = directory.find_on_flash(entry.page());
        let in_order = crate::mutant!("older-version-published-last");
        if !in_order && on_flash.is_some_and(|on_flash| self.position_of(on_flash) > position) {
            // A newer version was written by a job that ended earlier: this one is superseded before it
            // arrives.
            directory.unstage(at);
            directory.entry_mut(slot).set(entry.page(), HELD | entry.flags(DIRTY));
            self.head.superseded += 1;
            return;
        }
        if let Some(older) = on_flash {
            self.supersede(contents, older);
        }
        contents.pages.directory.settle(at, slot, HELD | entry.flags(DIRTY | REFERENCED));
    }
}

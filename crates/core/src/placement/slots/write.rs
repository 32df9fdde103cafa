//! Writes of slot placement: staged pages are written to their slots, one at a time.

use super::SlotTable;
use crate::PageId;
use crate::contents::Contents;
use crate::directory::PageDirectory;
use crate::job::{Fate, FrameId, Generation, Ticket, WriteJob, WritePage, WritePages};
use crate::lists::SlotLists;
use crate::policy::{Policy, SlotPolicy, ask, ask_slots};
use crate::slot::{BUSY, DIRTY, VALID};
use crate::staging::{FrameState, Staging};
use crate::{Position, SlotId};

/// The place of a staged page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Over its older version.
    Over(u32),
    /// To a free slot.
    New,
    /// No place yet: its older version is being written, destaged or cleaned. A write to another slot now
    /// would make two slots of one page, and the older version might reach the disk last.
    Busy,
}

/// The place of the page of staging entry `entry`.
pub(super) fn place_of(directory: &PageDirectory<'_>, staging: &Staging<'_>, entry: u32) -> Place {
    let mut older = directory.find_older(entry);
    while let Some(at) = older {
        match directory.frame_of(at) {
            None => {
                return if directory.is_idle(at) { Place::Over(at) } else { Place::Busy };
            }
            Some(frame) if staging.frame(frame).is(FrameState::Writing) => return Place::Busy,
            Some(_) => older = directory.find_older(at),
        }
    }
    Place::New
}

/// Whether a newer version of the page of staging entry `entry` is staged.
pub(super) fn is_overtaken(directory: &PageDirectory<'_>, entry: u32) -> bool {
    directory.find(directory.entry(entry).page()) != Some(entry)
}

/// The version of the next write to `slot`.
fn next_generation(lists: &SlotLists<'_>, slot: u32) -> Generation {
    Generation::LowByte(lists.generation_byte(slot).wrapping_add(1))
}

/// Starts the write of the page staged at `position` to `slot`.
pub(super) fn write_of(contents: &mut Contents<'_>, position: u64, slot: u32) -> WritePage {
    let frame = contents.staging.frame_of(position);
    let directory = &mut contents.pages.directory;
    directory.entry(slot).raise(BUSY);
    let entry = directory.entry(directory.staged_entry(frame));
    let (page, dirty) = (entry.page(), entry.has(DIRTY));
    let staged = contents.staging.frame_mut(frame);
    staged.set(FrameState::Writing);
    WritePage {
        page: Some(page),
        slot: SlotId(slot),
        position: Position(position),
        stamp: next_generation(&contents.pages.lists, slot).of(Position(position)),
        frame: FrameId(frame),
        dirty,
        lsn: staged.lsn,
    }
}

impl SlotTable<'_> {
    /// Starts the write of the oldest page that is ready and has a slot.
    pub(crate) fn write_job(
        &mut self,
        contents: &mut Contents<'_>,
        pages: &mut WritePages,
    ) -> Option<WriteJob> {
        if self.batches.is_some() {
            return self.write_batch(contents, pages);
        }
        let work = contents.staging.positions().find_map(|at| self.write_one(contents, at, pages));
        contents.staging.retire(1);
        work
    }

    /// Starts the write of the page at `position`, if it is ready and has a slot. An overtaken page needs no
    /// slot.
    #[inline(always)]
    fn write_one(
        &mut self,
        contents: &mut Contents<'_>,
        position: u64,
        pages: &mut WritePages,
    ) -> Option<WriteJob> {
        let frame = contents.staging.frame_of(position);
        if !contents.staging.frame(frame).is(FrameState::Ready) {
            return None;
        }
        let directory = &contents.pages.directory;
        let entry = directory.staged_entry(frame);
        // A checkpoint waits for the positions before it. An overtaken version among these is written too,
        // since the newer version is not part of the checkpoint.
        let after_checkpoint = position >= self.head.checkpoint;
        if is_overtaken(directory, entry) && after_checkpoint {
            self.finish_frame(contents, frame);
            return None;
        }
        let page = directory.entry(entry).page();
        let slot = match place_of(directory, &contents.staging, entry) {
            Place::Busy => return None,
            Place::Over(slot) => slot,
            Place::New => self.take_slot(contents, page)?,
        };
        pages.push(write_of(contents, position, slot));
        Some(WriteJob { ticket: Ticket(slot), one_io: false, completes_group: false })
    }

    /// A slot for `page`: a free one, or that of a clean page which the policy evicts for it.
    fn take_slot(&mut self, contents: &mut Contents<'_>, page: PageId) -> Option<u32> {
        if let Some(slot) = self.pop_free(&mut contents.pages, page) {
            return Some(slot);
        }
        let Contents { pages, policy, .. } = contents;
        let victim = ask_slots!(policy, P, memory => P::victim_for(pages, memory, page))?;
        if pages.fate_without_chance(victim) != Fate::Drop {
            return None; // background jobs destage it first
        }
        contents.decisions.note((victim as u64) << 2 | Fate::Drop as u64);
        self.empty(contents, victim);
        self.pop_free(&mut contents.pages, page)
    }

    /// The page in `frame` is not to be written.
    pub(super) fn finish_frame(&mut self, contents: &mut Contents<'_>, frame: u32) {
        let directory = &mut contents.pages.directory;
        directory.unstage(directory.staged_entry(frame));
        self.done(&mut contents.staging, frame);
    }

    /// `frame` is no longer needed.
    pub(super) fn done(&mut self, staging: &mut Staging<'_>, frame: u32) {
        staging.frame_mut(frame).set(FrameState::Done);
        if self.in_sets {
            self.emptied_for[frame as usize] = 0;
        }
    }

    /// These pages have been written to their slots.
    pub(crate) fn written(&mut self, contents: &mut Contents<'_>, ticket: Ticket, pages: &[WritePage]) {
        match self.batches.is_some() {
            true => self.batch_is_durable(contents, ticket, pages),
            false => pages.iter().for_each(|page| self.written_in_place(contents, page)),
        }
    }

    fn written_in_place(&mut self, contents: &mut Contents<'_>, page: &WritePage) {
        let (frame, slot) = (page.frame.0, page.slot.0);
        let Contents { staging, pages, policy, .. } = contents;
        let directory = &mut pages.directory;
        let entry = directory.staged_entry(frame);
        directory.carry_proof(entry, slot);
        ask!(policy, P, memory => P::on_carry(memory, entry, slot));
        if directory.entry(slot).has(VALID) {
            directory.unstage(entry);
            directory.overwrite(slot, page.dirty);
            ask_slots!(policy, P, memory => P::on_overwrite(pages, memory, slot));
        } else {
            directory.settle(entry, slot, if page.dirty { DIRTY } else { 0 });
            ask_slots!(policy, P, memory => P::on_enter(pages, memory, slot));
        }
        pages.lists.set_generation_byte(slot, page.stamp.0 as u8);
        self.done(staging, frame);
        staging.retire(1);
    }
}

//! Slot placement: a page lies in any slot and is overwritten there. The directory does not survive a crash (LC), so a
//! write need not be durable when it is published.
//!
//! - A page that is in a slot already is written to the same slot; a new one takes a free slot.
//! - `BUSY` marks a slot with a write, a destage or a cleaning under way; nothing else is started on it.
//! - A staged version that is overtaken by a newer one before its write began is not written at all, unless a checkpoint
//!   began in between (`close_at`): it waits for this version's position only.

use crate::job::{Admission, Fate, FrameId, Generation, JobPage, JobPages, Ticket, Work};
use crate::policy::{Policy, with_policy};
use crate::region::Partition;
use crate::slot::{BUSY, DIRTY, NIL, VALID};
use crate::staging::{DONE, READY, WRITING};
use crate::{Lsn, PageId, Position, SlotId};

/// Where a staged page goes.
enum Target {
    /// Over its older version.
    Slot(u32),
    /// To a free slot.
    New,
    /// Nowhere yet: its older version is being written, destaged or cleaned. Were it written to another slot now, there
    /// would be two, and the older might reach the disk last.
    Busy,
}

/// Most slots that are kept free ahead of demand.
const FREE_AHEAD_MAX: u32 = 32;

impl Partition<'_> {
    pub(crate) fn slots_init(&mut self) {
        for slot in (0..self.head.slots).rev() {
            self.push_free(slot);
        }
        self.init_lists();
    }

    fn push_free(&mut self, slot: u32) {
        self.slots[slot as usize].clear();
        self.slots[slot as usize].set_next(self.head.free_first);
        self.head.free_first = slot;
        self.head.free += 1;
    }

    fn pop_free(&mut self) -> Option<u32> {
        let slot = self.head.free_first;
        if slot == NIL {
            return None;
        }
        self.head.free_first = self.slots[slot as usize].next();
        self.head.free -= 1;
        Some(slot)
    }

    pub(crate) fn slots_enter(&mut self, page: PageId, lsn: Lsn, dirty: bool) -> Admission {
        if !self.frame_available() {
            return Admission::Full;
        }
        self.enter(page, lsn, dirty, 0)
    }

    /// Where the page of staging entry `entry` is to be written.
    fn target_of(&self, entry: u32) -> Target {
        let mut older = self.find_older(entry);
        while let Some(at) = older {
            if at < self.head.slots {
                let busy = self.slots[at as usize].has(BUSY) && !crate::mutant!("lc-busy-slot-overwritten");
                return if busy { Target::Busy } else { Target::Slot(at) };
            }
            if self.staged[(at - self.head.slots) as usize].state == WRITING {
                return Target::Busy;
            }
            older = self.find_older(at);
        }
        Target::New
    }

    fn overtaken(&self, entry: u32) -> bool {
        self.find(self.slots[entry as usize].page()) != Some(entry)
    }

    pub(crate) fn slots_next_chore(&mut self, pages: &mut JobPages) -> Option<Work> {
        if let Some(work) = self.empty_one(pages) {
            return Some(work);
        }
        let slot = with_policy!(self.policy(), P => P::clean(self))?;
        pages.push(self.start_copy(slot));
        Some(Work::Clean)
    }

    pub(crate) fn write_one(&mut self, pages: &mut JobPages) -> Option<Work> {
        for position in self.head.staged_front..self.head.rear {
            let frame = self.frame_of(position);
            if self.staged[frame as usize].state != READY {
                continue;
            }
            let entry = self.entry_of(frame);
            // A checkpoint waits for the positions below `close_at`: what they promise must not move on with newer versions.
            let after_checkpoint =
                position >= self.head.close_at || crate::mutant!("lc-checkpoint-skips-overtaken");
            if self.overtaken(entry) && after_checkpoint {
                self.finish_frame(entry, frame);
                continue;
            }
            let slot = match self.target_of(entry) {
                Target::Busy => continue,
                Target::Slot(slot) => slot,
                Target::New => match self.pop_free() {
                    Some(slot) => slot,
                    None => continue,
                },
            };
            self.slots[slot as usize].raise(BUSY);
            self.staged[frame as usize].state = WRITING;
            pages.push(JobPage {
                page: Some(self.slots[entry as usize].page()),
                slot: SlotId(slot),
                position: Position(position),
                frame: FrameId(frame),
                dirty: self.slots[entry as usize].has(DIRTY),
                lsn: Lsn(self.staged[frame as usize].lsn),
                fate: Fate::Drop,
                generation: Generation::LowByte(position as u8),
            });
            self.retire(1);
            return Some(Work::Write { ticket: Ticket(slot), one_io: false, completes_group: false });
        }
        self.retire(1);
        None
    }

    fn finish_frame(&mut self, entry: u32, frame: u32) {
        self.unlink(entry);
        self.slots[entry as usize].clear();
        self.staged[frame as usize].state = DONE;
    }

    pub(crate) fn slots_written(&mut self, page: &JobPage) {
        let frame = page.frame.0;
        let entry = self.entry_of(frame);
        let slot = page.slot.0;
        let id = self.slots[entry as usize].page();
        let there = self.slots[slot as usize].has(VALID);
        if there {
            self.head.dirty -= u32::from(self.slots[slot as usize].has(DIRTY));
            self.slots[slot as usize].lower(BUSY | DIRTY);
            self.unlink(entry);
            self.slots[entry as usize].clear();
        } else {
            self.slots[slot as usize].set(id, VALID);
            self.replace(entry, slot);
            self.slots[entry as usize].clear();
            self.head.valid += 1;
            with_policy!(self.policy(), P => P::on_enter(self, slot));
        }
        if page.dirty && !(there && crate::mutant!("lc-overwrite-loses-dirty")) {
            self.slots[slot as usize].raise(DIRTY);
            self.head.dirty += 1;
        }
        self.set_generation_byte(slot, page.position.0 as u8);
        self.staged[frame as usize].state = DONE;
        self.retire(1);
    }

    /// Empties the policy's victim, when free slots are getting scarce. Clean victims cost no I/O.
    fn empty_one(&mut self, pages: &mut JobPages) -> Option<Work> {
        let ahead = FREE_AHEAD_MAX.min(self.head.slots / 8);
        while self.head.free + self.head.dequeuing < ahead {
            let slot = with_policy!(self.policy(), P => P::victim(self))?;
            let fate = with_policy!(self.policy(), P => P::fate(self, slot));
            self.note_decision((slot as u64) << 2 | fate as u64);
            if fate == Fate::Drop {
                self.empty(slot);
                continue;
            }
            self.head.dequeuing += 1;
            pages.push(JobPage { fate, ..self.start_copy(slot) });
            return Some(Work::Dequeue { ticket: Ticket(slot), one_io: false });
        }
        None
    }

    fn empty(&mut self, slot: u32) {
        with_policy!(self.policy(), P => P::on_leave(self, slot));
        self.unlink(slot);
        self.head.valid -= 1;
        self.head.dirty -= u32::from(self.slots[slot as usize].has(DIRTY));
        self.push_free(slot);
    }

    pub(crate) fn slots_dequeued(&mut self, ticket: Ticket) {
        self.head.dequeuing -= 1;
        self.empty(ticket.0);
    }

    /// Describes the copying of `slot` to disk and marks it busy.
    pub(crate) fn start_copy(&mut self, slot: u32) -> JobPage {
        let entry = &mut self.slots[slot as usize];
        entry.raise(BUSY);
        let (page, dirty) = (entry.page(), entry.has(DIRTY));
        let byte = self.generation_byte(slot);
        JobPage {
            page: Some(page),
            slot: SlotId(slot),
            position: Position(0),
            frame: FrameId(0),
            dirty,
            lsn: Lsn(0),
            fate: Fate::Destage,
            generation: Generation::LowByte(byte),
        }
    }

    pub(crate) fn slots_cleaned(&mut self, slot: u32) {
        self.slots[slot as usize].lower(BUSY | DIRTY);
        self.head.dirty -= 1;
    }

    /// The next dirty slot at or after `from`. `Err(slot)`: that slot is dirty and busy.
    pub(crate) fn slots_sweep(&self, from: u32) -> Option<Result<u32, u32>> {
        let slot = (from..self.head.slots).find(|s| self.slots[*s as usize].has(DIRTY))?;
        if self.slots[slot as usize].has(BUSY) {
            return Some(Err(slot));
        }
        Some(Ok(slot))
    }
}

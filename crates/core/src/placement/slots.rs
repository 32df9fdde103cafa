//! Slot placement: a page lies in any slot, or in any of its set, and is overwritten there. Unless the driver keeps one, the
//! directory does not survive a crash, so a write need not be durable when it is published.
//!
//! - A page that is in a slot already is written to the same slot; a new one takes a free slot. Slots are emptied ahead of
//!   demand, or for the page that needs one, as the policy will have it; a clean page that is in the way then goes in the
//!   same step.
//! - `BUSY` marks a slot with a write, a destage or a cleaning under way; nothing else is started on it.
//! - A staged version that is overtaken by a newer one before its write began is not written at all, unless a checkpoint
//!   began in between (`close_at`): it waits for this version's position only.
//! - Each write to a slot counts up the slot's byte, which goes into the page in place of the lowest byte of its position, and
//!   stays when the slot is emptied: so a page that a lost or misdirected write has left in its place is told from the one
//!   that should be there.
//! - Policies with sets keep the free slots of each set in a list behind those of its pages; the others in one chain.

use crate::index::bucket_of;
use crate::job::{Admission, Fate, FrameId, Generation, JobPage, JobPages, Ticket, Work};
use crate::policy::{Policy, with_policy};
use crate::region::{Partition, Staged};
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

impl Partition<'_> {
    pub(crate) fn slots_init(&mut self) {
        self.init_lists(self.config().lists());
        for slot in (0..self.head.slots).rev() {
            self.push_free(slot);
        }
    }

    /// Sets of a policy that has them.
    pub(crate) fn sets(&self) -> u32 {
        (self.head.slots / self.head.set_slots).max(1)
    }

    /// The set of `slot`; also the number of the list of its pages.
    pub(crate) fn set_of_slot(&self, slot: u32) -> u32 {
        (slot / self.head.set_slots).min(self.sets() - 1)
    }

    /// The set that `page` may lie in: runs of consecutive pages as long as a set share one.
    pub(crate) fn set_of_page(&self, page: PageId) -> u32 {
        bucket_of(page.0 / self.head.set_slots as u64, self.sets() as usize) as u32
    }

    /// The list of the free slots of `set`.
    pub(crate) fn free_list(&self, set: u32) -> u32 {
        self.sets() + set
    }

    fn push_free(&mut self, slot: u32) {
        self.slots[slot as usize].clear();
        if self.policy.in_sets() {
            self.push_back(self.free_list(self.set_of_slot(slot)), slot);
        } else {
            self.slots[slot as usize].set_next(self.head.free_first);
            self.head.free_first = slot;
        }
        self.head.free += 1;
    }

    /// A free slot where `page` may lie.
    fn pop_free(&mut self, page: PageId) -> Option<u32> {
        let slot = if self.policy.in_sets() {
            let slot = self.first_of(self.free_list(self.set_of_page(page)))?;
            self.take_out(slot);
            slot
        } else {
            let slot = self.head.free_first;
            if slot == NIL {
                return None;
            }
            self.head.free_first = self.slots[slot as usize].next();
            slot
        };
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
                Target::New => match self.take_slot(self.slots[entry as usize].page()) {
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
                generation: self.next_generation(slot),
            });
            self.retire(1);
            return Some(Work::Write { ticket: Ticket(slot), one_io: false, completes_group: false });
        }
        self.retire(1);
        None
    }

    /// Whether a staged page may be waiting for a slot that no dequeue has been started for.
    pub(crate) fn slots_wait_for_chore(&self) -> bool {
        self.policy.in_sets()
            && (self.head.staged_front..self.head.rear)
                .map(|position| &self.staged[self.frame_of(position) as usize])
                .any(|staged| staged.state == READY && staged.unit == 0)
    }

    /// A slot for `page`: a free one, or that of a clean page which the policy gives up for it.
    fn take_slot(&mut self, page: PageId) -> Option<u32> {
        if let Some(slot) = self.pop_free(page) {
            return Some(slot);
        }
        let victim = with_policy!(self.policy(), P => P::victim_for(self, page))?;
        if with_policy!(self.policy(), P => P::fate(self, victim)) != Fate::Drop {
            return None; // the chores destage it first
        }
        self.note_decision((victim as u64) << 2 | Fate::Drop as u64);
        self.empty(victim);
        self.pop_free(page)
    }

    /// The version that is to be written to `slot`.
    fn next_generation(&self, slot: u32) -> Generation {
        let step = u8::from(!crate::mutant!("slot-counter-not-grown"));
        Generation::LowByte(self.generation_byte(slot).wrapping_add(step))
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
            with_policy!(self.policy(), P => P::on_overwrite(self, slot));
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
        self.set_generation_byte(slot, page.generation.of(page.position).0 as u8);
        self.staged[frame as usize].state = DONE;
        self.retire(1);
    }

    /// Empties the policy's victim, when free slots are getting scarce or a page waits for one. Clean victims cost no I/O.
    fn empty_one(&mut self, pages: &mut JobPages) -> Option<Work> {
        while self.head.free + self.head.dequeuing < with_policy!(self.policy(), P => P::free_ahead(self)) {
            let slot = with_policy!(self.policy(), P => P::victim(self))?;
            let fate = with_policy!(self.policy(), P => P::fate(self, slot));
            self.note_decision((slot as u64) << 2 | fate as u64);
            if fate == Fate::Drop {
                self.empty(slot);
                continue;
            }
            return Some(self.start_dequeue(slot, fate, pages));
        }
        if self.policy.in_sets() { self.empty_for_waiting(pages) } else { None }
    }

    fn start_dequeue(&mut self, slot: u32, fate: Fate, pages: &mut JobPages) -> Work {
        self.head.dequeuing += 1;
        pages.push(JobPage { fate, ..self.start_copy(slot) });
        Work::Dequeue { ticket: Ticket(slot), one_io: false }
    }

    /// Starts the dequeue of a dirty page that is in the way of a staged one. Its frame remembers the slot (in `unit`), so
    /// that one dequeue is started for it.
    fn empty_for_waiting(&mut self, pages: &mut JobPages) -> Option<Work> {
        for position in self.head.staged_front..self.head.rear {
            let frame = self.frame_of(position);
            let Staged { state, unit, .. } = self.staged[frame as usize];
            let entry = self.entry_of(frame);
            if state != READY || unit != 0 || self.overtaken(entry) {
                continue;
            }
            let page = self.slots[entry as usize].page();
            let none_free = self.first_of(self.free_list(self.set_of_page(page))).is_none();
            if !none_free || !matches!(self.target_of(entry), Target::New) {
                continue;
            }
            let Some(slot) = with_policy!(self.policy(), P => P::victim_for(self, page)) else {
                continue;
            };
            let fate = with_policy!(self.policy(), P => P::fate(self, slot));
            if fate == Fate::Drop {
                continue; // it goes when the page is written
            }
            self.note_decision((slot as u64) << 2 | fate as u64);
            self.staged[frame as usize].unit = slot + 1;
            return Some(self.start_dequeue(slot, fate, pages));
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
        if self.policy.in_sets() {
            let waits = self.staged.iter_mut().find(|staged| staged.unit == ticket.0 + 1);
            waits.into_iter().for_each(|staged| staged.unit = 0);
        }
    }

    /// A restart finds `page` in `slot`.
    pub(crate) fn occupy(&mut self, slot: u32, page: PageId, dirty: bool) {
        if self.policy.in_sets() {
            self.take_out(slot);
        }
        self.slots[slot as usize].set(page, VALID | if dirty { DIRTY } else { 0 });
        self.link(slot);
        self.head.valid += 1;
        self.head.dirty += u32::from(dirty);
        with_policy!(self.policy(), P => P::on_enter(self, slot));
    }

    /// Chains up the slots that hold nothing.
    pub(crate) fn rebuild_free(&mut self) {
        self.head.free = self.head.slots - self.head.valid;
        if self.policy.in_sets() {
            return; // their free slots stand in lists
        }
        self.head.free = 0;
        self.head.free_first = NIL;
        for slot in (0..self.head.slots).rev() {
            if !self.slots[slot as usize].has(VALID) {
                self.push_free(slot);
            }
        }
    }

    /// Forgets every copy of `page`. `None`: one is being written, copied in or copied to disk; ask again later.
    pub(crate) fn slots_forget(&mut self, page: PageId) -> Option<bool> {
        let Some(newest) = self.find(page) else { return Some(false) };
        let mut at = Some(newest);
        while let Some(entry) = at {
            let idle = match entry.checked_sub(self.head.slots) {
                None => self.is_idle(entry),
                Some(frame) => self.staged[frame as usize].state == READY,
            };
            if !idle {
                return None;
            }
            at = self.find_older(entry);
        }
        while let Some(entry) = self.find(page) {
            match entry.checked_sub(self.head.slots) {
                None => self.empty(entry),
                Some(frame) => self.finish_frame(entry, frame),
            }
        }
        self.retire(1);
        Some(true)
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

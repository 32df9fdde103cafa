//! Log placement: the slots are a ring, written in groups at its rear and dequeued in groups at its front (FaCE §3.3).
//!
//! ```text
//!   released ──── scan ───────────── staged_front ──── rear          (positions; slot = position mod slots)
//!      │ dequeues    │ the cache          │ staging       │
//!      │ under way   │                    │               │
//! ```
//!
//! - A page gets its position when it enters staging, so versions are ordered by position.
//! - A position is given out only when its slot is released already. So a write never waits for a dequeue, and a dequeue
//!   may wait for a write: there is no circle. Whole groups are held back for second chances, since these need positions
//!   while their own slots are not yet released.
//! - A group of slots is released when its destages are durable on disk and the newer copies of its pages (second
//!   chances, and versions that were in staging when it was dequeued) are durable on flash, with everything before them: so
//!   whoever records the front records with it a durable position above these copies, and if one of them is damaged that is
//!   not taken for a write that was torn. Groups release in order.
//! - A group's pages become the valid versions together, when the write that completes it is durable. Page by page
//!   (mvFIFO without GR) only that last write needs a sync; until then its pages are served from staging.
//! - In-flight dequeues span at most [`UNITS`] groups, and the ring is much longer, so that two versions of one page are
//!   never being destaged at the same time.

use crate::job::{Admission, Fate, FrameId, Generation, JobPage, JobPages, Ticket, Work};
use crate::placement::UNITS;
use crate::policy::{Policy, with_policy};
use crate::region::{Partition, Unit};
use crate::slot::{DIRTY, HELD, REFERENCED, VALID};
use crate::staging::{DONE, PADDING, READY, WRITING, WRITTEN};
use crate::{Lsn, PageId, Position, SlotId};

pub(crate) const UNIT_FREE: u32 = 0;
pub(crate) const UNIT_OPEN: u32 = 1;
pub(crate) const UNIT_DONE: u32 = 2;

/// Groups kept free or becoming free, so that dequeues run ahead of evictions: a sixteenth of the ring, within bounds. A
/// dequeue takes as long as the slowest of its destages, so a few must be under way at once to keep a disk array busy.
fn groups_ahead(groups: u64) -> u64 {
    (groups / 16).clamp(GROUPS_AHEAD_MIN, UNITS as u64)
}

/// Fewest groups kept free or becoming free.
pub(crate) const GROUPS_AHEAD_MIN: u64 = 4;

impl Partition<'_> {
    fn group(&self) -> u64 {
        self.head.group_pages as u64
    }

    /// The slot of a position in the ring's window: position mod slots.
    #[inline]
    pub(crate) fn slot_of(&self, position: u64) -> u32 {
        debug_assert!(
            position >= self.head.released && position - self.head.released <= self.head.slots as u64
        );
        let slot = self.head.released_slot + (position - self.head.released) as u32;
        if slot >= self.head.slots { slot - self.head.slots } else { slot }
    }

    /// The position that lies in `slot`.
    pub(crate) fn position_of(&self, slot: u32) -> u64 {
        let ahead = if slot >= self.head.released_slot { 0 } else { self.head.slots };
        self.head.released + (slot + ahead - self.head.released_slot) as u64
    }

    /// Released positions that were not given out.
    fn room(&self) -> u64 {
        self.head.released + self.head.slots as u64 - self.head.rear
    }

    /// Whole released groups that no position of was given out.
    fn free_groups(&self) -> u64 {
        self.room() / self.group()
    }

    fn group_is_open(&self) -> bool {
        self.head.open != 0
    }

    /// Room for a page from DRAM: in the open group, or in a new one while enough is left for second chances.
    pub(crate) fn log_enter<P: Policy>(&mut self, page: PageId, lsn: Lsn, dirty: bool) -> Admission {
        let undecided = self.head.undecided as u64;
        let held_back = match (P::FACTS.second_chances, self.group_is_open()) {
            (false, true) => 0,
            (false, false) => 1,
            (true, true) => undecided,
            (true, false) => undecided + 2,
        };
        if !self.frame_available() || self.room() < held_back * self.group() {
            return Admission::Full;
        }
        self.enter(page, lsn, dirty, 0)
    }

    pub(crate) fn log_staged(&mut self, frame: u32) {
        let group = (frame / self.head.group_pages) as usize;
        self.groups[group].ready += 1;
    }

    /// Fills the open group up with nothing, so that it can be written: at once, or when the dequeues that may need its
    /// positions for second chances are through.
    pub(crate) fn log_close_group(&mut self) {
        if self.group_is_open() {
            self.head.close_at = self.head.rear + self.open_positions();
            self.close_if_asked();
        }
    }

    /// Positions of the open group that were not given out.
    fn open_positions(&self) -> u64 {
        (self.head.group_pages - self.head.open) as u64
    }

    fn close_if_asked(&mut self) {
        if self.head.rear >= self.head.close_at {
            return;
        }
        let held_back = if self.second_chances() { self.head.undecided as u64 } else { 0 };
        if self.room() - self.open_positions() < held_back * self.group() {
            return;
        }
        while self.head.rear < self.head.close_at {
            let group = (self.frame_of(self.head.rear) / self.head.group_pages) as usize;
            self.pad();
            self.groups[group].ready += 1;
        }
    }

    pub(crate) fn log_next_chore(&mut self, pages: &mut JobPages) -> Option<Work> {
        if std::mem::take(&mut self.head.pull) != 0 && self.group_is_open() {
            return Some(Work::PullVictims(self.open_positions() as u32));
        }
        self.dequeue_job(pages)
    }

    /// Whether the group of `frame` is full, or may be written page by page.
    pub(crate) fn log_write_due(&self, frame: u32) -> bool {
        let group = self.groups[(frame / self.head.group_pages) as usize];
        !self.policy().by_group() || group.ready == self.head.group_pages
    }

    pub(crate) fn write_job(&mut self, pages: &mut JobPages) -> Option<Work> {
        let group_pages = self.head.group_pages;
        let one_io = self.policy().by_group();
        let mut first = self.head.staged_front;
        while first < self.head.rear {
            let at = (self.frame_of(first) / group_pages) as usize;
            let group = self.groups[at];
            let from = first + group.issued as u64;
            let full = group.ready == group_pages;
            let ready = |p: u64| p < self.head.rear && self.staged[self.frame_of(p) as usize].state == READY;
            if group.writing == 0 && group.issued < group_pages && (full || !one_io) && ready(from) {
                let end = (from..first + group_pages as u64)
                    .find(|p| !ready(*p))
                    .unwrap_or(first + group_pages as u64);
                return Some(self.write_run(at, from, end, pages));
            }
            first += group_pages as u64;
        }
        None
    }

    fn write_run(&mut self, at: usize, from: u64, end: u64, pages: &mut JobPages) -> Work {
        for position in from..end {
            let frame = self.frame_of(position);
            let padding = self.is_padding(frame);
            let staged = &mut self.staged[frame as usize];
            staged.state = WRITING;
            let lsn = Lsn(staged.lsn);
            let entry = self.slots[self.entry_of(frame) as usize];
            pages.push(JobPage {
                page: (!padding).then(|| entry.page()),
                slot: SlotId(self.slot_of(position)),
                position: Position(position),
                frame: FrameId(frame),
                dirty: entry.has(DIRTY),
                lsn,
                fate: Fate::Drop,
                generation: Generation::Exact(Position(position)),
            });
        }
        let group = &mut self.groups[at];
        group.issued += pages.len() as u32;
        group.writing = 1;
        let completes_group = group.issued == self.head.group_pages;
        Work::Write { ticket: Ticket(at as u32), one_io: self.policy().by_group(), completes_group }
    }

    fn second_chances(&self) -> bool {
        with_policy!(self.policy(), P => P::FACTS.second_chances)
    }

    /// A dequeue must make room: if every page of the group is to stay, the one at the very front goes (FaCE §3.3).
    fn limit_second_chances(&self, pages: &mut [JobPage], allowed: bool) {
        let going = match (allowed, pages.iter().all(|page| page.fate == Fate::SecondChance)) {
            (false, _) => pages.len(),
            (true, true) => 1,
            (true, false) => 0,
        };
        for page in pages[..going].iter_mut().filter(|page| page.fate == Fate::SecondChance) {
            let destaged = page.dirty && !crate::mutant!("front-page-dropped-dirty");
            page.fate = if destaged { Fate::Destage } else { Fate::Drop };
        }
    }

    /// Starts the dequeue of the group at the front, when room is getting scarce.
    fn dequeue_job(&mut self, pages: &mut JobPages) -> Option<Work> {
        let group = self.group();
        let in_flight = (self.head.scan - self.head.released) / group;
        let free = self.free_groups();
        // Without a group to spare (after a restart with a full ring), the first one goes without second chances.
        let second_chances = self.second_chances() && free > self.head.undecided as u64;
        let units = self.head.unit_next - self.head.unit_first;
        if free + in_flight >= groups_ahead(self.head.slots as u64 / group)
            || (self.second_chances() && !second_chances && in_flight > 0)
            || units == UNITS as u64
            || self.head.scan + group > self.head.staged_front
        {
            return None;
        }
        let unit = (self.head.unit_next % UNITS as u64) as u32;
        self.head.units[unit as usize] = Unit { first: self.head.scan, pending: 0, state: UNIT_OPEN };
        for position in self.head.scan..self.head.scan + group {
            pages.push(self.decide(position, unit));
        }
        self.limit_second_chances(pages, second_chances);
        for page in pages.iter() {
            self.note_decision(page.position.0 << 2 | page.fate as u64);
        }
        self.head.scan += group;
        self.head.unit_next += 1;
        self.head.undecided += 1;
        Some(Work::Dequeue { ticket: Ticket(unit), one_io: self.policy().by_group() })
    }

    fn decide(&mut self, position: u64, unit: u32) -> JobPage {
        let slot = self.slot_of(position);
        let entry = self.slots[slot as usize];
        let superseded = !entry.has(VALID) && !crate::mutant!("superseded-version-destaged");
        if superseded {
            self.await_newest(entry.page(), unit);
        }
        let fate = if superseded || self.adopt_newer(slot, unit) {
            Fate::Drop
        } else {
            with_policy!(self.policy(), P => P::fate(self, slot))
        };
        JobPage {
            page: entry.has(VALID).then(|| entry.page()),
            slot: SlotId(slot),
            position: Position(position),
            frame: FrameId(0),
            dirty: entry.has(DIRTY),
            lsn: Lsn(0),
            fate,
            generation: Generation::Exact(Position(position)),
        }
    }

    /// If a newer version of the page in `slot` is in staging, lets the release of `unit` wait for it instead of
    /// destaging the older one.
    fn adopt_newer(&mut self, slot: u32, unit: u32) -> bool {
        let newest = self.find(self.slots[slot as usize].page());
        let Some(newest) = newest.filter(|at| *at >= self.head.slots) else { return false };
        let staged = &mut self.staged[(newest - self.head.slots) as usize];
        if staged.unit == 0 && !crate::mutant!("newer-copy-not-awaited") {
            staged.unit = unit + 1;
            self.head.units[unit as usize].pending += 1;
            return true;
        }
        if crate::mutant!("newer-copy-not-awaited") {
            return true;
        }
        // One slot at a time holds the valid version of a page, so only the dequeue of that slot waits for newer ones.
        assert_eq!(staged.unit, unit + 1, "two dequeues wait for one staged page");
        true
    }

    /// The newest version of `page` on flash excuses `unit` from a destage. If something before it is not durable yet, the
    /// release waits for that.
    fn await_newest(&mut self, page: PageId, unit: u32) {
        let Some(position) = self.find_on_flash(page).map(|slot| self.position_of(slot)) else { return };
        if position < self.head.staged_front {
            return;
        }
        let frame = self.frame_of(position);
        let staged = &mut self.staged[frame as usize];
        // If another dequeue waits for it, that is an earlier one, which is released before this one.
        if staged.unit == 0 {
            staged.unit = unit + 1;
            self.head.units[unit as usize].pending += 1;
        }
    }

    /// Gives the page in `slot` of the dequeue `ticket` a place at the rear.
    pub(crate) fn log_restage(&mut self, ticket: Ticket, page: &JobPage) -> Admission {
        let slot = page.slot.0;
        let entry = self.slots[slot as usize];
        let unit = ticket.0;
        let superseded = !entry.has(VALID) && !crate::mutant!("superseded-version-restaged");
        if superseded {
            self.await_newest(entry.page(), unit);
        }
        if superseded || self.adopt_newer(slot, unit) {
            return Admission::AlreadyThere;
        }
        if !self.frame_available() {
            return Admission::Full;
        }
        assert!(
            self.head.rear < self.head.released + self.head.slots as u64,
            "second chances have groups held back for them"
        );
        let dirty = entry.has(DIRTY) && !crate::mutant!("second-chance-loses-dirty");
        let admission = self.enter(entry.page(), page.lsn, dirty, unit + 1);
        self.head.units[unit as usize].pending += 1;
        admission
    }

    pub(crate) fn log_dequeued(&mut self, ticket: Ticket) {
        self.head.units[ticket.0 as usize].state = UNIT_DONE;
        self.head.undecided -= 1;
        self.release();
        self.head.pull = u32::from(self.second_chances());
    }

    pub(crate) fn log_written(&mut self, ticket: Ticket, pages: &[JobPage]) {
        let group_pages = self.head.group_pages;
        for page in pages {
            self.staged[page.frame.0 as usize].state = WRITTEN;
        }
        let group = &mut self.groups[ticket.0 as usize];
        group.written += pages.len() as u32;
        group.writing = 0;
        if group.written < group_pages {
            return; // written, but not durable before the group is complete
        }
        *group = crate::region::Group { ready: 0, issued: 0, written: 0, writing: 0 };
        let first = pages[0].position.0 / self.group() * self.group();
        for position in first..first + self.group() {
            self.publish(position);
        }
        self.retire_groups();
        self.release();
    }

    /// Frees the frames of groups that are durable with all before them. The dequeues that waited for their pages do so no more.
    fn retire_groups(&mut self) {
        let front = self.head.staged_front;
        let first = self.frame_of(front) as usize;
        self.retire(self.group());
        for nth in 0..(self.head.staged_front - front) as usize {
            let frame = (first + nth) % self.staged.len();
            let unit = std::mem::take(&mut self.staged[frame].unit);
            if unit != 0 && unit != PADDING {
                self.head.units[unit as usize - 1].pending -= 1;
            }
        }
    }

    /// Makes a page that is now durable on flash the one that is served from there.
    fn publish(&mut self, position: u64) {
        let frame = self.frame_of(position);
        let staged = &mut self.staged[frame as usize];
        staged.state = DONE;
        if staged.unit == PADDING {
            return;
        }
        let entry = self.entry_of(frame);
        let slot = self.slot_of(position);
        let id = self.slots[entry as usize].page();
        let flags = if self.slots[entry as usize].has(DIRTY) { DIRTY } else { 0 };
        let on_flash = self.find_on_flash(id);
        let in_order = crate::mutant!("older-version-published-last");
        if !in_order && on_flash.is_some_and(|at| self.position_of(at) > position) {
            // A newer version was written by a job that ended earlier: this one is superseded before it arrives.
            self.unlink(entry);
            self.slots[slot as usize].set(id, HELD | flags);
            self.head.superseded += 1;
        } else {
            if let Some(at) = on_flash {
                self.supersede(at);
            }
            let referenced = self.slots[entry as usize].has(REFERENCED);
            let referenced = if referenced { REFERENCED } else { 0 };
            self.slots[slot as usize].set(id, HELD | VALID | flags | referenced);
            self.replace(entry, slot);
            self.head.valid += 1;
            self.head.dirty += u32::from(flags != 0);
        }
        self.slots[entry as usize].clear();
    }

    fn supersede(&mut self, slot: u32) {
        self.unlink(slot);
        self.head.valid -= 1;
        self.head.dirty -= u32::from(self.slots[slot as usize].has(DIRTY));
        self.head.superseded += 1;
        self.slots[slot as usize].lower(VALID | REFERENCED);
    }

    /// Frees the slots of finished dequeues, in order.
    fn release(&mut self) {
        while self.head.unit_first < self.head.unit_next {
            let at = (self.head.unit_first % UNITS as u64) as usize;
            let unit = self.head.units[at];
            let pending = unit.pending > 0 && !crate::mutant!("release-ignores-second-chances");
            if unit.state != UNIT_DONE || pending {
                break;
            }
            for position in unit.first..unit.first + self.group() {
                self.forget(self.slot_of(position));
            }
            self.head.units[at].state = UNIT_FREE;
            self.head.unit_first += 1;
            self.head.released_slot = self.slot_of(unit.first + self.group());
            self.head.released = unit.first + self.group();
        }
        self.close_if_asked();
    }

    /// Empties a slot.
    pub(crate) fn forget(&mut self, slot: u32) {
        let entry = self.slots[slot as usize];
        if entry.has(VALID) {
            self.supersede(slot);
        }
        if entry.has(HELD) {
            self.head.superseded -= 1;
        }
        self.slots[slot as usize].clear();
    }
}

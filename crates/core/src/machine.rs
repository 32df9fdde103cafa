//! The events of a partition. Each is one short step under the partition's latch: no I/O, no allocation, no waiting.
//!
//! A driver (the engine, the lab, PostgreSQL) calls [`Partition::fetch`] and [`Partition::evict`] for the buffer pool,
//! and in the background takes jobs with [`Partition::next_job`], does their I/O without the latch, and reports back.

use crate::job::{Admission, Fate, FrameId, Generation, Job, JobPage, Lookup, Taken, Ticket, Work};
use crate::policy::{Offer, Placement, Policy, Verdict, with_policy};
use crate::region::Partition;
use crate::slot::{DIRTY, VALID};
use crate::staging::{FILLING, READY};
use crate::{Lsn, PageId, Position, SlotId};

/// How full a partition is. All in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Slots there are.
    pub slots: u32,
    /// Newest durable versions.
    pub valid: u32,
    /// Of these, newer than disk.
    pub dirty: u32,
    /// Superseded versions.
    pub superseded: u32,
    /// In staging.
    pub staged: u32,
    /// Positions given out so far: pages that entered.
    pub entered: u64,
}

impl Partition<'_> {
    pub(crate) fn init_slots(&mut self) {
        if self.placement == Placement::Slots {
            self.slots_init();
        }
    }

    pub(crate) fn note_decision(&mut self, decision: u64) {
        let mixed = (self.head.decisions ^ decision).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.head.decisions = mixed ^ mixed >> 29;
    }

    /// Hash of every decision taken since the partition was formatted: equal traces give equal hashes, whichever door
    /// they come through.
    pub fn decision_hash(&self) -> u64 {
        self.head.decisions
    }

    /// DRAM misses `page`: where is it? Counts as a reference.
    #[inline]
    pub fn fetch(&mut self, page: PageId) -> Lookup {
        let Some(entry) = self.find(page) else { return Lookup::Absent };
        with_policy!(self.policy(), P => {
            P::on_hit(self, entry);
            self.describe(entry, P::FACTS.placement)
        })
    }

    /// As [`Partition::fetch`], without counting as a reference.
    pub fn peek(&self, page: PageId) -> Lookup {
        self.find(page).map_or(Lookup::Absent, |entry| self.describe(entry, self.placement))
    }

    #[inline(always)]
    fn describe(&self, entry: u32, placement: Placement) -> Lookup {
        let dirty = self.slots[entry as usize].has(DIRTY);
        if entry >= self.head.slots {
            let frame = entry - self.head.slots;
            let position = Position(self.staged[frame as usize].position);
            return Lookup::Staged { frame: FrameId(frame), position, dirty };
        }
        let generation = match placement {
            Placement::Log => Generation::Exact(Position(self.position_of(entry))),
            Placement::Slots => Generation::LowByte(self.generation_byte(entry)),
        };
        Lookup::Flash { slot: SlotId(entry), generation, dirty }
    }

    /// DRAM hands `page` down: `dirty` if newer than disk, `fdirty` if newer than the flash copy (FaCE algorithm 1).
    ///
    /// Written to disk first by the driver (write-through), it is handed down with `dirty` false.
    #[inline]
    pub fn evict(&mut self, page: PageId, lsn: Lsn, dirty: bool, fdirty: bool) -> Admission {
        let offer = Offer { page, dirty, fdirty };
        with_policy!(self.policy(), P => self.hand_down::<P>(&offer, lsn))
    }

    #[inline(always)]
    fn hand_down<P: Policy>(&mut self, offer: &Offer, lsn: Lsn) -> Admission {
        match P::admit(self, offer) {
            Verdict::There => {
                self.note_decision(offer.page.0 << 1);
                Admission::AlreadyThere
            }
            Verdict::Bypass => self.bypass(offer.page),
            Verdict::Enter => {
                let admission = self.enter_page::<P>(offer.page, lsn, offer.dirty);
                if admission != Admission::Full {
                    self.note_decision(offer.page.0 << 1 | 1);
                }
                admission
            }
        }
    }

    #[inline(always)]
    fn enter_page<P: Policy>(&mut self, page: PageId, lsn: Lsn, dirty: bool) -> Admission {
        match P::FACTS.placement {
            Placement::Log => self.log_enter::<P>(page, lsn, dirty),
            Placement::Slots => self.slots_enter(page, lsn, dirty),
        }
    }

    /// `page`, which [`Partition::fetch`] did not find, has come from disk and goes up to DRAM: may the policy have a copy?
    ///
    /// The answer is as for [`Partition::evict`]. The page is clean, so the driver need not wait when staging is full
    /// ([`Admission::Full`]), and [`Admission::Bypass`] asks nothing of it. Only policies that
    /// [populate](crate::PolicyKind::populates) ever take it.
    pub fn arrived(&mut self, page: PageId) -> Admission {
        if self.find(page).is_some() {
            return Admission::AlreadyThere;
        }
        if !with_policy!(self.policy(), P => P::arrive(self, page)) {
            self.note_decision(!(page.0 << 1));
            return Admission::Bypass { stale: false };
        }
        let admission = with_policy!(self.policy(), P => self.enter_page::<P>(page, Lsn(0), false));
        if admission != Admission::Full {
            self.note_decision(!(page.0 << 1 | 1));
        }
        admission
    }

    /// The driver keeps a changed `page` out, as its mode (write-around, read-only) will have it: every copy of it here is
    /// stale, and is forgotten. Gives [`Admission::Bypass`], or [`Admission::Full`] while a copy is being written, copied in
    /// or destaged: ask again when that is over.
    ///
    /// Only slot placement can take a copy back; in a log it stays until its turn comes.
    ///
    /// # Panics
    /// With log placement.
    pub fn bypass(&mut self, page: PageId) -> Admission {
        assert_eq!(self.placement, Placement::Slots, "a log takes no copy back");
        match self.slots_forget(page) {
            None => Admission::Full,
            Some(stale) => {
                self.note_decision(!(page.0 << 2));
                Admission::Bypass { stale }
            }
        }
    }

    /// `page` was read where [`Partition::fetch`] found it, proved to be the version meant, and is in DRAM now: an exclusive
    /// policy gives up its copy. The page keeps it while that is being written or destaged; then, or with other policies,
    /// nothing changes and [`Taken::Copied`] says so.
    ///
    /// A dirty page that has [moved](Taken::Moved) is in DRAM alone: to DRAM it is newer than disk and newer than flash.
    pub fn taken(&mut self, page: PageId) -> Taken {
        if !self.policy().exclusive() {
            return Taken::Copied;
        }
        let dirty = self.find(page).is_some_and(|entry| self.slots[entry as usize].has(DIRTY));
        match self.slots_forget(page) {
            Some(true) => {
                self.note_decision(!(page.0 << 2 | 1));
                Taken::Moved { dirty }
            }
            _ => Taken::Copied,
        }
    }

    /// The page given `frame` by [`Admission::Stage`] has been copied in.
    #[inline]
    pub fn staged(&mut self, frame: FrameId) {
        let staged = &mut self.staged[frame.0 as usize];
        debug_assert_eq!(staged.state, FILLING);
        staged.state = READY;
        if self.placement == Placement::Log {
            self.log_staged(frame.0);
        }
    }

    /// The next thing to do in the background, if there is one now. Several may be under way at once.
    pub fn next_job(&mut self) -> Option<Job> {
        Work::job(|pages| match self.placement {
            Placement::Log => self.write_job(pages).or_else(|| self.log_next_chore(pages)),
            Placement::Slots => self.write_one(pages).or_else(|| self.slots_next_chore(pages)),
        })
    }

    /// As [`Partition::next_job`], but write jobs only: for a worker that must stay free for them while others wait for
    /// room in staging.
    pub fn next_write(&mut self) -> Option<Job> {
        Work::job(|pages| match self.placement {
            Placement::Log => self.write_job(pages),
            Placement::Slots => self.write_one(pages),
        })
    }

    /// To be asked when [`Partition::next_write`] gives nothing: whether a page waits that only a chore makes room for. A
    /// chore that was looked for while the page was still being copied in has not seen it.
    pub fn write_waits_for_chore(&self) -> bool {
        match self.placement {
            Placement::Log => false,
            Placement::Slots => self.slots_wait_for_chore(),
        }
    }

    /// As [`Partition::next_job`], all but write jobs.
    pub fn next_chore(&mut self) -> Option<Job> {
        Work::job(|pages| match self.placement {
            Placement::Log => self.log_next_chore(pages),
            Placement::Slots => self.slots_next_chore(pages),
        })
    }

    /// Whether [`Partition::staged`] of `frame` has made a write job possible.
    pub fn write_due(&self, frame: FrameId) -> bool {
        match self.placement {
            Placement::Log => self.log_write_due(frame.0),
            Placement::Slots => true,
        }
    }

    /// A write job is complete; with log placement, if it completes a group, all of the group is durable. The pages are
    /// now served from flash (log placement: when their group is complete).
    pub fn written(&mut self, ticket: Ticket, pages: &[JobPage]) {
        match self.placement {
            Placement::Log => self.log_written(ticket, pages),
            Placement::Slots => pages.iter().for_each(|page| self.slots_written(page)),
        }
    }

    /// Gives a page of a dequeue whose fate is a second chance its place at the rear; `lsn` is the page's.
    /// [`Admission::AlreadyThere`]: a newer version has come in the meantime, nothing is to be done.
    pub fn restage(&mut self, ticket: Ticket, page: &JobPage, lsn: Lsn) -> Admission {
        self.log_restage(ticket, &JobPage { lsn, ..*page })
    }

    /// A dequeue job is complete: destages are durable on disk (slot placement: written), second chances are staged.
    pub fn dequeued(&mut self, ticket: Ticket) {
        match self.placement {
            Placement::Log => self.log_dequeued(ticket),
            Placement::Slots => self.slots_dequeued(ticket),
        }
    }

    /// The pages of a cleaning job are on disk.
    pub fn cleaned(&mut self, pages: &[JobPage]) {
        for page in pages {
            self.slots_cleaned(page.slot.0);
        }
    }

    /// For a checkpoint: sees to it that everything staged so far can be written, and is (log placement: closes the open
    /// group; slot placement: also what newer versions overtake from now on).
    pub fn close_group(&mut self) {
        match self.placement {
            Placement::Log => self.log_close_group(),
            Placement::Slots => self.head.close_at = self.head.rear,
        }
    }

    /// Nothing is in staging.
    pub fn staging_is_empty(&self) -> bool {
        self.head.staged == 0
    }

    /// Slot placement: the slot that holds a version of `page`, be there newer ones in staging or not.
    pub fn slot_holding(&self, page: PageId) -> Option<SlotId> {
        self.find_on_flash(page).map(SlotId)
    }

    /// Every position below this one is written and published.
    pub fn published(&self) -> Position {
        Position(self.head.staged_front)
    }

    /// Slot placement: the next dirty slot at or after `from`, as a cleaning job; `Err` names a slot to ask for again
    /// when the work under way on it is done. `None`: no dirty slot is left. For the checkpoint of a policy whose
    /// directory does not survive a crash.
    pub fn sweep(&mut self, from: SlotId) -> Option<Result<Job, SlotId>> {
        match self.slots_sweep(from.0)? {
            Ok(slot) => Work::job(|pages| {
                pages.push(self.start_copy(slot));
                Some(Work::Clean)
            })
            .map(Ok),
            Err(busy) => Some(Err(SlotId(busy))),
        }
    }

    /// What would be lost without the flash and the staging memory: versions newer than disk that lie there, and the
    /// oldest LSN known among them (those in staging; the directory does not keep LSNs).
    pub fn unsaved(&self) -> Unsaved {
        let mut unsaved = Unsaved { pages: self.head.dirty, oldest: None };
        for frame in self.staged_dirty() {
            unsaved.pages += 1;
            let lsn = Lsn(self.staged[frame as usize].lsn);
            unsaved.oldest = Some(unsaved.oldest.map_or(lsn, |oldest| oldest.min(lsn)));
        }
        unsaved
    }

    /// Pages in staging that are newer than disk, in the order in which they entered; a page may be there more than once.
    pub fn staged_dirty_pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.staged_dirty().map(|frame| self.slots[self.entry_of(frame) as usize].page())
    }

    fn staged_dirty(&self) -> impl Iterator<Item = u32> + '_ {
        let frames = (self.head.staged_front..self.head.rear).map(|position| self.frame_of(position));
        frames.filter(|frame| {
            let used = self.staged[*frame as usize].state != crate::staging::DONE && !self.is_padding(*frame);
            used && self.slots[self.entry_of(*frame) as usize].has(DIRTY)
        })
    }

    /// How full the partition is.
    pub fn occupancy(&self) -> Occupancy {
        Occupancy {
            slots: self.head.slots,
            valid: self.head.valid,
            dirty: self.head.dirty,
            superseded: self.head.superseded,
            staged: self.head.staged,
            entered: self.head.rear,
        }
    }

    /// Log placement: the positions whose slots are in use or may be: from the oldest not released to the rear.
    pub fn window(&self) -> (Position, Position) {
        (Position(self.head.released), Position(self.head.rear))
    }

    /// What lies in `slot`, for directory segments and inspection: its page, whether it is the newest version, and
    /// whether it is newer than disk. `None` if the slot is empty.
    pub fn slot(&self, slot: SlotId) -> Option<SlotView> {
        let entry = &self.slots[slot.0 as usize];
        let held = match self.placement {
            Placement::Log => entry.has(crate::slot::HELD),
            Placement::Slots => entry.has(VALID),
        };
        held.then(|| SlotView { page: entry.page(), valid: entry.has(VALID), dirty: entry.has(DIRTY) })
    }
}

/// What only flash and staging hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsaved {
    /// Versions newer than disk.
    pub pages: u32,
    /// The oldest LSN known among them.
    pub oldest: Option<Lsn>,
}

/// One occupied slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotView {
    /// The page in it.
    pub page: PageId,
    /// It is the newest durable version.
    pub valid: bool,
    /// It was newer than disk when it entered and has not been cleaned.
    pub dirty: bool,
}

/// Fates as numbers in the decision log.
const _: () = assert!(Fate::Drop as u8 == 0 && Fate::Destage as u8 == 1 && Fate::SecondChance as u8 == 2);

//! The events of a partition. Each is one short step under the partition's latch: without I/O, allocation or
//! waiting.
//!
//! A driver (the engine, the lab, PostgreSQL) calls [`Partition::fetch`] and [`Partition::evict`] for the
//! buffer pool. In the background it takes jobs with [`Partition::next_job`], does their I/O without the
//! latch, and reports them done.

use crate::config::Config;
use crate::contents::Contents;
use crate::job::{
    Admission, BackgroundJob, DequeuePages, Fate, Flush, FrameId, Generation, Job, Lookup, Taken, Ticket,
    WriteJob, WritePage, WritePages,
};
use crate::placement::{Ring, SlotTable};
use crate::policy::{Decision, Offer, Policy, PolicyState, ask};
use crate::slot::{DIRTY, HELD, VALID};
use crate::staging::FrameState;
use crate::{Lsn, PageId, Position, SlotId};

/// How full a partition is. All in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// All slots.
    pub slots: u32,
    /// Slots with the newest durable version of a page.
    pub valid: u32,
    /// Dirty slots among the valid ones.
    pub dirty: u32,
    /// Slots with a superseded version.
    pub superseded: u32,
    /// Pages in staging.
    pub staged: u32,
    /// Positions given out so far: the number of pages that entered.
    pub entered: u64,
}

/// The placement of pages on flash.
pub(crate) enum Place<'r> {
    Ring(Ring<'r>),
    Slots(SlotTable<'r>),
}

/// A partition attached to its region.
pub struct Partition<'r> {
    /// What it was made from.
    pub(crate) config: Config,
    pub(crate) contents: Contents<'r>,
    pub(crate) place: Place<'r>,
}

impl Partition<'_> {
    /// Hash of every decision since the partition was formatted. Equal traces give equal hashes, in whatever
    /// driver.
    pub fn decision_hash(&self) -> u64 {
        self.contents.decisions.0
    }

    /// The configuration from which the partition was made.
    pub fn config(&self) -> Config {
        self.config
    }

    /// Looks up `page` after a miss in DRAM. Counts as a reference.
    #[inline]
    pub fn fetch(&mut self, page: PageId) -> Lookup {
        let Contents { pages, policy, .. } = &mut self.contents;
        let Some(entry) = pages.directory.find(page) else { return Lookup::Absent };
        let dirty = pages.directory.entry(entry).has(DIRTY);
        ask!(policy, P, memory => P::on_hit(pages, memory, entry));
        self.describe(entry, dirty)
    }

    /// [`Partition::fetch`] has just not found `page`. Only policies that
    /// [learn from misses](crate::PolicyKind::learns_from_misses) take note of it. A call of its own, so that
    /// the others' misses cost nothing for it.
    pub fn missed(&mut self, page: PageId) {
        let Contents { pages, policy, .. } = &mut self.contents;
        debug_assert!(pages.directory.find(page).is_none());
        ask!(policy, P, memory => P::on_miss(pages, memory, page));
    }

    /// As [`Partition::fetch`], without counting as a reference.
    pub fn peek(&self, page: PageId) -> Lookup {
        let directory = &self.contents.pages.directory;
        let Some(entry) = directory.find(page) else { return Lookup::Absent };
        self.describe(entry, directory.entry(entry).has(DIRTY))
    }

    #[inline(always)]
    fn describe(&self, entry: u32, dirty: bool) -> Lookup {
        if let Some(frame) = self.contents.pages.directory.frame_of(entry) {
            let position = self.contents.staging.frame(frame).position;
            return Lookup::Staged { frame: FrameId(frame), position, dirty };
        }
        let generation = match &self.place {
            Place::Ring(ring) => Generation::Exact(Position(ring.position_of(entry))),
            Place::Slots(_) => Generation::LowByte(self.contents.pages.lists.generation_byte(entry)),
        };
        Lookup::Flash { slot: SlotId(entry), generation, dirty }
    }

    /// DRAM evicts `page`: `dirty` if newer than disk, `fdirty` if newer than the flash copy (FaCE algorithm
    /// 1).
    ///
    /// A page that the driver wrote to disk first (write-through) is evicted with `dirty` false.
    #[inline]
    pub fn evict(&mut self, page: PageId, lsn: Lsn, dirty: bool, fdirty: bool) -> Admission {
        let offer = Offer { page, dirty, fdirty };
        match self.decide(&offer) {
            Decision::There => {
                self.contents.decisions.note(page.0 << 1);
                Admission::AlreadyThere
            }
            Decision::Bypass => self.keep_out(&offer, lsn),
            Decision::Enter => self.enter(page, lsn, dirty, page.0 << 1 | 1),
        }
    }

    #[inline(always)]
    pub(crate) fn decide(&mut self, offer: &Offer) -> Decision {
        let Contents { pages, policy, .. } = &mut self.contents;
        ask!(policy, P, memory => P::admit(pages, memory, offer))
    }

    /// Stages `page`, if there is room, and records that as `decision`.
    #[inline(always)]
    pub(crate) fn enter(&mut self, page: PageId, lsn: Lsn, dirty: bool, decision: u64) -> Admission {
        let contents = &mut self.contents;
        let room = match &self.place {
            Place::Ring(ring) => ring.takes_one(&contents.staging),
            Place::Slots(_) => contents.staging.frame_available(),
        };
        if !room {
            return Admission::Full;
        }
        contents.decisions.note(decision);
        let admission = contents.enter(page, lsn, dirty);
        if let Admission::Stage { frame, .. } = admission {
            let Contents { pages, policy, .. } = contents;
            let entry = pages.directory.staged_entry(frame.0);
            ask!(policy, P, memory => P::on_stage(pages, memory, entry));
        }
        admission
    }

    /// Asks the policy whether it takes a copy of `page`, which [`Partition::fetch`] did not find and which
    /// the driver has read from disk into DRAM.
    ///
    /// The answer is as for [`Partition::evict`]. The page is clean, so the driver need not wait when staging
    /// is full ([`Admission::Full`]), and has nothing to do after [`Admission::Bypass`]. Only policies that
    /// [populate](crate::PolicyKind::populates) ever admit the page.
    pub fn arrived(&mut self, page: PageId) -> Admission {
        let room = match &self.place {
            Place::Ring(_) => false,
            Place::Slots(slots) => slots.has_room(&self.contents),
        };
        let Contents { pages, policy, decisions, .. } = &mut self.contents;
        if pages.directory.find(page).is_some() {
            return Admission::AlreadyThere;
        }
        if !ask!(policy, P, memory => P::arrive(pages, memory, page, room)) {
            decisions.note(!(page.0 << 1));
            return Admission::Bypass { stale: false };
        }
        self.enter(page, Lsn(0), false, !(page.0 << 1 | 1))
    }

    /// `page` was read where [`Partition::fetch`] found it, has the expected version, and is in DRAM now: an
    /// exclusive policy forgets its copy. A copy that is being written or destaged stays. In that case, and
    /// with other policies, nothing changes and the answer is [`Taken::Copied`].
    ///
    /// A dirty page that has [moved](Taken::Moved) is in DRAM alone: DRAM must treat it as newer than disk
    /// and newer than flash.
    pub fn taken(&mut self, page: PageId) -> Taken {
        let Place::Slots(slots) = &mut self.place else { return Taken::Copied };
        if !self.contents.policy.kind().exclusive() {
            return Taken::Copied;
        }
        let directory = &self.contents.pages.directory;
        let dirty = directory.find(page).is_some_and(|entry| directory.entry(entry).has(DIRTY));
        match slots.forget(&mut self.contents, page) {
            Some(true) => {
                self.contents.decisions.note(!(page.0 << 2 | 1));
                Taken::Moved { dirty }
            }
            _ => Taken::Copied,
        }
    }

    /// The page that was given `frame` by [`Admission::Stage`] has been copied into it.
    #[inline]
    pub fn staged(&mut self, frame: FrameId) {
        let staged = self.contents.staging.frame_mut(frame.0);
        debug_assert!(staged.is(FrameState::Filling));
        staged.set(FrameState::Ready);
        if let Place::Ring(ring) = &mut self.place {
            ring.staged(frame.0);
        }
    }

    /// As [`Partition::staged`]; `proof` is the checksum of the page, which is kept if the configuration says
    /// so.
    #[inline]
    pub fn staged_with(&mut self, frame: FrameId, proof: u32) {
        let directory = &mut self.contents.pages.directory;
        directory.set_proof(directory.staged_entry(frame.0), proof);
        self.staged(frame);
    }

    /// The checksum that was given for the page in `slot`; 0 if none are kept.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn proof(&self, slot: SlotId) -> u32 {
        self.contents.pages.directory.proof(slot.0)
    }

    /// The next background job, if there is one now. Several may be under way at once.
    pub fn next_job(&mut self) -> Option<Job> {
        let mut pages = WritePages::new();
        match self.take_write(&mut pages) {
            Some(write) => Some(write.of(pages)),
            None => self.next_background(),
        }
    }

    /// As [`Partition::next_job`], but write jobs only: for a worker that must stay free for them while other
    /// tasks wait for room in staging.
    pub fn next_write(&mut self) -> Option<Job> {
        let mut pages = WritePages::new();
        self.take_write(&mut pages).map(|write| write.of(pages))
    }

    /// As [`Partition::next_write`], with the pages in the caller's memory, which is overwritten.
    #[inline(always)]
    pub fn take_write(&mut self, pages: &mut WritePages) -> Option<WriteJob> {
        pages.clear();
        match &mut self.place {
            Place::Ring(ring) => ring.write_job(&mut self.contents, pages),
            Place::Slots(slots) => slots.write_job(&mut self.contents, pages),
        }
    }

    /// To be asked when [`Partition::next_write`] gives nothing: whether a page waits for room that only a
    /// background job makes. A search for background jobs while the page was still being copied in has missed
    /// it.
    pub fn write_waits_for_background(&self) -> bool {
        match &self.place {
            Place::Ring(_) => false,
            Place::Slots(slots) => slots.waits_for_background(&self.contents),
        }
    }

    /// As [`Partition::next_job`], but all jobs except write jobs.
    pub fn next_background(&mut self) -> Option<Job> {
        let mut pages = DequeuePages::new();
        self.take_background(&mut pages, false).map(|job| job.of(pages))
    }

    /// As [`Partition::next_background`], with the pages of a dequeue in the caller's memory, which is
    /// overwritten. With `spares_writes`, a group that is dequeued gives no second chances, since writes to
    /// flash are scarce; with slot placement there are none anyway.
    #[inline(always)]
    pub fn take_background(
        &mut self,
        pages: &mut DequeuePages,
        spares_writes: bool,
    ) -> Option<BackgroundJob> {
        pages.clear();
        match &mut self.place {
            Place::Ring(ring) => ring.next_background(&mut self.contents, pages, spares_writes),
            Place::Slots(slots) => slots.next_background(&mut self.contents, pages),
        }
    }

    /// Whether [`Partition::staged`] of `frame` has made a write job possible.
    pub fn write_due(&self, frame: FrameId) -> bool {
        match &self.place {
            Place::Ring(ring) => ring.write_due(&self.contents.staging, frame.0),
            Place::Slots(_) => true,
        }
    }

    /// A write job is complete. With log placement, if it completes a group, the whole group is durable. The
    /// pages are now served from flash (log placement: when their group is complete).
    pub fn written(&mut self, ticket: Ticket, pages: &[WritePage]) {
        let contents = &mut self.contents;
        match &mut self.place {
            Place::Ring(ring) => ring.written(contents, ticket, pages),
            Place::Slots(slots) => pages.iter().for_each(|page| slots.written(contents, page)),
        }
    }

    /// Log placement: what the write `ticket`, which is under way, flushes; `None`: nothing.
    pub fn flush_of(&self, ticket: Ticket) -> Option<Flush> {
        match &self.place {
            Place::Ring(ring) => ring.flush_of(&self.contents, ticket),
            Place::Slots(_) => None,
        }
    }

    /// Log placement: places of the group of the write `ticket` that were flushed before.
    pub fn flushed_places(&self, ticket: Ticket) -> u32 {
        match &self.place {
            Place::Ring(ring) => ring.groups[ticket.0 as usize].flushed,
            Place::Slots(_) => 0,
        }
    }

    /// A dequeue job is complete: its destages are durable on disk (slot placement: written), and its second
    /// chances are staged.
    pub fn dequeued(&mut self, ticket: Ticket) {
        match &mut self.place {
            Place::Ring(ring) => ring.dequeued(&mut self.contents, ticket),
            Place::Slots(slots) => slots.dequeued(&mut self.contents, ticket),
        }
    }

    /// For a checkpoint: makes everything staged so far writable. Log placement: closes the open group. Slot
    /// placement: from now on, staged versions are written even if newer ones overtake them.
    pub fn close_group(&mut self) {
        match &mut self.place {
            Place::Ring(ring) => ring.close_group(&mut self.contents),
            Place::Slots(slots) => slots.begin_checkpoint(&self.contents),
        }
    }

    /// Log placement: makes everything staged so far writable, in groups that are not full, too, and stay
    /// open. Returns the position up to which [`Partition::flushed`] is to come. `None`: records of forgotten
    /// pages wait for a group that has no room; ask again when a job is complete. Slot placement: as
    /// [`Partition::close_group`].
    ///
    /// The position does not say that records are durable: while some [wait](Partition::records_waiting), ask
    /// again. Nor are pages below it that are forgotten before they are written: these are safe when what
    /// made them dead is durable ([`Partition::awaits_dead`]).
    pub fn flush(&mut self) -> Option<Position> {
        match &mut self.place {
            Place::Ring(ring) => ring.flush(&mut self.contents),
            Place::Slots(slots) => {
                slots.begin_checkpoint(&self.contents);
                Some(Position(self.contents.staging.window.rear))
            }
        }
    }

    /// Everything below this position is durable on flash (slot placement: written).
    pub fn flushed(&self) -> Position {
        match &self.place {
            Place::Ring(ring) => Position(ring.flushed(&self.contents)),
            Place::Slots(_) => self.published(),
        }
    }

    /// Log placement: which pages a summary of the group that starts at `first`, and is in staging, names:
    /// bit `i` is that at position `first + i`. These are the pages that are neither missing nor forgotten,
    /// and those that were flushed before they were forgotten: until their record is durable, they may be all
    /// that a crash leaves.
    pub fn staged_pages(&self, first: Position) -> u128 {
        let staging = &self.contents.staging;
        let end = (first.0 + u64::from(staging.group_pages)).min(staging.window.rear);
        let is_named = |position: &u64| staging.at(*position).is_named();
        (first.0..end).filter(is_named).fold(0, |set, at| set | 1 << (at - first.0))
    }

    /// Whether staging is empty.
    pub fn staging_is_empty(&self) -> bool {
        self.contents.staging.window.used == 0
    }

    /// Slot placement: the slot that holds a version of `page`, whether or not newer ones are in staging.
    pub fn slot_holding(&self, page: PageId) -> Option<SlotId> {
        self.contents.pages.directory.find_on_flash(page).map(SlotId)
    }

    /// All positions below this one are written and published.
    pub fn published(&self) -> Position {
        Position(self.contents.staging.window.front)
    }

    /// The loss if flash and staging memory failed now: the number of dirty versions in them, and the oldest
    /// known LSN among these (those in staging; the directory does not keep LSNs).
    pub fn unsaved(&self) -> Unsaved {
        let mut unsaved = Unsaved { pages: self.contents.pages.directory.counts.dirty, oldest: None };
        for frame in self.contents.staged_dirty() {
            unsaved.pages += 1;
            let lsn = self.contents.staging.frame(frame).lsn;
            unsaved.oldest = Some(unsaved.oldest.map_or(lsn, |oldest| oldest.min(lsn)));
        }
        unsaved
    }

    /// The dirty pages in staging, in order of entry. A page may occur more than once.
    pub fn staged_dirty_pages(&self) -> impl Iterator<Item = PageId> + '_ {
        let directory = &self.contents.pages.directory;
        self.contents.staged_dirty().map(|frame| directory.entry(directory.staged_entry(frame)).page())
    }

    /// How full the partition is.
    pub fn occupancy(&self) -> Occupancy {
        let Contents { staging, pages, .. } = &self.contents;
        let superseded = match &self.place {
            Place::Ring(ring) => ring.head.superseded,
            Place::Slots(_) => 0,
        };
        Occupancy {
            slots: pages.directory.slots,
            valid: pages.directory.counts.valid,
            dirty: pages.directory.counts.dirty,
            superseded,
            staged: staging.window.used,
            entered: staging.window.rear,
        }
    }

    /// Log placement: the positions whose slots are or may be in use, from the oldest not released to the
    /// rear. Slot placement: all positions.
    pub fn window(&self) -> (Position, Position) {
        let released = match &self.place {
            Place::Ring(ring) => ring.head.released,
            Place::Slots(_) => 0,
        };
        (Position(released), Position(self.contents.staging.window.rear))
    }

    /// The content of `slot`, for directory segments and inspection: its page, whether it is the newest
    /// version, and whether it is dirty. `None` if the slot is empty.
    pub fn slot(&self, slot: SlotId) -> Option<SlotView> {
        let entry = self.contents.pages.directory.entry(slot.0);
        let held = match &self.place {
            Place::Ring(_) => entry.has(HELD),
            Place::Slots(_) => entry.has(VALID),
        };
        held.then(|| SlotView {
            page: entry.page(),
            valid: entry.has(VALID),
            dirty: entry.has(DIRTY),
            proof: self.proof(slot),
        })
    }

    /// TAC: the temperatures of regions of pages, in the order of the table, to be kept on flash. Empty with
    /// other policies.
    pub fn temperatures(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        let memory = if let PolicyState::Tac(memory) = &self.contents.policy { Some(memory) } else { None };
        (0..memory.map_or(0, |memory| memory.places()))
            .map(move |place| memory.map_or(0, |memory| memory.at(place)))
    }

    /// TAC: restores the temperatures. To be called before any slot is restored.
    pub fn restore_temperatures(&mut self, temperatures: impl IntoIterator<Item = u32>) {
        let PolicyState::Tac(memory) = &mut self.contents.policy else { return };
        memory.restore(temperatures);
    }
}

/// Data that only flash and staging hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsaved {
    /// Dirty versions.
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
    /// Its checksum; 0 if none are kept.
    pub proof: u32,
}

/// The decision log records fates as these numbers.
const _: () = assert!(Fate::Drop as u8 == 0 && Fate::Destage as u8 == 1 && Fate::SecondChance as u8 == 2);

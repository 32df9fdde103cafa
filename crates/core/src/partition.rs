//! The events of a partition. Each is one short step under the partition's latch: without I/O, allocation or
//! waiting.
//!
//! A driver (the engine, the lab, PostgreSQL) calls [`Partition::fetch`] and [`Partition::evict`] for the
//! buffer pool. In the background it takes jobs with [`Partition::next_job`], does their I/O without the
//! latch, and reports them done.
//!
//! There are two caches: a [`Log`] and [`Slots`]. A partition is one of them. Here is what both answer; what
//! only one of them can do is a method of its type, which a driver gets by [`Partition::log_mut`] or
//! [`Partition::slots_mut`]. So a request that makes no sense for a placement cannot be written. The type is
//! a sum, and not a pair of views over one: so `&` and `&mut` give the same type, nothing is built for a
//! call, and a driver that has one of the two asks no more which it is.

use crate::config::Config;
use crate::contents::Contents;
use crate::costs::{Costs, Load};
use crate::job::{
    Admission, BackgroundJob, CleanPage, Cleaning, DequeuePages, FORGET_PAGES_MAX, Fate, Forget, FrameId,
    Generation, Job, Lookup, SlotView, Ticket, WriteJob, WritePage, WritePages,
};
use crate::placement::{Log, Slots};
use crate::policy::{Offer, Policy, ask};
use crate::slot::{DIRTY, VALID};
use crate::staging::FrameState;
use crate::{Lsn, PageId, Position, SlotId};
use std::ops::Range;

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

/// A partition attached to its region.
// Both begin with what they share, at the same offset: so a step that needs no more does not look which of
// them it is.
#[repr(u8)]
pub enum Partition<'r> {
    /// With log placement.
    Log(Log<'r>),
    /// With slot placement.
    Slots(Slots<'r>),
}

impl<'r> Partition<'r> {
    /// What only log placement answers; `None` with slot placement.
    #[inline]
    pub fn log(&self) -> Option<&Log<'r>> {
        if let Partition::Log(log) = self { Some(log) } else { None }
    }

    /// As [`Partition::log`], to change it.
    #[inline]
    pub fn log_mut(&mut self) -> Option<&mut Log<'r>> {
        if let Partition::Log(log) = self { Some(log) } else { None }
    }

    /// What only slot placement answers; `None` with log placement.
    #[inline]
    pub fn slots(&self) -> Option<&Slots<'r>> {
        if let Partition::Slots(slots) = self { Some(slots) } else { None }
    }

    /// As [`Partition::slots`], to change them.
    #[inline]
    pub fn slots_mut(&mut self) -> Option<&mut Slots<'r>> {
        if let Partition::Slots(slots) = self { Some(slots) } else { None }
    }

    /// What both placements have.
    #[inline(always)]
    pub(crate) fn contents(&self) -> &Contents<'r> {
        match self {
            Partition::Log(log) => &log.contents,
            Partition::Slots(slots) => &slots.contents,
        }
    }

    #[inline(always)]
    pub(crate) fn contents_mut(&mut self) -> &mut Contents<'r> {
        match self {
            Partition::Log(log) => &mut log.contents,
            Partition::Slots(slots) => &mut slots.contents,
        }
    }
}

impl Partition<'_> {
    /// Hash of every decision since the partition was formatted. Equal traces give equal hashes, in whatever
    /// driver.
    pub fn decision_hash(&self) -> u64 {
        self.contents().decisions.0
    }

    /// The configuration from which the partition was made.
    pub fn config(&self) -> Config {
        self.contents().config
    }

    /// What the devices cost, from now on. Policies that weigh costs begin without them: then flash is not
    /// what limits them.
    pub fn set_costs(&mut self, costs: &Costs) {
        ask!(&mut self.contents_mut().policy, P, memory => P::set_costs(memory, costs));
    }

    /// How long the devices have been at work up to now. From time to time; a policy that
    /// [weighs costs](crate::Facts::weighs_costs) may go by it.
    pub fn observe(&mut self, load: Load) {
        ask!(&mut self.contents_mut().policy, P, memory => P::observe(memory, load));
    }

    /// Looks up `page` after a miss in DRAM. Counts as a reference.
    #[inline]
    pub fn fetch(&mut self, page: PageId) -> Lookup {
        let Contents { pages, policy, .. } = self.contents_mut();
        let Some(entry) = pages.directory.find(page) else { return Lookup::Absent };
        let dirty = pages.directory.entry(entry).has(DIRTY);
        ask!(policy, P, memory => P::on_hit(pages, memory, entry));
        self.describe(entry, dirty)
    }

    /// [`Partition::fetch`] has just not found `page`. Only policies that
    /// [learn from misses](crate::PolicyKind::learns_from_misses) take note of it. A call of its own, so that
    /// the others' misses cost nothing for it.
    pub fn missed(&mut self, page: PageId) {
        let Contents { pages, policy, .. } = self.contents_mut();
        debug_assert!(pages.directory.find(page).is_none());
        ask!(policy, P, memory => P::on_miss(pages, memory, page));
    }

    /// As [`Partition::fetch`], without counting as a reference.
    pub fn peek(&self, page: PageId) -> Lookup {
        let directory = &self.contents().pages.directory;
        let Some(entry) = directory.find(page) else { return Lookup::Absent };
        self.describe(entry, directory.entry(entry).has(DIRTY))
    }

    #[inline(always)]
    fn describe(&self, entry: u32, dirty: bool) -> Lookup {
        let Contents { staging, pages, .. } = self.contents();
        if let Some(frame) = pages.directory.frame_of(entry) {
            let position = staging.frame(frame).position;
            return Lookup::Staged { frame: FrameId(frame), position, dirty };
        }
        let generation = match self {
            Partition::Log(log) => Generation::Exact(Position(log.ring.position_of(entry))),
            Partition::Slots(_) => Generation::LowByte(pages.lists.generation_byte(entry)),
        };
        Lookup::Flash { slot: SlotId(entry), generation, dirty }
    }

    /// DRAM evicts `page`: `dirty` if newer than disk, `fdirty` if newer than the flash copy (FaCE algorithm
    /// 1). A page that is dirty and not `fdirty` was on flash as it is. If [`Config::keeps_bases`], one that
    /// has left the flash since enters as a clean page: the disk has it, durably.
    ///
    /// A page that the driver wrote to disk first (write-through) is evicted with `dirty` false.
    #[inline]
    pub fn evict(&mut self, page: PageId, lsn: Lsn, dirty: bool, fdirty: bool) -> Admission {
        let offer = Offer { page, dirty, fdirty };
        match self {
            Partition::Log(log) => log.evict(&offer, lsn),
            Partition::Slots(slots) => slots.evict(&offer, lsn),
        }
    }

    /// The page that was given `frame` by [`Admission::Stage`] has been copied into it.
    #[inline]
    pub fn staged(&mut self, frame: FrameId) {
        let staged = self.contents_mut().staging.frame_mut(frame.0);
        debug_assert!(staged.is(FrameState::Filling));
        staged.set(FrameState::Ready);
        if let Partition::Log(log) = self {
            log.ring.staged(frame.0);
        }
    }

    /// Whether the page that was given `frame` by [`Admission::Stage`] is newer than disk. (One that DRAM
    /// calls so may have left the flash since.)
    pub fn is_staged_dirty(&self, frame: FrameId) -> bool {
        let directory = &self.contents().pages.directory;
        directory.entry(directory.staged_entry(frame.0)).has(DIRTY)
    }

    /// As [`Partition::staged`]; `proof` is the checksum of the page, which is kept if the configuration says
    /// so.
    #[inline]
    pub fn staged_with(&mut self, frame: FrameId, proof: u32) {
        let directory = &mut self.contents_mut().pages.directory;
        directory.set_proof(directory.staged_entry(frame.0), proof);
        self.staged(frame);
    }

    /// The checksum that was given for the page in `slot`; 0 if none are kept.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn proof(&self, slot: SlotId) -> u32 {
        self.contents().pages.directory.proof(slot.0)
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
        match self {
            Partition::Log(Log { contents, ring }) => ring.write_job(contents, pages),
            Partition::Slots(Slots { contents, table }) => table.write_job(contents, pages),
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
        match self {
            Partition::Log(Log { contents, ring }) => ring.next_background(contents, pages, spares_writes),
            Partition::Slots(Slots { contents, table }) => table.next_background(contents, pages),
        }
    }

    /// Whether [`Partition::staged`] of `frame` has made a write job possible.
    pub fn write_due(&self, frame: FrameId) -> bool {
        match self {
            Partition::Log(log) => log.ring.write_due(&log.contents.staging, frame.0),
            Partition::Slots(slots) => slots.table.batch_may_be_due(&slots.contents, frame.0),
        }
    }

    /// Whether a write of the group of `frame`, of which none is under way, may be due.
    pub fn another_write_due(&self, frame: FrameId) -> bool {
        match self {
            Partition::Log(log) => log.ring.another_write_due(&log.contents.staging, frame.0),
            Partition::Slots(_) => true,
        }
    }

    /// A write job is complete. With log placement, if it completes a group, the whole group is durable. The
    /// pages are now served from flash (log placement: when their group is complete).
    pub fn written(&mut self, ticket: Ticket, pages: &[WritePage]) {
        match self {
            Partition::Log(Log { contents, ring }) => ring.written(contents, ticket, pages),
            Partition::Slots(Slots { contents, table }) => {
                table.written(contents, ticket, pages);
            }
        }
    }

    /// A dequeue job is complete: its destages are durable on disk (slot placement: written), and its second
    /// chances are staged.
    pub fn dequeued(&mut self, ticket: Ticket) {
        match self {
            Partition::Log(Log { contents, ring }) => ring.dequeued(contents, ticket),
            Partition::Slots(Slots { contents, table }) => table.dequeued(contents, ticket),
        }
    }

    /// For a checkpoint: makes everything staged so far writable. Log placement: closes the open group. Slot
    /// placement: from now on, staged versions are written even if newer ones overtake them.
    pub fn close_group(&mut self) {
        match self {
            Partition::Log(Log { contents, ring }) => ring.close_group(contents),
            Partition::Slots(Slots { contents, table }) => table.begin_checkpoint(contents),
        }
    }

    /// Log placement: makes everything staged so far writable, in groups that are not full, too, and stay
    /// open. Returns the position up to which [`Partition::flushed`] is to come. `None`: records of forgotten
    /// pages wait for a group that has no room; ask again when a job is complete. Slot placement: as
    /// [`Partition::close_group`].
    ///
    /// The position does not say that records are durable: while some [wait](Log::records_waiting), ask
    /// again. Nor are pages below it that are forgotten before they are written: these are safe when what
    /// made them dead is durable ([`Log::awaits_dead`]).
    pub fn flush(&mut self) -> Option<Position> {
        match self {
            Partition::Log(Log { contents, ring }) => ring.flush(contents),
            Partition::Slots(Slots { contents, table }) => {
                table.begin_checkpoint(contents);
                Some(Position(contents.staging.window.rear))
            }
        }
    }

    /// Everything below this position is durable on flash (slot placement: written).
    pub fn flushed(&self) -> Position {
        match self {
            Partition::Log(log) => Position(log.ring.flushed(&log.contents)),
            Partition::Slots(_) => self.published(),
        }
    }

    /// Whether staging is empty.
    pub fn staging_is_empty(&self) -> bool {
        self.contents().staging.window.used == 0
    }

    /// All positions below this one are written and published.
    pub fn published(&self) -> Position {
        Position(self.contents().staging.window.front)
    }

    /// The loss if flash and staging memory failed now: the number of dirty versions in them, and the oldest
    /// known LSN among these (those in staging; the directory does not keep LSNs).
    pub fn unsaved(&self) -> Unsaved {
        let contents = self.contents();
        let mut unsaved = Unsaved { pages: contents.pages.directory.counts.dirty, oldest: None };
        for frame in contents.staged_dirty() {
            unsaved.pages += 1;
            let lsn = contents.staging.frame(frame).lsn;
            unsaved.oldest = Some(unsaved.oldest.map_or(lsn, |oldest| oldest.min(lsn)));
        }
        unsaved
    }

    /// The dirty pages in staging, in order of entry. A page may occur more than once.
    pub fn staged_dirty_pages(&self) -> impl Iterator<Item = PageId> + '_ {
        let directory = &self.contents().pages.directory;
        self.contents().staged_dirty().map(|frame| directory.entry(directory.staged_entry(frame)).page())
    }

    /// Dirty pages with their slots, in slot order.
    pub fn dirty_slots(&self) -> impl Iterator<Item = (SlotId, PageId)> + '_ {
        let slots = self.contents().pages.directory.of_slots().iter().zip(0..);
        let dirty = slots.filter(|(entry, _)| entry.has(VALID) && entry.has(DIRTY));
        dirty.map(|(entry, slot)| (SlotId(slot), entry.page()))
    }

    /// The dirty pages in these slots that entered before a position. In slots no age is known: all.
    pub fn dirty_before(
        &self,
        slots: Range<u32>,
        before: Option<Position>,
    ) -> impl Iterator<Item = PageId> + '_ {
        let ring = self.log().map(|log| &log.ring);
        let is_old = move |slot| {
            let (Some(ring), Some(before)) = (ring, before) else { return true };
            ring.position_of(slot) < before.0
        };
        let entries = self.contents().pages.directory.of_slots();
        let slots = slots.start.min(entries.len() as u32)..slots.end.min(entries.len() as u32);
        let entries = entries.range(slots.start as usize..slots.end as usize).iter().zip(slots);
        let dirty = entries.filter(|(entry, _)| entry.has(VALID) && entry.has(DIRTY));
        dirty.filter(move |(_, slot)| is_old(*slot)).map(|(entry, _)| entry.page())
    }

    /// Entries of the directory: of slots and of staging frames.
    pub fn entries(&self) -> u32 {
        self.contents().pages.directory.entries()
    }

    /// How full the partition is.
    pub fn occupancy(&self) -> Occupancy {
        let Contents { staging, pages, .. } = self.contents();
        Occupancy {
            slots: pages.directory.slots,
            valid: pages.directory.counts.valid,
            dirty: pages.directory.counts.dirty,
            superseded: self.log().map_or(0, |log| log.ring.head.superseded),
            staged: staging.window.used,
            entered: staging.window.rear,
        }
    }

    /// Log placement: the positions whose slots are or may be in use, from the oldest not released to the
    /// rear. Slot placement: all positions.
    pub fn window(&self) -> (Position, Position) {
        let released = self.log().map_or(0, |log| log.ring.head.released);
        (Position(released), Position(self.contents().staging.window.rear))
    }

    /// The content of `slot`, for directory segments and inspection: its page, whether it is the newest
    /// version, and whether it is dirty. `None` if the slot is empty.
    pub fn slot(&self, slot: SlotId) -> Option<SlotView> {
        match self {
            Partition::Log(log) => log.slot(slot),
            Partition::Slots(slots) => slots.slot(slot),
        }
    }

    /// Whether `page` was fetched since it entered, under a policy that notes that.
    pub fn is_referenced(&self, page: PageId) -> bool {
        let directory = &self.contents().pages.directory;
        directory.find(page).is_some_and(|entry| directory.index.is_referenced(entry))
    }

    /// Forgets the pages from `first` to `last`, at most [`FORGET_PAGES_MAX`]: they are dead, or are about to
    /// be written elsewhere. `after` is the driver's number of what made them dead: no record of it is to be
    /// written, and no slot is released, before that is durable.
    ///
    /// Slot placement frees the slots at once, and its directory does not outlive a crash (or is the driver's
    /// to change). Log placement needs a record of it on flash ([`Log::records`]).
    pub fn forget(&mut self, first: PageId, last: PageId, after: u64) -> Forget {
        debug_assert!(last.0 - first.0 < FORGET_PAGES_MAX);
        match self {
            Partition::Log(Log { contents, ring }) => ring.forget_pages(contents, (first, last), after),
            Partition::Slots(slots) => slots.forget(first, last),
        }
    }

    /// Begins to copy the newest version of `page` in a slot to disk, where it stays as a clean page: before
    /// its slot is needed, since its owner wants it there. Until the copy is reported, it counts as on its
    /// way to disk ([`Log::is_in_dequeue`]). Log placement: at most [`crate::CLEANINGS_MAX`] at once, and no
    /// dequeue of its group begins meanwhile, so that no version of the page follows it to disk out of order.
    pub fn clean(&mut self, page: PageId) -> Cleaning {
        let directory = &self.contents().pages.directory;
        let copy = directory.find_on_flash(page).filter(|slot| directory.entry(*slot).has(DIRTY));
        let Some(slot) = copy else { return Cleaning::Clean };
        let page = match self {
            Partition::Log(Log { contents, ring }) => ring.clean(contents, slot),
            Partition::Slots(slots) => slots.clean(slot),
        };
        page.map_or(Cleaning::Busy, Cleaning::Copy)
    }

    /// The page of a cleaning is on disk; with log placement durably. If it is still the newest version in a
    /// slot, it is clean now.
    pub fn cleaned(&mut self, page: &CleanPage) {
        match self {
            Partition::Log(Log { contents, ring }) => ring.cleaned(contents, page),
            Partition::Slots(slots) => slots.cleaned(page.slot.0),
        }
    }

    /// The page of a cleaning could not be copied. It stays dirty.
    pub fn clean_failed(&mut self, page: &CleanPage) {
        match self {
            Partition::Log(log) => log.ring.clean_ends(page),
            Partition::Slots(slots) => slots.clean_failed(page.slot.0),
        }
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

/// The decision log records fates as these numbers.
const _: () = assert!(Fate::Drop as u8 == 0 && Fate::Destage as u8 == 1 && Fate::SecondChance as u8 == 2);

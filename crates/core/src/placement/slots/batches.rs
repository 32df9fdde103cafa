//! Slots that survive a crash ([`Config::keeps_slots`](crate::Config)). Staged pages are written in
//! *batches*: to free slots, with a summary that says which slot has which page from now on, and which slots
//! are empty. One sync makes both durable. So segments of the directory and the summaries after them tell
//! what was in the slots when power failed.
//!
//! - A page is never written over a slot in which a crash may have to find a page. Its newer version takes
//!   a free slot, and when that is durable, the older slot is free.
//! - A slot that is emptied otherwise *leaves*: it is free when a durable summary says that it is empty.
//!   Until then a crash may find its page. So a changed page of which a slot is leaving enters the cache,
//!   whatever the policy says: past the cache, its older version might come back.
//! - Batches are numbered. Several may be under way, and they may end in any order, since they concern
//!   different slots and different pages: the older slot of a page that is being written is busy, and a newer
//!   version of it waits.
//! - A summary names the slot that a page comes from. So each slot can be brought back by itself: what the
//!   newest summary says that names it, or the segment, if that is newer.
//!
//! Invariants:
//! - Leaving slots are in one chain, in the order in which they left; those of a batch are a chain of its
//!   own. They keep their pages' ids, are busy and not valid.
//! - `left` counts the slots that ever left, `taken` those of them that batches took. What left before
//!   `durable` is recorded durably.

mod asked;

pub use asked::{BatchView, DurableBatches, OlderSlot};

use super::SlotTable;
use super::write::{Place, is_overtaken, place_of, write_of};
use crate::PageId;
use crate::contents::Contents;
use crate::hash::bucket_of;
use crate::job::{Ticket, WriteJob, WritePage, WritePages};
use crate::policy::{Policy, SlotPolicy, ask, ask_slots};
use crate::slot::{BUSY, DIRTY, NIL, VALID};
use crate::staging::FrameState;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most pages of a batch.
pub const BATCH_PAGES_MAX: usize = 64;
/// Most slots that the summary of a batch calls empty.
pub const BATCH_EMPTIED_MAX: usize = 96;
/// Batches that may be under way at once.
pub const BATCHES_MAX: usize = 8;

/// Counters of leaving slots, by a hash of their pages.
const FILTER: usize = 256;

/// A batch under way.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Batch {
    /// Counted from the first ever.
    number: u64,
    /// Slots that left before the first one of this batch did.
    left_before: u64,
    /// All batches below this number were durable when it began: its summary says so.
    tells: u64,
    /// First of the slots that its summary calls empty.
    first: u32,
    /// How many these are.
    emptied: u32,
    /// 1 while it is under way.
    is_under_way: u32,
    /// Keeps it a multiple of 8 bytes long.
    reserved: u32,
}

/// The batches, and the slots that are leaving.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Batches {
    /// The number of the first batch since the start.
    first_of_run: u64,
    /// The number of the next batch.
    next: u64,
    /// Slots that left, ever.
    left: u64,
    /// Those of them that batches took.
    taken: u64,
    /// A batch is due while fewer were taken.
    wanted: u64,
    /// A batch is due while `next` is below, for what its summary repeats.
    repeat_to: u64,
    /// The newest batch that is durable and has changed anything is below this number.
    changed: u64,
    /// A durable summary says that all batches below this number were durable.
    told: u64,
    /// The chain of those that no batch has taken.
    first: u32,
    last: u32,
    under_way: [Batch; BATCHES_MAX],
    /// By a hash of the page: leaving slots, those of batches under way included.
    filter: [u16; FILTER],
}

fn place_in_filter(page: PageId) -> usize {
    bucket_of(page.0, FILTER)
}

impl Batches {
    pub(super) fn format(&mut self) {
        (self.first, self.last) = (NIL, NIL);
    }

    /// What left before this one is recorded durably.
    fn durable(&self) -> u64 {
        let under_way = self.under_way.iter().filter(|batch| batch.is_under_way != 0);
        under_way.map(|batch| batch.left_before).min().unwrap_or(self.taken)
    }

    /// Slots that will be free when what is known of them is recorded.
    pub(super) fn leaving(&self) -> u32 {
        let in_batches: u32 = self.under_way.iter().map(|batch| batch.emptied).sum();
        in_batches + (self.left - self.taken) as u32
    }

    fn any_under_way(&self) -> bool {
        self.under_way.iter().any(|batch| batch.is_under_way != 0)
    }

    /// The batches under way, and all to come, have this number or a greater one.
    fn oldest(&self) -> u64 {
        let under_way = self.under_way.iter().filter(|batch| batch.is_under_way != 0);
        under_way.map(|batch| batch.number).min().unwrap_or(self.next)
    }

    /// The starts of the chains of leaving slots, with their lengths: those of the newest are the last.
    pub(crate) fn chains(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut order: [usize; BATCHES_MAX] = std::array::from_fn(|at| at);
        order.sort_unstable_by_key(|at| self.under_way[*at].number);
        let of_batches = order.into_iter().map(|at| (self.under_way[at].first, self.under_way[at].emptied));
        of_batches.chain([(self.first, (self.left - self.taken) as u32)])
    }
}

impl SlotTable<'_> {
    /// The page of `slot` is gone from the index. The slot is free, or leaves.
    pub(super) fn release(&mut self, contents: &mut Contents<'_>, slot: u32) {
        let Some(batches) = self.batches.as_deref_mut() else {
            return self.push_free(&mut contents.pages, slot);
        };
        let directory = &mut contents.pages.directory;
        let entry = directory.entry(slot);
        entry.lower(VALID | DIRTY);
        entry.raise(BUSY);
        entry.set_next(NIL);
        batches.filter[place_in_filter(entry.page())] += 1;
        if batches.left == batches.taken {
            batches.first = slot;
        } else {
            directory.entry(batches.last).set_next(slot);
        }
        batches.last = slot;
        batches.left += 1;
    }

    /// Slots that are emptied so far are recorded without waiting for a full batch.
    pub(super) fn want_records(&mut self) {
        self.want_records_below(u64::MAX);
    }

    /// As [`SlotTable::want_records`], the first `count` that were emptied ever.
    pub(crate) fn want_records_below(&mut self, count: u64) {
        if let Some(batches) = self.batches.as_deref_mut() {
            batches.wanted = batches.wanted.max(count.min(batches.left));
        }
    }

    /// Whether the page in `frame` may make a batch due.
    pub(crate) fn batch_may_be_due(&self, contents: &Contents<'_>, frame: u32) -> bool {
        let window = &contents.staging.window;
        self.batches.is_none()
            || u64::from(window.used) >= batch_pages(contents)
            || contents.staging.frame(frame).position.0 < self.head.checkpoint
    }

    /// Begins a batch, if one is due: enough pages are ready, staging fills up, a checkpoint or a flush
    /// waits, or slots that leave are needed.
    pub(super) fn write_batch(
        &mut self,
        contents: &mut Contents<'_>,
        pages: &mut WritePages,
    ) -> Option<WriteJob> {
        let batches = self.batches.as_deref()?;
        let at = batches.under_way.iter().position(|batch| batch.is_under_way == 0)?;
        let records_wanted = batches.taken < batches.wanted;
        self.finish_overtaken(contents);
        let target = batch_pages(contents);
        let (mut ready, mut placeable, mut wanted) = (0, 0, records_wanted);
        for position in contents.staging.positions() {
            if waits_for_slot(contents, position) {
                ready += 1;
                placeable += u64::from(self.has_free_for(contents, position));
                wanted |= position < self.head.checkpoint;
                if ready == target {
                    break;
                }
            }
        }
        let batches = self.batches.as_deref()?;
        let leave = batches.left > batches.taken;
        let room = placeable.min(self.head.free.into());
        let is_crowded = u64::from(contents.staging.window.used) + target > contents.staging.pages();
        // Without sets no page has room, with sets those that are ready may be few.
        let is_pressing = wanted || is_crowded || ready >= target || !self.in_sets;
        // With few free slots, those of the batches under way are waited for.
        let is_worthwhile = room == ready || !batches.any_under_way();
        let is_due = match () {
            () if batches.next < batches.repeat_to && !batches.any_under_way() => true,
            () if room == 0 => leave && (records_wanted || ready > 0 && is_pressing),
            () if wanted => true,
            () => (ready >= target || is_crowded) && is_worthwhile,
        };
        if !is_due {
            return None;
        }
        for position in contents.staging.positions() {
            if pages.len() as u64 == target {
                break;
            }
            if !self.in_sets && self.head.free == 0 {
                break;
            }
            if waits_for_slot(contents, position) {
                self.place_in_batch(contents, position, pages);
            }
        }
        self.begin_batch(contents, at);
        Some(WriteJob { ticket: Ticket(at as u32), one_io: false, completes_group: false })
    }

    /// Versions that newer ones have overtaken, and that no checkpoint waits for, need no slot.
    fn finish_overtaken(&mut self, contents: &mut Contents<'_>) {
        for position in contents.staging.positions() {
            let frame = contents.staging.frame_of(position);
            let is_ready = contents.staging.frame(frame).is(FrameState::Ready);
            let directory = &contents.pages.directory;
            if is_ready
                && position >= self.head.checkpoint
                && is_overtaken(directory, directory.staged_entry(frame))
            {
                self.finish_frame(contents, frame);
            }
        }
        contents.staging.retire(1);
    }

    /// Gives the page at `position` a free slot, if one is there for it.
    fn place_in_batch(&mut self, contents: &mut Contents<'_>, position: u64, pages: &mut WritePages) {
        let frame = contents.staging.frame_of(position);
        let entry = contents.pages.directory.staged_entry(frame);
        let page = contents.pages.directory.entry(entry).page();
        let Some(slot) = self.pop_free(&mut contents.pages, page) else { return };
        let directory = &mut contents.pages.directory;
        match directory.find_on_flash(page) {
            Some(older) => directory.entry(older).raise(BUSY),
            None if self.in_sets => self.replace_in_set(contents, page),
            None => {}
        }
        pages.push(write_of(contents, position, slot));
    }

    /// The batch at `at` begins, and takes leaving slots.
    fn begin_batch(&mut self, contents: &Contents<'_>, at: usize) {
        let Some(batches) = self.batches.as_deref_mut() else { return };
        let emptied = (batches.left - batches.taken).min(BATCH_EMPTIED_MAX as u64) as u32;
        let tells = batches.oldest();
        batches.under_way[at] = Batch {
            number: batches.next,
            left_before: batches.taken,
            tells,
            first: batches.first,
            emptied,
            is_under_way: 1,
            reserved: 0,
        };
        batches.next += 1;
        batches.taken += u64::from(emptied);
        for _ in 0..emptied {
            batches.first = contents.pages.directory.entry(batches.first).next();
        }
    }

    /// The batch of `ticket` is durable: its pages are served from their slots, and the slots that they came
    /// from, and those that left with it, are free.
    pub(super) fn batch_is_durable(
        &mut self,
        contents: &mut Contents<'_>,
        ticket: Ticket,
        pages: &[WritePage],
    ) {
        for page in pages {
            self.publish(contents, page);
        }
        let Some(batches) = self.batches.as_deref_mut() else { return };
        let batch = &mut batches.under_way[ticket.0 as usize];
        let (mut slot, emptied) = (batch.first, batch.emptied);
        let (number, tells) = (batch.number, batch.tells);
        (batch.is_under_way, batch.emptied) = (0, 0);
        batches.told = batches.told.max(tells);
        if emptied > 0 || !pages.is_empty() {
            batches.changed = batches.changed.max(number + 1);
        }
        for _ in 0..emptied {
            let entry = contents.pages.directory.entry(slot).content();
            if let Some(batches) = self.batches.as_deref_mut() {
                batches.filter[place_in_filter(entry.page())] -= 1;
            }
            self.push_free(&mut contents.pages, slot);
            self.dequeue_ends(slot);
            slot = entry.next();
        }
        contents.staging.retire(1);
    }

    /// A page is durable in its new slot.
    fn publish(&mut self, contents: &mut Contents<'_>, page: &WritePage) {
        let (frame, slot) = (page.frame.0, page.slot.0);
        let has_lists = contents.config.lists() > 0;
        let Contents { staging, pages, policy, .. } = contents;
        let directory = &mut pages.directory;
        let entry = directory.staged_entry(frame);
        directory.carry_proof(entry, slot);
        ask!(policy, P, memory => P::on_carry(memory, entry, slot));
        let dirty = if page.dirty { DIRTY } else { 0 };
        match directory.find_on_flash(directory.entry(entry).page()) {
            None => {
                directory.settle(entry, slot, dirty);
                ask_slots!(policy, P, memory => P::on_enter(pages, memory, slot));
            }
            Some(older) => {
                directory.unstage(entry);
                directory.relocate(older, slot, dirty);
                pages.hits.replace(older, slot);
                if has_lists {
                    pages.lists.replace(older, slot);
                }
                ask_slots!(policy, P, memory => P::on_overwrite(pages, memory, slot));
                self.push_free(pages, older);
            }
        }
        pages.lists.set_generation_byte(slot, page.stamp.0 as u8);
        self.done(staging, frame);
    }

    /// Whether a page waits for a slot, and none is free, is to be, or leaves: only a background job makes
    /// room.
    pub(super) fn batch_waits_for_background(&self, contents: &Contents<'_>) -> bool {
        let Some(batches) = self.batches.as_deref() else { return false };
        self.head.free == 0
            && batches.leaving() == 0
            && contents.staging.positions().any(|position| waits_for_slot(contents, position))
    }
}

/// Pages of a full batch.
fn batch_pages(contents: &Contents<'_>) -> u64 {
    u64::from(contents.staging.group_pages).min(BATCH_PAGES_MAX as u64)
}

/// Whether the page at `position` may be written, if there is a slot for it.
fn waits_for_slot(contents: &Contents<'_>, position: u64) -> bool {
    let frame = contents.staging.frame_of(position);
    let directory = &contents.pages.directory;
    contents.staging.frame(frame).is(FrameState::Ready)
        && place_of(directory, &contents.staging, directory.staged_entry(frame)) != Place::Busy
}

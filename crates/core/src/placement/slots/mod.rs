//! Slot placement: a page is placed in any slot, or in any of its set, and is overwritten there. The
//! directory does not survive a crash unless the driver keeps one, so a write need not be durable when it is
//! published.
//!
//! - A page that has a slot is written to the same slot; a new one takes a free slot. Slots are emptied ahead
//!   of demand, or for the page that needs one: the policy chooses. In the second case a clean victim is
//!   emptied in the same step.
//! - `BUSY` marks a slot with a write, a destage or a cleaning under way. No other operation is started on
//!   it.
//! - A staged version that is overtaken by a newer one before its write began is not written, unless a
//!   checkpoint began in between (`checkpoint`): the checkpoint waits for this version's position only.
//! - Slots that are to survive a crash are written in batches instead, each page to a free slot
//!   ([`batches`]).
//! - Each slot has a byte that counts its writes, and keeps its value when the slot is emptied. In the stamp
//!   of a page it replaces the lowest byte of the position. So a page left by a lost or misdirected write is
//!   distinguished from the expected one.
//! - Policies with sets keep the free slots of each set in a list, numbered after those of the pages
//!   ([`in_sets`]). The others keep all free slots in one chain.
//!
//! Invariants:
//! - A slot is valid, or free, or new: busy with its first write. One that leaves is busy, too. `free` counts
//!   the free slots, `dequeuing` the dequeues.
//! - The valid slots are those in the policy's lists, each in one list.
//! - With sets, pages and free slots are in their set and in the set's lists.
//! - At most one dequeue is under way for a staged page. `emptied_for` names its slot until the dequeue ends
//!   or, if slots survive a crash, until the slot is free.

mod batches;
mod bypass;
mod dequeue;
mod in_sets;
mod restore;
mod write;

pub(crate) use batches::Batches;
pub use batches::{BATCH_EMPTIED_MAX, BATCH_PAGES_MAX, BATCHES_MAX, BatchView, DurableBatches, OlderSlot};

use crate::contents::Contents;
use crate::job::{Admission, SlotView};
use crate::pages::Pages;
use crate::policy::{Decision, Lists, Offer, Policy, SlotPolicy, ask, ask_slots};
use crate::sections::{Carver, SectionPlan};
use crate::sizes::Sizes;
use crate::slot::{DIRTY, NIL, VALID};
use crate::{Lsn, PageId, SlotId};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Scalars of the slots.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct SlotTableHead {
    /// The start of the last checkpoint: versions before this position are written even if they are
    /// overtaken.
    checkpoint: u64,
    /// First of the chain of free slots (without sets).
    pub first_free: u32,
    /// Free slots.
    pub free: u32,
    /// Dequeues under way.
    dequeuing: u32,
    /// Keeps the head a multiple of 8 bytes long.
    reserved: u32,
}

/// A cache with slot placement: what only such a one can do. What both placements can is at
/// [`Partition`](crate::Partition).
// As [`Log`](crate::Log): the common part is first.
#[repr(C)]
pub struct Slots<'r> {
    pub(crate) contents: Contents<'r>,
    pub(crate) table: SlotTable<'r>,
}

impl Slots<'_> {
    /// As [`Partition::evict`](crate::Partition::evict).
    #[inline(always)]
    pub(crate) fn evict(&mut self, offer: &Offer, lsn: Lsn) -> Admission {
        match self.contents.decide(offer) {
            Decision::There => self.contents.is_there(offer),
            Decision::Bypass if (offer.dirty || offer.fdirty) && self.may_be_found(offer.page) => {
                self.enter(offer.page, lsn, offer.dirty, offer.page.0 << 1 | 1)
            }
            Decision::Bypass => self.keep_out(offer),
            Decision::Enter => self.enter(offer.page, lsn, offer.dirty, offer.page.0 << 1 | 1),
        }
    }

    /// A changed page is evicted from DRAM and enters, whatever the policy says: its driver can write it to
    /// flash only.
    pub fn evict_changed(&mut self, page: PageId, lsn: Lsn, dirty: bool) -> Admission {
        // The policy learns of it as of any other.
        let _ = self.contents.decide(&Offer { page, dirty, fdirty: true });
        self.enter(page, lsn, dirty, page.0 << 1 | 1)
    }

    /// Stages `page`, if there is room, and records that as `decision`.
    #[inline(always)]
    fn enter(&mut self, page: PageId, lsn: Lsn, dirty: bool, decision: u64) -> Admission {
        if !self.contents.staging.frame_available() {
            return Admission::Full;
        }
        self.contents.take_in(page, lsn, dirty, decision)
    }

    /// Asks the policy whether it takes a copy of `page`, which [`Partition::fetch`](crate::Partition::fetch)
    /// did not find and which the driver has read from disk into DRAM.
    ///
    /// The answer is as for [`Partition::evict`](crate::Partition::evict). The page is clean, so the driver
    /// need not wait when staging is full ([`Admission::Full`]), and has nothing to do after
    /// [`Admission::Bypass`]. Only policies that [populate](crate::PolicyKind::populates) ever admit the
    /// page.
    pub fn arrived(&mut self, page: PageId) -> Admission {
        let room = self.table.has_room(&self.contents);
        let Contents { pages, policy, decisions, .. } = &mut self.contents;
        if pages.directory.find(page).is_some() {
            return Admission::AlreadyThere;
        }
        if !ask_slots!(policy, P, memory => P::arrive(pages, memory, page, room)) {
            decisions.note(!(page.0 << 1));
            return Admission::Bypass { stale: false };
        }
        self.enter(page, Lsn(0), false, !(page.0 << 1 | 1))
    }

    /// To be asked when [`Partition::next_write`](crate::Partition::next_write) gives nothing: whether a page
    /// waits for room that only a background job makes. A search for background jobs while the page was still
    /// being copied in has missed it.
    pub fn write_waits_for_background(&self) -> bool {
        self.table.waits_for_background(&self.contents)
    }

    /// The slot that holds a version of `page`, whether or not newer ones are in staging.
    pub fn slot_holding(&self, page: PageId) -> Option<SlotId> {
        self.contents.pages.directory.find_on_flash(page).map(SlotId)
    }

    /// As [`Partition::slot`](crate::Partition::slot).
    pub(crate) fn slot(&self, slot: SlotId) -> Option<SlotView> {
        self.contents.view(slot, VALID)
    }
}

/// The slots as places for any page.
pub(crate) struct SlotTable<'r> {
    pub in_sets: bool,
    pub head: &'r mut SlotTableHead,
    /// With sets, by staging frame: 1 + the slot that is being emptied for the frame's page. 0: none.
    emptied_for: &'r mut [u32],
    /// Of slots that survive a crash.
    pub(crate) batches: Option<&'r mut Batches>,
}

pub(crate) const BATCHES: SectionPlan =
    SectionPlan::many::<Batches>("batches", |sizes| sizes.keeps_slots as u32);
pub(crate) const HEAD: SectionPlan = SectionPlan::one::<SlotTableHead>("slot table");

/// The section of [`SlotTable::emptied_for`] for policy `P`.
pub(crate) const fn emptied_for<P: SlotPolicy>() -> SectionPlan {
    let entries: fn(&Sizes) -> u32 =
        if matches!(P::FACTS.lists, Lists::OfSets) { Sizes::staging_pages } else { |_| 0 };
    SectionPlan::many::<u32>("emptied for", entries)
}

impl<'r> SlotTable<'r> {
    /// Attaches to its sections for policy `P`. `None`: the region is too short.
    #[inline(always)]
    pub(crate) fn attach<P: SlotPolicy>(carver: &mut Carver<'r, '_>) -> Option<Self> {
        let in_sets = matches!(P::FACTS.lists, Lists::OfSets);
        let (head, batches) = (carver.take_one()?, carver.take(&BATCHES)?.first_mut());
        let emptied_for = carver.take(&emptied_for::<P>())?;
        Some(Self { in_sets, head, emptied_for, batches })
    }

    /// Makes all slots free.
    pub(crate) fn format(&mut self, pages: &mut Pages<'_>) {
        self.head.first_free = NIL;
        self.batches.iter_mut().for_each(|batches| batches.format());
        (0..pages.directory.slots).rev().for_each(|slot| self.push_free(pages, slot));
    }

    fn push_free(&mut self, pages: &mut Pages<'_>, slot: u32) {
        pages.directory.entry(slot).clear();
        if self.in_sets {
            pages.lists.push_back(pages.sets.free_list(pages.sets.of_slot(slot)), slot);
        } else {
            pages.directory.entry(slot).set_next(self.head.first_free);
            self.head.first_free = slot;
        }
        self.head.free += 1;
    }

    /// Takes a free slot that may hold `page`.
    fn pop_free(&mut self, pages: &mut Pages<'_>, page: PageId) -> Option<u32> {
        let slot = if self.in_sets {
            let slot = pages.lists.first_of(pages.sets.free_list(pages.sets.of_page(page)))?;
            pages.lists.take_out(slot);
            slot
        } else {
            let slot = self.head.first_free;
            if slot == NIL {
                return None;
            }
            self.head.first_free = pages.directory.entry(slot).next();
            slot
        };
        self.head.free -= 1;
        Some(slot)
    }

    /// Empties a slot that holds a page.
    fn empty(&mut self, contents: &mut Contents<'_>, slot: u32) {
        let Contents { pages, policy, .. } = contents;
        ask!(policy, P, memory => P::on_leave(pages, memory, slot));
        pages.directory.retract(slot);
        self.release(contents, slot);
    }

    /// Whether a slot is free for one page more than are staged.
    pub(crate) fn has_room(&self, contents: &Contents<'_>) -> bool {
        self.head.free > contents.staging.window.used
    }

    /// A checkpoint begins: all pages staged so far are written, even if newer versions overtake them.
    pub(crate) fn begin_checkpoint(&mut self, contents: &Contents<'_>) {
        self.head.checkpoint = contents.staging.window.rear;
        self.want_records();
    }

    /// A restart finds `page` in `slot`.
    pub(crate) fn occupy(&mut self, contents: &mut Contents<'_>, slot: u32, page: PageId, dirty: bool) {
        let Contents { pages, policy, .. } = contents;
        if self.in_sets {
            pages.lists.take_out(slot);
        }
        pages.directory.restore(slot, page, if dirty { DIRTY } else { 0 });
        ask_slots!(policy, P, memory => P::on_enter(pages, memory, slot));
    }

    /// Chains the empty slots.
    pub(crate) fn rebuild_free(&mut self, pages: &mut Pages<'_>) {
        self.head.free = pages.directory.slots - pages.directory.counts.valid;
        if self.in_sets {
            return; // their free slots are in lists
        }
        self.head.free = 0;
        self.head.first_free = NIL;
        for slot in (0..pages.directory.slots).rev() {
            if !pages.directory.entry(slot).has(VALID) {
                self.push_free(pages, slot);
            }
        }
    }
}

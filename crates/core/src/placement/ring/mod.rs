//! Log placement: the slots are a ring, written in groups at its rear and dequeued in groups at its front
//! (FaCE §3.3).
//!
//! ```text
//!   released ──── scan ───────────── staged_front ──── rear          (positions; slot = position mod slots)
//!      │ dequeues    │ the cache          │ staging       │
//!      │ under way   │                    │               │
//! ```
//!
//! - A page gets its position when it enters staging, so versions are ordered by position.
//! - A position is given out only when its slot is released already. So a write never waits for a dequeue,
//!   and a dequeue may wait for a write: there is no circle. Whole groups are held back for second chances,
//!   since these need positions while their own slots are not yet released.
//! - A group of slots is released when its destages are durable on disk and the newer copies of its pages
//!   (second chances, and versions that were in staging when it was dequeued) are durable on flash, with
//!   everything before them: so a record of the front has a durable position above these
//!   copies, and if one of them is damaged that is not taken for a write that was torn. Groups release in
//!   order.
//! - A group's pages become the valid versions together, when the write that completes it is durable. Page by
//!   page (mvFIFO without GR) only that last write needs a sync; until then its pages are served from
//!   staging.
//! - In-flight dequeues span at most [`Config::dequeues`](crate::Config::dequeues) groups, and the ring is
//!   much longer, so that two versions of one page are never being destaged at the same time.
//!
//! Invariants:
//! - `released <= scan <= staging's front <= staging's rear <= released + slots`; the first three are
//!   multiples of the group size, and `scan - released` is a group for each dequeue under way.
//! - A slot is `HELD` from the publication of its group until its release. Slots beyond the rear are not
//!   held. A slot that was released keeps the page's id until the next publication.
//! - `released_slot` is `released mod slots`. The window of the index has both, too. `superseded` counts the
//!   slots that are held and not valid. A dequeue's `pending` counts the staged pages that it awaits.
//! - If second chances of the oldest dequeue wait, there is room for a group.
//! - A group's counters are those of its frames, until it is published.

mod bases;
mod bypass;
mod clean;
mod confirm;
mod dequeue;
mod forget;
mod hold;
mod restore;
mod write;

pub use clean::CLEANINGS_MAX;
pub(crate) use dequeue::{groups_ahead, spare_groups};
pub use hold::HOLDS_MAX;
use hold::Hold;

use crate::contents::Contents;
use crate::deletion::Deletions;
use crate::job::{Admission, SlotView};
use crate::policy::{Decision, LogFacts, LogPolicy, Offer, SecondChances};
use crate::sections::{Carver, SectionPlan};
use crate::sizes::Sizes;
use crate::slot::{DIRTY, HELD, VALID};
use crate::staging::{FrameState, Staging};
use crate::{Lsn, PageId, SlotId};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

/// Room for dequeues under way.
pub(crate) const DEQUEUES: usize = crate::DEQUEUES_MAX as usize;

/// Fewest groups kept free or becoming free.
pub(crate) const GROUPS_AHEAD_MIN: u64 = 4;

/// The state of a dequeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromBytes, Immutable, KnownLayout)]
#[repr(u32)]
pub(crate) enum DequeueState {
    /// Not in use.
    Free,
    /// Being destaged. Its second chances wait for that.
    Leaving,
    /// Its destages are durable. Its second chances wait for those of earlier dequeues.
    Left,
    /// Its second chances get positions, for which a group is held back.
    Staying,
    /// They have them, if there are any. It may still be destaged.
    Open,
    /// Its destages are durable.
    Done,
}

impl DequeueState {
    fn waits(self) -> bool {
        matches!(self, DequeueState::Leaving | DequeueState::Left)
    }
}

/// A dequeue under way.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Dequeue {
    /// First position of the group.
    pub first: u64,
    /// Staged pages that this dequeue awaits. Each is a newer copy that is not durable yet, or has positions
    /// before it that are not. Until this is 0 the slots are not released.
    pub pending: u32,
    /// A [`DequeueState`], kept as a word as in [`crate::staging::Frame`]. The check reports a word that is
    /// not a state.
    state: u32,
}

impl Dequeue {
    /// Its state. `None`: the word is not a state.
    pub(crate) fn state(&self) -> Option<DequeueState> {
        DequeueState::try_read_from_bytes(self.state.as_bytes()).ok()
    }

    /// Whether its pages may still be on their way to disk.
    fn is_under_way(&self) -> bool {
        matches!(self.state(), Some(DequeueState::Leaving | DequeueState::Staying | DequeueState::Open))
    }

    /// Whether its second chances wait.
    pub(crate) fn waits(&self) -> bool {
        self.state().is_some_and(DequeueState::waits)
    }
}

/// A staging group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Group {
    /// Frames whose copy is complete.
    pub ready: u32,
    /// Frames given to a write job.
    pub issued: u32,
    /// Frames written and published.
    pub written: u32,
    /// 1 while a write job of the group is under way.
    pub writing: u32,
    /// Places that are durable though the group is not full.
    pub flushed: u32,
    /// What `flushed` is when the write job under way is done; 0: it flushes nothing.
    pub flushing: u32,
    /// Places of which a durable summary says that they are flushed.
    pub confirmed: u32,
}

/// Scalars of a ring.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RingHead {
    /// All positions below are released, their slots free.
    pub released: u64,
    /// Next position to dequeue.
    pub scan: u64,
    /// The open group is to be closed up to this position, as soon as second chances allow.
    pub close_to: u64,
    /// Number of the first dequeue that is not released.
    pub first_dequeue: u64,
    /// Dequeues ever started.
    pub next_dequeue: u64,
    /// The dequeues under way, by number mod [`DEQUEUES`].
    pub dequeues: [Dequeue; DEQUEUES],
    /// A restart begins at this position or after it.
    pub front_durable: u64,
    /// Positions below are to be written though their group is not full.
    pub flush_to: u64,
    /// Positions below are to be [confirmed](Log::confirm).
    pub confirm_to: u64,
    /// Deletions that are not durable.
    pub deletions: Deletions,
    /// `released mod slots`.
    pub released_slot: u32,
    /// Dequeues whose second chances wait, and those that are [`DequeueState::Staying`].
    pub waiting: u16,
    pub staying: u16,
    /// Slots with a superseded version.
    pub superseded: u32,
    /// 1 when victims are to be pulled to fill the open group (GSC).
    pull: u32,
    /// Positions of the pages that are being copied to disk out of turn: the first `cleaning` of these.
    pub cleanings: [u64; CLEANINGS_MAX],
    pub cleaning: u64,
    /// What is held: the first `holds` of these.
    pub held: [Hold; HOLDS_MAX],
    pub holds: u64,
}

impl RingHead {
    /// Changes the state of a dequeue.
    fn enter(&mut self, dequeue: u32, state: DequeueState) {
        let dequeue = &mut self.dequeues[dequeue as usize];
        let stayed = dequeue.state() == Some(DequeueState::Staying);
        self.waiting = self.waiting + u16::from(state.waits()) - u16::from(dequeue.waits());
        self.staying = self.staying + u16::from(state == DequeueState::Staying) - u16::from(stayed);
        dequeue.state = state as u32;
    }
}

/// A cache with log placement: what only such a one can do. What both placements can is at
/// [`Partition`](crate::Partition).
// As [`Slots`](crate::Slots): the common part is first.
#[repr(C)]
pub struct Log<'r> {
    pub(crate) contents: Contents<'r>,
    pub(crate) ring: Ring<'r>,
}

impl Log<'_> {
    /// As [`Partition::evict`](crate::Partition::evict).
    #[inline(always)]
    pub(crate) fn evict(&mut self, offer: &Offer, lsn: Lsn) -> Admission {
        let offer = &Offer { dirty: offer.dirty && !self.disk_has(offer), ..*offer };
        match self.contents.decide(offer) {
            Decision::There => self.contents.is_there(offer),
            Decision::Bypass => self.keep_out(offer, lsn),
            Decision::Enter => self.enter(offer.page, lsn, offer.dirty),
        }
    }

    /// Stages `page`, if there is room.
    #[inline(always)]
    fn enter(&mut self, page: PageId, lsn: Lsn, dirty: bool) -> Admission {
        if !self.ring.takes_one(&self.contents.staging) {
            return Admission::Full;
        }
        self.contents.take_in(page, lsn, dirty, page.0 << 1 | 1)
    }

    /// As [`Partition::slot`](crate::Partition::slot).
    pub(crate) fn slot(&self, slot: SlotId) -> Option<SlotView> {
        self.contents.view(slot, HELD)
    }
}

/// The position of the page in `slot` of a ring of so many, of which the first that is not released is
/// `released`, in `released_slot`.
#[inline(always)]
pub(crate) fn position_in(slot: u32, slots: u32, (released, released_slot): (u64, u32)) -> u64 {
    let ahead = if slot >= released_slot { 0 } else { slots };
    released + u64::from((slot + ahead).wrapping_sub(released_slot))
}

/// The slots as a ring.
pub(crate) struct Ring<'r> {
    pub slots: u32,
    pub group_pages: u32,
    /// The policy's [`by_group`](LogFacts::by_group).
    by_group: bool,
    /// The policy's [`second_chances`](LogFacts::second_chances).
    second_chances: bool,
    /// The policy's [`spare_groups`](SecondChances::spare_groups); 0 in a small ring, 1 or more with
    /// `refusals`.
    spare_groups: u64,
    /// The disk may refuse pages of a dequeue.
    refusals: bool,
    /// Dequeues that may be under way at once.
    dequeues: u64,
    /// The policy's [`pulls`](SecondChances::pulls).
    pulls: bool,
    pub head: &'r mut RingHead,
    pub groups: &'r mut [Group],
    /// By staging frame: 1 + the dequeue whose release awaits its page; 0: none.
    pub awaited_by: &'r mut [u32],
}

pub(crate) const HEAD: SectionPlan = SectionPlan::one::<RingHead>("ring");
pub(crate) const GROUPS: SectionPlan = SectionPlan::many::<Group>("groups", |sizes| sizes.staging_groups);
pub(crate) const AWAITED: SectionPlan = SectionPlan::many::<u32>("awaited frames", Sizes::staging_pages);

impl<'r> Ring<'r> {
    /// Attaches to its sections for policy `P`. `None`: the region is too short.
    #[inline(always)]
    pub(crate) fn attach<P: LogPolicy>(carver: &mut Carver<'r, '_>) -> Option<Self> {
        let Sizes { slots, group_pages, refusals, dequeues, .. } = *carver.sizes();
        let LogFacts { by_group, second_chances, .. } = P::FACTS;
        let spare_groups = spare_groups(carver.sizes(), &P::FACTS);
        let (head, groups) = (carver.take_one()?, carver.take(&GROUPS)?);
        let awaited_by = carver.take(&AWAITED)?;
        Some(Self {
            slots,
            group_pages,
            by_group,
            second_chances: second_chances.is_some(),
            spare_groups,
            refusals,
            dequeues: dequeues.into(),
            pulls: matches!(second_chances, Some(SecondChances { pulls: true, .. })),
            head,
            groups,
            awaited_by,
        })
    }

    pub(crate) fn group(&self) -> u64 {
        self.group_pages as u64
    }

    /// Whether pages of a dequeue may need positions: by the policy, since the disk may refuse them, or since
    /// they are, or were, held.
    #[inline]
    fn may_restage(&self) -> bool {
        let is_possible = self.second_chances || self.refusals;
        is_possible || self.head.holds > 0 || self.head.staying > 0 || self.head.waiting > 0
    }

    /// The slot of a position in the ring's window: position mod slots.
    #[inline]
    pub(crate) fn slot_of(&self, position: u64) -> u32 {
        debug_assert!(position >= self.head.released && position - self.head.released <= self.slots as u64);
        let slot = self.head.released_slot + (position - self.head.released) as u32;
        if slot >= self.slots { slot - self.slots } else { slot }
    }

    /// The position of the page in `slot`.
    #[inline]
    pub(crate) fn position_of(&self, slot: u32) -> u64 {
        position_in(slot, self.slots, (self.head.released, self.head.released_slot))
    }

    /// All positions below `released`, which is that of `slot`, are released. No page in the index has one.
    fn set_released(&mut self, contents: &Contents<'_>, released: u64, slot: u32) {
        (self.head.released, self.head.released_slot) = (released, slot);
        contents.pages.directory.index.set_window(released, slot);
    }

    /// The entry of the directory for a position that is not released: of its frame, or of its slot.
    pub(crate) fn entry_at(&self, contents: &Contents<'_>, position: u64) -> u32 {
        let staging = &contents.staging;
        let is_staged = position >= staging.window.front && !staging.at(position).is(FrameState::Done);
        match is_staged {
            true => contents.pages.directory.staged_entry(staging.frame_of(position)),
            false => self.slot_of(position),
        }
    }

    /// Released positions that were not given out.
    fn room(&self, staging: &Staging<'_>) -> u64 {
        self.head.released + self.slots as u64 - staging.window.rear
    }

    /// Room for a whole group.
    pub(crate) fn has_a_group(&self, staging: &Staging<'_>) -> bool {
        self.room(staging) >= self.group()
    }

    /// The oldest dequeue, if one is under way.
    fn oldest(&self) -> &Dequeue {
        &self.head.dequeues[(self.head.first_dequeue % DEQUEUES as u64) as usize]
    }

    /// Groups that are held back for second chances: one for each dequeue whose second chances get positions.
    /// If others wait, also one for all of these, unless the oldest dequeue is released in any case and gives
    /// them a group. Not if the disk may refuse pages, and the oldest dequeue has ended: then those that wait
    /// may have none ([`Ring::has_a_group_for`]), and the open group may have pages that the oldest awaits.
    fn held_back(&self) -> u64 {
        let oldest = self.oldest();
        let has_ended = oldest.state() == Some(DequeueState::Done);
        let is_released = has_ended && (oldest.pending == 0 || self.refusals);
        let waits = self.head.waiting > 0 && !is_released;
        u64::from(self.head.staying) + u64::from(waits)
    }

    /// Groups that a page from DRAM leaves free while second chances wait: the groups held back for them, and
    /// those without which few dequeues could be under way at once. The second part does not hold for a page
    /// that joins the open group while the oldest dequeue has ended: that dequeue waits for staged pages,
    /// which may be in the open group.
    #[cold]
    fn left_while_some_wait(&self, joins: bool) -> u64 {
        let fills_up = self.oldest().state() == Some(DequeueState::Done);
        let more = match (joins, fills_up) {
            (true, true) => 0,
            (true, false) => 1 + self.spare_groups,
            (false, _) => 2 + self.spare_groups,
        };
        self.held_back() + more
    }

    /// Room for a page from DRAM: in the open group, or in a new one while enough groups are left for second
    /// chances.
    #[inline]
    pub(crate) fn takes_one(&self, staging: &Staging<'_>) -> bool {
        let staying = u64::from(self.head.staying);
        let left = match (self.may_restage(), staging.group_is_open()) {
            (false, true) => 0,
            (false, false) => 1,
            (true, joins) if self.head.waiting > 0 => self.left_while_some_wait(joins),
            (true, true) => staying,
            (true, false) => staying + 2 + self.spare_groups,
        };
        staging.frame_available() && self.room(staging) >= left * self.group()
    }

    /// The copy of the page in `frame` is complete.
    pub(crate) fn staged(&mut self, frame: u32) {
        self.groups[(frame / self.group_pages) as usize].ready += 1;
    }

    /// Pads the open group, so that it can be written: at once, or, if dequeues may need its positions for
    /// second chances, when one of them has ended.
    pub(crate) fn close_group(&mut self, contents: &mut Contents<'_>) {
        if contents.staging.group_is_open() {
            self.head.close_to = contents.staging.window.rear + contents.staging.open_positions();
            self.close_if_asked(contents);
        }
    }

    fn close_if_asked(&mut self, contents: &mut Contents<'_>) {
        let staging = &mut contents.staging;
        if staging.window.rear >= self.head.close_to {
            return;
        }
        if self.room(staging) - staging.open_positions() < self.held_back() * self.group() {
            return;
        }
        while staging.window.rear < self.head.close_to {
            let frame = staging.pad();
            self.staged(frame.0);
        }
    }

    /// The page in `slot` has a newer version on flash.
    fn supersede(&mut self, contents: &mut Contents<'_>, slot: u32) {
        let directory = &mut contents.pages.directory;
        directory.retract(slot);
        directory.entry(slot).lower(VALID);
        self.head.superseded += 1;
    }

    /// Empties a slot. Its page's id stays, since a crash may find the page there (`forget.rs`).
    fn forget(&mut self, contents: &mut Contents<'_>, slot: u32) {
        let entry = contents.pages.directory.entry(slot);
        if entry.has(VALID) {
            self.supersede(contents, slot);
        }
        if entry.has(HELD) {
            self.head.superseded -= 1;
        }
        entry.lower(VALID | HELD | DIRTY);
    }
}

//! Dequeues of log placement: groups are dequeued at the front of the ring, and their slots released.

use super::{DEQUEUES, Dequeue, DequeueState, GROUPS_AHEAD_MIN, Log, Ring};
use crate::contents::Contents;
use crate::job::{Admission, BackgroundJob, DequeuePage, DequeuePages, Fate, Generation, Ticket};
use crate::policy::{LogFacts, LogPolicy, Policy, ask, ask_log};
use crate::sizes::{GROUP_PAGES_MAX, Sizes};
use crate::slot::{DIRTY, VALID};
use crate::{Lsn, PageId, Position, SlotId};
use arrayvec::ArrayVec;
use std::ops::Range;

/// Groups of a ring of `slots` that are kept free or are being freed, so that dequeues run ahead of
/// evictions: a sixteenth of the ring, within bounds, and the spare ones. A dequeue takes as long as its
/// slowest destage, so several must be under way at once to keep a disk array busy.
pub(crate) fn groups_ahead(slots: u32, group_pages: u32, dequeues: u64, spare_groups: u64) -> u64 {
    u64::from(slots / group_pages / 16).clamp(GROUPS_AHEAD_MIN, dequeues) + spare_groups
}

/// The policy's [`spare_groups`](crate::SecondChances::spare_groups), in a ring that is large enough for
/// them. At least one, if the disk may refuse pages.
#[inline(always)]
pub(crate) const fn spare_groups(sizes: &Sizes, facts: &LogFacts) -> u64 {
    let of_policy = match facts.second_chances {
        Some(chances) if sizes.slots / 16 >= sizes.group_pages => chances.spare_groups as u64,
        _ => 0,
    };
    if of_policy == 0 && sizes.refusals { 1 } else { of_policy }
}

impl Log<'_> {
    /// Whether a dequeue is to begin. It begins when no page of its group is being cleaned.
    pub fn dequeue_is_due(&self) -> bool {
        self.ring.dequeue_is_due(&self.contents)
    }

    /// Whether at most half of the groups that are kept ahead of evictions are free.
    pub fn are_groups_scarce(&self) -> bool {
        let Self { contents, ring } = self;
        2 * ring.free_groups(contents) <= ring.groups_ahead()
    }

    /// The entries of the group that is dequeued next. Dead pages that are dropped before the dequeue begins
    /// are not read. The driver's table must be durable before the dequeue is reported done.
    pub fn next_dequeue(&self) -> Range<u32> {
        let first = self.ring.slot_of(self.ring.head.scan);
        first..first + self.ring.group_pages
    }

    /// The dequeues that have begun are of groups before this position. Those of later groups take no version
    /// to disk that is dead or forgotten by now.
    pub fn dequeues_begun(&self) -> Position {
        self.ring.dequeues_begun()
    }

    /// Whether pages of a dequeue that leave are to be durable on disk before its second chances are
    /// [restaged](Self::restage).
    pub fn leaves_first(&self, ticket: Ticket) -> bool {
        self.ring.is_leaving(ticket)
    }

    /// The destages of a dequeue that [leave first](Self::leaves_first) are durable. The first
    /// [`Log::restage`] implies this. The caller wakes the tasks that wait for these pages.
    pub fn left(&mut self, ticket: Ticket) {
        self.ring.left(ticket);
    }

    /// Gives a page of a dequeue whose fate is a second chance a position at the rear; `lsn` is the page's.
    /// [`Admission::AlreadyThere`]: a newer version has entered in the meantime, and there is nothing to do.
    /// [`Admission::Full`]: there is no room in staging, or it is the turn of an earlier dequeue. Ask again
    /// when a job is complete.
    pub fn restage(&mut self, ticket: Ticket, page: &DequeuePage, lsn: Lsn) -> Admission {
        let Self { contents, ring } = self;
        let (slot, dequeue) = (page.slot, ticket.0);
        let entry = contents.pages.directory.entry(slot.0).content();
        let superseded = !entry.has(VALID);
        if superseded {
            ring.await_newest(contents, entry.page(), dequeue);
        }
        if superseded
            || ring.forget_before_its_turn(contents, slot.0)
            || ring.adopt_newer(contents, entry.page(), dequeue)
        {
            return Admission::AlreadyThere;
        }
        if !ring.stays(contents, ticket) || !contents.staging.frame_available() {
            return Admission::Full;
        }
        assert!(ring.room(&contents.staging) > 0, "second chances have groups held back for them");
        let dirty = entry.has(DIRTY);
        let admission = contents.enter(entry.page(), lsn, dirty);
        if let Admission::Stage { frame, .. } = admission {
            let staged = contents.pages.directory.staged_entry(frame.0);
            ask!(&mut contents.policy, P, memory => P::on_carry(memory, slot.0, staged));
            ring.await_frame(frame.0, dequeue);
        }
        admission
    }

    /// The disk refuses pages of this dequeue, which were to leave. They stay: each is
    /// [restaged](Self::restage), as if it had a second chance. False: there is no room for them now, until
    /// earlier dequeues have ended, or in a ring that was full when it was opened. Ask again.
    #[must_use]
    pub fn keep(&mut self, ticket: Ticket) -> bool {
        let Self { contents, ring } = self;
        let Dequeue { first, .. } = ring.head.dequeues[ticket.0 as usize];
        if ring.head.dequeues[ticket.0 as usize].state() != Some(DequeueState::Open) {
            // It has a group, or waits for one.
            return true;
        }
        if !ring.has_a_group_for(contents, first) {
            return false;
        }
        ring.head.enter(ticket.0, DequeueState::Left);
        true
    }

    /// A dequeue's second chances were restaged, or it has none: no positions are held back for it now,
    /// though its destages may take long. May be said twice.
    pub fn restaged(&mut self, ticket: Ticket) {
        let head = &mut *self.ring.head;
        let dequeue = &head.dequeues[ticket.0 as usize];
        if dequeue.waits() || dequeue.state() == Some(DequeueState::Staying) {
            head.enter(ticket.0, DequeueState::Open);
        }
    }

    /// Whether the disk durably has the page in this slot, one of
    /// [`Partition::dirty_slots`](crate::Partition::dirty_slots): its dequeue has ended, its slot is not
    /// released yet, and no newer version has entered.
    pub fn is_destaged(&self, slot: SlotId) -> bool {
        let Self { contents, ring } = self;
        let position = ring.position_of(slot.0);
        let has_it = |dequeue: &Dequeue| {
            dequeue.state() == Some(DequeueState::Done)
                && (dequeue.first..dequeue.first + ring.group()).contains(&position)
        };
        let directory = &contents.pages.directory;
        let is_newest = directory.find(directory.entry(slot.0).page()) == Some(slot.0);
        ring.head.dequeues.iter().any(has_it) && is_newest
    }
}

impl Ring<'_> {
    /// Pulls victims to fill the open group, or starts a dequeue; with `spares_writes`, one that gives no
    /// second chances.
    pub(crate) fn next_background(
        &mut self,
        contents: &mut Contents<'_>,
        pages: &mut DequeuePages,
        spares_writes: bool,
    ) -> Option<BackgroundJob> {
        if std::mem::take(&mut self.head.pull) != 0 && contents.staging.group_is_open() {
            return Some(BackgroundJob::PullVictims(contents.staging.open_positions() as u32));
        }
        self.dequeue_job(contents, pages, spares_writes)
    }

    /// Starts the dequeue of the group at the front when released groups are scarce.
    fn dequeue_job(
        &mut self,
        contents: &mut Contents<'_>,
        pages: &mut DequeuePages,
        spares_writes: bool,
    ) -> Option<BackgroundJob> {
        let group = self.group();
        let positions = self.head.scan..self.head.scan + group;
        if !self.dequeue_is_due(contents) || self.is_any_cleaned(&positions) {
            return None;
        }
        let second_chances = self.second_chances && !spares_writes && self.has_room_for_chances(contents);
        let dequeue = (self.head.next_dequeue % DEQUEUES as u64) as u32;
        let first = self.head.scan;
        self.head.dequeues[dequeue as usize] = Dequeue { first, pending: 0, state: 0 };
        let first_slot = self.slot_of(self.head.scan);
        let slots = first_slot..first_slot + self.group_pages;
        ask_log!(&mut contents.policy, P, memory => P::on_dequeue(&contents.pages, memory, slots));
        let keeps_held = self.free_groups(contents) > self.head.staying as u64;
        for position in positions {
            pages.push(self.decide(contents, position, dequeue, keeps_held));
        }
        self.limit_second_chances(contents, pages, second_chances, keeps_held);
        for (page, position) in pages.iter().zip(self.head.scan..) {
            contents.decisions.note(position << 2 | page.fate as u64);
        }
        self.head.scan += group;
        self.head.next_dequeue += 1;
        let leaves_first = ask_log!(&contents.policy, P, memory => P::leaves_first(memory));
        let state = match pages.iter().any(|page| page.fate == Fate::SecondChance) {
            false => DequeueState::Open,
            true if leaves_first => DequeueState::Leaving,
            true => DequeueState::Staying,
        };
        self.head.enter(dequeue, state);
        Some(BackgroundJob::Dequeue { ticket: Ticket(dequeue), one_io: self.by_group })
    }

    /// The dequeues that have begun are of groups before this position.
    pub(super) fn dequeues_begun(&self) -> Position {
        Position(self.head.scan)
    }

    /// Whole released groups of which no position was given out.
    fn free_groups(&self, contents: &Contents<'_>) -> u64 {
        self.room(&contents.staging) / self.group()
    }

    fn groups_ahead(&self) -> u64 {
        groups_ahead(self.slots, self.group_pages, self.dequeues, self.spare_groups)
    }

    /// Without a free group (after a restart with a full ring), the first dequeue gives no second chances.
    fn has_room_for_chances(&self, contents: &Contents<'_>) -> bool {
        self.free_groups(contents) > self.head.staying as u64 + self.spare_groups
    }

    /// Whether released groups are scarce, and another dequeue can begin.
    pub(crate) fn dequeue_is_due(&self, contents: &Contents<'_>) -> bool {
        let group = self.group();
        let in_flight = (self.head.scan - self.head.released) / group;
        let dequeues = self.head.next_dequeue - self.head.first_dequeue;
        let lacks_room = self.may_restage() && !self.has_room_for_chances(contents);
        let waits_for_another = lacks_room && in_flight > 0;
        self.free_groups(contents) + in_flight < self.groups_ahead()
            && dequeues < self.dequeues
            && self.head.scan + group <= contents.staging.window.front
            && !waits_for_another
    }

    fn decide(
        &mut self,
        contents: &mut Contents<'_>,
        position: u64,
        dequeue: u32,
        keeps_held: bool,
    ) -> DequeuePage {
        let slot = self.slot_of(position);
        let entry = contents.pages.directory.entry(slot).content();
        let superseded = !entry.has(VALID);
        if superseded {
            self.await_newest(contents, entry.page(), dequeue);
        }
        let fate = if superseded || self.adopt_newer(contents, entry.page(), dequeue) {
            Fate::Drop
        } else if keeps_held && self.is_held(entry.page(), position) {
            Fate::SecondChance
        } else {
            ask_log!(&contents.policy, P, memory => P::fate(&contents.pages, memory, slot))
        };
        DequeuePage {
            page: entry.has(VALID).then(|| entry.page()),
            slot: SlotId(slot),
            dirty: entry.has(DIRTY),
            fate,
            generation: Generation::Exact(Position(position)),
        }
    }

    /// If a version of `page` is in staging, the release of `dequeue` waits for it, and the older version is
    /// not destaged.
    fn adopt_newer(&mut self, contents: &Contents<'_>, page: PageId, dequeue: u32) -> bool {
        let directory = &contents.pages.directory;
        let Some(frame) = directory.find(page).and_then(|at| directory.frame_of(at)) else { return false };
        let adopted = self.await_frame(frame, dequeue);
        // Only one slot at a time holds the valid version of a page, so only the dequeue of that slot waits
        // for newer ones.
        assert_eq!(adopted, dequeue, "two dequeues wait for one staged page");
        true
    }

    /// The newest version of `page` on flash excuses `dequeue` from a destage. If a position before that
    /// version is not durable yet, the release waits for it.
    fn await_newest(&mut self, contents: &Contents<'_>, page: PageId, dequeue: u32) {
        let newest = contents.pages.directory.find_on_flash(page);
        let Some(position) = newest.map(|slot| self.position_of(slot)) else { return };
        if position >= contents.staging.window.front {
            // If another dequeue waits for this frame, it is an earlier one, which is released before this
            // one.
            self.await_frame(contents.staging.frame_of(position), dequeue);
        }
    }

    /// Makes the release of `dequeue` wait for the page in `frame`, unless another dequeue waits for it.
    /// Returns the dequeue that waits.
    fn await_frame(&mut self, frame: u32, dequeue: u32) -> u32 {
        let awaited_by = &mut self.awaited_by[frame as usize];
        if *awaited_by == 0 {
            *awaited_by = dequeue + 1;
            self.head.dequeues[dequeue as usize].pending += 1;
        }
        *awaited_by - 1
    }

    /// Whether the second chances of a dequeue wait for its destages.
    fn is_leaving(&self, ticket: Ticket) -> bool {
        self.head.dequeues[ticket.0 as usize].state() == Some(DequeueState::Leaving)
    }

    /// The destages of a dequeue are durable, if its second chances wait for that.
    fn left(&mut self, ticket: Ticket) {
        if self.is_leaving(ticket) {
            self.head.enter(ticket.0, DequeueState::Left);
        }
    }

    /// Whether the second chances of a dequeue get positions now. If they waited, a group is held back for
    /// them from now on. They come in order, so that they need no more than one group: those of one dequeue
    /// fill up the group that the one before it waits for, or leave a group free.
    ///
    /// No deadlock: (1) a second chance waits only for group writes and for deletions; (2) neither waits for
    /// a second chance. A deletion waits only for destages in flight. (3) If the disk may refuse pages, an
    /// earlier dequeue that is still destaged may need a group, and finds one.
    fn stays(&mut self, contents: &Contents<'_>, ticket: Ticket) -> bool {
        self.left(ticket);
        let Dequeue { first, .. } = self.head.dequeues[ticket.0 as usize];
        if !self.head.dequeues[ticket.0 as usize].waits() {
            return true;
        }
        let is_earlier = |other: &Dequeue| other.waits() && other.first < first;
        let is_first = !self.head.dequeues.iter().any(is_earlier);
        let stays = is_first && self.head.staying == 0 && self.has_a_group_for(contents, first);
        if stays {
            self.head.enter(ticket.0, DequeueState::Staying);
        }
        stays
    }

    /// Whether there is a group for second chances of the dequeue that begins at `first`, which wait, or
    /// which the disk makes of destages. If it may refuse some, a group is left for those of an earlier
    /// dequeue that is still destaged: nothing later is released before that one.
    fn has_a_group_for(&self, contents: &Contents<'_>, first: u64) -> bool {
        let may_need_one = |other: &Dequeue| other.is_under_way() && other.first < first;
        let left = u64::from(self.refusals && self.head.dequeues.iter().any(may_need_one));
        self.free_groups(contents) > u64::from(self.head.staying) + left
    }

    pub(crate) fn dequeued(&mut self, contents: &mut Contents<'_>, ticket: Ticket) {
        self.head.enter(ticket.0, DequeueState::Done);
        self.release(contents);
        self.head.pull = u32::from(self.pulls);
    }

    /// Whether the oldest dequeue has ended, and the newer copies of its pages are durable.
    pub(crate) fn may_release(&self) -> bool {
        if self.head.first_dequeue == self.head.next_dequeue {
            return false;
        }
        let dequeue = self.head.dequeues[(self.head.first_dequeue % DEQUEUES as u64) as usize];
        dequeue.state() == Some(DequeueState::Done) && dequeue.pending == 0
    }

    /// Frees the slots of finished dequeues, in order.
    pub(crate) fn release(&mut self, contents: &mut Contents<'_>) {
        let dead = self.head.deletions.keep_slots().is_some();
        while !dead && self.may_release() {
            let at = (self.head.first_dequeue % DEQUEUES as u64) as usize;
            let dequeue = self.head.dequeues[at];
            let after = dequeue.first + self.group();
            for position in dequeue.first..after {
                let slot = self.slot_of(position);
                let Contents { pages, policy, .. } = contents;
                if pages.directory.entry(slot).has(VALID) {
                    ask!(policy, P, memory => P::on_leave(pages, memory, slot));
                }
                self.forget(contents, slot);
            }
            self.head.enter(at as u32, DequeueState::Free);
            self.head.first_dequeue += 1;
            self.set_released(contents, after, self.slot_of(after));
        }
        self.close_if_asked(contents);
    }

    /// Takes second chances away where they are not allowed, or where the policy allows fewer. The pages of
    /// least worth lose theirs, and among equals those nearest to the front. Pages that are held keep theirs.
    fn limit_second_chances(
        &self,
        contents: &Contents<'_>,
        pages: &mut [DequeuePage],
        allowed: bool,
        keeps_held: bool,
    ) {
        let group_pages = pages.len() as u32;
        let most = ask_log!(&contents.policy, P, _memory => P::chances_max(group_pages));
        let most = if allowed { most as usize } else { 0 };
        let has_chance = |page: &&DequeuePage| page.fate == Fate::SecondChance;
        let chances = pages.iter().filter(has_chance).count();
        if chances <= most {
            return;
        }
        let mut by_worth: ArrayVec<(u32, usize), GROUP_PAGES_MAX> = ArrayVec::new();
        ask_log!(&contents.policy, P, memory => {
            let is_held = |page: &DequeuePage| {
                let (Some(id), Generation::Exact(position)) = (page.page, page.generation) else { return false };
                keeps_held && self.is_held(id, position.0)
            };
            let may_leave = |page: &DequeuePage| has_chance(&page) && !is_held(page);
            let candidates = pages.iter().enumerate().filter(|(_, page)| may_leave(page));
            by_worth.extend(candidates.map(|(at, page)| (P::worth(&contents.pages, memory, page.slot.0), at)));
        });
        by_worth.sort_unstable();
        for (_, at) in by_worth.iter().take(chances - most) {
            let page = &mut pages[*at];
            page.fate = if page.dirty { Fate::Destage } else { Fate::Drop };
        }
    }
}

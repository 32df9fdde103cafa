//! Handing a page down: it is copied into staging. When staging is full, evictors wait, first come, first
//! served. A page that was fetched from disk populates the flash in the same way, but never waits.
//!
//! | file | what it does |
//! |---|---|
//! | `run` | the same of adjacent pages at once |

mod run;

pub(crate) use run::RUN_PAGES_MAX;

use crate::TierError;
use crate::access::Base;
use crate::access::board::BoardRef;
use crate::access::directory::Directory;
use crate::access::flash_pages::FlashPages;
use crate::access::order::{PageOrder, ReadTicket};
use crate::access::run_state::RunState;
use crate::access::seat::Seat;
use crate::access::signals::Signals;
use crate::access::staging::{Incoming, Staging};
use crate::api::Victim;
use crate::shadow::Shadow;
use entresol_core::{Admission, FrameId, Lookup, Mode, PageId, Partition, Position};
use entresol_objects::{ObjectId, Objects};
use entresol_shm::Gone;
use std::sync::Arc;

/// What became of an offered page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The cache has it.
    Taken,
    /// The policy does not want it: it belongs on disk only. If it is dirty, its write to disk has begun
    /// ([`super::order`]).
    Bypass,
    /// The cache has switched itself off: the disk alone.
    Off,
}

/// A read of a page from disk.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    /// Drawn before it began.
    pub ticket: ReadTicket,
    /// The damaged copy that this disk read replaces. The page is staged only if that copy is still current:
    /// where processes share the cache, their owner orders the work on a page without knowing of this read.
    pub past: Option<Lookup>,
}

/// Offers of pages to the flash.
pub(crate) struct Offers {
    directory: Arc<Directory>,
    staging: Arc<Staging>,
    /// The format of pages, and their stamps.
    flash_pages: Arc<FlashPages>,
    signals: Arc<Signals>,
    state: Arc<RunState>,
    seat: Option<Arc<Seat>>,
    order: PageOrder,
    shadow: Arc<Shadow>,
    board: BoardRef,
    mode: Mode,
    /// See [`crate::TierOptions::takes_changes`].
    takes_changes: bool,
}

impl Offers {
    pub(super) fn new(base: &Base, mode: Mode, takes_changes: bool) -> Self {
        Self {
            directory: base.directory.clone(),
            staging: base.staging.clone(),
            flash_pages: base.flash_pages.clone(),
            signals: base.signals.clone(),
            state: base.state.clone(),
            seat: base.seat.clone(),
            order: base.order.clone(),
            shadow: base.shadow.clone(),
            board: base.board.clone(),
            mode,
            takes_changes,
        }
    }

    /// Offers the page until it is taken or not wanted; waits for room.
    pub(crate) fn take(&self, victim: Victim, data: &[u8]) -> Result<Offered, TierError> {
        self.signals.in_turn(|| self.offer(victim, data))
    }

    /// As [`Offers::take`]. `None`: there is no room, and `gives_up` says that it is not to be waited for.
    pub(crate) fn take_unless(
        &self,
        victim: Victim,
        data: &[u8],
        gives_up: impl Fn() -> bool,
    ) -> Result<Option<Offered>, TierError> {
        self.signals.in_turn(|| match self.offer(victim, data)? {
            Some(offered) => Ok(Some(Some(offered))),
            None => Ok(gives_up().then_some(None)),
        })
    }

    /// As [`Offers::take_unless`], of a changed page that the disk does not take: it enters whatever the
    /// policy says.
    pub(crate) fn force_unless(
        &self,
        victim: Victim,
        data: &[u8],
        gives_up: impl Fn() -> bool,
    ) -> Result<Option<Offered>, TierError> {
        self.signals.in_turn(|| {
            if !self.signals.check_running()? {
                return Ok(Some(Some(Offered::Off)));
            }
            match self.admission_of(victim, None, true)? {
                (Admission::Full, _) => Ok(gives_up().then_some(None)),
                (admission, victim) => Ok(Some(Some(self.admitted(admission, victim, data)?))),
            }
        })
    }

    /// As [`Offers::take`], of a page that was read from disk: it is not taken if it was written or forgotten
    /// meanwhile.
    pub(crate) fn take_read(&self, victim: Victim, read: Read, data: &[u8]) -> Result<Offered, TierError> {
        self.signals.in_turn(|| self.offer_if(victim, data, Some(read)))
    }

    /// The core's answer to an offer; [`Admission::Full`] also from a cache that is switching itself off. A
    /// page that was read from disk is there already, in a newer version, if that read is not current. Of a
    /// dirty page that bypasses the flash, the write to disk begins in this step: a read that began later
    /// would populate the flash with the older version.
    pub(crate) fn admission(&self, victim: &Victim, read: Option<Read>) -> Result<Admission, TierError> {
        self.admission_of(*victim, read, false).map(|(admission, _)| admission)
    }

    /// As [`Offers::admission`]; `must_enter`: though the policy would keep the page out. Returned is the
    /// page as it enters, too.
    fn admission_of(
        &self,
        victim: Victim,
        read: Option<Read>,
        must_enter: bool,
    ) -> Result<(Admission, Victim), TierError> {
        let page = victim.page;
        let decided = self.directory.with_objects(|partition, objects| {
            let admission = self.decide(partition, objects, &victim, read, must_enter)?;
            let dirty = match admission {
                Admission::Stage { frame, .. } => partition.is_staged_dirty(frame),
                _ => victim.dirty,
            };
            Some((admission, Victim { dirty, ..victim }))
        })?;
        if let Some((admission, _)) = decided {
            self.show(&victim, admission);
        }
        decided.ok_or_else(|| {
            TierError::Refused(format!(
                "page {page} is of object {}, which is not defined or was retired; define an object before its pages enter, and \
                 drop its pages when it is retired",
                page.object()
            ))
        })
    }

    /// [`Offers::admission_of`], under the latch. `None`: the page is of an object that is not defined.
    fn decide(
        &self,
        partition: &mut Partition<'_>,
        objects: Option<&mut Objects<'_>>,
        victim: &Victim,
        read: Option<Read>,
        must_enter: bool,
    ) -> Option<Admission> {
        let Victim { page, lsn, dirty, fdirty } = *victim;
        // Looked at again: a cache that switches itself off does so under the latch.
        if !self.state.is_running() {
            return Some(Admission::Full);
        }
        let has_changed = |read: Read| {
            let is_gone = read.past.is_some_and(|copy| partition.peek(page) != copy);
            is_gone || !self.order.is_current(page, read.ticket)
        };
        if read.is_some_and(has_changed) {
            return Some(Admission::AlreadyThere);
        }
        let mut cut_may_be_lost = false;
        if let Some(objects) = objects {
            objects.locator(ObjectId(page.object()))?;
            // A copy that was cut off is not this page. But if the cut is lost in a crash, it comes back:
            // then no newer version may be on disk alone.
            if let Some(log) = partition.log_mut() {
                log.drop_dead_copies(page, |page, position| objects.is_dead(page, position));
            }
            cut_may_be_lost = objects.durable() < objects.last();
        }
        if dirty || fdirty {
            self.order.changes(page);
        }
        let must_enter = must_enter || fdirty && (self.takes_changes || cut_may_be_lost);
        let admission = match partition.log_mut() {
            Some(log) if must_enter => log.evict_changed(page, lsn, dirty),
            _ => match partition.slots_mut() {
                Some(slots) if must_enter => slots.evict_changed(page, lsn, dirty),
                _ => partition.evict(page, lsn, dirty, fdirty),
            },
        };
        let admission = self.hold(admission);
        if victim.is_only_copy() && matches!(admission, Admission::Bypass { .. }) {
            self.order.write_begins(page);
        }
        Some(admission)
    }

    /// The shadows see what was decided.
    fn show(&self, victim: &Victim, admission: Admission) {
        if admission != Admission::Full {
            self.shadow.evict(victim.page, victim.dirty, victim.fdirty);
        }
    }

    /// Offers a page once that no policy of this cache keeps out. Never waits. False: there is no room now,
    /// or the cache switches itself off.
    pub(crate) fn try_take(&self, victim: Victim, data: &[u8]) -> Result<bool, TierError> {
        if !self.state.is_running() {
            return Ok(false);
        }
        match self.admission_of(victim, None, false)? {
            (Admission::Full, _) => Ok(false),
            (admission, victim) => {
                let offered = self.admitted(admission, victim, data)?;
                debug_assert_eq!(offered, Offered::Taken, "the policy keeps no page out");
                Ok(true)
            }
        }
    }

    /// Offers the page to the core once. `None`: there is no room now.
    pub(crate) fn offer(&self, victim: Victim, data: &[u8]) -> Result<Option<Offered>, TierError> {
        self.offer_if(victim, data, None)
    }

    fn offer_if(
        &self,
        victim: Victim,
        data: &[u8],
        read: Option<Read>,
    ) -> Result<Option<Offered>, TierError> {
        if !self.signals.check_running()? {
            return Ok(Some(Offered::Off));
        }
        match self.admission_of(victim, read, false)? {
            (Admission::Full, _) => Ok(None),
            (admission, victim) => Ok(Some(self.admitted(admission, victim, data)?)),
        }
    }

    /// Does what the core has answered, which was not that there is no room.
    fn admitted(&self, admission: Admission, victim: Victim, data: &[u8]) -> Result<Offered, TierError> {
        match admission {
            Admission::Full | Admission::Bypass { .. } => Ok(Offered::Bypass),
            Admission::AlreadyThere => {
                self.board.tallies.already_on_flash.add(1);
                Ok(Offered::Taken)
            }
            Admission::Stage { frame, position } => {
                self.fill(frame, position, victim.page, victim.dirty, data)?;
                Ok(Offered::Taken)
            }
        }
    }

    /// Copies a page into the frame that it was given.
    pub(crate) fn fill(
        &self,
        frame: FrameId,
        position: Position,
        page: PageId,
        dirty: bool,
        data: &[u8],
    ) -> Result<(), Gone> {
        #[cfg(feature = "hooks")]
        if self.seat.is_some() {
            crate::hooks::pass("frame");
        }
        let incoming = Incoming { page, dirty, data, position, stamp: self.flash_pages.stamp(position) };
        let proof = self.staging.copy_in(frame, &incoming)?;
        #[cfg(feature = "hooks")]
        if self.seat.is_some() {
            crate::hooks::pass("filled");
        }
        self.offer_frame(frame, position, proof)
    }

    /// Offers a frame that is filled to the writers.
    fn offer_frame(&self, frame: FrameId, position: Position, proof: u32) -> Result<(), Gone> {
        let due = self.directory.with(|partition| {
            partition.staged_with(frame, proof);
            self.holds_nothing();
            partition.write_due(frame)
        })?;
        if due {
            self.signals.writes.notify_one();
        }
        if position.0.is_multiple_of(self.directory.config.group_pages.into()) {
            self.signals.background.notify_one();
        }
        Ok(())
    }

    /// This process has nothing in hand any more. To be called under the latch.
    #[inline]
    fn holds_nothing(&self) {
        if let Some(seat) = &self.seat {
            seat.holds_nothing();
        }
    }

    /// Notes, under the latch, that this process has a frame to fill, if it was given one.
    #[inline]
    fn hold(&self, admission: Admission) -> Admission {
        if let (Some(seat), Admission::Stage { frame, .. }) = (&self.seat, &admission) {
            seat.holds(*frame);
        }
        admission
    }

    /// A page was read from disk for a caller: takes a copy, if the policy will have it and there is room.
    /// The page is clean, so the caller never waits.
    pub(crate) fn populate(&self, page: PageId, ticket: ReadTicket, data: &[u8]) -> Result<(), Gone> {
        if !self.directory.config.policy.populates() || !self.may_populate(data) {
            return Ok(());
        }
        let admission = self.directory.with(|partition| self.arrival(partition, page, ticket))?;
        self.entered(page, admission, data)
    }

    /// The core's answer to a page that was read from disk, of a policy that populates; under the latch.
    fn arrival(&self, partition: &mut Partition<'_>, page: PageId, ticket: ReadTicket) -> Admission {
        match self.state.is_running() {
            true if self.order.is_current(page, ticket) => {
                let bypasses = Admission::Bypass { stale: false };
                self.hold(partition.slots_mut().map_or(bypasses, |slots| slots.arrived(page)))
            }
            true => Admission::AlreadyThere,
            false => Admission::Full,
        }
    }

    /// Whether the cache keeps the order of work on a page.
    fn has_order(&self) -> bool {
        self.flash_pages.page_format.has_no_owner_with_a_log() && !self.directory.has_objects()
    }

    /// Whether an unchanged page with this content may enter at all.
    fn may_populate(&self, data: &[u8]) -> bool {
        self.mode.populates() && self.flash_pages.page_format.takes(data)
    }

    fn entered(&self, page: PageId, admission: Admission, data: &[u8]) -> Result<(), Gone> {
        match admission {
            Admission::Stage { frame, position } => {
                self.fill(frame, position, page, false, data)?;
                self.board.tallies.populated.add(1);
            }
            Admission::Full => {
                self.board.tallies.population_dropped.add(1);
                self.signals.background.notify_one();
            }
            Admission::AlreadyThere | Admission::Bypass { .. } => {}
        }
        Ok(())
    }
}

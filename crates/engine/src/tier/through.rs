//! Writing changed pages to disk when no log stands above: nothing settles afterwards what a power failure
//! leaves between disk and flash. (A database's redo does.)
//!
//! Invariants:
//!
//! - Flash is never older than disk, not even after a crash: a changed page is written to disk when the
//!   group with its new version is durable, or the record by which all older copies on flash are forgotten.
//! - What flash has and the disk may lack is *unsure* (`Superblock::unsure_from`): positions from the oldest
//!   write under way on, and all since the last checkpoint. An open copies these pages to disk before it
//!   serves any. A checkpoint is made before they are a sixteenth of the slots.
//! - Writes of one page are made one after the other, on flash and on disk. Writes of other pages, and
//!   dequeues, never wait for one of them.
//! - While a page is written to disk, the flash keeps its new version ([`Partition::hold`]), though the ring
//!   goes round meanwhile. So a power failure that tears the write leaves one whole version. If too many
//!   pages are held, others go past the flash. A dequeue releases clean pages when the disk is synced.
//! - A version that was read is never followed by an older one, unless the disk fails: a reader that finds a
//!   page neither staged nor on flash waits for its write ([`Back::look_up`]). It may have been forgotten, or
//!   damaged, since it was read.

use super::back::Back;
use super::runs::RUN_PAGES_MAX;
use crate::TierError;
use crate::api::{Evicted, Victim};
use crate::front::{Found, Front, Offered};
use crate::signal::Signal;
use arrayvec::ArrayVec;
use entresol_core::{Lsn, PageId, Partition, Position, mutant};
use entresol_runtime::sync::{Rank, TinyMutex};
use entresol_shm::Gone;
use std::collections::HashMap;

/// Checkpoints are made when this part of the slots is unsure, in sixteenths: half of what is promised, since
/// pages enter while one is made.
const UNSURE_PART: u64 = 32;

/// Pages that are being written, and whether the new version may be read from flash before the disk has it.
type Writes = HashMap<PageId, bool>;

/// What writes of this kind share.
pub(crate) struct Through {
    /// The pages whose turn somebody has. Of each there is one writer at a time.
    turns: TinyMutex<Writes>,
    /// A turn has ended.
    ended: Signal,
    /// The rears when the writes under way began.
    under_way: TinyMutex<Vec<Position>>,
}

impl Default for Through {
    fn default() -> Self {
        Self {
            turns: TinyMutex::new(Rank::WritesThrough, Writes::new()),
            ended: Signal::default(),
            under_way: TinyMutex::new(Rank::WritesThrough, Vec::new()),
        }
    }
}

/// The turn to write some pages, until dropped.
struct Turn<'a>(&'a Through, ArrayVec<PageId, RUN_PAGES_MAX>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Self(through, pages) = self;
        let mut turns = through.turns.lock();
        pages.iter().for_each(|page| _ = turns.remove(page));
        drop(turns);
        through.ended.notify_all();
    }
}

/// What a turn is of: a page, and with the mutant others, too.
fn turn_of(page: PageId) -> PageId {
    if mutant!("turns-shared-by-pages") { PageId(page.0 % 1024) } else { page }
}

impl Through {
    /// The turn to write these pages, all at once: nobody who waits for one has another one. `shows`: the new
    /// versions can be read from flash before the disk has them.
    fn turn(&self, pages: &[(PageId, &[u8])], shows: bool) -> Turn<'_> {
        let mut wanted: ArrayVec<PageId, RUN_PAGES_MAX> =
            pages.iter().map(|(page, _)| turn_of(*page)).collect();
        wanted.truncate(if mutant!("turn-of-first-page-only") { 1 } else { RUN_PAGES_MAX });
        wanted.sort_unstable();
        let mut last = None;
        wanted.retain(|page| last.replace(*page) != Some(*page));
        loop {
            let seen = self.ended.epoch();
            {
                let mut turns = self.turns.lock();
                if !wanted.iter().any(|page| turns.contains_key(page)) {
                    turns.extend(wanted.iter().map(|page| (*page, shows)));
                    return Turn(self, wanted);
                }
            }
            self.ended.wait(seen);
        }
    }

    /// Whether a version of `page` may have been read that the disk does not have yet.
    pub(super) fn shows(&self, page: PageId) -> bool {
        let is_shown = self.turns.lock().get(&turn_of(page)).copied().unwrap_or(false);
        is_shown && !mutant!("absent-page-read-beside-its-write")
    }

    /// Waits until no such write of `page` is under way. False: none was.
    fn await_write(&self, page: PageId) -> bool {
        let mut waited = false;
        loop {
            let seen = self.ended.epoch();
            if !self.shows(page) {
                return waited;
            }
            self.ended.wait(seen);
            waited = true;
        }
    }

    /// The oldest position at which a page may be whose disk write is under way, if one is.
    fn oldest(&self) -> Option<Position> {
        self.under_way.lock().iter().min().copied()
    }
}

/// A write under way, until dropped.
struct UnderWay<'a>(&'a Through, Position);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut all = self.0.under_way.lock();
        if let Some(at) = all.iter().position(|from| *from == self.1) {
            all.swap_remove(at);
        }
    }
}

/// Pages on their way to disk, until dropped: no read of one of them enters the flash.
struct Writing<'a> {
    front: &'a Front,
    announced: &'a [(PageId, &'a [u8])],
    /// All of them, or none.
    held: &'a [(PageId, &'a [u8])],
}

impl<'a> Writing<'a> {
    /// `holds`: their new versions are not to leave the flash meanwhile.
    fn begin(front: &'a Front, pages: &'a [(PageId, &'a [u8])], holds: bool) -> Result<Self, Gone> {
        let announced = if mutant!("write-through-not-announced") { &[] } else { pages };
        let held = front.with(|partition| {
            announced.iter().for_each(|(page, _)| front.order.write_begins(*page));
            if holds { hold(partition, pages) } else { &[] }
        })?;
        Ok(Self { front, announced, held })
    }
}

/// Holds all of these pages. None: too many are held.
fn hold<'a>(partition: &mut Partition<'_>, pages: &'a [(PageId, &'a [u8])]) -> &'a [(PageId, &'a [u8])] {
    let held = pages.iter().take_while(|(page, _)| partition.hold(*page)).count();
    if held == pages.len() {
        return pages;
    }
    pages[..held].iter().for_each(|(page, _)| partition.let_go(*page));
    &[]
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let Self { front, announced, held } = self;
        // Where the memory is given up, so is the order.
        let _ = front.step(|partition| {
            announced.iter().for_each(|(page, _)| front.order.write_ends(*page));
            held.iter().for_each(|(page, _)| partition.let_go(*page));
        });
    }
}

impl Back {
    /// A changed page goes to disk, and to flash unless `around`; then its copies there are forgotten.
    pub(super) fn write_through(
        &self,
        victim: Victim,
        around: bool,
        data: &[u8],
    ) -> Result<Evicted, TierError> {
        self.write_through_all(&[(victim.page, data)], around)?;
        Ok(Evicted { dirty: false })
    }

    /// Looks for `page` in the cache. If the disk is to be read for it, it has every version that anybody may
    /// have read before.
    pub(super) fn look_up(&self, page: PageId, buffer: &mut [u8]) -> Result<Found, TierError> {
        loop {
            let found = self.front.fetch(page, buffer)?;
            let is_absent = matches!(found, Found::OnDisk(_) | Found::Damaged { dirty: false, .. });
            match &self.through {
                // Looked at after the cache was. A write that has ended since is on disk.
                Some(through) if is_absent && through.await_write(page) => {}
                _ => return Ok(found),
            }
        }
    }

    /// As [`Back::write_through`], of several pages, each named once. They share a flush of flash, and a
    /// request to the disk.
    pub(super) fn write_through_all(&self, pages: &[(PageId, &[u8])], around: bool) -> Result<(), TierError> {
        let Some(through) = &self.through else { unreachable!("a log stands above a native cache") };
        let shows = self.is_log() && !around;
        let _turn = (!mutant!("two-writers-of-a-page")).then(|| through.turn(pages, shows));
        if !self.is_log() {
            return self.write_through_slots(pages, around);
        }
        let from = self.front.with(|partition| partition.window().1)?;
        through.under_way.lock().push(from);
        let _under_way = UnderWay(through, from);
        let writing = Writing::begin(&self.front, pages, !around)?;
        let around = writing.held.is_empty();
        if mutant!("disk-before-flash") {
            pages.iter().try_for_each(|(page, data)| self.write_to_disk(*page, data))?;
        }
        let mut taken = ArrayVec::new();
        self.write_through_log(pages, around, &mut taken).or_else(|error| {
            // Nobody knows what the disk has: what it gives is what counts. That holds for pages, too, that
            // entered before the write of another one failed.
            for (page, _) in &taken {
                self.front.forget_range((*page, *page))?;
            }
            self.flush_flash()?;
            Err(error)
        })
    }

    /// Log placement: the pages that enter the flash are `taken`.
    fn write_through_log<'a>(
        &self,
        pages: &[(PageId, &'a [u8])],
        around: bool,
        taken: &mut ArrayVec<(PageId, &'a [u8]), RUN_PAGES_MAX>,
    ) -> Result<(), TierError> {
        for (page, data) in pages {
            let victim = Victim { page: *page, lsn: Lsn(0), dirty: false, fdirty: true };
            let offered = match around {
                true => Offered::Bypass,
                false => self.front.take(victim, data)?,
            };
            match offered {
                Offered::Taken => taken.push((*page, data)),
                _ => self.write_past_flash(*page, offered, data)?,
            }
        }
        if taken.is_empty() {
            return Ok(());
        }
        self.flush_flash()?;
        self.write_run_to_disk(taken)
    }

    /// A page that does not enter the flash.
    fn write_past_flash(&self, page: PageId, offered: Offered, data: &[u8]) -> Result<(), TierError> {
        if offered == Offered::Bypass {
            self.front.tallies().bypassed.add(1);
        }
        self.forget_durably(page, page)?;
        self.write_to_disk(page, data)
    }

    /// No copy of these pages is on flash any more, nor is found there after a crash.
    fn forget_durably(&self, first: PageId, last: PageId) -> Result<(), TierError> {
        let records = || self.front.with(|partition| (partition.records_made(), partition.records_durable()));
        // Pages that are lost stay so until the disk has the new versions.
        match mutant!("lost-page-found-too-early") {
            true => self.forget_range(first, last)?,
            false => self.front.forget_range((first, last))?,
        };
        let (made, durable) = records()?;
        if made > durable {
            self.flush_flash()?;
        }
        Ok(())
    }

    /// Adjacent pages, `run`, whose bytes are `data`, go to disk alone, in one request. None of them is
    /// dirty. Their copies on flash are forgotten first: durably, so that a kill of the program between the
    /// write and the next flush does not bring one back.
    pub(super) fn write_run_around(&self, run: &[(PageId, &[u8])], data: &[u8]) -> Result<(), TierError> {
        let (Some(through), [(first, _), ..], [.., (last, _)]) = (&self.through, run, run) else {
            unreachable!("the caller has pages, and no log stands above")
        };
        let _turn = through.turn(run, false);
        let _writing = Writing::begin(&self.front, run, false)?;
        self.forget_durably(*first, *last)?;
        let written = self.disk.write_run(*first, data);
        self.wrote_to_disk(run.len());
        written?;
        self.front.tallies().bypassed.add(run.len());
        run.iter().for_each(|_| self.front.tallies().evicted(true, true));
        Ok(())
    }

    /// Slot placement, whose directory a crash leaves empty.
    fn write_through_slots(&self, pages: &[(PageId, &[u8])], around: bool) -> Result<(), TierError> {
        let writing = Writing::begin(&self.front, pages, false)?;
        for (page, _) in pages {
            self.front.forget_range((*page, *page))?;
        }
        self.write_run_to_disk(pages)?;
        drop(writing);
        if around {
            self.front.tallies().bypassed.add(pages.len());
            return Ok(());
        }
        for (page, data) in pages {
            let victim = Victim { page: *page, lsn: Lsn(0), dirty: false, fdirty: true };
            self.take(victim, data)?;
        }
        Ok(())
    }

    /// All that is below may be taken as being on disk, once the disk is synced: to be asked before.
    pub(super) fn sure_below(&self, rear: Position) -> Position {
        let oldest = self.through.as_ref().and_then(Through::oldest);
        if mutant!("writes-under-way-taken-for-done") { rear } else { rear.min(oldest.unwrap_or(rear)) }
    }

    /// Whether so much is unsure that a checkpoint is due, and one would help: it cannot while the oldest
    /// write is under way, and would only be repeated.
    pub(super) fn unsure_is_long(&self) -> Result<bool, Gone> {
        let is_kept = self.through.is_some() && self.is_log();
        if !is_kept || !self.front.options.disk_may_lack() {
            return Ok(false);
        }
        let (rear, sure) = (self.front.with(|partition| partition.window().1)?, self.superblocks.sure());
        let is_long = rear.0.saturating_sub(sure.0) > u64::from(self.front.config.slots) / UNSURE_PART;
        Ok(is_long && self.sure_below(rear) > sure)
    }
}

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
//! - Writes of one page are made one after the other, on flash and on disk.

use super::back::Back;
use super::runs::RUN_PAGES_MAX;
use crate::TierError;
use crate::api::{Evicted, Victim};
use crate::front::{Front, Offered};
use arrayvec::ArrayVec;
use entresol_core::{Lsn, PageId, Position, mutant};
use entresol_runtime::sync::{Mutex, MutexGuard, Rank, TinyMutex};
use entresol_shm::Gone;

/// Groups of pages, of which each has one writer at a time.
const TURNS: usize = 1024;
/// Checkpoints are made when this part of the slots is unsure, in sixteenths: half of what is promised, since
/// pages enter while one is made.
const UNSURE_PART: u64 = 32;

/// What writes of this kind share.
pub(crate) struct Through {
    turns: Box<[Mutex<()>]>,
    /// The rears when the writes under way began.
    under_way: TinyMutex<Vec<Position>>,
}

impl Default for Through {
    fn default() -> Self {
        Self {
            turns: (0..TURNS).map(|_| Mutex::new(Rank::PageTurn, ())).collect(),
            under_way: TinyMutex::new(Rank::WritesThrough, Vec::new()),
        }
    }
}

impl Through {
    /// The turns to write these pages, taken in ascending order.
    fn turns(&self, pages: &[(PageId, &[u8])]) -> ArrayVec<MutexGuard<'_, ()>, RUN_PAGES_MAX> {
        let place = |page: PageId| (page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
        let mut places: ArrayVec<usize, RUN_PAGES_MAX> = pages.iter().map(|(page, _)| place(*page)).collect();
        places.truncate(if mutant!("turn-of-first-page-only") { 1 } else { RUN_PAGES_MAX });
        places.sort_unstable();
        let mut last = None;
        places.retain(|place| last.replace(*place) != Some(*place));
        places.into_iter().map(|place| self.turns[place].lock()).collect()
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
struct Writing<'a>(&'a Front, &'a [(PageId, &'a [u8])]);

impl<'a> Writing<'a> {
    fn begin(front: &'a Front, pages: &'a [(PageId, &'a [u8])]) -> Result<Self, Gone> {
        let announced = if mutant!("write-through-not-announced") { &[] } else { pages };
        front.with(|_| announced.iter().for_each(|(page, _)| front.order.write_begins(*page)))?;
        Ok(Self(front, announced))
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let Self(front, pages) = self;
        // Where the memory is given up, so is the order.
        let _ = front.step(|_| pages.iter().for_each(|(page, _)| front.order.write_ends(*page)));
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

    /// As [`Back::write_through`], of several pages, each named once. They share a flush of flash, and a
    /// request to the disk.
    pub(super) fn write_through_all(&self, pages: &[(PageId, &[u8])], around: bool) -> Result<(), TierError> {
        let Some(through) = &self.through else { unreachable!("a log stands above a native cache") };
        let _turns = (!mutant!("two-writers-of-a-page")).then(|| through.turns(pages));
        if !self.is_log() {
            return self.write_through_slots(pages, around);
        }
        let from = self.front.with(|partition| partition.window().1)?;
        through.under_way.lock().push(from);
        let _under_way = UnderWay(through, from);
        let _writing = Writing::begin(&self.front, pages)?;
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
        self.forget_range(first, last)?;
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
        let _turns = through.turns(run);
        let _writing = Writing::begin(&self.front, run)?;
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
        let writing = Writing::begin(&self.front, pages)?;
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

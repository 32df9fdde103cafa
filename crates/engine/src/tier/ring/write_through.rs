//! Writing changed pages to disk when no log stands above: nothing settles afterwards what a power failure
//! leaves between disk and flash. (A database's redo does.)
//!
//! Invariants:
//!
//! - Flash is never older than disk, not even after a crash: a changed page is written to disk when the
//!   group with its new version is durable, or the record by which all older copies on flash are forgotten.
//! - What flash has and the disk may lack is *unsure* ([`super::unsure`]). An open copies these pages to disk
//!   before it serves any. A checkpoint is made before they are a sixteenth of the slots.
//! - Writes of one page are made one after the other, on flash and on disk. Writes of other pages, and
//!   dequeues, never wait for one of them.
//! - While a page is written to disk, the flash keeps its new version ([`entresol_core::Log::hold`]), though
//!   the ring turns meanwhile. So a power failure that tears the write leaves one whole version. If too
//!   many pages are held, others go past the flash. A dequeue releases clean pages when the disk is synced.
//! - A version that was read is never followed by an older one, unless the disk fails: a reader that finds a
//!   page neither staged nor on flash waits for its write (`Reads::look_up`). It may have been forgotten, or
//!   damaged, since it was read.

use super::flusher::Flusher;
use crate::TierError;
use crate::access::{Access, Offered, RUN_PAGES_MAX};
use crate::tier::floor::Floor;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::turns::{Turns, Writing};
use arrayvec::ArrayVec;
use entresol_core::{PageId, Partition};
use std::sync::Arc;

/// See the module's header.
pub(crate) struct WriteThrough {
    access: Arc<Access>,
    disk_writes: Arc<DiskWrites>,
    turns: Arc<Turns>,
    flusher: Arc<Flusher>,
}

/// Holds all of these pages. None: too many are held.
fn hold<'a>(partition: &mut Partition<'_>, pages: &'a [(PageId, &'a [u8])]) -> &'a [(PageId, &'a [u8])] {
    let Some(log) = partition.log_mut() else { return &[] };
    let held = pages.iter().take_while(|(page, _)| log.hold(*page)).count();
    if held == pages.len() {
        return pages;
    }
    pages[..held].iter().for_each(|(page, _)| log.let_go(*page));
    &[]
}

impl WriteThrough {
    /// `None`: a log stands above.
    pub(crate) fn new(floor: &Floor, flusher: &Arc<Flusher>) -> Option<Self> {
        Some(Self {
            access: floor.access.clone(),
            disk_writes: floor.disk_writes.clone(),
            turns: floor.turns.clone()?,
            flusher: flusher.clone(),
        })
    }

    /// Writes changed pages, each named once, to disk, and to flash unless `around`. They share a flush of
    /// flash, and a request to the disk.
    pub(crate) fn write(&self, pages: &[(PageId, &[u8])], around: bool) -> Result<(), TierError> {
        let shows = !around;
        let _turn = self.turns.turn(pages, shows);
        let from = self.access.directory.with(|partition| partition.window().1)?;
        let _under_way = self.turns.write_begins(from);
        let writing =
            Writing::begin_held(
                &self.access,
                pages,
                |partition| if around { &[] } else { hold(partition, pages) },
            )?;
        let around = writing.holds_none();
        let mut taken = ArrayVec::new();
        self.write_through_log(pages, around, &mut taken).or_else(|error| {
            // Nobody knows what the disk has: what it gives is what counts. That holds for pages, too, that
            // entered before the write of another one failed.
            for (page, _) in &taken {
                self.access.forgets.forget_range((*page, *page))?;
            }
            self.flusher.flush_flash()?;
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
        if around {
            return pages
                .iter()
                .try_for_each(|(page, data)| self.write_past_flash(*page, Offered::Bypass, data));
        }
        self.access.offers.take_each(pages, false, |victim, data, offered| match offered {
            Offered::Taken => {
                taken.push((victim.page, data));
                Ok(())
            }
            _ => self.write_past_flash(victim.page, offered, data),
        })?;
        if taken.is_empty() {
            return Ok(());
        }
        self.flusher.flush_flash()?;
        self.disk_writes.write_run(taken)
    }

    /// A page that does not enter the flash.
    fn write_past_flash(&self, page: PageId, offered: Offered, data: &[u8]) -> Result<(), TierError> {
        if offered == Offered::Bypass {
            self.access.board.tallies.bypassed.add(1);
        }
        self.forget_durably(page, page)?;
        self.disk_writes.write(page, data)
    }

    /// No copy of these pages is on flash any more, nor is found there after a crash. Records of other pages
    /// are waited for by those that write them.
    fn forget_durably(&self, first: PageId, last: PageId) -> Result<(), TierError> {
        // Pages that are lost stay so until the disk has the new versions.
        self.access.forgets.forget_range((first, last))?;
        if self.access.directory.in_log(|log| log.may_come_back(first, last))? {
            self.flusher.flush_flash()?;
        }
        Ok(())
    }

    /// As [`WriteThrough::forget_durably`], of pages that need not be adjacent. They share a flush of flash.
    pub(crate) fn forget_all_durably(&self, pages: &[PageId]) -> Result<(), TierError> {
        let mut may_come_back = false;
        for page in pages {
            self.access.forgets.forget_range((*page, *page))?;
            may_come_back |= self.access.directory.in_log(|log| log.may_come_back(*page, *page))?;
        }
        if may_come_back { self.flusher.flush_flash() } else { Ok(()) }
    }

    /// Adjacent pages, `run`, whose bytes are `data`, go to disk alone, in one request. None of them is
    /// dirty. Their copies on flash are forgotten first: durably, so that a kill of the program between the
    /// write and the next flush does not bring one back.
    pub(crate) fn write_run_around(&self, run: &[(PageId, &[u8])], data: &[u8]) -> Result<(), TierError> {
        let ([(first, _), ..], [.., (last, _)]) = (run, run) else { unreachable!("the caller has pages") };
        let _turn = self.turns.turn(run, false);
        let _writing = Writing::begin(&self.access, run)?;
        self.forget_durably(*first, *last)?;
        self.disk_writes.write_around(run, data)
    }
}

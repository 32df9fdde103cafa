//! Writing changed pages to disk when no log stands above.
//!
//! Invariant: flash is never older than disk, not even after a crash. The directory is empty then; or an
//! entry is invalid before the page's write; or, where slots survive a crash, a durable summary says before
//! the page's write that each slot is empty in which a crash could find an older version.

use super::flusher::Flusher;
use crate::TierError;
use crate::access::Access;
use crate::tier::floor::Floor;
use crate::tier::floor::disk_writes::DiskWrites;
use crate::tier::floor::entry::Entry;
use crate::tier::floor::turns::{Turns, Writing};
use entresol_core::PageId;
use std::sync::Arc;

/// See the module's header.
pub(crate) struct WriteThrough {
    access: Arc<Access>,
    disk_writes: Arc<DiskWrites>,
    entry: Arc<Entry>,
    turns: Arc<Turns>,
    flusher: Arc<Flusher>,
}

impl WriteThrough {
    /// `None`: a log stands above.
    pub(crate) fn new(floor: &Floor, flusher: &Arc<Flusher>) -> Option<Self> {
        Some(Self {
            access: floor.access.clone(),
            disk_writes: floor.disk_writes.clone(),
            entry: floor.entry.clone(),
            turns: floor.turns.clone()?,
            flusher: flusher.clone(),
        })
    }

    /// Changed pages, each named once, go to disk, and to flash unless `around`.
    pub(crate) fn write(&self, pages: &[(PageId, &[u8])], around: bool) -> Result<(), TierError> {
        let _turn = self.turns.turn(pages, false);
        let writing = Writing::begin(&self.access, pages)?;
        self.forget_durably(pages.iter().map(|(page, _)| (*page, *page)))?;
        self.disk_writes.write_run(pages)?;
        drop(writing);
        if around {
            self.access.board.tallies.bypassed.add(pages.len());
            return Ok(());
        }
        self.access.offers.take_each(pages, false, |victim, data, offered| {
            self.entry.taken(victim, data, offered).map(drop)
        })
    }

    /// Adjacent pages, `run`, whose bytes are `data`, go to disk alone. None of them is dirty.
    pub(crate) fn write_run_around(&self, run: &[(PageId, &[u8])], data: &[u8]) -> Result<(), TierError> {
        let ([(first, _), ..], [.., (last, _)]) = (run, run) else { return Ok(()) };
        let _turn = self.turns.turn(run, false);
        let _writing = Writing::begin(&self.access, run)?;
        self.forget_durably(std::iter::once((*first, *last)))?;
        self.disk_writes.write_around(run, data)
    }

    /// No copy of the pages in these ranges is on flash any more, nor is found there after a crash.
    fn forget_durably(
        &self,
        mut ranges: impl Iterator<Item = (PageId, PageId)> + Clone,
    ) -> Result<(), TierError> {
        for range in ranges.clone() {
            self.access.forgets.forget_range(range)?;
        }
        let may_come_back = self.access.directory.with(|partition| {
            let slots = partition.slots();
            slots.is_some_and(|slots| ranges.any(|(first, last)| slots.may_come_back(first, last)))
        })?;
        if may_come_back { self.flusher.flush_flash() } else { Ok(()) }
    }
}

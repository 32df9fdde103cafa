//! Writing changed pages to disk when no log stands above. The directory is empty after a crash, or an entry
//! is invalid before the page's write: so flash is never older than disk.

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
}

impl WriteThrough {
    /// `None`: a log stands above.
    pub(crate) fn new(floor: &Floor) -> Option<Self> {
        Some(Self {
            access: floor.access.clone(),
            disk_writes: floor.disk_writes.clone(),
            entry: floor.entry.clone(),
            turns: floor.turns.clone()?,
        })
    }

    /// Changed pages, each named once, go to disk, and to flash unless `around`.
    pub(crate) fn write(&self, pages: &[(PageId, &[u8])], around: bool) -> Result<(), TierError> {
        let _turn = self.turns.turn(pages, false);
        let writing = Writing::begin(&self.access, pages)?;
        for (page, _) in pages {
            self.access.forgets.forget_range((*page, *page))?;
        }
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
        self.access.forgets.forget_range((*first, *last))?;
        self.disk_writes.write_around(run, data)
    }
}

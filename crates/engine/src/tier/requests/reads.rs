//! Reads of pages: from the cache, or from disk, one or adjacent ones.
//!
//! Invariants:
//!
//! - Each page of a run is read as [`Layer::fetch`](crate::Layer::fetch) would, in any order.
//! - A read past the flash serves no older version than the cache had when it began. Pages that the disk
//!   lacks, or may lack after a crash, come from the cache.

use crate::access::{Access, FetchResult, Offered, RUN_PAGES_MAX, Read, ReadTicket};
use crate::api::{Fetched, ReadCounts, Source, Victim};
use crate::disk::DiskPages;
use crate::tier::floor::Floor;
use crate::tier::floor::budget::WriteBudget;
use crate::tier::floor::disk_trouble::DiskTrouble;
use crate::tier::floor::staged::StagedPages;
use crate::tier::floor::superblocks::Superblocks;
use crate::tier::floor::turns::Turns;
use crate::{TierError, points};
use arrayvec::ArrayVec;
use entresol_core::PageId;
use entresol_format::PageFormat;
use std::sync::Arc;

/// Adjacent pages that only the disk has: the place of the first one in the buffer, and their tickets.
struct Absent {
    at: usize,
    tickets: ArrayVec<ReadTicket, RUN_PAGES_MAX>,
    /// They are offered to the cache.
    populates: bool,
}

/// See the module's header.
pub(crate) struct Reads {
    access: Arc<Access>,
    disk: Arc<DiskPages>,
    superblocks: Arc<Superblocks>,
    staged: Arc<StagedPages>,
    budget: Arc<WriteBudget>,
    turns: Option<Arc<Turns>>,
    trouble: Arc<DiskTrouble>,
}

impl Reads {
    pub(crate) fn new(floor: &Floor) -> Self {
        Self {
            access: floor.access.clone(),
            disk: floor.disk.clone(),
            superblocks: floor.superblocks.clone(),
            staged: floor.staged.clone(),
            budget: floor.budget.clone(),
            turns: floor.turns.clone(),
            trouble: floor.trouble.clone(),
        }
    }

    pub(crate) fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        self.disk.check_length(buffer)?;
        match self.look_up(page, buffer)? {
            FetchResult::Here(fetched) => Ok(fetched),
            FetchResult::OnDisk(ticket) => self.fetch_from_disk(page, ticket, buffer),
            FetchResult::Damaged { place, fault, dirty, .. } if dirty => {
                points::FETCH_DAMAGED_DIRTY.reach();
                Err(TierError::Damaged { page, place, fault })
            }
            FetchResult::Damaged { ticket, copy, .. } => {
                points::FETCH_DAMAGED_CLEAN.reach();
                self.access.board.tallies.damaged_clean.add(1);
                self.fetch_past_damage(page, Read { ticket, past: Some(copy) }, buffer)
            }
        }
    }

    /// Looks for `page` in the cache. If the disk is to be read for it, it has every version that anybody may
    /// have read before.
    pub(crate) fn look_up(&self, page: PageId, buffer: &mut [u8]) -> Result<FetchResult, TierError> {
        loop {
            let found = self.access.fetches.fetch(page, buffer)?;
            let is_absent =
                matches!(found, FetchResult::OnDisk(_) | FetchResult::Damaged { dirty: false, .. });
            match &self.turns {
                // Looked at after the cache was. A write that has ended since is on disk.
                Some(turns) if is_absent && turns.await_write(page) => {}
                _ => return Ok(found),
            }
        }
    }

    fn fetch_from_disk(
        &self,
        page: PageId,
        ticket: ReadTicket,
        buffer: &mut [u8],
    ) -> Result<Fetched, TierError> {
        self.disk.read(page, buffer)?;
        self.access.board.tallies.disk_reads.add(1);
        if !self.trouble.is_full_of_kept() {
            self.access.offers.populate(page, ticket, buffer)?;
        }
        self.budget.look();
        Ok(Fetched { source: Source::Disk, dirty: false, fdirty: false })
    }

    /// The clean copy on flash cannot be read: the disk serves. In write-through mode it may even be newer:
    /// when power fails between the write of a page to disk and that of its group, the copy before comes back
    /// as clean. So that it never follows what is served now, should it become readable again, the page
    /// enters the flash anew, durably.
    fn fetch_past_damage(&self, page: PageId, read: Read, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        let fetched = self.fetch_from_disk(page, read.ticket, buffer)?;
        if self.access.directory.is_log() {
            let lsn = self.access.options.page_format.lsn(buffer);
            let victim = Victim { page, lsn, dirty: false, fdirty: true };
            if self.access.offers.take_read(victim, read, buffer)? == Offered::Taken {
                self.staged.drain()?;
            }
        }
        Ok(fetched)
    }

    /// Reads pages from `first` on. With `populates`, what only the disk had is offered to the cache.
    pub(crate) fn read_pages(
        &self,
        first: PageId,
        buffer: &mut [u8],
        populates: bool,
    ) -> Result<ReadCounts, TierError> {
        self.disk.check_run(buffer)?;
        let some_bytes = RUN_PAGES_MAX * self.access.flash_pages.page_bytes;
        let mut served = ReadCounts::default();
        for (at, some) in buffer.chunks_mut(some_bytes).enumerate() {
            self.read_some(PageId(first.0 + (at * RUN_PAGES_MAX) as u64), some, populates, &mut served)?;
        }
        Ok(served)
    }

    fn read_some(
        &self,
        first: PageId,
        buffer: &mut [u8],
        populates: bool,
        served: &mut ReadCounts,
    ) -> Result<(), TierError> {
        let page_bytes = self.access.flash_pages.page_bytes;
        let mut absent = Absent { at: 0, tickets: ArrayVec::new(), populates };
        let (pages, mut next) = (buffer.len() / page_bytes, 0);
        while next < pages {
            let at = next;
            let fetched =
                self.access.runs.fetch(PageId(first.0 + at as u64), &mut buffer[at * page_bytes..])?;
            next += fetched.max(1);
            if fetched > 0 {
                served.flash += fetched as u64;
                self.read_absent(first, &mut absent, buffer)?;
                continue;
            }
            let page = PageId(first.0 + at as u64);
            let bytes = &mut buffer[at * page_bytes..][..page_bytes];
            let ticket = match self.look_up(page, bytes)? {
                FetchResult::OnDisk(ticket) => Some(ticket),
                FetchResult::Here(fetched) => {
                    served.count(fetched.source);
                    None
                }
                // A second look, which deals with it.
                FetchResult::Damaged { .. } => {
                    served.count(self.fetch(page, bytes)?.source);
                    None
                }
            };
            match ticket {
                Some(ticket) => {
                    if absent.tickets.is_empty() {
                        absent.at = at;
                    }
                    absent.tickets.push(ticket);
                    served.count(Source::Disk);
                }
                None => self.read_absent(first, &mut absent, buffer)?,
            }
        }
        self.read_absent(first, &mut absent, buffer)
    }

    /// Reads these pages from disk and offers them to the cache; none are left.
    fn read_absent(&self, first: PageId, absent: &mut Absent, buffer: &mut [u8]) -> Result<(), TierError> {
        let page_bytes = self.access.flash_pages.page_bytes;
        let tickets = std::mem::take(&mut absent.tickets);
        let pages = |count| (0..count).map(|at| PageId(first.0 + (absent.at + at) as u64));
        let bytes = &mut buffer[absent.at * page_bytes..][..tickets.len() * page_bytes];
        let is_run = tickets.len() > 1 && self.access.options.page_format != PageFormat::Native;
        let is_read = is_run
            && self.disk.read_run(PageId(first.0 + absent.at as u64), bytes).is_ok()
            && self.disk.prove_kept(pages(tickets.len())).is_ok();
        for (page, bytes) in pages(tickets.len()).zip(bytes.chunks_exact_mut(page_bytes)) {
            // One by one, so that the error names the page.
            if !is_read {
                self.disk.read(page, bytes)?;
            }
        }
        self.access.board.tallies.disk_reads.add(tickets.len());
        if !absent.populates || self.trouble.is_full_of_kept() {
            return Ok(());
        }
        Ok(self.access.offers.populate_run(PageId(first.0 + absent.at as u64), &tickets, bytes)?)
    }

    /// As [`Reads::read_pages`]; one request to the disk reads all pages, if that may be, and nothing enters
    /// the cache.
    pub(crate) fn read_around(&self, first: PageId, buffer: &mut [u8]) -> Result<ReadCounts, TierError> {
        self.disk.check_run(buffer)?;
        if buffer.is_empty() || !self.access.signals.check_running()? {
            return self.read_pages(first, buffer, false);
        }
        let page_bytes = self.access.flash_pages.page_bytes;
        let pages = (buffer.len() / page_bytes) as u64;
        let newer = self.newer_than_disk(first, pages)?;
        let ids = || (first.0..first.0 + pages).map(PageId);
        let is_read = (newer.len() as u64) < pages
            && self.disk.read_run(first, buffer).is_ok()
            && self.disk.prove_kept(ids()).is_ok();
        if !is_read {
            // One by one, so that an error names its page.
            return self.read_pages(first, buffer, false);
        }
        let mut served = ReadCounts { disk: pages - newer.len() as u64, ..ReadCounts::default() };
        self.access.board.tallies.disk_reads.add(served.disk as usize);
        // After the disk: a page that leaves the cache meanwhile is on disk by then.
        for page in newer {
            let bytes = &mut buffer[(page.0 - first.0) as usize * page_bytes..][..page_bytes];
            let source = match self.look_up(page, bytes)? {
                FetchResult::Here(fetched) => fetched.source,
                FetchResult::OnDisk(_) => {
                    self.disk.read(page, bytes)?;
                    self.access.board.tallies.disk_reads.add(1);
                    Source::Disk
                }
                // A second look, which deals with it.
                FetchResult::Damaged { .. } => self.fetch(page, bytes)?.source,
            };
            served.count(source);
        }
        Ok(served)
    }

    /// Which of these pages the disk lacks, or may lack after a crash.
    fn newer_than_disk(&self, first: PageId, pages: u64) -> Result<Vec<PageId>, TierError> {
        let is_unsure_possible = self.access.directory.is_log() && self.access.options.disk_may_lack();
        let sure = is_unsure_possible.then(|| self.superblocks.sure());
        let mut newer = Vec::new();
        for page in (first.0..first.0 + pages).map(PageId) {
            // After the look at the cache: a page that has left it, and is on its way to disk.
            let is_newer = self.access.cached.may_be_newer(page, sure)?
                || self.turns.as_ref().is_some_and(|turns| turns.shows(page));
            if is_newer {
                newer.push(page);
            }
        }
        Ok(newer)
    }
}

//! Offers of adjacent pages in one step of the core. Those that enter get positions that follow each other:
//! with log placement they are adjacent on flash, and one request reads them.
//!
//! Invariants:
//!
//! - What becomes of each page is what it would be without the others, in the order of the pages.
//! - A task that has frames to fill fills them before it waits for anything.

use super::{Offered, Offers, Read};
use crate::TierError;
use crate::access::order::ReadTicket;
use crate::api::Victim;
use arrayvec::ArrayVec;
use entresol_core::{Admission, Lsn, PageId};
use entresol_shm::Gone;

/// Most pages that share a request.
pub(crate) const RUN_PAGES_MAX: usize = 64;

impl Offers {
    /// Whether several frames can be in one hand: a process that shares the cache says which one it holds. Of
    /// pages with objects each has a look of its own.
    fn takes_runs(&self) -> bool {
        self.seat.is_none() && !self.directory.has_objects()
    }

    /// As [`Offers::populate`] of the pages from `first` on, which were read with these tickets, for a reader
    /// that has no memory of its own for pages. A policy that takes what memory evicts, and not what arrives,
    /// is offered the pages as evicted, unchanged.
    ///
    /// Not if a log stands above. Then the cache does not keep the order of work on a page ([`ReadTicket`]),
    /// and a clean copy may go back and forth:
    ///
    /// 1. A page is read from disk and enters, as a clean copy.
    /// 2. It is written in a form that the cache does not take (an uninitialized page of PostgreSQL). The
    ///    copy is forgotten in memory, the page is written to disk. Nothing is flushed.
    /// 3. Power fails. The disk has the new page; the record that the copy is forgotten is lost.
    /// 4. The copy is found again and served. It is clean, so it is never destaged: when its slot is reused,
    ///    the disk serves the new page.
    ///
    /// A dirty copy is destaged over it, and the database's redo settles both. A reader without memory or log
    /// would notice.
    pub(crate) fn populate_run(
        &self,
        first: PageId,
        tickets: &[ReadTicket],
        bytes: &[u8],
    ) -> Result<(), Gone> {
        let page_bytes = self.flash_pages.page_bytes;
        let pages = || (first.0..).map(PageId).zip(bytes.chunks_exact(page_bytes)).zip(tickets);
        if tickets.len() > 1 && !self.takes_runs() {
            return pages().try_for_each(|((page, bytes), ticket)| {
                self.populate_run(page, std::slice::from_ref(ticket), bytes)
            });
        }
        let populates = self.directory.config.policy.populates();
        if !populates && !self.has_order() {
            return Ok(());
        }
        let is_full = !populates && self.signals.somebody_waits();
        let victim = |page, bytes| Victim {
            page,
            lsn: self.flash_pages.page_format.lsn(bytes),
            dirty: false,
            fdirty: false,
        };
        let admissions: ArrayVec<Admission, RUN_PAGES_MAX> = self.directory.with(|partition| {
            let admissions = pages().map(|((page, bytes), ticket)| match () {
                () if !self.may_populate(bytes) => Admission::Bypass { stale: false },
                () if populates => self.arrival(partition, page, *ticket),
                () if is_full => Admission::Full,
                () => {
                    let read = Read { ticket: *ticket, past: None };
                    let decided = self.decide(partition, None, &victim(page, bytes), Some(read), false);
                    decided.unwrap_or(Admission::AlreadyThere)
                }
            });
            admissions.collect()
        })?;
        for (((page, bytes), _), admission) in pages().zip(&admissions) {
            if !populates && self.may_populate(bytes) {
                self.show(&victim(page, bytes), *admission);
            }
            self.entered(page, *admission, bytes)?;
        }
        Ok(())
    }

    /// [`Offers::take`] of each of these changed pages, in their order. Those that find room together enter
    /// together. `complete` is told what became of each.
    pub(crate) fn take_each<'a>(
        &self,
        run: &[(PageId, &'a [u8])],
        dirty: bool,
        mut complete: impl FnMut(Victim, &'a [u8], Offered) -> Result<(), TierError>,
    ) -> Result<(), TierError> {
        let together = self.take_run(run, dirty)?;
        for (at, (page, data)) in run.iter().enumerate() {
            let victim = Victim { page: *page, lsn: Lsn(0), dirty, fdirty: true };
            let offered = match together.get(at) {
                Some(offered) => *offered,
                None => self.take(victim, data)?,
            };
            complete(victim, data, offered)?;
        }
        Ok(())
    }

    /// [`Offers::take`] of these changed pages, but does not wait: from the first one on, until one finds no
    /// room or is kept out of the flash. What became of each.
    pub(crate) fn take_run(
        &self,
        run: &[(PageId, &[u8])],
        dirty: bool,
    ) -> Result<ArrayVec<Offered, RUN_PAGES_MAX>, TierError> {
        let victim = |page| Victim { page, lsn: Lsn(0), dirty, fdirty: true };
        let is_possible = run.len() > 1 && run.len() <= RUN_PAGES_MAX && self.takes_runs();
        if !is_possible || self.signals.somebody_waits() || !self.signals.check_running()? {
            return Ok(ArrayVec::new());
        }
        let admissions: ArrayVec<Admission, RUN_PAGES_MAX> = self.directory.with(|partition| {
            let mut admissions = ArrayVec::new();
            for (page, _) in run {
                let decided = self.decide(partition, None, &victim(*page), None, false);
                let Some(admission) = decided.filter(|admission| *admission != Admission::Full) else {
                    break;
                };
                admissions.push(admission);
                if matches!(admission, Admission::Bypass { .. }) {
                    break;
                }
            }
            admissions
        })?;
        let mut offered = ArrayVec::new();
        for ((page, data), admission) in run.iter().zip(&admissions) {
            self.show(&victim(*page), *admission);
            offered.push(self.admitted(*admission, victim(*page), data)?);
        }
        Ok(offered)
    }
}

//! Reads and writes of adjacent pages, for a caller without memory of its own for pages. Its pages are raw,
//! and are written at once.
//!
//! Invariant: when a write returns, the disk has it. So has the flash, if the page is valid there.

use super::shared::Shared;
use super::versions::StampedCopy;
use super::write::PAGES_MAX;
use crate::TierError;
use crate::api::{ReadCounts, ReadRoute, Source};
use crate::disk::Staged;
use arrayvec::ArrayVec;
use entresol_core::{Fragments, PageId};
use entresol_format::PageFormat;

/// Pages that are forgotten under one hold of the latch.
const FORGOTTEN_AT_ONCE: u64 = 512;

type Copies = ArrayVec<Option<StampedCopy>, PAGES_MAX>;

impl Shared {
    /// Native pages are evicted, and others written.
    pub(super) fn expects_native(&self) -> Result<(), TierError> {
        self.expects(self.options.page_format == PageFormat::Native, "are written, not evicted")
    }

    fn expects(&self, holds: bool, what: &str) -> Result<(), TierError> {
        let format = self.options.page_format.name();
        if holds { Ok(()) } else { Err(TierError::Config(format!("{format} pages of this cache {what}"))) }
    }

    fn check_whole(&self, bytes: &[u8]) -> Result<(), TierError> {
        let is_whole = bytes.len().is_multiple_of(self.options.page_bytes as usize);
        self.expects(is_whole, "are read and written as a whole")
    }

    pub(super) fn read_pages(
        &self,
        first: PageId,
        buffer: &mut [u8],
        how: ReadRoute,
    ) -> Result<ReadCounts, TierError> {
        self.check_whole(buffer)?;
        let page_bytes = self.options.page_bytes as usize;
        let mut served = ReadCounts::default();
        // Past the flash, one request to the disk.
        let pages_max = if how == ReadRoute::Around { usize::MAX / page_bytes } else { PAGES_MAX };
        let mut first = first.0;
        for bytes in buffer.chunks_mut(pages_max * page_bytes) {
            let pages = (bytes.len() / page_bytes) as u64;
            let copies = self.copies(first, pages, how);
            self.read_some(first, &copies, bytes, &mut served)?;
            first += pages;
        }
        Ok(served)
    }

    /// The copies of these pages. None at all: the disk is read.
    fn copies(&self, first: u64, pages: u64, how: ReadRoute) -> Copies {
        let ids = (first..first + pages).map(PageId);
        if how == ReadRoute::Around || !self.is_running() || !ids.clone().all(|id| self.has_place(id)) {
            return Copies::new();
        }
        match how {
            ReadRoute::Populates => self.step(|state| ids.map(|id| state.fetch(id)).collect()),
            _ => self.with(|state| ids.map(|id| state.peek(id)).collect()),
        }
    }

    /// Reads pages: adjacent ones in one request.
    fn read_some(
        &self,
        first: u64,
        copies: &[Option<StampedCopy>],
        bytes: &mut [u8],
        served: &mut ReadCounts,
    ) -> Result<(), TierError> {
        let page_bytes = self.options.page_bytes as usize;
        if copies.is_empty() {
            return self.read_from_disk(first, bytes, served);
        }
        let is_next = |(before, after): (&Option<StampedCopy>, &Option<StampedCopy>)| match (before, after) {
            (Some(before), Some(after)) => before.slot.0 + 1 == after.slot.0,
            (None, None) => true,
            _ => false,
        };
        let mut at = 0;
        while at < copies.len() {
            let pairs = copies[at..].iter().zip(&copies[at + 1..]);
            let run = 1 + pairs.take_while(|pair| is_next(*pair)).count();
            let (copies, from) = (&copies[at..at + run], first + at as u64);
            let bytes = &mut bytes[at * page_bytes..][..run * page_bytes];
            match copies[0] {
                Some(_) => self.read_from_flash(from, copies, bytes, served)?,
                None => self.read_from_disk(from, bytes, served)?,
            }
            at += run;
        }
        Ok(())
    }

    fn read_from_flash(
        &self,
        first: u64,
        copies: &[Option<StampedCopy>],
        bytes: &mut [u8],
        served: &mut ReadCounts,
    ) -> Result<(), TierError> {
        let Some(Some(StampedCopy { slot, .. })) = copies.first() else { return Ok(()) };
        let is_read = self.flash.read(self.offset(*slot), bytes).is_ok();
        let pages = bytes.chunks_exact_mut(self.options.page_bytes as usize);
        for ((id, copy), bytes) in (first..).map(PageId).zip(copies).zip(pages) {
            if is_read && copy.is_some_and(|copy| self.is_proved(id, copy, bytes)) {
                self.behind.tallies.flash_hits.add(1);
                served.count(Source::Flash);
            } else {
                served.count(self.fetch_copy(id, *copy, bytes)?.source);
            }
        }
        Ok(())
    }

    fn read_from_disk(&self, first: u64, bytes: &mut [u8], served: &mut ReadCounts) -> Result<(), TierError> {
        let page_bytes = self.options.page_bytes as usize;
        let pages = (bytes.len() / page_bytes) as u64;
        let ids = || (first..first + pages).map(PageId);
        let disk = &self.behind.disk;
        if disk.read_run(PageId(first), bytes).is_ok() && disk.prove_kept(ids()).is_ok() {
            self.behind.tallies.disk_reads.add(pages as usize);
            served.disk += pages;
            return Ok(());
        }
        // One by one, so that an error names its page.
        for (id, bytes) in ids().zip(bytes.chunks_exact_mut(page_bytes)) {
            served.count(self.behind.fetch_from_disk(id, bytes)?.source);
        }
        Ok(())
    }

    pub(super) fn write_pages(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        self.expects(self.options.page_format != PageFormat::Native, "are evicted, not written")?;
        self.check_whole(data)?;
        let page_bytes = self.options.page_bytes as usize;
        let mut pages = (first.0..).map(PageId).zip(data.chunks_exact(page_bytes)).peekable();
        pages.clone().try_for_each(|(page, bytes)| self.behind.disk.check_victim(page, bytes))?;
        while pages.peek().is_some() {
            let some: ArrayVec<Staged<'_>, PAGES_MAX> =
                pages.by_ref().take(PAGES_MAX).map(|(page, bytes)| Staged { page, bytes }).collect();
            let _counted = self.unstaged.acquire(some.len());
            self.write(&some)?;
            self.behind.tallies.disk_writes.add(some.len());
        }
        Ok(())
    }

    pub(super) fn forget(&self, first: PageId, last: PageId) {
        let pages = |from: u64| (from..=last.0.min(from + (FORGOTTEN_AT_ONCE - 1))).map(PageId);
        for from in (first.0..=last.0).step_by(FORGOTTEN_AT_ONCE as usize) {
            let known = pages(from).filter(|page| self.has_place(*page));
            self.with(|state| known.for_each(|page| Fragments::discard(&mut state.cache, page)));
        }
    }
}

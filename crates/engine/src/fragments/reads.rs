//! Reads of pages: from flash, else from disk. Of adjacent pages, those that are side by side where they are
//! are one request.
//!
//! Invariant: a page served from flash was proved by checksum, id and stamp, and is the version on disk. If
//! the proof fails, the page is read from disk and its copy on flash is forgotten.

use super::copies::FlashCopies;
use super::mapping::Mapping;
use super::versions::StampedCopy;
use super::write::PAGES_MAX;
use super::{Base, points};
use crate::TierError;
use crate::api::{Fetched, ReadCounts, ReadRoute, Source};
use crate::disk::{WriteBehind, clean};
use arrayvec::ArrayVec;
use entresol_core::PageId;
use std::sync::Arc;

type Copies = ArrayVec<Option<StampedCopy>, PAGES_MAX>;

/// See the module's header.
pub(super) struct FragmentReads {
    mapping: Arc<Mapping>,
    copies: Arc<FlashCopies>,
    behind: Arc<WriteBehind>,
}

impl FragmentReads {
    pub(super) fn new(base: &Base) -> Self {
        let Base { mapping, copies, behind } = base.clone();
        Self { mapping, copies, behind }
    }

    pub(super) fn fetch(&self, id: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        if let Some(staged) = self.behind.fetch_staged(id, buffer)? {
            return Ok(staged);
        }
        let running = self.mapping.is_running();
        if !running {
            points::OFF_FETCH.reach();
        }
        let copy = if self.mapping.has_place(id) && running {
            self.mapping.step(|state| state.fetch(id))
        } else {
            None
        };
        self.fetch_copy(id, copy, buffer)
    }

    /// Fetches a page of which the cache has this copy, or none.
    fn fetch_copy(
        &self,
        id: PageId,
        mut copy: Option<StampedCopy>,
        buffer: &mut [u8],
    ) -> Result<Fetched, TierError> {
        while let Some(meant) = copy {
            if self.copies.is_there(id, meant, buffer) {
                self.behind.tallies.flash_hits.add(1);
                return Ok(clean(Source::Flash));
            }
            copy = self.mapping.look(id, |state| {
                let now = state.peek(id);
                if now != Some(meant) {
                    points::FETCH_MOVED.reach();
                    return now;
                }
                // The slot was not given to another fragment meanwhile: the copy is damaged.
                self.behind.tallies.damaged_clean.add(1);
                state.cache.discard(id);
                None
            });
        }
        self.behind.fetch_from_disk(id, buffer)
    }

    pub(super) fn read_pages(
        &self,
        first: PageId,
        buffer: &mut [u8],
        how: ReadRoute,
    ) -> Result<ReadCounts, TierError> {
        self.copies.options.check_whole(buffer)?;
        let page_bytes = self.copies.options.page_bytes as usize;
        let mut served = ReadCounts::default();
        // Past the flash, one request to the disk.
        let pages_max = if how == ReadRoute::Around { usize::MAX / page_bytes } else { PAGES_MAX };
        let mut first = first.0;
        for bytes in buffer.chunks_mut(pages_max * page_bytes) {
            let pages = (bytes.len() / page_bytes) as u64;
            let copies = self.find(first, pages, how);
            self.read_some(first, &copies, bytes, &mut served)?;
            first += pages;
        }
        Ok(served)
    }

    /// The copies of these pages. None at all: the disk is read.
    fn find(&self, first: u64, pages: u64, how: ReadRoute) -> Copies {
        let ids = (first..first + pages).map(PageId);
        if how == ReadRoute::Around
            || !self.mapping.is_running()
            || !ids.clone().all(|id| self.mapping.has_place(id))
        {
            return Copies::new();
        }
        match how {
            ReadRoute::Populates => self.mapping.step(|state| ids.map(|id| state.fetch(id)).collect()),
            _ => self.mapping.with(|state| ids.map(|id| state.peek(id)).collect()),
        }
    }

    /// Reads pages: those that lie side by side where they are, in one request.
    fn read_some(
        &self,
        first: u64,
        copies: &[Option<StampedCopy>],
        bytes: &mut [u8],
        served: &mut ReadCounts,
    ) -> Result<(), TierError> {
        let page_bytes = self.copies.options.page_bytes as usize;
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
        let is_read = self.copies.flash.read(self.copies.offset(*slot), bytes).is_ok();
        let pages = bytes.chunks_exact_mut(self.copies.options.page_bytes as usize);
        for ((id, copy), bytes) in (first..).map(PageId).zip(copies).zip(pages) {
            if is_read && copy.is_some_and(|copy| self.copies.is_proved(id, copy, bytes)) {
                self.behind.tallies.flash_hits.add(1);
                served.count(Source::Flash);
            } else {
                served.count(self.fetch_copy(id, *copy, bytes)?.source);
            }
        }
        Ok(())
    }

    fn read_from_disk(&self, first: u64, bytes: &mut [u8], served: &mut ReadCounts) -> Result<(), TierError> {
        let page_bytes = self.copies.options.page_bytes as usize;
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
}

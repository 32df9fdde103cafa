//! Trims: bytes that the client no longer needs. Zeros: bytes that it wants to be zeros.
//!
//! Zeros are made on the disk, and enter no cache: they are a trim after which the bytes are zeros in any
//! case. Only pages that are newer in the cache, or lost, are written, as zeros.
//!
//! Invariants:
//!
//! - A copy is removed from the cache only when the disk durably has an equal one: in write-through mode it
//!   may not have it yet, and a power failure may tear it there.
//! - The disk is told only when the copy is durably removed from the cache, and no read, not even an earlier
//!   one, can populate it meanwhile. Otherwise there are two answers, zeros from the disk and the copy from
//!   flash, and reads may be served by either.
//! - A page that is newer in the cache stays, and its place on disk is not touched: without the page, older
//!   bytes of the disk would appear.
//! - A page that is lost becomes zeros, which are written: the disk has older bytes of it, too.
//! - The others are passed to the disk, if its owner lets that be and it can take them: it makes zeros of
//!   them and has the room again. Until they are written, they have their old bytes, or zeros. The
//!   fingerprint's sectors are not touched.

use super::{Cache, Volume, VolumeError};
use crate::journal::Kind;
use entresol_core::PageId;
use entresol_engine::{AlignedBuffer, PageCache};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Pages that are trimmed at once, with no write of them under way.
const TRIM_PAGES: u64 = 1 << 18;

impl Volume {
    /// Whether trims are passed to the disk. They are not, until this says so.
    pub fn pass_trims(&self, passes: bool) {
        self.passes_trims.store(passes, Relaxed);
    }

    /// See the module's header.
    ///
    /// # Errors
    /// [`VolumeError`].
    pub fn trim(&self, offset: u64, length: u64) -> Result<(), VolumeError> {
        self.check(offset, length)?;
        let cache = self.cache.read();
        let cached_end = offset + self.cached_part(cache.as_ref(), offset, length);
        if let Some(cache) = &*cache {
            let (first, end) = (offset.div_ceil(self.page_bytes), cached_end / self.page_bytes);
            for start in (first..end).step_by(TRIM_PAGES as usize) {
                self.trim_pages(&*cache.tier, start..end.min(start + TRIM_PAGES))?;
            }
        }
        let rest = cached_end..offset + length;
        let _held = self.ranges.hold(rest.start / self.page_bytes..rest.end.div_ceil(self.page_bytes));
        self.pass_trim(rest)
    }

    fn trim_pages(&self, tier: &dyn PageCache, pages: Range<u64>) -> Result<(), VolumeError> {
        let _held = self.ranges.hold(pages.clone());
        self.keeping_out(tier, &pages, || {
            self.zero_lost(tier, &pages)?;
            self.without_copies(tier, &pages, |gap| self.pass_trim(gap)).map(drop)
        })
    }

    /// Does `work`, with no read bringing one of the pages into the cache meanwhile.
    pub(super) fn keeping_out(
        &self,
        tier: &dyn PageCache,
        pages: &Range<u64>,
        work: impl Fn() -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let mut done = Ok(());
        tier.keep_out(PageId(pages.start), PageId(pages.end - 1), &mut || done = work())?;
        done
    }

    /// Removes the copies of pages that are not newer in the cache, durably, and does `change` to the bytes
    /// of these pages on disk. Returns the others.
    pub(super) fn without_copies(
        &self,
        tier: &dyn PageCache,
        pages: &Range<u64>,
        change: impl Fn(Range<u64>) -> Result<(), VolumeError>,
    ) -> Result<Vec<u64>, VolumeError> {
        let cached = tier.cached_among(PageId(pages.start), PageId(pages.end - 1))?;
        let has_clean = cached.iter().any(|(_, dirty)| !dirty);
        if has_clean {
            tier.flush()?;
        }
        let dirty: Vec<u64> = cached.iter().filter(|(_, dirty)| *dirty).map(|(page, _)| page.0).collect();
        let gaps = || gaps(pages, dirty.iter().copied());
        for gap in gaps() {
            tier.forget_durably(PageId(gap.start), PageId(gap.end - 1))?;
        }
        gaps().try_for_each(|gap| change(gap.start * self.page_bytes..gap.end * self.page_bytes))?;
        Ok(dirty)
    }

    /// Makes zeros; with `fua` durably. `may_punch`: a sparse disk may give its room back.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn write_zeroes(
        &self,
        offset: u64,
        length: u64,
        may_punch: bool,
        fua: bool,
    ) -> Result<(), VolumeError> {
        self.check(offset, length)?;
        let may_punch = may_punch && self.passes_trims.load(Relaxed);
        let cache = self.cache.read();
        let cached_end = offset + self.cached_part(cache.as_ref(), offset, length);
        let (first, end) = (offset.div_ceil(self.page_bytes), cached_end / self.page_bytes);
        let whole = first * self.page_bytes..end.max(first) * self.page_bytes;
        if let Some(cache) = &*cache {
            let parts = match first < end {
                true => [offset..whole.start, whole.end..cached_end],
                false => [offset..cached_end, cached_end..cached_end],
            };
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                let zeros = AlignedBuffer::new((part.end - part.start) as usize);
                self.write_some(Some(cache), part.start, &zeros, false)?;
            }
            for start in (first..end).step_by(TRIM_PAGES as usize) {
                self.zero_pages(cache, start..end.min(start + TRIM_PAGES), may_punch)?;
            }
        }
        let rest = cached_end..offset + length;
        if !rest.is_empty() {
            let _held = self.ranges.hold(rest.start / self.page_bytes..rest.end.div_ceil(self.page_bytes));
            self.direct.zero(rest, may_punch)?;
        }
        if fua { self.flush_to(cache.as_ref()) } else { Ok(()) }
    }

    fn zero_pages(&self, cache: &Cache, pages: Range<u64>, may_punch: bool) -> Result<(), VolumeError> {
        let tier = &*cache.tier;
        let _held = self.ranges.hold(pages.clone());
        let bytes = (pages.end - pages.start) * self.page_bytes;
        self.keeping_out(tier, &pages, || {
            self.zero_lost(tier, &pages)?;
            let dirty = self.without_copies(tier, &pages, |gap| self.direct.zero(gap, may_punch))?;
            let zeros = AlignedBuffer::new(self.page_bytes as usize);
            dirty.iter().try_for_each(|page| tier.write_pages(PageId(*page), &zeros))?;
            self.record_elsewhere(cache, pages.start * self.page_bytes, bytes)?;
            for page in dirty {
                self.record(cache, Kind::Data, page * self.page_bytes, &zeros)?;
            }
            Ok(())
        })
    }

    /// Pages of these that are lost become zeros.
    fn zero_lost(&self, tier: &dyn PageCache, pages: &Range<u64>) -> Result<(), VolumeError> {
        let lost = tier.lost_among(PageId(pages.start), PageId(pages.end - 1))?;
        if lost.is_empty() {
            return Ok(());
        }
        let zeros = AlignedBuffer::new(self.page_bytes as usize);
        Ok(lost.into_iter().try_for_each(|page| tier.write_pages(page, &zeros))?)
    }

    /// These bytes to the disk, as far as they are whole sectors of it.
    fn pass_trim(&self, bytes: Range<u64>) -> Result<(), VolumeError> {
        match self.passes_trims.load(Relaxed) {
            true => self.direct.discard(bytes),
            false => Ok(()),
        }
    }
}

/// The rest of `pages` without `these`, which are in order.
fn gaps(pages: &Range<u64>, these: impl Iterator<Item = u64>) -> impl Iterator<Item = Range<u64>> {
    let mut from = pages.start;
    let ends = these.chain([pages.end]);
    ends.map(move |end| std::mem::replace(&mut from, end + 1)..end).filter(|gap| !gap.is_empty())
}

//! Reading and writing pages in their homes: the disk, to the layers above.
//!
//! Invariants: a page whose last write was lost by a failed sync is not returned in its older version. Nor is
//! one that the disk lacks ([`MissingFromDisk`]).

use super::disk_label::DiskLabel;
use super::missing_from_disk::MissingFromDisk;
use super::{Home, OwnersLog};
use crate::error::disk_error;
use crate::names::Names;
use crate::syncs::Syncs;
use crate::{TierError, points};
use arrayvec::ArrayVec;
use entresol_core::PageId;
use entresol_device::{DeviceError, WritePlace};
use entresol_format::{PageFormat, page};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A home of pages of one size.
pub(crate) struct DiskPages {
    home: Arc<dyn Home>,
    /// What its objects are called.
    names: Arc<dyn Names>,
    page_bytes: u32,
    page_format: PageFormat,
    /// Pages for which there is room.
    pub capacity_pages: u64,
    syncs: Arc<Syncs>,
    pub label: Arc<DiskLabel>,
    /// Pages that the disk lacks.
    pub missing: MissingFromDisk,
    /// By page, with several pages for each entry: the first sync that makes the last write durable. 0: no
    /// write.
    written: Box<[AtomicU64]>,
}

/// Entries of the table of writes. They must be many more than the pages written between two syncs, because
/// pages that share an entry wait for each other's syncs.
const PLACES: usize = 4096;

fn place(page: PageId) -> usize {
    (page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}

impl DiskPages {
    /// A home of pages of `page_format`.
    pub(crate) fn at_home(
        home: Arc<dyn Home>,
        names: Arc<dyn Names>,
        page_bytes: u32,
        page_format: PageFormat,
    ) -> Self {
        let written = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        let syncs = Arc::new(Syncs::of(home.keeps_unsynced()));
        let label = Arc::new(DiskLabel::new(&home, &syncs));
        Self {
            capacity_pages: home.capacity_pages(),
            home,
            names,
            page_bytes,
            page_format,
            syncs,
            missing: MissingFromDisk::new(&label),
            label,
            written,
        }
    }

    /// Refuses a buffer that is not a page.
    pub(crate) fn check_length(&self, buffer: &[u8]) -> Result<(), TierError> {
        if buffer.len() == self.page_bytes as usize {
            return Ok(());
        }
        Err(TierError::Config(format!(
            "a buffer of {} bytes was handed in, pages have {}",
            buffer.len(),
            self.page_bytes
        )))
    }

    /// Refuses bytes that are no whole pages.
    pub(crate) fn check_run(&self, bytes: &[u8]) -> Result<(), TierError> {
        let is_whole = bytes.len().is_multiple_of(self.page_bytes as usize);
        if is_whole { Ok(()) } else { self.check_length(bytes) }
    }

    /// Refuses a page that cannot be written: `data` is not a page, or the page is beyond the end of the
    /// disk.
    pub(crate) fn check_victim(&self, page: PageId, data: &[u8]) -> Result<(), TierError> {
        self.check_length(data)?;
        if self.home.has_room(page, &*self.names) {
            return Ok(());
        }
        Err(TierError::Config(format!(
            "page {page} lies beyond the end of the disk, which has room for {} pages; enlarge the disk",
            self.capacity_pages
        )))
    }

    /// Reads `page` and proves it, if its format allows that: raw pages are what the disk has.
    pub(crate) fn read(&self, id: PageId, buffer: &mut [u8]) -> Result<(), TierError> {
        if let Some(missing) = self.missing.within(id, 1).first() {
            return self.missing.read(*missing, buffer);
        }
        match self.home.read(id, buffer, &*self.names) {
            // A damaged copy: the log may have an image of the page.
            Err(error) if error.is_unreadable() => {
                points::DISK_UNREADABLE.reach();
                let place = self.home.place(id, &*self.names);
                return Err(TierError::Unreadable { page: id, place, source: error });
            }
            read => read.map_err(disk_error)?,
        }
        self.prove_kept(std::iter::once(id))?;
        if self.page_format != PageFormat::Native {
            return Ok(());
        }
        page::verify(buffer, id, None).map_err(|fault| TierError::Damaged {
            page: id,
            place: self.home.place(id, &*self.names),
            fault: fault.to_string(),
        })
    }

    /// Reads adjacent pages from `first` on, neither proved by checksum nor with [`DiskPages::prove_kept`].
    pub(crate) fn read_run(&self, first: PageId, bytes: &mut [u8]) -> Result<(), TierError> {
        let page_bytes = self.page_bytes as usize;
        // Before the disk: one that is written meanwhile may be served in either version.
        let missing = self.missing.within(first, (bytes.len() / page_bytes) as u64);
        self.home.read(first, bytes, &*self.names).map_err(disk_error)?;
        missing.into_iter().try_for_each(|page| {
            let at = (page.0 - first.0) as usize * page_bytes;
            self.missing.read(page, &mut bytes[at..at + page_bytes])
        })
    }

    /// To be called after a read of these pages. Returns an error if a sync that failed, or is about to fail,
    /// may have lost the last write of one of them, so that an older version was read.
    pub(crate) fn prove_kept(&self, pages: impl Iterator<Item = PageId>) -> Result<(), TierError> {
        let written = self.newest_write(pages);
        if written == 0 {
            return Ok(());
        }
        // Those that the home makes by itself lose the same writes.
        let own = || match self.syncs.are_done(written) {
            true => Ok(()),
            false => self.home.await_own_syncs(),
        };
        self.syncs.prove_kept(written).and_then(|()| own()).map_err(disk_error)
    }

    /// The first sync that makes the last write of each of these pages durable. 0: none was written.
    fn newest_write(&self, pages: impl Iterator<Item = PageId>) -> u64 {
        pages.map(|page| self.written[place(page)].load(SeqCst)).max().unwrap_or(0)
    }

    /// Makes the last write of each of these pages durable, if one is not.
    pub(crate) fn make_durable(&self, pages: impl Iterator<Item = PageId>) -> Result<(), TierError> {
        if self.syncs.are_done(self.newest_write(pages)) { Ok(()) } else { self.sync() }
    }

    pub(crate) fn write(&self, id: PageId, sealed: &[u8]) -> Result<(), TierError> {
        self.write_found(std::iter::once(id), || self.home.write(&[(id, sealed)], &*self.names))
    }

    /// Notes that these pages have been written, by this or another path. After a write that failed, too: the
    /// disk may have carried it out, and serves what is not durable.
    fn have_written(&self, pages: impl Iterator<Item = PageId>) {
        let next = self.syncs.next();
        for page in pages {
            self.written[place(page)].fetch_max(next, SeqCst);
        }
    }

    /// As [`DiskPages::have_written`], of a range that its owner has changed by its own means.
    pub(crate) fn was_changed(&self, (first, last): (PageId, PageId)) {
        if last.0 - first.0 < PLACES as u64 {
            return self.have_written((first.0..=last.0).map(PageId));
        }
        let next = self.syncs.next();
        self.written.iter().for_each(|place| _ = place.fetch_max(next, SeqCst));
    }

    /// Writes pages, at most `N`, in one batch.
    pub(crate) fn write_all<'p, const N: usize>(
        &self,
        pages: impl Iterator<Item = (PageId, &'p [u8])>,
    ) -> Result<(), TierError> {
        let pages: ArrayVec<(PageId, &[u8]), N> = pages.collect();
        self.write_found(pages.iter().map(|(page, _)| *page), || self.home.write(&pages, &*self.names))
    }

    /// Writes adjacent pages from `first` on, which need no seal.
    pub(crate) fn write_run(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        let page_bytes = self.page_bytes as usize;
        let pages = (first.0..first.0 + (data.len() / page_bytes) as u64).map(PageId);
        self.write_found(pages, || self.home.write_run(first, data, page_bytes, &*self.names))
    }

    /// Begins a write of adjacent pages, which need no seal, that the caller carries out
    /// ([`Home::begin_write`]).
    pub(crate) fn begin_write(&self, pages: &Range<u64>) -> Option<WritePlace> {
        // Writes of pages that the disk lacks are recorded.
        let is_possible =
            self.missing.any().is_none() && self.home.has_room(PageId(pages.end - 1), &*self.names);
        let length = (pages.end - pages.start) as usize * self.page_bytes as usize;
        is_possible.then(|| self.home.begin_write(PageId(pages.start), length))?
    }

    /// See [`Home::write_begun`].
    pub(crate) fn write_begun(&self, first: PageId, data: &[u8]) -> Result<(), DeviceError> {
        self.home.write_begun(first, data)
    }

    /// See [`Home::end_write`].
    pub(crate) fn end_write(
        &self,
        pages: &Range<u64>,
        data: &[u8],
        is_written: bool,
    ) -> Result<(), TierError> {
        let ended = self.home.end_write(PageId(pages.start), data, is_written).map_err(disk_error);
        self.have_written(pages.clone().map(PageId));
        ended
    }

    /// See [`Home::log`].
    pub(crate) fn log(&self) -> Option<&dyn OwnersLog> {
        self.home.log()
    }

    /// See [`Home::busy`].
    pub(crate) fn busy(&self) -> Option<Duration> {
        self.home.busy()
    }

    pub(crate) fn sync(&self) -> Result<(), TierError> {
        self.syncs.sync(|| self.home.sync()).map_err(disk_error)
    }

    /// Writes pages to disk. If it lacks one of them, they are durable there and recorded when this returns.
    fn write_found(
        &self,
        pages: impl Iterator<Item = PageId> + Clone,
        write: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), TierError> {
        let missing = self.missing.any().filter(|missing| pages.clone().any(|page| missing.has(page)));
        let write = || {
            let written = write().map_err(disk_error);
            self.have_written(pages.clone());
            written
        };
        let Some(missing) = missing else { return write() };
        points::MISSING_WRITTEN.reach();
        let mut turn = missing.turn();
        write()?;
        self.sync()?;
        self.missing.are_found(&mut turn, pages)
    }

    /// Copies some missing pages from `from` on from the flash to disk, durably. `buffer` has room for them.
    /// Returns where to go on; `None`: there are no more.
    pub(crate) fn salvage(&self, from: PageId, buffer: &mut [u8]) -> Result<Option<PageId>, TierError> {
        let page_bytes = self.page_bytes as usize;
        let Some(missing) = self.missing.any() else { return Ok(None) };
        let mut turn = missing.turn();
        let pages = missing.next(from, buffer.len() / page_bytes);
        let Some(last) = pages.last() else { return Ok(None) };
        let mut found: Vec<(PageId, &[u8])> = Vec::with_capacity(pages.len());
        for (page, bytes) in pages.iter().zip(buffer.chunks_exact_mut(page_bytes)) {
            if missing.read(*page, bytes).is_ok() {
                found.push((*page, bytes));
            }
        }
        if !found.is_empty() {
            points::MISSING_SALVAGED.reach();
            let written = self.home.write(&found, &*self.names).map_err(disk_error);
            self.have_written(found.iter().map(|(page, _)| *page));
            written?;
            self.sync()?;
            missing.are_found(&mut turn, &self.label.device(), found.iter().map(|(page, _)| *page))?;
        }
        Ok(Some(PageId(last.0 + 1)))
    }
}

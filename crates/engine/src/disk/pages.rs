//! Reading and writing pages in their homes: the disk, to the layers above.
//!
//! Invariants: a page whose last write was lost by a failed sync is not returned in its older version. Nor is
//! one that the disk lacks ([`super::missing`]).

use super::missing::Record;
use super::{
    Home, LabelState, Missing, OwnersLog, PageRanges, binding, read_label, read_missing, write_label,
};
use crate::api::Binding;
use crate::error::disk_error;
use crate::names::Names;
use crate::rescue::Rescue;
use crate::syncs::Syncs;
use crate::{TierError, events, points};
use arrayvec::ArrayVec;
use entresol_core::PageId;
use entresol_device::{Counters, Device, DeviceError, Geometry, Io};
use entresol_format::label::{Label, Session};
use entresol_format::{PageFormat, Uuid, page};
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
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
    syncs: Syncs,
    /// Since the disk lacks pages.
    missing: OnceLock<Missing>,
    /// Held while the label is changed.
    label: Mutex<()>,
    /// By page, with several pages for each entry: the first sync that makes the last write durable. 0: no
    /// write.
    written: Box<[AtomicU64]>,
}

/// The label's device, which may be that of the pages: a sync of it that fails may have lost writes of pages.
pub(crate) struct LabelDevice<'a> {
    device: &'a dyn Device,
    syncs: &'a Syncs,
}

impl Device for LabelDevice<'_> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn run(&self, batch: &mut [Io<'_>]) -> Result<(), DeviceError> {
        self.device.run(batch)
    }
    fn sync(&self) -> Result<(), DeviceError> {
        self.syncs.sync_another(|| self.device.sync())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.device.discard(offset, length)
    }
    fn drop_cached(&self) -> Result<(), DeviceError> {
        self.device.drop_cached()
    }
    fn counters(&self) -> Counters {
        self.device.counters()
    }
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
        Self {
            capacity_pages: home.capacity_pages(),
            home,
            names,
            page_bytes,
            page_format,
            syncs: Syncs::default(),
            missing: OnceLock::new(),
            label: Mutex::new(Rank::DiskLabel, ()),
            written,
        }
    }

    /// The label.
    pub(crate) fn label(&self) -> Result<Label, TierError> {
        let why = match read_label(&self.label_device())? {
            LabelState::Valid(labels) => return Ok(labels.newest),
            LabelState::Blank => "it is blank".to_owned(),
            LabelState::Unreadable(why) => why,
        };
        Err(TierError::Refused(format!(
            "the disk's label was whole when the disk was opened, and no longer is ({why}): another program has written to the \
             disk, or the disk fails; check it and restore the database from a backup"
        )))
    }

    /// Changes the label durably.
    pub(crate) fn change_label(&self, change: impl FnOnce(&mut Label)) -> Result<(), TierError> {
        let _changing = self.label.lock();
        let mut label = self.label()?;
        change(&mut label);
        write_label(&self.label_device(), &mut label)
    }

    /// See [`crate::Layer::binding`].
    pub(crate) fn binding(&self) -> Result<Binding, TierError> {
        Ok(binding::of_label(&self.label()?))
    }

    /// See [`crate::Layer::bind_log`].
    pub(crate) fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError> {
        self.change_label(|label| (label.log, label.session) = (log, session))
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
        if let Some(missing) = self.missing_among(id, 1).first() {
            return self.read_missing(*missing, buffer);
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
        let missing = self.missing_among(first, (bytes.len() / page_bytes) as u64);
        self.home.read(first, bytes, &*self.names).map_err(disk_error)?;
        missing.into_iter().try_for_each(|page| {
            let at = (page.0 - first.0) as usize * page_bytes;
            self.read_missing(page, &mut bytes[at..at + page_bytes])
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
    pub(crate) fn have_written(&self, pages: impl Iterator<Item = PageId>) {
        let next = self.syncs.next();
        for page in pages {
            self.written[place(page)].fetch_max(next, SeqCst);
        }
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
}

/// Pages that the disk lacks.
impl DiskPages {
    /// The label's device.
    pub(crate) fn label_device(&self) -> LabelDevice<'_> {
        LabelDevice { device: self.home.label(), syncs: &self.syncs }
    }

    /// Sets the missing pages, as the label's record of a failed flash has them.
    pub(crate) fn lacks(&self, missing: Missing) {
        // Nobody uses these pages yet.
        let _ = self.missing.set(missing);
    }

    /// What the disk lacks since its flash failed. `None`: it has not.
    pub(crate) fn missing(&self) -> Option<&Missing> {
        self.missing.get().filter(|missing| missing.failed_epoch().is_some())
    }

    /// The pages that are lost while the flash is in use. `None`: none was since the disk was opened, or the
    /// flash has failed.
    pub(crate) fn lost(&self) -> Option<&Missing> {
        self.missing.get().filter(|missing| missing.failed_epoch().is_none())
    }

    /// Whether pages are lost, though a newer version of some may be in the cache.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost().is_some_and(|missing| missing.count().0 > 0)
    }

    /// If this label says so, pages are lost: those in the record with it.
    pub(crate) fn find_lost(&self, label: &Label, rescue: Option<Arc<dyn Rescue>>) -> Result<(), TierError> {
        if !label.lost {
            return Ok(());
        }
        let found = read_missing(&self.label_device(), label)?;
        let missing = Missing::restored_lost(&found, rescue);
        missing.write_again(&self.label_device())?;
        let mut turn = missing.turn();
        self.unname_lost(&missing, &mut turn)?;
        drop(turn);
        let _ = self.missing.set(missing);
        Ok(())
    }

    /// The newest versions of these pages are lost: they were on flash alone, and cannot be read there.
    /// Recorded durably. False: there are too many of them, and nothing has changed.
    pub(crate) fn lose(&self, rescue: Option<Arc<dyn Rescue>>, lost: &[PageId]) -> Result<bool, TierError> {
        let missing = self.missing.get_or_init(|| Missing::none(rescue));
        let label = self.label()?;
        let name = || self.change_label(|label| label.lost = true);
        let is_recorded = missing.lose(&self.label_device(), (label.cache, label.epoch), lost, name)?;
        if is_recorded {
            points::PAGES_LOST.reach();
            events::pages_lost(lost);
        }
        Ok(is_recorded)
    }

    /// The flash has failed: the disk lacks these pages, and those that were lost before. Says so durably;
    /// `name` changes the label.
    pub(crate) fn flash_fails(
        &self,
        rescue: Arc<dyn Rescue>,
        newer: (PageRanges, PageRanges),
        name: impl FnOnce(&mut Label),
    ) -> Result<(), TierError> {
        let missing = self.missing.get_or_init(|| Missing::none(Some(rescue)));
        let label = self.label()?;
        let failed = (label.cache, label.epoch);
        missing.flash_fails(&self.label_device(), failed, newer, || self.change_label(name))
    }

    /// If no page is lost any more, the label does not say so.
    fn unname_lost(&self, missing: &Missing, turn: &mut Record) -> Result<(), TierError> {
        missing.unname(turn, || self.change_label(|label| label.lost = false))
    }

    fn missing_among(&self, first: PageId, count: u64) -> Vec<PageId> {
        let last = PageId(first.0 + count - 1);
        self.missing.get().map_or_else(Vec::new, |missing| missing.within(first, last))
    }

    fn read_missing(&self, page: PageId, buffer: &mut [u8]) -> Result<(), TierError> {
        let Some(missing) = self.missing.get() else { return Ok(()) };
        missing.read(page, buffer)
    }

    /// Writes pages to disk. If it lacks one of them, they are durable there and recorded when this returns.
    fn write_found(
        &self,
        pages: impl Iterator<Item = PageId> + Clone,
        write: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), TierError> {
        let missing = self.missing.get().filter(|missing| pages.clone().any(|page| missing.has(page)));
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
        missing.are_found(&mut turn, &self.label_device(), pages)?;
        self.unname_lost(missing, &mut turn)
    }

    /// `make_dead` makes the pages from `first` to `last` dead. Those that were missing are so no more,
    /// durably.
    pub(crate) fn forget_missing<E: From<TierError>>(
        &self,
        (first, last): (PageId, PageId),
        make_dead: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(missing) = self.missing.get() else { return make_dead() };
        // Held from before: no missing page is on its way to disk while it is made dead, and none goes after.
        let mut turn = missing.turn();
        make_dead()?;
        let dead = missing.within(first, last);
        if !dead.is_empty() {
            missing.are_found(&mut turn, &self.label_device(), dead.into_iter())?;
            self.unname_lost(missing, &mut turn)?;
        }
        Ok(())
    }

    /// Copies some missing pages from `from` on from the flash to disk, durably. `buffer` has room for them.
    /// Returns where to go on; `None`: there are no more.
    pub(crate) fn salvage(&self, from: PageId, buffer: &mut [u8]) -> Result<Option<PageId>, TierError> {
        let page_bytes = self.page_bytes as usize;
        let Some(missing) = self.missing.get() else { return Ok(None) };
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
            missing.are_found(&mut turn, &self.label_device(), found.iter().map(|(page, _)| *page))?;
        }
        Ok(Some(PageId(last.0 + 1)))
    }
}

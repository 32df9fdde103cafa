//! Reading and writing pages in their homes: the disk, to the layers above.
//!
//! Invariant: a page whose last write was lost by a failed sync is not returned in its older version.

use super::{Home, LabelState, Names, binding, read_label, write_label};
use crate::api::Binding;
use crate::error::disk_error;
use crate::syncs::Syncs;
use crate::{TierError, points};
use arrayvec::ArrayVec;
use entresol_core::PageId;
use entresol_format::label::{Label, Session};
use entresol_format::{PageFormat, Uuid, page};
use entresol_runtime::sync::{Mutex, Rank};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

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
    /// Held while the label is changed.
    label: Mutex<()>,
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
        Self {
            capacity_pages: home.capacity_pages(),
            home,
            names,
            page_bytes,
            page_format,
            syncs: Syncs::default(),
            label: Mutex::new(Rank::DiskLabel, ()),
            written,
        }
    }

    /// The objects are called by `names` from now on.
    pub(crate) fn set_names(&mut self, names: Arc<dyn Names>) {
        self.names = names;
    }

    /// The label.
    pub(crate) fn label(&self) -> Result<Label, TierError> {
        let why = match read_label(self.home.label())? {
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
        write_label(self.home.label(), &mut label)
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

    /// Reads `page` and proves it, if its format allows that: bytes of somebody else are what the disk says.
    pub(crate) fn read(&self, id: PageId, buffer: &mut [u8]) -> Result<(), TierError> {
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
        self.home.read(first, bytes, &*self.names).map_err(disk_error)
    }

    /// To be called after a read of these pages. Returns an error if a sync that failed, or is about to fail,
    /// may have lost the last write of one of them, so that an older version was read.
    pub(crate) fn prove_kept(&self, pages: impl Iterator<Item = PageId>) -> Result<(), TierError> {
        let written = self.newest_write(pages);
        if written == 0 {
            return Ok(());
        }
        self.syncs.prove_kept(written).map_err(disk_error)
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
        self.home.write(&[(id, sealed)], &*self.names).map_err(disk_error)?;
        self.have_written(std::iter::once(id));
        Ok(())
    }

    /// Notes that these pages have been written, by this or another path.
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
        self.home.write(&pages, &*self.names).map_err(disk_error)?;
        self.have_written(pages.iter().map(|(page, _)| *page));
        Ok(())
    }

    /// Writes adjacent pages from `first` on, which need no seal.
    pub(crate) fn write_run(&self, first: PageId, data: &[u8]) -> Result<(), TierError> {
        let page_bytes = self.page_bytes as usize;
        self.home.write_run(first, data, page_bytes, &*self.names).map_err(disk_error)?;
        self.have_written((first.0..first.0 + (data.len() / page_bytes) as u64).map(PageId));
        Ok(())
    }

    pub(crate) fn sync(&self) -> Result<(), TierError> {
        self.syncs.sync(|| self.home.sync()).map_err(disk_error)
    }
}

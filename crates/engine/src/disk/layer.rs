//! The layer without flash: the two-layer baseline.
//!
//! Invariant: when [`Layer::evict`] of a dirty page returns, the page is staged for the disk, and every fetch
//! returns that version or a newer one. [`Layer::checkpoint`] makes it durable.

use super::{BATCH, LabelState, Labels, WriteBehind, binding, read_label, write_label};
use crate::api::{Binding, Evicted, Fetched, Layer, TierMetrics, Upstream, Victim};
use crate::error::{HOW_TO_DETACH, disk_error};
use crate::{TierError, claim, points};
use entresol_core::PageId;
use entresol_device::Device;
use entresol_format::Uuid;
use entresol_format::label::{Label, Session};
use entresol_format::layout::page_bytes_possible;
use entresol_runtime::JoinHandle;
use entresol_runtime::sync::{Rank, TinyMutex};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// A disk without a flash tier.
///
/// If dropped without [`Layer::close`], it stops its tasks and leaves the disk as after a crash.
pub struct DiskLayer {
    behind: Arc<WriteBehind>,
    /// The label still says that the disk needs its flash, which is lost.
    is_flash_lost: AtomicBool,
    tasks: TinyMutex<Vec<JoinHandle>>,
}

impl DiskLayer {
    fn new(device: Arc<dyn Device>, page_bytes: u32) -> Arc<Self> {
        let behind = Arc::new(WriteBehind::new(device, page_bytes));
        let disk = behind.clone();
        let tasks = behind.start_writers(move |pages| {
            disk.disk.write_all::<BATCH>(pages.iter().map(|staged| (staged.page, staged.bytes)))
        });
        let tasks = TinyMutex::new(Rank::Tasks, tasks);
        Arc::new(Self { behind, is_flash_lost: AtomicBool::new(false), tasks })
    }

    /// Labels `disk` as new, with pages of `page_bytes`. The content of the disk is lost.
    ///
    /// # Errors
    /// [`TierError::Refused`] if a flash cache may hold newer versions of the disk's pages, or if the content
    /// is unknown.
    pub fn create(disk: Arc<dyn Device>, page_bytes: u32) -> Result<Arc<Self>, TierError> {
        Self::create_on(disk, page_bytes, false)
    }

    /// As [`DiskLayer::create`]. With `overwrite`, only a disk whose cache may hold newer pages is refused.
    ///
    /// # Errors
    /// As [`DiskLayer::create`].
    pub fn create_on(
        disk: Arc<dyn Device>,
        page_bytes: u32,
        overwrite: bool,
    ) -> Result<Arc<Self>, TierError> {
        if !page_bytes_possible(page_bytes) {
            return Err(TierError::Config(format!(
                "a page of {page_bytes} bytes is not possible; choose 4096, 8192, 16384 or 32768"
            )));
        }
        let mut label = binding::new_label(page_bytes);
        match read_label(&*disk)? {
            LabelState::Blank | LabelState::Unreadable(_) => claim::disk(&*disk, overwrite)?,
            LabelState::Valid(Labels { newest: old, .. }) => {
                refuse_if_bound(&old)?;
                if old.log != Uuid::NIL && !overwrite {
                    return Err(TierError::Refused(format!(
                        "disk {} holds a database, whose log is {}: nothing was written; is it the right disk? If that \
                         database is not wanted any more, ask for it to be overwritten (`--overwrite`)",
                        old.disk, old.log
                    )));
                }
                label.sequence = old.sequence;
            }
        }
        write_label(&*disk, &mut label)?;
        Ok(Self::new(disk, page_bytes))
    }

    /// Opens a labelled disk without flash. A flash cache of it without dirty pages is detached from it, and
    /// will be emptied when it is opened.
    ///
    /// # Errors
    /// [`TierError::Refused`] if there is no label, if the page size differs, or if a flash cache may hold
    /// newer pages.
    pub fn open(disk: Arc<dyn Device>, page_bytes: u32) -> Result<Arc<Self>, TierError> {
        open_unbound(&*disk, page_bytes)?;
        Ok(Self::new(disk, page_bytes))
    }

    /// As [`DiskLayer::open`], of a disk that may lack pages which only its flash has, and that is lost: the
    /// owner repeats them from its log. Nothing is written until [`Layer::give_up_flash`]: from then on the
    /// flash is refused. The label says that the disk lacks pages until [`Layer::checkpoint_complete`], so an
    /// open that is cut off before is repeated.
    ///
    /// # Errors
    /// As [`DiskLayer::open`]; of a disk whose flash has failed without a log above, or that has lost pages.
    pub fn open_without_flash(disk: Arc<dyn Device>, page_bytes: u32) -> Result<Arc<Self>, TierError> {
        disk.sync().and_then(|()| disk.drop_cached()).map_err(disk_error)?;
        let label = binding::expect_label(&*disk, page_bytes)?.newest;
        if label.lost || label.failed_epoch != 0 || !label.dirty_possible {
            return Self::open(disk, page_bytes);
        }
        let layer = Self::new(disk, page_bytes);
        layer.is_flash_lost.store(true, SeqCst);
        Ok(layer)
    }
}

/// Opens a labelled disk. From here on no flash cache is bound to it.
pub(crate) fn open_unbound(disk: &dyn Device, page_bytes: u32) -> Result<(), TierError> {
    // As in a flash tier's open: pages that are read from here on are durable.
    disk.sync().and_then(|()| disk.drop_cached()).map_err(disk_error)?;
    let mut label = binding::expect_label(disk, page_bytes)?.newest;
    refuse_if_bound(&label)?;
    binding::begin_epoch(&mut label);
    label.cache = Uuid::NIL;
    write_label(disk, &mut label)
}

fn refuse_if_bound(label: &Label) -> Result<(), TierError> {
    if label.lost {
        return Err(TierError::Refused(format!(
            "pages of disk {} are lost, which its flash alone had: the disk has older versions; open it with a flash cache, with an \
             empty one too, and write these pages again as a whole, or detach it with their loss ({HOW_TO_DETACH}, with \
             --accept-loss)",
            label.disk
        )));
    }
    if !label.dirty_possible {
        return Ok(());
    }
    if label.failed_epoch != 0 {
        return Err(TierError::Refused(format!(
            "the flash of disk {} has failed, and the disk lacks pages since; open it as one whose flash has failed",
            label.disk
        )));
    }
    Err(TierError::Refused(format!(
        "disk {} belongs to the flash cache {}, which may hold newer pages; open it with that flash device, or detach \
         the cache from it first ({HOW_TO_DETACH})",
        label.disk, label.cache
    )))
}

impl Layer for DiskLayer {
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        match self.behind.fetch_staged(page, buffer)? {
            Some(fetched) => Ok(fetched),
            None => self.behind.fetch_from_disk(page, buffer),
        }
    }

    fn evict(&self, victim: Victim, data: &[u8]) -> Result<Evicted, TierError> {
        self.behind.evict(victim, data)
    }

    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<Evicted>, TierError> {
        self.behind.try_evict(victim, data)
    }

    fn checkpoint(&self) -> Result<(), TierError> {
        self.behind.checkpoint()
    }

    fn checkpoint_complete(&self, _: u64) -> Result<(), TierError> {
        if self.is_flash_lost.load(SeqCst) {
            let give_up = |label: &mut Label| (label.dirty_possible, label.cache) = (false, Uuid::NIL);
            self.behind.disk.label.change(give_up)?;
            self.is_flash_lost.store(false, SeqCst);
        }
        Ok(())
    }

    fn is_flash_lost(&self) -> bool {
        self.is_flash_lost.load(SeqCst)
    }

    fn give_up_flash(&self) -> Result<(), TierError> {
        points::FLASH_GIVEN_UP.reach();
        self.behind.disk.label.change(binding::begin_epoch)
    }

    fn attach(&self, upstream: Weak<dyn Upstream>) {
        self.behind.attach(upstream);
    }

    fn capacity_pages(&self) -> u64 {
        self.behind.disk.capacity_pages
    }

    fn binding(&self) -> Result<Binding, TierError> {
        self.behind.disk.label.binding()
    }

    fn bind_log(&self, log: Uuid, session: Session) -> Result<(), TierError> {
        self.behind.disk.label.bind_log(log, session)
    }

    fn metrics(&self) -> TierMetrics {
        self.behind.tallies.read()
    }

    fn close(&self) -> Result<(), TierError> {
        if self.tasks.lock().is_empty() {
            return Ok(());
        }
        let result = self.behind.checkpoint();
        self.behind.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.into_iter().for_each(JoinHandle::join);
        result
    }
}

impl Drop for DiskLayer {
    fn drop(&mut self) {
        self.behind.stop();
    }
}

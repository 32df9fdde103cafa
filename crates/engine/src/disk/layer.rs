//! The layer without flash: the two-layer baseline.
//!
//! Invariant: when [`Layer::evict`] of a dirty page returns, the page is staged for the disk, and every fetch gives that
//! version or a newer one; [`Layer::checkpoint`] makes it durable.

use super::staging::{DiskStaging, WRITERS};
use super::{DiskPages, DurableNotes, LabelState, binding, read_label, write_label};
use crate::TierError;
use crate::api::{Fetched, HandedDown, Layer, Source, TierMetrics, Upstream, Victim};
use crate::metrics::Tallies;
use entresol_core::{Lsn, PageId};
use entresol_device::Device;
use entresol_format::layout::page_bytes_possible;
use entresol_format::{Uuid, label::Label};
use entresol_runtime::{JoinHandle, spawn};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

struct Shared {
    disk: DiskPages,
    staging: DiskStaging,
    tallies: Tallies,
    notes: DurableNotes,
    upstream: Mutex<Option<Weak<dyn Upstream>>>,
}

impl Shared {
    fn written(&self, pages: &[(PageId, Lsn)]) -> Result<(), TierError> {
        self.tallies.disk_writes.add(pages.len());
        let upstream = self.upstream.lock().as_ref().and_then(Weak::upgrade);
        self.notes.add(&self.disk, upstream.as_deref(), pages.iter().copied())
    }
}

/// A disk without a flash tier.
///
/// Dropped without [`Layer::close`], it stops its tasks and leaves the disk as after a crash.
pub struct DiskLayer {
    shared: Arc<Shared>,
    tasks: Mutex<Vec<JoinHandle>>,
}

impl DiskLayer {
    fn new(device: Arc<dyn Device>, page_bytes: u32) -> Arc<Self> {
        let shared = Arc::new(Shared {
            disk: DiskPages::new(device, page_bytes),
            staging: DiskStaging::new(page_bytes),
            tallies: Tallies::default(),
            notes: DurableNotes::default(),
            upstream: Mutex::new(None),
        });
        let tasks = (0..WRITERS).map(|at| {
            let shared = shared.clone();
            spawn(&format!("disk writer {at}"), move || {
                shared.staging.writer_task(&shared.disk, |pages| shared.written(pages));
            })
        });
        let tasks = Mutex::new(tasks.collect());
        Arc::new(Self { shared, tasks })
    }

    /// Labels `disk` as new, with pages of `page_bytes`. What was on it is lost.
    ///
    /// # Errors
    /// [`TierError::Refused`] if a flash cache may hold newer pages of what is on it, or if it holds something unknown.
    pub fn create(disk: Arc<dyn Device>, page_bytes: u32) -> Result<Arc<Self>, TierError> {
        if !page_bytes_possible(page_bytes) {
            return Err(TierError::Config(format!(
                "a page of {page_bytes} bytes is not possible; choose 4096, 8192, 16384 or 32768"
            )));
        }
        let mut label = binding::new_label(page_bytes);
        match read_label(&*disk)? {
            LabelState::Blank => {}
            LabelState::Valid(old) => {
                refuse_if_bound(&old)?;
                label.sequence = old.sequence;
            }
            LabelState::Unreadable(why) => {
                return Err(TierError::Refused(format!(
                    "the disk holds something that is no label that can be read ({why}); overwrite its first 64 KiB with \
                     zeros if it is not wanted any more"
                )));
            }
        }
        write_label(&*disk, &mut label)?;
        Ok(Self::new(disk, page_bytes))
    }

    /// Opens a labelled disk without flash. A flash cache of it that holds nothing newer is left behind and will be
    /// emptied when it is opened.
    ///
    /// # Errors
    /// [`TierError::Refused`] if there is no label, if the page size differs, or if a flash cache may hold newer pages.
    pub fn open(disk: Arc<dyn Device>, page_bytes: u32) -> Result<Arc<Self>, TierError> {
        let mut label = binding::expect_label(&*disk, page_bytes)?;
        refuse_if_bound(&label)?;
        label.epoch += 1;
        label.cache = Uuid::NIL;
        write_label(&*disk, &mut label)?;
        Ok(Self::new(disk, page_bytes))
    }
}

fn refuse_if_bound(label: &Label) -> Result<(), TierError> {
    if !label.dirty_possible {
        return Ok(());
    }
    Err(TierError::Refused(format!(
        "disk {} belongs to the flash cache {}, which may hold newer pages; open it with that flash device, or detach \
         the cache from it first",
        label.disk, label.cache
    )))
}

impl Layer for DiskLayer {
    fn fetch(&self, page: PageId, buffer: &mut [u8]) -> Result<Fetched, TierError> {
        let Shared { disk, staging, tallies, .. } = &*self.shared;
        disk.check_length(buffer)?;
        if staging.fetch(page, buffer)? {
            tallies.staging_hits.add(1);
            return Ok(Fetched { source: Source::Staging, dirty: false, fdirty: false });
        }
        disk.read(page, buffer)?;
        tallies.disk_reads.add(1);
        Ok(Fetched { source: Source::Disk, dirty: false, fdirty: false })
    }

    fn evict(&self, victim: Victim, data: &[u8]) -> Result<HandedDown, TierError> {
        let Shared { disk, staging, tallies, .. } = &*self.shared;
        disk.check_length(data)?;
        if victim.dirty {
            staging.stage(victim.page, data)?;
        }
        tallies.handed_down(victim.dirty, victim.dirty);
        Ok(HandedDown { dirty: false })
    }

    fn try_evict(&self, victim: Victim, data: &[u8]) -> Result<Option<HandedDown>, TierError> {
        let Shared { disk, staging, tallies, .. } = &*self.shared;
        disk.check_length(data)?;
        if victim.dirty && !staging.try_stage(victim.page, data)? {
            return Ok(None);
        }
        tallies.handed_down(victim.dirty, victim.dirty);
        Ok(Some(HandedDown { dirty: false }))
    }

    fn checkpoint(&self) -> Result<(), TierError> {
        self.shared.staging.drain()?;
        self.shared.disk.sync()
    }

    fn attach(&self, upstream: Weak<dyn Upstream>) {
        *self.shared.upstream.lock() = Some(upstream);
    }

    fn metrics(&self) -> TierMetrics {
        self.shared.tallies.read()
    }

    fn close(&self) -> Result<(), TierError> {
        if self.tasks.lock().is_empty() {
            return Ok(());
        }
        let result = self.checkpoint();
        self.shared.staging.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.into_iter().for_each(JoinHandle::join);
        result
    }
}

impl Drop for DiskLayer {
    fn drop(&mut self) {
        self.shared.staging.stop();
    }
}
